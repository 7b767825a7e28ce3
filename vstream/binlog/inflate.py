"""The events of a compressed transaction, decompressed piece by piece so that a large one does not hold up the loop."""

from __future__ import annotations

from collections.abc import Iterator

import zstandard

from vstream.binlog.events import HEADER, ROWS, SIZE_AT, Payload
from vstream.binlog.packets import KEPT, LARGEST

_ZSTD, _NONE = 0, 255
_PIECE = 65_536


class Inflating:
    """`events` gives (buffer, start, end) of each event; there are no checksums inside. Raises zstandard.ZstdError."""

    def __init__(self, data: bytes, payload: Payload, *, cuts: bool = False) -> None:
        """`cuts`: of an event of more than `LARGEST` bytes of rows only the first `KEPT` are given. Raises ValueError
        for a compression that is not known."""
        body = memoryview(data)[payload.start : payload.end]
        if payload.compression == _ZSTD:
            self.events = _events(_pieces(body), cuts)
        elif payload.compression == _NONE:
            self.events = _events(iter((bytes(body),)), cuts)
        else:
            raise ValueError(f"a transaction compressed in an unknown way: {payload.compression}")


def _pieces(body: memoryview) -> Iterator[bytes]:
    with zstandard.ZstdDecompressor().stream_reader(body) as reader:
        while piece := reader.read(_PIECE):
            yield piece


def _events(pieces: Iterator[bytes], cuts: bool) -> Iterator[tuple[bytes, int, int]]:
    """Where a large event is still to be completed, ("", 0, 0) comes first, once for each piece."""
    waiting: list[bytes] = []
    size = need = 0
    passing = 0  # bytes of an event that is passed over
    for piece in pieces:
        if passing:
            passed = min(passing, len(piece))
            piece, passing = piece[passed:], passing - passed
        waiting.append(piece)
        size += len(piece)
        if size < need:
            yield b"", 0, 0
            continue
        rest = b"".join(waiting)
        at, need = 0, HEADER
        while at + HEADER <= len(rest):
            length = int.from_bytes(rest[at + SIZE_AT : at + SIZE_AT + 4], "little")
            if cuts and length > LARGEST and rest[at + 4] in ROWS:
                if at + KEPT > len(rest):
                    need = KEPT
                    break
                yield rest, at, at + KEPT
                passing = max(0, at + length - len(rest))
            elif at + length > len(rest):
                need = length
                break
            else:
                yield rest, at, at + length
            at += length
        waiting = [rest[at:]]
        size = len(waiting[0])
    if size or passing:
        raise ValueError("a compressed transaction ends in the middle of an event")
