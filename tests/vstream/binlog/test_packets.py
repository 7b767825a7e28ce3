"""Packets out of a stream that arrives in any pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vstream.binlog.packets import KEPT, LARGEST, PacketBuffer

FULL = 0xFFFFFF


def wire(content: bytes) -> bytes:
    parts = [content[at : at + 0xFFFFFF] for at in range(0, len(content) + 1, 0xFFFFFF)]
    return b"".join(len(part).to_bytes(3, "little") + b"\0" + part for part in parts)


def drain(buffer: PacketBuffer) -> list[bytes]:
    found = []
    while (packet := buffer.next()) is not None:
        data, start, end = packet
        found.append(data[start:end])
    return found


@given(st.lists(st.binary(max_size=40), max_size=12), st.lists(st.integers(1, 30), min_size=1, max_size=20))
def test_packets_come_out_whole_however_they_are_cut(contents: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(wire, contents))
    buffer, found, at = PacketBuffer(), list[bytes](), 0
    for turn in range(len(stream)):
        size = cuts[turn % len(cuts)]
        if at < len(stream):
            buffer.feed(stream[at : at + size])
            at += size
            found += drain(buffer)
    assert found == contents
    assert buffer.size == 0


def test_content_over_the_packet_size_is_joined() -> None:
    contents = [b"a" * 0xFFFFFF, b"b" * (0xFFFFFF * 2 + 5), b"", b"c"]
    stream = b"".join(map(wire, contents))
    buffer, found = PacketBuffer(), list[bytes]()
    for at in range(0, len(stream), 262_144):
        buffer.feed(stream[at : at + 262_144])
        found += drain(buffer)
    assert [len(content) for content in found] == [len(content) for content in contents]
    assert found == contents


@pytest.mark.parametrize("size", [LARGEST, LARGEST + 1, FULL - 1, FULL, FULL + 1, 2 * FULL + 70_000])
@pytest.mark.parametrize("piece", [262_144, 1 << 30])
def test_a_large_content_is_passed_over_where_its_beginning_says_so(size: int, piece: int) -> None:
    contents = [b"cut, if long", b"c" * size, b"d", b"k" * size, b"c", b"", b"e" * 300_000]
    stream = b"".join(map(wire, contents))
    buffer, found, most = PacketBuffer(lambda data, start: data[start : start + 1] == b"c"), list[bytes](), 0
    for at in range(0, len(stream), piece):
        buffer.feed(stream[at : at + piece])
        while (packet := buffer.next()) is not None:
            data, start, end = packet
            found.append(data[start:end])
            content = contents[len(found) - 1]
            assert buffer.was_cut == (content[:1] == b"c" and len(content) > LARGEST)
            assert found[-1] == (content[:KEPT] if buffer.was_cut else content)
        most = max(most, buffer.size)
    assert len(found) == len(contents) and buffer.size == 0
    if piece < FULL:
        assert most <= size + FULL + 2 * piece, "what is passed over is not held meanwhile"
