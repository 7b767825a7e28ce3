"""The events of a compressed transaction, decompressed piece by piece so that a large one does not hold up the loop."""

from __future__ import annotations

from collections.abc import Iterator

import zstandard

from vstream.events import Payload

_ZSTD, _NONE = 0, 255
_PIECE = 65_536
_SIZE_AT = 9  # of the event's size inside its header


class Inflating:
    """`events` gives (buffer, start, end) of each event; there are no checksums inside. Raises zstandard.ZstdError."""

    def __init__(self, data: bytes, payload: Payload) -> None:
        """Raises ValueError for a compression that is not known."""
        body = data[payload.start : payload.end]
        if payload.compression == _ZSTD:
            self.events = _events(_pieces(body))
        elif payload.compression == _NONE:
            self.events = _events(iter((body,)))
        else:
            raise ValueError(f"a transaction compressed in an unknown way: {payload.compression}")


def _pieces(body: bytes) -> Iterator[bytes]:
    with zstandard.ZstdDecompressor().stream_reader(body) as reader:
        while piece := reader.read(_PIECE):
            yield piece


def _events(pieces: Iterator[bytes]) -> Iterator[tuple[bytes, int, int]]:
    rest = b""
    need = 0
    for piece in pieces:
        rest += piece
        if len(rest) < need:
            continue
        at = 0
        while at + 19 <= len(rest):
            end = at + int.from_bytes(rest[at + _SIZE_AT : at + _SIZE_AT + 4], "little")
            if end > len(rest):
                break
            yield rest, at, end
            at = end
        rest = rest[at:]
        need = int.from_bytes(rest[_SIZE_AT : _SIZE_AT + 4], "little") if len(rest) >= 13 else 13
    if rest:
        raise ValueError("a compressed transaction ends in the middle of an event")
