"""MySQL's packets out of a byte stream, without copying what comes in whole. Pure.

A packet is 3 bytes of length, 1 of sequence, then its content; content of 16 MiB and more goes on in the next packet.
"""

from __future__ import annotations

HEADER = 4
_FULL = 0xFFFFFF


class PacketBuffer:
    """Bytes go in by `feed`; `next` gives one packet's content as (buffer, start, end)."""

    def __init__(self) -> None:
        self._data = b""
        self._at = 0
        self._waiting: list[bytes] = []  # chunks behind `_data` that do not complete a packet yet
        self._waiting_size = 0
        self._need = HEADER  # bytes from `_at` on that are needed before it is worth looking

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return len(self._data) - self._at + self._waiting_size

    def feed(self, chunk: bytes) -> None:
        self._waiting.append(chunk)
        self._waiting_size += len(chunk)

    def next(self) -> tuple[bytes, int, int] | None:
        """The next packet's content, or None until more is fed. The buffer is good until the next call."""
        at = self._at
        data = self._data
        if at + HEADER <= len(data):
            size = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            end = at + HEADER + size
            if end <= len(data) and size != _FULL:
                self._at = end
                return data, at + HEADER, end
        return self._next_slow()

    def skip_to(self, at: int) -> None:
        """Passes over further packets: the next one begins at `at` of the buffer that `next` gave last."""
        self._at = at

    def _next_slow(self) -> tuple[bytes, int, int] | None:
        if self._waiting and self.size >= self._need:
            self._data = b"".join((self._data[self._at :], *self._waiting))
            self._at = 0
            self._waiting.clear()
            self._waiting_size = 0
        return self._whole()

    def _whole(self) -> tuple[bytes, int, int] | None:
        """One packet, or several that are one content."""
        data, at = self._data, self._at
        parts: list[bytes] = []
        while at + HEADER <= len(data):
            size = int.from_bytes(data[at : at + 3], "little")
            end = at + HEADER + size
            if end > len(data):
                self._need = end - self._at
                return None
            if size < _FULL and not parts:
                self._at, self._need = end, HEADER
                return data, at + HEADER, end
            parts.append(data[at + HEADER : end])
            at = end
            if size < _FULL:
                self._at, self._need = end, HEADER
                joined = b"".join(parts)
                return joined, 0, len(joined)
        self._need = at - self._at + HEADER
        return None
