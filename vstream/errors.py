"""Errors that end the reading of a stream."""

from __future__ import annotations

import struct

import zstandard

from gtid_tracker.gtid import Gtid

MALFORMED = (ValueError, LookupError, OverflowError, struct.error, zstandard.ZstdError)
"""What the decoders raise for bytes that are not what they should be."""


class HistoryLost(Exception):
    """The source's binlog is not the one that was read until now."""


class StreamBroken(Exception):
    """An event that is not understood. `gtid`: of the transaction that it is in, if it is in one; `kind`: its type."""

    def __init__(self, reason: str, gtid: Gtid | None, kind: int | None = None) -> None:
        super().__init__(reason)
        self.gtid = gtid
        self.kind = kind
