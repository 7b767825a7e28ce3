"""Packets before the command phase, and the moment at which somebody else takes the connection over."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from proxy.mysql.login.certificate import server_context
from proxy.mysql.wire.packet_stream import LARGEST_LOGIN, Lost, OutOfOrder, PacketStream, PlainPackets, Tls, TooLarge
from proxy.mysql.wire.packets import packet


def pair() -> tuple[PlainPackets, socket.socket]:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    return PlainPackets(near), far


async def streaming() -> tuple[PacketStream, socket.socket]:
    plain, far = pair()
    return await plain.stream(asyncio.Event()), far


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(scenario(), 60)

    uvloop.run(limited())


class Recorder(asyncio.Protocol):
    """Who takes over."""

    def __init__(self) -> None:
        self.seen = bytearray()
        self.grew = asyncio.Event()
        self.lost = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.seen += data
        self.grew.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()

    async def until(self, size: int) -> bytes:
        while len(self.seen) < size:
            self.grew.clear()
            await self.grew.wait()
        return bytes(self.seen)


def test_what_follows_a_packet_is_left_for_who_reads_next() -> None:
    async def scenario() -> None:
        plain, far = pair()
        far.send(packet(b"hello", 0) + b"\x16\x03\x01 and so on")
        assert await plain.packet() == b"hello"
        stream = await plain.stream(asyncio.Event())
        recorder = Recorder()
        early = stream.hand_over(recorder)
        recorder.seen[:0] = early
        assert await recorder.until(13) == b"\x16\x03\x01 and so on"
        stream.close()
        far.close()

    run(scenario)


@pytest.mark.parametrize("secured", [False, True])
def test_no_byte_is_lost_when_somebody_takes_over(secured: bool) -> None:
    sent = b"".join(packet(bytes(500), number & 0xFF) for number in range(2000))  # 1 MB, while the reader changes

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        plain, far = pair()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        tls = Tls(server_context(), 10) if secured else None

        async def send() -> None:
            if secured:
                _, writer = await asyncio.open_unix_connection(sock=far, ssl=context, server_hostname="")
                writer.write(sent)
                await writer.drain()
                await held.wait()
                writer.transport.abort()
            else:
                await loop.sock_sendall(far, sent)
                await held.wait()
                far.close()

        held = asyncio.Event()
        sending = asyncio.create_task(send())
        stream = await plain.stream(asyncio.Event(), tls)
        assert [len(await stream.packet()) for _ in range(3)] == [500, 500, 500]
        recorder = Recorder()
        recorder.seen[:0] = stream.hand_over(recorder)
        rest = sent[3 * 504 :]
        assert await recorder.until(len(rest)) == rest
        held.set()
        await sending
        await recorder.lost.wait()

    run(scenario)


def test_who_floods_is_read_no_further_until_somebody_takes_over() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        stream, far = await streaming()
        flood = asyncio.create_task(loop.sock_sendall(far, bytes(8 << 20)))
        while not stream._paused:
            await asyncio.sleep(0)
        assert LARGEST_LOGIN < len(stream._held) < 1 << 20
        recorder = Recorder()
        early = len(stream.hand_over(recorder))
        assert len(await recorder.until((8 << 20) - early)) == (8 << 20) - early
        await flood
        stream.close()
        far.close()

    run(scenario)


def test_a_connection_that_ended_is_not_handed_over() -> None:
    async def scenario() -> None:
        stream, far = await streaming()
        far.close()
        while not stream.lost:
            await asyncio.sleep(0)
        with pytest.raises(Lost):
            stream.hand_over(Recorder())
        with pytest.raises(Lost):
            stream.send(b"anybody?")

    run(scenario)


def test_the_last_packet_before_the_end_is_still_read() -> None:
    async def scenario() -> None:
        stream, far = await streaming()
        far.send(packet(b"farewell", 0))
        far.close()
        assert await stream.packet() == b"farewell"
        with pytest.raises(Lost):
            await stream.packet()

    run(scenario)


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (packet(b"x", 1), OutOfOrder),
        ((LARGEST_LOGIN + 1).to_bytes(3, "little") + b"\0", TooLarge),
        (packet(b"cut off", 0)[:-1], Lost),
        (b"\x01", Lost),
    ],
)
def test_bad_packets_are_refused_by_their_heads(sent: bytes, error: type[Exception]) -> None:
    async def scenario() -> None:
        plain, far = pair()
        far.send(sent)
        if error is Lost:
            far.close()
        with pytest.raises(error):
            await plain.packet()
        plain.close()
        far.close()
        stream, far = await streaming()
        far.send(sent)
        if error is Lost:
            far.close()
        with pytest.raises(error):
            await stream.packet()
        stream.close()
        far.close()

    run(scenario)


def test_sequence_numbers_go_on_from_the_socket_to_the_stream() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        plain, far = pair()
        plain.send(b"greeting")
        far.send(packet(b"answer", 1))
        assert await plain.packet() == b"answer"
        stream = await plain.stream(asyncio.Event())
        stream.send(b"question")
        expected = packet(b"greeting", 0) + packet(b"question", 2)
        seen = b""
        while len(seen) < len(expected):
            seen += await loop.sock_recv(far, 100)
        assert seen == expected
        stream.close()
        far.close()

    run(scenario)


def test_a_peer_that_takes_no_bytes_is_lost() -> None:
    async def scenario() -> None:
        plain, far = pair()
        with pytest.raises(Lost):
            for _ in range(10_000):
                plain.send(bytes(1000))
        plain.close()
        far.close()

    run(scenario)


def test_a_packet_of_the_largest_size_is_read_to_its_end_though_it_comes_in_pieces() -> None:
    async def scenario() -> None:
        stream, far = await streaming()
        loop = asyncio.get_running_loop()
        whole = packet(b"x" * LARGEST_LOGIN, 0)
        reading = asyncio.ensure_future(stream.packet())
        await loop.sock_sendall(far, whole[:-1])
        while len(stream._held) < len(whole) - 1:
            stream.wake.clear()
            await stream.wake.wait()
        await loop.sock_sendall(far, whole[-1:])
        assert await reading == whole[4:]
        stream.abort()
        far.close()

    run(scenario)


def test_what_comes_ahead_does_not_keep_the_next_packet_from_being_read() -> None:
    async def scenario() -> None:
        stream, far = await streaming()
        loop = asyncio.get_running_loop()
        first, second = packet(b"a", 0), packet(b"b" * LARGEST_LOGIN, 1)
        await loop.sock_sendall(far, first + second[:-2])
        while len(stream._held) < len(first) + len(second) - 2:
            stream.wake.clear()
            await stream.wake.wait()
        assert await stream.packet() == b"a"
        await loop.sock_sendall(far, second[-2:])
        assert await stream.packet() == second[4:]
        stream.abort()
        far.close()

    run(scenario)
