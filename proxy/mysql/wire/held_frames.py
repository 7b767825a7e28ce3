"""The frames that a client has sent, as far as they have come and nobody has taken them."""

from __future__ import annotations

from proxy.mysql.wire.compression import HEADER

SMALL = 64 * 1024  # bytes of a frame that is copied


class HeldFrames:
    """Invariants: 1. `size` is the number of bytes that are held."""

    __slots__ = ("_at", "_held")

    def __init__(self) -> None:
        self._held = bytearray()
        self._at = 0  # what is held begins there

    def __bool__(self) -> bool:
        return bool(self._held)

    @property
    def size(self) -> int:
        return len(self._held) - self._at

    def feed(self, data: bytes) -> None:
        self._held += data

    def header(self) -> tuple[int, int, int] | None:
        """Of the first one: its body's size, its number, and how many bytes it becomes; None: it has not come."""
        held, at = self._held, self._at
        if len(held) - at < HEADER:
            return None
        size = held[at] | held[at + 1] << 8 | held[at + 2] << 16
        return size, held[at + 3], held[at + 4] | held[at + 5] << 8 | held[at + 6] << 16

    def take(self, size: int) -> memoryview:
        """The first one's body. Those of a small one are copied, and those of a large one given away: else many small
        ones, or a large one, would have all that is there moved each time. Requires: it is there."""
        held, start = self._held, self._at + HEADER
        end = start + size
        if size > SMALL:
            self._held, self._at = held[end:], 0
            return memoryview(held)[start:end]
        body = memoryview(bytes(held[start:end]))
        self._at = end
        if end * 2 >= len(held):
            del held[:end]
            self._at = 0
        return body
