"""A raw client whose packets are compressed behind the login. It frames them by itself, so that what it says of a
proxy's frames does not rest on the code that makes them.

What is noted in the transcript are the packets within, without their numbers: MySQL counts these on from the numbers of
its frames, which depend on its buffers, and no client looks at them.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass, field
from typing import Any, cast

import zstandard

from integration.support.raw_client import Ended, RawClient
from proxy.mysql.wire.packets import CLIENT_COMPRESS, CLIENT_ZSTD_COMPRESSION_ALGORITHM

SMALLEST = 50  # bytes that MySQL's library compresses
FRAME = 16 * 1024
LARGE = 1000  # bytes; of less than these zstd makes nothing smaller at times


@dataclass(slots=True)
class Seen:
    """Of the frames that came. `numbers`: of the last answer's."""

    frames: int = 0
    compressed: int = 0
    raw: int = 0
    packed: int = 0
    largest: int = 0
    numbers: list[int] = field(default_factory=list)


class Inflated(io.RawIOBase):
    """The packets within the frames of a stream."""

    def __init__(self, stream: io.BufferedReader, *, zstd: bool) -> None:
        self.seen = Seen()
        self.number = 0  # of the next frame, whichever way it goes
        self._stream = stream
        self._zstd = zstd
        self._held = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._held:
            frame = self._frame()
            if frame is None:
                return 0
            self._held = frame
        size = min(len(buffer), len(self._held))
        buffer[:size], self._held = self._held[:size], self._held[size:]
        return size

    def _frame(self) -> bytes | None:
        try:
            header = self._stream.read(7)
        except ConnectionResetError as error:
            raise Ended(str(error)) from None
        if len(header) < 7:
            return None
        size, number, announced = int.from_bytes(header[:3], "little"), header[3], int.from_bytes(header[4:], "little")
        assert number == self.number & 0xFF, f"frame {number}, expected {self.number}"
        self.number += 1
        packed = self._stream.read(size)
        if len(packed) < size:
            return None
        seen = self.seen
        seen.frames += 1
        seen.compressed += announced > 0
        seen.numbers.append(number)
        inflated = packed if not announced else self._inflate(packed)
        assert not announced or announced == len(inflated), "a frame lies about its size"
        assert announced or size < LARGE or len(zlib.compress(packed)) > size * 0.9, "not compressed"
        seen.raw += len(inflated)
        seen.packed += size
        seen.largest = max(seen.largest, len(inflated))
        return inflated

    def _inflate(self, packed: bytes) -> bytes:
        return zstandard.ZstdDecompressor().decompress(packed) if self._zstd else zlib.decompress(packed)


class CompressedClient(RawClient):
    """`largest`: bytes of a frame that it sends. `every`: also what is shorter than MySQL's library compresses."""

    def __init__(
        self, host: str, port: int, *, algorithm: int = CLIENT_COMPRESS, level: int = 3, largest: int = FRAME,
        every: bool = False, capabilities: int = 0, **options: Any,
    ) -> None:  # fmt: skip
        self._zstd = algorithm == CLIENT_ZSTD_COMPRESSION_ALGORITHM
        self._largest, self._every, self._level = largest, every, level
        self.frames: Inflated | None = None
        self.login_tail = bytes((level,)) if algorithm & CLIENT_ZSTD_COMPRESSION_ALGORITHM else b""
        super().__init__(host, port, capabilities=capabilities | algorithm, **options)
        self.frames = Inflated(cast(Any, self.stream), zstd=self._zstd)
        self.stream = cast(Any, io.BufferedReader(self.frames, 1))

    def packed(self, data: bytes) -> bytes:
        if not self._zstd:
            return zlib.compress(data)
        return zstandard.ZstdCompressor(level=self._level).compress(data)

    def frame(self, data: bytes, number: int) -> bytes:
        """One frame with this number."""
        packed, announced = data, 0
        if len(data) >= SMALLEST or self._every:
            packed, announced = self.packed(data), len(data)
        return len(packed).to_bytes(3, "little") + bytes((number & 0xFF,)) + announced.to_bytes(3, "little") + packed

    def write(self, data: bytes) -> None:
        """Whole packets; one of number 0 begins a command."""
        frames = self.frames
        if frames is None:
            super().write(data)
            return
        if data[3] == 0:
            frames.number = 0
            frames.seen.numbers.clear()
        pieces: list[bytes] = []
        for at in range(0, len(data), self._largest):
            pieces.append(self.frame(data[at : at + self._largest], frames.number))
            frames.number += 1
        super().write(b"".join(pieces))

    def note(self, step: str, data: bytes) -> bytes:
        return super().note(step, without_numbers(data))


def without_numbers(data: bytes) -> bytes:
    """Packets whose numbers are all 0."""
    pieces: list[bytes] = []
    at = 0
    while at + 4 <= len(data):
        end = at + 4 + int.from_bytes(data[at : at + 3], "little")
        pieces += data[at : at + 3], b"\0", data[at + 4 : end]
        at = end
    return b"".join((*pieces, data[at:]))
