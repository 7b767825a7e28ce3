"""MySQL's packets out of a byte stream, without copying what comes in whole. Pure.

A packet is 3 bytes of length, 1 of sequence, then its content; content of 16 MiB and more goes on in the next one.
"""

from __future__ import annotations

from collections.abc import Callable

HEADER = 4
LARGEST = 1 << 22  # bytes of a packet whose content may be cut, at least: to join those of a smaller one takes 1 ms
KEPT = 1 << 16  # bytes of a content that is cut
_FULL = 0xFFFFFF


def _never(data: bytes, start: int) -> bool:
    return False


class PacketBuffer:
    """Bytes go in by `feed`; `next` gives one packet's content as (buffer, start, end).

    `cuts` decides by the beginning of a content of more than `LARGEST` bytes whether to cut it: then only the first
    `KEPT` bytes are kept, the rest is skipped as it comes. `was_cut`: whether the content that `next` gave last was
    cut.
    """

    def __init__(self, cuts: Callable[[bytes, int], bool] = _never) -> None:
        """`cuts`: told of a buffer and where the content begins in it; `KEPT` bytes of it are there."""
        self.was_cut = False
        self._cuts = cuts
        self._data = b""
        self.at = 0  # where in the buffer that `next` gave last the next packet begins; who has read more may move it
        self._waiting: list[bytes] = []  # chunks behind `_data` that do not complete a packet yet
        self._waiting_size = 0
        self._need = HEADER  # bytes from `at` on that are needed before it is worth looking
        self._parts: list[bytes] = []  # full packets before `at`, whose content goes on in the one there
        # The beginning of a content that is passed over: it goes on in the packet at `at`, or `next` gave it last.
        self._cut = b""
        self._passing = 0  # bytes to be passed over before those at `at`

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return sum(map(len, self._parts)) + HEADER * len(self._parts) + self._behind

    @property
    def _behind(self) -> int:
        """Bytes from `at` on."""
        return len(self._data) - self.at + self._waiting_size

    def feed(self, chunk: bytes) -> None:
        if self._passing:
            passed = min(self._passing, len(chunk))
            self._passing -= passed
            chunk = chunk[passed:]
        self._waiting.append(chunk)
        self._waiting_size += len(chunk)

    def next(self) -> tuple[bytes, int, int] | None:
        """The next packet's content, or None until more is fed. The buffer is good until the next call."""
        at = self.at
        data = self._data
        if at + HEADER <= len(data):
            size = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            end = at + HEADER + size
            if end <= len(data) and size <= LARGEST and not self._parts and not self._cut:
                self.at = end
                return data, at + HEADER, end
        return self._next_slow()

    def _next_slow(self) -> tuple[bytes, int, int] | None:
        if self.was_cut:
            self._cut, self.was_cut = b"", False
        if self._behind < self._need:
            return None
        if self._waiting:
            self._data = b"".join((self._data[self.at :], *self._waiting))
            self.at = 0
            self._waiting.clear()
            self._waiting_size = 0
        return self._whole()

    def _whole(self) -> tuple[bytes, int, int] | None:
        """One packet, or several that are one content. No byte is looked at twice."""
        while self.at + HEADER <= len(self._data):
            data = self._data
            start = self.at + HEADER
            size = int.from_bytes(data[self.at : start - 1], "little")
            if size > LARGEST and not self._parts and not self._cut:
                if start + KEPT > len(data):
                    self._need = HEADER + KEPT
                    return None
                if self._cuts(data, start):
                    self._cut = data[start : start + KEPT]
            end = start + size
            if self._cut:
                self._pass_over(end)
                if size == _FULL:
                    continue
                self.was_cut = True
                return self._cut, 0, KEPT
            if end > len(data):
                self._need = end - self.at
                return None
            self.at, self._need = end, HEADER
            if size == _FULL:
                self._parts.append(data[start:end])
            elif not self._parts:
                return data, start, end
            else:
                joined = b"".join((*self._parts, data[start:end]))
                self._parts.clear()
                return joined, 0, len(joined)
        self._need = HEADER
        return None

    def _pass_over(self, end: int) -> None:
        """What is behind `end` of the buffer comes next. Requires: no chunk waits."""
        self.at, self._need = min(end, len(self._data)), HEADER
        self._passing = end - self.at
