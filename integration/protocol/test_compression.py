"""Clients whose packets are compressed: what is within the frames is what MySQL sends to a client like them."""

from __future__ import annotations

import asyncio
import socket
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard

from integration.protocol import test_same_bytes as plain
from integration.servers.mysql_server import Server
from integration.support.compressed_client import CompressedClient, without_numbers
from integration.support.grpc_app import proxy_beside
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import Ended, RawClient, bound
from integration.support.same_bytes import Script, differences, kinds_of_client
from integration.support.served import last_served, read_until_hit
from integration.support.short_steps import each_step_is_short
from proxy.mysql.wire.packets import (
    CLIENT_COMPRESS,
    CLIENT_DEPRECATE_EOF,
    CLIENT_MULTI_STATEMENTS,
    CLIENT_SESSION_TRACK,
    CLIENT_ZSTD_COMPRESSION_ALGORITHM,
    COM_QUERY,
    LARGEST,
    packet,
)
from proxy.mysql.wire.sockets import SOCKET_HIGH
from tests.support.step_times import StepTimes

ALGORITHMS = {
    "zlib": {"algorithm": CLIENT_COMPRESS},
    "zstd": {"algorithm": CLIENT_ZSTD_COMPRESSION_ALGORITHM},
    "zstd 22": {"algorithm": CLIENT_ZSTD_COMPRESSION_ALGORITHM, "level": 22},
    "zlib in small frames": {"algorithm": CLIENT_COMPRESS, "largest": 11, "every": True},
}
BY_ID = "SELECT id, n, name FROM item WHERE id = {}"
ONE_KIND = [("deprecate-eof", CLIENT_DEPRECATE_EOF)]
LOAD = "LOAD DATA LOCAL INFILE 'any' INTO TABLE loaded"
MUCH = (
    "WITH RECURSIVE numbers AS (SELECT 1 n UNION ALL SELECT n + 1 FROM numbers WHERE n < {})"
    " SELECT /*+ SET_VAR(cte_max_recursion_depth=1000000) */ n, REPEAT('row ', 20), SHA2(n, 256) FROM numbers"
)
HEADER = 7
LIMIT = 0.008  # seconds of the loop: what takes longest takes 0.003


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = "compression"
    mysql.execute(
        f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}", f"USE {database}", *plain.TABLES,
        "CREATE TABLE loaded (a INT, b LONGTEXT)",
    )  # fmt: skip
    (before,) = mysql.execute("SELECT @@local_infile, @@max_allowed_packet")
    mysql.execute("SET GLOBAL local_infile = ON", "SET GLOBAL max_allowed_packet = 67108864")
    with proxy_in_thread(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            assert client.query(f"CREATE CACHE by_id FROM {BY_ID.format('?')}")[4] == 0
        yield found
        found.at_rest()
    mysql.execute(f"SET GLOBAL local_infile = {before[0]}", f"SET GLOBAL max_allowed_packet = {before[1]}")
    mysql.execute(f"DROP DATABASE {database}")


def at_mysql(beside: Beside, **options: object) -> CompressedClient:
    server = beside.mysql
    return CompressedClient(server.host, server.port, database=beside.proxy.database, **options)  # type: ignore[arg-type]


def through(beside: Beside, **options: object) -> CompressedClient:
    database = beside.proxy.database
    return CompressedClient("127.0.0.1", beside.port, database=database, **options)  # type: ignore[arg-type]


def same(
    beside: Beside, script: Script, algorithm: str, kinds: Sequence[tuple[str, int]] = ONE_KIND, *before: str
) -> None:
    """Fails where a client gets other packets through the proxy than from MySQL, or is sent next to nothing compressed
    though MySQL compresses."""
    for name, capabilities in kinds:
        played = []
        for connect in (at_mysql, through):
            if before:
                beside.mysql.execute(f"USE {beside.proxy.database}", *before)
            with connect(beside, capabilities=capabilities, **ALGORITHMS[algorithm]) as client:
                with suppress(Ended):
                    script(client)
                assert client.frames is not None
                played.append((client.transcript, client.frames.seen))
        (wanted, at), (found, seen) = played
        different = list(differences(wanted, found))
        assert not different, (name, different)
        assert at.raw < 100_000 or seen.packed < at.packed * 1.2, (at, seen)


# -- what a client does ------------------------------------------------------------------------------------------------

SCRIPTS: dict[str, tuple[Callable[[RawClient], None], str]] = {
    "texts": (plain.texts, "DELETE FROM scratch"),
    "several statements": (plain.several_statements, "TRUNCATE TABLE scratch"),
    "parameters": (plain.parameters, "DO 0"),
    "long data": (plain.long_data, "DELETE FROM bytes"),
    "life of statements": (plain.life_of_statements, "DO 0"),
    "cursors": (plain.cursors, "DO 0"),
    "commands": (plain.commands, "DO 0"),
}


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_packets_are_mysqls(beside: Beside, algorithm: str, name: str) -> None:
    script, before = SCRIPTS[name]
    kinds = list(kinds_of_client()) if algorithm == "zlib" else ONE_KIND
    same(beside, script, algorithm, kinds, before)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_hits_are_mysqls_too(beside: Beside, algorithm: str) -> None:
    with through(beside, capabilities=CLIENT_DEPRECATE_EOF, **ALGORITHMS[algorithm]) as client:
        statement = client.prepare(BY_ID.format("?"))
        key = bound((8,), (struct.pack("<q", 3),))
        read_until_hit(beside, client, client.query, BY_ID.format(3))
        read_until_hit(beside, client, client.execute, statement.id, key)
        text, execution = client.query(BY_ID.format(3)), client.execute(statement.id, key)
        assert last_served(beside, client) == "hit"
    with at_mysql(beside, capabilities=CLIENT_DEPRECATE_EOF, **ALGORITHMS[algorithm]) as client:
        assert client.query(BY_ID.format(3)) == text
        assert client.execute(client.prepare(BY_ID.format("?")).id, key) == execution


@pytest.mark.parametrize("algorithm", ["zlib", "zstd"])
@pytest.mark.parametrize("size", [50, 16 * 1024, 300_000, LARGEST - 1, LARGEST, LARGEST + 5])
def test_large_packets_both_ways(beside: Beside, algorithm: str, size: int) -> None:
    """A packet of 16 MiB less one byte goes on in the next one. Bytes that hardly compress, and others."""
    noise = b"".join(zlib.crc32(struct.pack("<I", at)).to_bytes(4, "little").hex().encode() for at in range(size // 8))

    def script(client: RawClient) -> None:
        for filling in (b"x" * (size - 10), noise[: size - 10]):
            client.query(b"SELECT '" + filling + b"'", step=f"{size} bytes")
        client.query("SELECT 1")

    same(beside, script, algorithm)


@pytest.mark.parametrize("largest", [LARGEST, 1 << 20])
def test_a_client_that_fills_its_frames(beside: Beside, largest: int) -> None:
    def script(client: RawClient) -> None:
        client.query(b"SELECT LENGTH('" + b"y" * (20 << 20) + b"')", step="20 MB")

    ALGORITHMS["full"] = {"algorithm": CLIENT_COMPRESS, "largest": largest}
    same(beside, script, "full")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_large_answers(beside: Beside, algorithm: str) -> None:
    def script(client: RawClient) -> None:
        assert len(client.query(MUCH.format(20_000))) > 3_000_000
        client.query("SELECT 1")

    same(beside, script, algorithm)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_local_files(beside: Beside, algorithm: str) -> None:
    """The file's packets are numbered by this client from the number of MySQL's frame, as by its own library."""

    def script(client: RawClient) -> None:
        for pieces in ([b"1\tone\n", b"2\ttwo\n"], [], [b"3\t" + b"z" * 20_000 + b"\n"] * 20):
            client.files = list(pieces)
            client.query(LOAD)
        client.files = [b"7\tseven\n"] * 3
        client.query(f"SELECT 1; {LOAD}; SELECT 2", step="between others")
        client.query("SELECT a, LENGTH(b) FROM loaded")
        client.files = [b"8\tnowhere\n"]
        client.query("LOAD DATA LOCAL INFILE 'any' INTO TABLE nowhere")

    same(
        beside, script, algorithm, [("several", CLIENT_MULTI_STATEMENTS), ("tracks", ONE_KIND[0][1] | MANY)],
        "DELETE FROM loaded",
    )  # fmt: skip


MANY = CLIENT_SESSION_TRACK | CLIENT_MULTI_STATEMENTS


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("change_user", [False, True], ids=["reset", "change user"])
def test_a_session_that_begins_anew_stays_compressed(beside: Beside, algorithm: str, change_user: bool) -> None:
    database = beside.proxy.database

    def script(client: RawClient) -> None:
        for _ in range(2):
            client.query("SET @x = 1")
            client.query(f"SELECT @x, '{'y' * 100}'")
            client.begin_anew(database, change_user=change_user)
            client.query(f"SELECT @x, '{'y' * 100}'")

    same(beside, script, algorithm)


@pytest.mark.parametrize("algorithm", ["zlib", "zstd"])
def test_commands_that_are_sent_ahead(beside: Beside, algorithm: str) -> None:
    """Each begins at frame 0, as MySQL expects it, and is answered by itself."""

    def script(client: RawClient) -> None:
        assert isinstance(client, CompressedClient) and client.frames is not None
        queries = [client.text(BY_ID.format(number % 4)) for number in range(40)]
        queries += [client.text("SELECT SLEEP(0.01)"), client.text(MUCH.format(3000))]
        queries += [client.text(BY_ID.format(3)), client.text("SELECT 'last'")]
        client.socket.sendall(b"".join(client.frame(packet(query, 0), 0) for query in queries))
        for query in queries:
            client.frames.number = 1  # behind its command's frame
            client.note(repr(query[:60]), client.result())

    same(beside, script, algorithm)


def test_mysql_says_why_it_ends_a_session(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        assert isinstance(client, CompressedClient) and client.frames is not None
        client.query("SET wait_timeout = 1")
        client.query("SELECT 1")
        client.frames.number = 0
        client.note("farewell", client.packet())
        client.note("ended", bytes([client.at_end()]))

    same(beside, script, "zlib")


# -- logging in --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 1, 22, 23, 255])
@pytest.mark.parametrize("algorithm", [CLIENT_ZSTD_COMPRESSION_ALGORITHM, CLIENT_COMPRESS | 1 << 26])
def test_levels_are_taken_and_refused_as_mysql_does(beside: Beside, algorithm: int, level: int) -> None:
    """Of a client that has both, MySQL takes zlib, and looks at no level."""
    told = []
    for connect in (at_mysql, through):
        with connect(beside, algorithm=algorithm, level=level, capabilities=CLIENT_DEPRECATE_EOF) as client:
            told.append(client.login_answer)
            if client.login_answer[4] == 0:
                told[-1] += client.query(f"SELECT '{'y' * 100}'")
            else:
                told[-1] += bytes([client.at_end()])
    assert told[0] == told[1]


class Insisting(CompressedClient):
    """It says that it compresses, though that is not offered; MySQL goes by what it has offered."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        assert self.frames is not None
        self.stream = self.frames._stream  # type: ignore[assignment]
        self.frames = None


@pytest.mark.parametrize("offered", ["uncompressed", "zlib,uncompressed", "zstd,uncompressed"])
def test_what_mysql_does_not_offer_is_not_offered(beside: Beside, offered: str) -> None:
    def seen(host: str, port: int) -> list[object]:
        with RawClient(host, port) as client:
            capabilities = client.greeting.capabilities & (CLIENT_COMPRESS | CLIENT_ZSTD_COMPRESSION_ALGORITHM)
        found: list[object] = [capabilities]
        for algorithm in (CLIENT_COMPRESS, CLIENT_ZSTD_COMPRESSION_ALGORITHM):
            if algorithm & capabilities:
                with CompressedClient(host, port, algorithm=algorithm) as client:
                    found.append(client.query(f"SELECT '{'y' * 100}'"))
            else:
                with Insisting(host, port, algorithm=algorithm) as client:
                    found.append(client.query(f"SELECT '{'y' * 100}'"))
        return found

    beside.mysql.execute(f"SET GLOBAL protocol_compression_algorithms = '{offered}'")
    try:
        assert seen("127.0.0.1", beside.port) == seen(beside.mysql.host, beside.mysql.port)
    finally:
        beside.mysql.execute("SET GLOBAL protocol_compression_algorithms = DEFAULT")


# -- what no client sends ----------------------------------------------------------------------------------------------


def frame(body: bytes, number: int, announced: int) -> bytes:
    return len(body).to_bytes(3, "little") + bytes((number,)) + announced.to_bytes(3, "little") + body


Q = packet(bytes((COM_QUERY,)) + b"SELECT 1 /* " + b"x" * 100 + b" */", 0)
ANSWERED: dict[str, Callable[[CompressedClient], bytes]] = {
    "a number that is not 0": lambda client: frame(client.packed(Q), 1, len(Q)),
    "a number of a packet within": lambda client: frame(client.packed(Q[:3] + b"\5" + Q[4:]), 0, len(Q)),
    "an empty frame": lambda client: frame(b"", 0, 0) + frame(client.packed(Q), 1, len(Q)),
    "not compressed": lambda client: frame(Q, 0, 0),
    "a header in two frames": lambda client: frame(Q[:2], 0, 0) + frame(Q[2:], 1, 0),
    "a header in two frames, the number again": lambda client: frame(Q[:2], 0, 0) + frame(Q[2:], 0, 0),
    "behind it one that goes on": lambda client: frame(client.packed(Q), 0, len(Q)) + frame(client.packed(Q), 1, 9),
}
UNREADABLE: dict[str, Callable[[CompressedClient], bytes]] = {
    "fewer bytes announced": lambda client: frame(client.packed(Q), 0, len(Q) - 1),
    "no such bytes": lambda client: frame(b"\xaa" * 80, 0, 200),
    "nothing, and announced": lambda client: frame(b"", 0, 100),
    "cut off": lambda client: frame(client.packed(Q)[:-3], 0, len(Q)),
    "a bomb": lambda client: frame(client.packed(b"\0" * (1 << 24)), 0, 100),
    "a larger bomb": lambda client: frame(client.packed(b"\0" * (1 << 28)), 0, LARGEST),
}


def streamed(data: bytes) -> bytes:
    """A frame of zstd's that does not say how long it is."""
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    return compressor.compress(data) + compressor.flush()


PASSED_OVER = b"\x5a\x2a\x4d\x18\5\0\0\0hello"  # a frame of zstd's without data
HALF = len(Q) // 2
OF_ZSTD: dict[str, Callable[[CompressedClient], bytes]] = {
    "two": lambda client: frame(client.packed(Q[:HALF]) + client.packed(Q[HALF:]), 0, len(Q)),
    "two of unknown sizes": lambda _: frame(streamed(Q[:HALF]) + streamed(Q[HALF:]), 0, len(Q)),
    "one that is empty": lambda client: frame(client.packed(b"") + client.packed(Q), 0, len(Q)),
    "one that is passed over": lambda client: frame(PASSED_OVER + client.packed(Q) + PASSED_OVER, 0, len(Q)),
    "a checksum": lambda _: frame(zstandard.ZstdCompressor(write_checksum=True).compress(Q) + PASSED_OVER, 0, len(Q)),
}
UNREADABLE_ZSTD: dict[str, Callable[[CompressedClient], bytes]] = {
    "less than announced": lambda client: frame(client.packed(Q), 0, len(Q) + 1),
    "two, more announced": lambda client: frame(client.packed(Q) * 2, 0, 2 * len(Q) + 1),
    "two, one announced": lambda client: frame(client.packed(Q) * 2, 0, len(Q)),
    "the second cut off": lambda client: frame(client.packed(Q[:HALF]) + client.packed(Q[HALF:])[:-3], 0, len(Q)),
    "something behind": lambda client: frame(client.packed(Q) + b"xyzw", 0, len(Q)),
    "without its first bytes": lambda client: frame(client.packed(Q)[4:], 0, len(Q)),
    "a wrong checksum": lambda _: frame(
        zstandard.ZstdCompressor(write_checksum=True).compress(Q)[:-1] + b"\0", 0, len(Q)
    ),
    "passed over, cut off": lambda client: frame(client.packed(Q) + PASSED_OVER[:-1], 0, len(Q)),
}


def bytes_until_quiet(client: CompressedClient) -> tuple[bytes, bool]:
    """(what comes, whether the end does) once the answer to a ping behind it could have come."""
    found = b""
    client.socket.settimeout(1.0)
    with suppress(ConnectionResetError):
        try:
            while data := client.socket.recv(1 << 16):
                found += data
        except TimeoutError:
            return found, False
    return found, True


ODD = [(algorithm, case) for algorithm in ("zlib", "zstd") for case in ANSWERED] + [("zstd", case) for case in OF_ZSTD]


@pytest.mark.parametrize(("algorithm", "case"), ODD)
def test_odd_frames_are_taken_or_refused_as_mysql_does(beside: Beside, algorithm: str, case: str) -> None:
    """Number and bytes of MySQL's refusals, too; and the first frame's number of an answer."""
    told = []
    for connect in (at_mysql, through):
        with connect(beside, **ALGORITHMS[algorithm]) as client:
            client.socket.sendall((ANSWERED | OF_ZSTD)[case](client))
            found, ended = bytes_until_quiet(client)
            told.append((inner_of(client, found), ended))
    assert told[0] == told[1]


def inner_of(client: CompressedClient, data: bytes) -> list[tuple[int, bytes]]:
    """(number, packets without their numbers) of frames."""
    found = []
    while data:
        size, announced = int.from_bytes(data[:3], "little"), int.from_bytes(data[4:HEADER], "little")
        body = data[HEADER : HEADER + size]
        if announced:
            body = zlib.decompress(body) if not client._zstd else client.frames._inflate(body)  # type: ignore[union-attr]
        found.append((data[3], without_numbers(body)))
        data = data[HEADER + size :]
    return found


BAD = [(algorithm, case) for algorithm in ("zlib", "zstd") for case in UNREADABLE]


@pytest.mark.parametrize(("algorithm", "case"), BAD + [("zstd", case) for case in UNREADABLE_ZSTD])
def test_what_cannot_be_decompressed_ends_the_session_in_words(beside: Beside, algorithm: str, case: str) -> None:
    """MySQL itself passes over such a frame, and lets the client wait. Its own error's number is what is told here."""
    with at_mysql(beside, **ALGORITHMS[algorithm]) as client:
        client.socket.sendall((UNREADABLE | UNREADABLE_ZSTD)[case](client))
        assert bytes_until_quiet(client)[0] == b""
    with through(beside, **ALGORITHMS[algorithm]) as client:
        client.socket.sendall((UNREADABLE | UNREADABLE_ZSTD)[case](client))
        ((number, told),) = inner_of(client, bytes_until_quiet(client)[0])
        assert number == 1
        assert told[4:] == b"\xff" + (1157).to_bytes(2, "little") + b"#08S01Couldn't uncompress communication packet"


@pytest.mark.parametrize("algorithm", ["zlib", "zstd"])
def test_a_client_that_does_not_read_holds_little(beside: Beside, algorithm: str) -> None:
    """What it does not take is neither compressed ahead nor read from MySQL; then it gets all of it."""
    options = {"capabilities": CLIENT_DEPRECATE_EOF, **ALGORITHMS[algorithm]}
    noise = ", ".join(f"SHA2(n + {number}, 512)" for number in range(10))
    text = MUCH.format(20_000).replace("REPEAT('row ', 20)", f"CONCAT({noise})")  # more than the system takes for it
    with at_mysql(beside, **options) as client:
        wanted = client.query(text)
        assert len(wanted) > 20 << 20
    with through(beside, receive_buffer=4096, **options) as client:
        client.write(packet(client.text(text), 0))
        relay = next(one for one in beside.shared.sessions if one.connection_id == client.greeting.connection_id).relay
        beside.until(lambda: relay.client.stalled is not None)
        assert beside.call(relay.client.transport.get_write_buffer_size) < 4 * SOCKET_HIGH
        assert client.note("all", client.result()) == wanted


COSTLY: dict[str, tuple[str, Callable[[CompressedClient], bytes]]] = {
    "blocks of nothing": ("zlib", lambda _: frame(b"\x78\x9c" + b"\0\0\0\xff\xff" * 3_300_000, 0, 100)),
    "blocks of zstd's": ("zstd", lambda _: frame(b"\x28\xb5\x2f\xfd\0\x58" + bytes(16_500_000), 0, 100)),
    "frames of zstd's": ("zstd", lambda client: frame(client.packed(b"") * 1_800_000, 0, 100)),
    "few frames of zstd's": ("zstd", lambda client: frame(client.packed(b"") * 7000, 0, 100)),
    "frames that are passed over": ("zstd", lambda _: frame((PASSED_OVER[:4] + bytes(4)) * 2_000_000, 0, 100)),
    "a bomb": ("zstd", lambda client: frame(client.packed(bytes(1 << 28)), 0, LARGEST)),
    "one that fills": ("zlib", lambda client: frame(client.packed(bytes(1 << 24)), 0, LARGEST)),
    "empty frames": ("zlib", lambda _: b"".join(frame(b"", number & 255, 0) for number in range(100_000))),
}


@pytest.mark.parametrize("case", COSTLY)
def test_no_frame_keeps_others_waiting(mysql: Server, database: str, tmp_path: Path, case: str) -> None:
    """Measured is the processor's time of each step of the loop."""
    algorithm, sent = COSTLY[case]

    async def scenario(folder: Path, found: StepTimes) -> None:
        async with proxy_beside(mysql, database, folder) as proxy:
            port = proxy.app.mysql_port
            client = await asyncio.to_thread(
                lambda: CompressedClient("127.0.0.1", port, database=database, **ALGORITHMS[algorithm])  # type: ignore[arg-type]
            )
            with client:
                data = await asyncio.to_thread(sent, client)
                found.doing = case

                def send() -> None:
                    with suppress(ConnectionError):
                        client.socket.sendall(data)
                        client.socket.shutdown(socket.SHUT_WR)
                    with suppress(ConnectionError):
                        while client.socket.recv(1 << 16):
                            pass

                await asyncio.to_thread(send)
                found.doing = ""

    each_step_is_short(mysql, database, tmp_path, (), scenario, lambda found: found.most >= LIMIT)


def test_a_client_that_leaves_in_the_middle_of_a_frame(beside: Beside) -> None:
    for cut in (3, HEADER, HEADER + 20):
        with through(beside) as client:
            client.socket.sendall(frame(client.packed(Q), 0, len(Q))[:cut])
            client.socket.shutdown(socket.SHUT_WR)
            assert client.at_end()
    with through(beside) as client:
        client.query("SELECT 1")
