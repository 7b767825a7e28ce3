"""Addresses that tests need beside loopback."""

from __future__ import annotations

import socket

import pytest


def this_machines_address() -> str:
    """Not of loopback: MySQL counts no errors of that."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(probe.getsockname()[0])
