"""Frames around packets, told from zlib and zstd themselves; and what no client would send."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from proxy.mysql.wire.compression import (
    FRAME,
    HEADER,
    SMALLEST,
    Compression,
    PacketNumbers,
    agreed,
    framed,
    frames_of,
    unpacked,
)
from proxy.mysql.wire.packets import CLIENT_COMPRESS, CLIENT_ZSTD_COMPRESSION_ALGORITHM, LARGEST, Malformed, packet

ZLIB, ZSTD = Compression(zstd=False, level=6), Compression(zstd=True, level=3)
WAYS = [ZLIB, ZSTD, Compression(zstd=True, level=22)]


def inflated(data: bytes, compression: Compression, first: int) -> bytes:
    """What is in frames, whose numbers count from `first`."""
    found = b""
    while data:
        size, announced = int.from_bytes(data[:3], "little"), int.from_bytes(data[4:HEADER], "little")
        assert data[3] == first & 0xFF
        body = data[HEADER : HEADER + size]
        assert len(body) == size
        if announced:
            assert size < announced and announced >= SMALLEST
            body = zstandard.decompress(body) if compression.zstd else zlib.decompress(body)
            assert len(body) == announced
        assert len(body) <= FRAME
        found, data, first = found + body, data[HEADER + size :], first + 1
    return found


@pytest.mark.parametrize("compression", WAYS, ids=str)
@given(data=st.one_of(st.binary(max_size=200), st.binary(min_size=1, max_size=9).map(lambda some: some * 9_000)))
def test_what_is_in_the_frames_is_what_was_written(compression: Compression, data: bytes) -> None:
    found = framed(data, 250, compression)
    assert inflated(found, compression, 250) == data
    assert inflated(found + framed(b"next", 250 + max(1, frames_of(len(data))), compression), compression, 250)


@pytest.mark.parametrize("compression", WAYS[:2], ids=str)
@given(data=st.binary(min_size=1, max_size=500), announced=st.integers(1, 600))
def test_no_more_comes_out_than_was_announced(compression: Compression, data: bytes, announced: int) -> None:
    body = zstandard.compress(data) if compression.zstd else zlib.compress(data)
    less_is_taken = not compression.zstd and announced > len(data)  # as MySQL takes it
    if announced == len(data) or less_is_taken:
        assert unpacked(body, announced, compression) == data
        return
    with pytest.raises(Malformed):
        unpacked(body, announced, compression)


@pytest.mark.parametrize("compression", WAYS[:2], ids=str)
@given(data=st.binary(max_size=300), announced=st.integers(1, LARGEST))
def test_any_bytes_are_taken_or_refused(compression: Compression, data: bytes, announced: int) -> None:
    with suppress(Malformed):
        assert len(unpacked(data, announced, compression)) <= announced


def test_a_zstd_header_that_lies_gets_no_memory() -> None:
    """A frame of one segment says that it has 2**40 bytes; another one only that it has few, and has many."""
    magic, huge = b"\x28\xb5\x2f\xfd", b"\xe0" + (1 << 40).to_bytes(8, "little")
    with pytest.raises(Malformed):
        unpacked(magic + huge + b"\x01\x00\x00", LARGEST, ZSTD)
    block_of_zeros = ((128 * 1024) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"  # 4 bytes that become 128 KiB
    for header in (b"\x20\x05", b"\x00\x58"):  # of 5 bytes, and of an unknown size
        with pytest.raises(Malformed):
            unpacked(magic + header + block_of_zeros * 10_000, 100, ZSTD)


FRAMES_OF_ZSTD = st.sampled_from([
    lambda data: zstandard.ZstdCompressor(level=3).compress(data),
    lambda data: zstandard.ZstdCompressor(level=3, write_checksum=True).compress(data),
    lambda data: zstandard.ZstdCompressor(level=3, write_content_size=False).compress(data),
    lambda data: b"\x50\x2a\x4d\x18" + len(data).to_bytes(4, "little") + data,
])  # fmt: skip


@given(
    given_parts=st.lists(
        st.tuples(FRAMES_OF_ZSTD, st.one_of(st.binary(max_size=300), st.none())), min_size=1, max_size=9
    ),
    cut=st.integers(1, 5),
)
def test_frames_of_zstd_one_behind_the_other(
    given_parts: list[tuple[Callable[[bytes], bytes], bytes | None]], cut: int
) -> None:
    """Cut into frames as they were put together; the last one of them says nothing of what is missing. None: a long
    one."""
    parts = [(compress, b"z" * 300_000 if data is None else data) for compress, data in given_parts]
    frames = [compress(data) for compress, data in parts]
    wanted = b"".join(data for frame, (_, data) in zip(frames, parts, strict=True) if frame[1:4] != b"\x2a\x4d\x18")
    whole = b"".join(frames)
    if wanted:
        assert unpacked(whole, len(wanted), ZSTD) == wanted
        for broken in (whole[:-cut], whole + b"\x28\xb5\x2f\xfd"[:cut]):
            with pytest.raises(Malformed):
                unpacked(broken, len(wanted), ZSTD)


@pytest.mark.parametrize("some", [b"\0\0\0", b"\1\0\0\x28\xb5\x2f\xfd\x20\0", b"\x50\x2a\x4d\x18" + bytes(4)])
def test_very_many_blocks_and_frames_are_looked_at_no_longer(some: bytes) -> None:
    many = b"\x28\xb5\x2f\xfd\x20\0" + some * 100_000
    if some[0] == 0x50:
        many = some * 100_000
    with pytest.raises(Malformed, match="very many"):
        unpacked(many, 100, ZSTD)


@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=8),
    cuts=st.lists(st.integers(0, 2_000), max_size=20),
    series=st.booleans(),
    first=st.integers(0, 300),
)
def test_packets_are_numbered_whatever_the_client_has_said(
    sizes: list[int], cuts: list[int], series: bool, first: int
) -> None:
    sent = b"".join(packet(b"x" * size, 77) for size in sizes)
    wanted = b"".join(
        packet(b"x" * size, first + number if series or not number else 0) for number, size in enumerate(sizes)
    )
    numbers, found, at = PacketNumbers(), b"", 0
    numbers.begin(first, series=series)
    for cut in (*sorted(cuts), len(sent)):
        found += numbers.renumbered(sent[at:cut])
        at = max(at, cut)
        assert numbers.between == (len(found) in ends_of(sizes) and at == len(found)) or at > len(sent)
    assert found == wanted
    assert numbers.between


def ends_of(sizes: list[int]) -> set[int]:
    return {sum(4 + size for size in sizes[:count]) for count in range(len(sizes) + 1)}


def test_a_packet_of_the_largest_size_goes_on_in_the_next_one() -> None:
    command = b"y" * (LARGEST + 5)
    numbers = PacketNumbers()
    numbers.begin(0, series=False)
    assert numbers.renumbered(packet(command, 9) + packet(b"z", 4)) == packet(command, 0) + packet(b"z", 0)
    numbers.renumbered(packet(command, 9)[: LARGEST + 4])
    assert not numbers.between


def test_zlib_goes_before_zstd() -> None:
    both = CLIENT_COMPRESS | CLIENT_ZSTD_COMPRESSION_ALGORITHM
    assert agreed(both, 0) == agreed(CLIENT_COMPRESS, 7) == Compression(zstd=False, level=6)
    assert agreed(CLIENT_ZSTD_COMPRESSION_ALGORITHM, 22) == Compression(zstd=True, level=22)
    assert agreed(0, 3) is None
    for level in (0, 23, 255):
        with pytest.raises(ValueError, match=str(level)):
            agreed(CLIENT_ZSTD_COMPRESSION_ALGORITHM, level)
