"""Compressed packets: MySQL's frames around the packets of a connection. Pure; no I/O.

A frame is a header (3 bytes: length of what follows; its number; 3 bytes: length before it was compressed, 0 where it
is not compressed) and the bytes of packets, which may begin and end anywhere in it.
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_compression.html
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import zstandard

from proxy.mysql.wire.packets import CLIENT_COMPRESS, CLIENT_ZSTD_COMPRESSION_ALGORITHM, LARGEST, Malformed

HEADER = 7
SMALLEST = 50  # bytes: what is shorter is sent as it is
FRAME = 16 * 1024
"""Bytes that are compressed at once: MySQL's own buffer (`net_buffer_length`). Some 0.3 ms by zlib, 2 ms at worst."""
Buffer = bytes | memoryview
ZLIB_LEVEL = 6  # MySQL's
LEVELS = range(1, 23)  # of zstd
SLOW_LEVELS = range(10, 23)  # of zstd, which take a millisecond and more for a frame
MOST_BLOCKS = 1024
"""That are looked at in one of MySQL's frames. zstd itself makes blocks of 128 KiB, and 16 MB are the most in one."""
SKIPPED, SKIPPED_BEHIND = 0x50, b"\x2a\x4d\x18"  # how zstd's frames without data begin
BLOCK_KIND, REPEATED = 0b110, 0b010  # a block of one byte, which stands for many
COMPRESSING = CLIENT_COMPRESS | CLIENT_ZSTD_COMPRESSION_ALGORITHM


@dataclass(frozen=True, slots=True)
class Compression:
    """What a client and MySQL would have agreed on. `zstd`: else zlib."""

    zstd: bool
    level: int

    @property
    def slow(self) -> bool:
        return self.zstd and self.level in SLOW_LEVELS


def agreed(capabilities: int, level: int) -> Compression | None:
    """`capabilities`: in effect; None where neither algorithm is among them. `level`: what the client asks of zstd.
    MySQL takes zlib where a client has both. Raises ValueError where MySQL refuses the level."""
    if capabilities & CLIENT_COMPRESS:
        return Compression(zstd=False, level=ZLIB_LEVEL)
    if not capabilities & CLIENT_ZSTD_COMPRESSION_ALGORITHM:
        return None
    if level not in LEVELS:
        raise ValueError(level)
    return Compression(zstd=True, level=level)


class _Compressors(threading.local):
    """Those of a thread, by level: they are costly to make, and none may be used by two threads at once."""

    def __init__(self) -> None:
        self.of: dict[int, zstandard.ZstdCompressor] = {}


_compressors = _Compressors()


def packed(data: bytes, compression: Compression) -> bytes:
    if not compression.zstd:
        return zlib.compress(data, compression.level)
    found = _compressors.of.get(compression.level)
    if found is None:
        found = _compressors.of[compression.level] = zstandard.ZstdCompressor(level=compression.level)
    return found.compress(data)


def unpacked(data: Buffer, announced: int, compression: Compression) -> bytes:
    """What was compressed, and never more than was announced. Raises Malformed."""
    try:
        return _inflated_zstd(data, announced) if compression.zstd else _inflated_zlib(data, announced)
    except (zlib.error, zstandard.ZstdError) as error:
        raise Malformed(f"a frame cannot be decompressed: {error}") from None


def _inflated_zlib(data: Buffer, announced: int) -> bytes:
    """Fewer bytes than were announced, and bytes behind the end, are nothing to MySQL either."""
    inflater = zlib.decompressobj()
    found = inflater.decompress(data, announced)
    if not inflater.eof and (inflater.decompress(inflater.unconsumed_tail, 1) or not inflater.eof):
        raise Malformed("a frame has more than it announces, or is cut off")
    return found


