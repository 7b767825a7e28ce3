"""What a long campaign of random cases runs on."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import structlog

import proxy.planning.process
from integration.servers.mysql_server import Server
from integration.servers.private_mysql import NoMySQL, find_mysql
from tests.simulation.mutant import always

MEMORY, ROOM = Path("/dev/shm"), 6 << 30  # bytes


@contextmanager
def campaign(name: str) -> Iterator[tuple[Server, Path]]:
    """A MySQL and a folder; only errors are logged. Where there is no MySQL it says so, and ends the program with 3."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with ExitStack() as stack:
        stack.enter_context(in_memory())
        stack.enter_context(planned_in_place())
        try:
            server = stack.enter_context(find_mysql(os.environ.get("UPSTREAM_TEST"), report=lambda line: None))
        except NoMySQL as error:
            print(error, file=sys.stderr)
            sys.exit(3)
        yield server, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"upwell-{name}-")))


@contextmanager
def in_memory() -> Iterator[None]:
    """Temporary folders, those of MySQL servers as well, are in memory where there is room: nothing here must last."""
    before = tempfile.tempdir
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
        tempfile.tempdir = str(MEMORY)
    try:
        yield
    finally:
        tempfile.tempdir = before


@contextmanager
def planned_in_place() -> Iterator[None]:
    """All texts are planned in this process: the helper would cost the most time of a round."""
    patch = pytest.MonkeyPatch()
    patch.setattr(proxy.planning.process, "is_small", always)
    try:
        yield
    finally:
        patch.undo()