def _inflated_zstd(data: Buffer, announced: int) -> bytes:
    """Each of zstd's frames at once, and not as a stream: so the size of the buffer is the limit, whatever zstd's own
    header says. MySQL takes several, and passes over those that have no data."""
    found, inflater = [], zstandard.ZstdDecompressor()
    with suppress(zstandard.ZstdError):  # nearly always there is one
        if 0 < zstandard.frame_content_size(data) == announced:
            return inflater.decompress(data, max_output_size=announced, allow_extra_data=False)
    left = announced
    for frame in _frames_of_zstd(data):
        if zstandard.frame_content_size(frame) > left:
            raise Malformed("a frame has more than it announces")
        # 0 would be no limit.
        found.append(inflater.decompress(frame, max_output_size=max(1, left), allow_extra_data=False))
        left -= len(found[-1])
    if left:
        raise Malformed("a frame has more or less than it announces")
    return found[0] if len(found) == 1 else b"".join(found)


def _frames_of_zstd(data: Buffer) -> Iterator[Buffer]:
    """The frames with data, one behind the other, as zstd's own headers say where they end. Raises Malformed,
    ZstdError."""
    at, end, looks = 0, len(data), 0
    while at < end:
        start = at
        if data[at + 1 : at + 4] == SKIPPED_BEHIND and data[at] & 0xF0 == SKIPPED:
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
        else:
            at += zstandard.frame_header_size(data[at:])
            last = False
            while not last and at + 3 <= end and looks < MOST_BLOCKS:
                looks += 1
                block = int.from_bytes(data[at : at + 3], "little")
                last, size = bool(block & 1), block >> 3
                at += 3 + (1 if block & BLOCK_KIND == REPEATED else size)
            if not last:
                raise Malformed("a frame is cut off, or has very many blocks")
            at += 4 if zstandard.get_frame_parameters(data[start:]).has_checksum else 0
            if at <= end:
                yield data[start:at]
        looks += 1
        if at > end or looks > MOST_BLOCKS:
            raise Malformed("a frame is cut off, or has very many frames of zstd's")


def framed(data: bytes, number: int, compression: Compression) -> bytes:
    """Packets as frames of which the first has this number; `frames_of` says how many."""
    if len(data) < SMALLEST:
        return len(data).to_bytes(3, "little") + bytes((number & 0xFF,)) + b"\0\0\0" + data
    pieces: list[bytes] = []
    for start in range(0, len(data), FRAME):
        raw = data[start : start + FRAME] if len(data) > FRAME else data
        size = len(raw)
        body = packed(raw, compression) if size >= SMALLEST else raw
        if len(body) >= size:
            body, size = raw, 0
        pieces.append(len(body).to_bytes(3, "little") + bytes((number & 0xFF,)) + size.to_bytes(3, "little") + body)
        number += 1
    return b"".join(pieces)


def frames_of(size: int) -> int:
    """How many frames so many bytes become."""
    return -(-size // FRAME)


class PacketNumbers:
    """Numbers the packets within the frames of a client as they would be without compression. MySQL does not look at
    these, and clients count them in more than one way: they go on from the numbers of frames, wherever they flush.
    """

    def __init__(self) -> None:
        self.next = 0
        self._series = False  # packets count on, though none is of the largest size
        self._left = 0  # bytes of the current packet that are still to come
        self._goes_on = False  # the packet is of the largest size: its command is not over
        self._header = b""  # of a packet whose header is not complete

    @property
    def between(self) -> bool:
        """Whether a command, or a packet of a file, is over, and none has begun."""
        return not self._left and not self._header and not self._goes_on

    def begin(self, first: int, *, series: bool) -> None:
        """What comes begins with this number. `series`: the packets behind it count on, else they begin commands."""
        self.next, self._series = first, series

    def renumbered(self, data: bytes) -> bytes:
        """More bytes, with whole headers only: one that is cut off waits for its rest."""
        data, self._header = self._header + data, b""
        at, end, out = 0, len(data), None
        while True:
            skip = min(self._left, end - at)
            self._left -= skip
            at += skip
            if end - at < 4:
                break
            size = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            if data[at + 3] != self.next & 0xFF:
                out = out or bytearray(data)
                out[at + 3] = self.next & 0xFF
            self._goes_on = size == LARGEST
            self.next = self.next + 1 if self._goes_on or self._series else 0
            self._left = size
            at += 4
        self._header = data[at:]
        return (data if out is None else bytes(out))[:at]
