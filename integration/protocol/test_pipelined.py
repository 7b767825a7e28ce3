"""Requests sent ahead of their answers: in whatever pieces they come, answered in order, with MySQL's bytes."""

from __future__ import annotations

import contextlib
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient, bound, bound_before
from integration.support.same_bytes import kinds_of_client, same
from proxy.mysql.wire.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_MULTI_STATEMENTS,
    CLIENT_QUERY_ATTRIBUTES,
    COM_CHANGE_USER,
    COM_FIELD_LIST,
    COM_INIT_DB,
    COM_PING,
    COM_QUERY,
    COM_RESET_CONNECTION,
    COM_STMT_CLOSE,
    COM_STMT_RESET,
    COM_STMT_SEND_LONG_DATA,
    LARGEST,
    lenenc,
    packet,
)

DATABASE = "pipelined"
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, n INT NOT NULL, name VARCHAR(40))",
    "INSERT INTO item VALUES " + ", ".join(f"({n}, {n * 10}, 'item {n}')" for n in range(50)),
    "CREATE TABLE scratch (id INT PRIMARY KEY, n INT)",
    "CREATE TABLE loaded (id INT PRIMARY KEY, v LONGTEXT)",
)
EMPTY = [f"DELETE FROM {DATABASE}.scratch", f"DELETE FROM {DATABASE}.loaded"]
BY_ID = "SELECT id, n, name FROM item WHERE id = {}"
ONE_KIND = [("deprecate-eof", CLIENT_DEPRECATE_EOF | CLIENT_MULTI_STATEMENTS)]


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *TABLES)
    with proxy_in_thread(mysql, DATABASE, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            assert client.query("CREATE CACHE by_id FROM SELECT id, n, name FROM item WHERE id = ?")[4] == 0
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {DATABASE}")


@dataclass(frozen=True, slots=True)
class Request:
    """`answered`: reads the answer, None where there is none."""

    name: str
    data: bytes
    answered: Callable[[RawClient], bytes] | None


def query(client: RawClient, sql: str) -> Request:
    return Request(sql, packet(client.text(sql), 0), RawClient.result)


def requests(client: RawClient, rng: random.Random, count: int) -> list[Request]:
    """Random commands, of which no answer depends on when the others are answered."""
    read = client.prepare(BY_ID.format("?"))
    lengths = client.prepare("SELECT LENGTH(?)")

    def executed(number: int, parameters: bytes) -> Request:
        counted = b"\1" if client.attributes else b""
        return Request("execute", packet(client.execution(number, counted + parameters), 0), RawClient.result)

    def given(value: int) -> bytes:
        if not client.attributes:
            return bound((8,), (struct.pack("<q", value),))
        return b"\0\1\x08\0\0" + struct.pack("<q", value)

    def made() -> Request:
        key = rng.randrange(40)
        types = b"\0\1\xfc\0" + (b"\0" if client.attributes else b"")
        choices = [
            *[query(client, BY_ID.format(key))] * 4,
            executed(read.id, given(key)),
            executed(lengths.id, types + lenenc(b"abc")),
            Request("long data", packet(long_data(lengths.id, rng.choice((5, 70_000))), 0), None),
            Request("ping", packet(bytes((COM_PING,)), 0), RawClient.one),
            Request("use", packet(bytes((COM_INIT_DB,)) + DATABASE.encode(), 0), RawClient.one),
            Request("fields", packet(bytes((COM_FIELD_LIST,)) + b"item\0", 0), RawClient.rows),
            query(client, rng.choice(("SELEC", "SELECT * FROM nowhere", "SELECT 1; SELECT 2", "DO 0", ""))),
            query(client, rng.choice((f"SELECT REPEAT('x', {key * 10_000})", "SET @x = 1", "SHOW TABLES"))),
        ]
        return rng.choice(choices)

    return [made() for _ in range(count)]


def long_data(statement: int, size: int) -> bytes:
    return bytes((COM_STMT_SEND_LONG_DATA,)) + struct.pack("<IH", statement, 0) + b"z" * size


def answers(client: RawClient, sent: list[Request]) -> None:
    for request in sent:
        if request.answered is not None:
            client.note(request.name, request.answered(client))


@pytest.mark.parametrize("seed", range(4))
def test_requests_ahead_of_their_answers(beside: Beside, seed: int) -> None:
    def script(client: RawClient) -> None:
        rng = random.Random(seed)
        sent = requests(client, rng, 60)
        data = b"".join(request.data for request in sent)
        pieces = sorted(rng.randrange(len(data)) for _ in range(rng.choice((0, 5, 200))))
        for start, end in zip([0, *pieces], [*pieces, len(data)], strict=True):
            client.write(data[start:end])
        answers(client, sent)

    same(beside, script, list(kinds_of_client())[seed::4])


def test_bytes_that_come_one_at_a_time(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        sent = requests(client, random.Random(5), 25)
        for byte in b"".join(request.data for request in sent if len(request.data) < 1000):
            client.write(bytes((byte,)))
        answers(client, [request for request in sent if len(request.data) < 1000])

    same(beside, script, ONE_KIND)


def test_several_hits_in_one_read_are_answered_by_one_write(beside: Beside) -> None:
    with beside.client() as client:
        sent = [query(client, BY_ID.format(key)) for key in range(30)]
        for request in sent:
            client.write(request.data)
            assert request.answered is not None
            request.answered(client)
        (session,) = beside.shared.sessions
        writes: list[bytes] = []
        write = session.relay.client.write

        def noted(data: bytes | bytearray | memoryview[Any]) -> None:
            writes.append(bytes(data))
            write(data)

        session.relay.client.write = noted
        client.write(b"".join(request.data for request in sent))
        answers(client, sent)
        assert len(writes) == 1
        assert writes[0] == b"".join(data for _, data in client.transcript)


def test_commands_that_wait_for_another_account(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        for user in (b"root", b"nobody"):
            changed = user + b"\0\0" + DATABASE.encode() + b"\0\xff\0caching_sha2_password\0"
            client.write(packet(bytes((COM_CHANGE_USER,)) + changed, 0))
            asked = client.packet()
            behind = query(client, "SELECT CURRENT_USER(), DATABASE()")
            answer = packet(b"", asked[3] + 1)
            client.write(answer + behind.data + behind.data if user == b"root" else answer)
            found = client.packet()
            client.note("the account", found)
            if found[4] == 0xFF:
                client.note("ended", bytes([client.at_end()]))
                return
            answers(client, [behind, behind])

    same(beside, script, ONE_KIND)


def test_a_reset_among_commands(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        read = client.prepare(BY_ID.format("?"))
        client.query("SET @x = 5")
        key = bound((8,), (struct.pack("<q", 2),))
        sent = [
            query(client, "SELECT @x"),
            Request("execute", packet(client.execution(read.id, key), 0), RawClient.result),
            Request("reset", packet(bytes((COM_STMT_RESET,)) + struct.pack("<I", read.id), 0), RawClient.one),
            Request(
                "again", packet(client.execution(read.id, bound_before((struct.pack("<q", 3),))), 0), RawClient.result
            ),
            Request("reset of all", packet(bytes((COM_RESET_CONNECTION,)), 0), RawClient.one),
            query(client, "SELECT @x"),
            Request("unknown now", packet(client.execution(read.id, key), 0), RawClient.result),
            Request("close", packet(bytes((COM_STMT_CLOSE,)) + struct.pack("<I", read.id), 0), None),
            query(client, BY_ID.format(7)),
        ]
        client.write(b"".join(request.data for request in sent))
        answers(client, sent)

    same(beside, script, ONE_KIND)


# -- files -------------------------------------------------------------------------------------------------------------

LOAD = "LOAD DATA LOCAL INFILE 'any' INTO TABLE loaded"
FILES = {
    "some lines": [b"1\tone\n2\ttwo\n"],
    "pieces that cut lines": [b"1\to", b"ne\n2", b"\ttwo\n"],
    "an empty file": [],
    "a duplicate in the middle": [b"1\tone\n", b"1\ttwo\n", b"3\tthree\n"],
    "a line that is no row": [b"x\ty\tz\n"],
    "a piece of the largest size": [b"1\t" + b"a" * (LARGEST - 3) + b"\n", b"2\tb\n"],
    "a piece beyond the largest size": [b"1\t" + b"a" * (LARGEST + 99) + b"\n", b"2\tb\n"],
    "a piece that looks like commands": [packet(b"\3SELECT 1", 0) + b"\n"],
}


@pytest.mark.parametrize("name", list(FILES))
def test_a_file_is_loaded(beside: Beside, name: str) -> None:
    def script(client: RawClient) -> None:
        client.files = list(FILES[name])
        client.query(LOAD)
        client.query("SHOW WARNINGS")
        client.query("SELECT id, LENGTH(v), MD5(v) FROM loaded")

    same(beside, script, list(kinds_of_client())[:: 5 if len(b"".join(FILES[name])) < 1000 else 15], before=EMPTY)


def file_of(pieces: list[bytes], sequence: int = 2) -> bytes:
    found = b""
    for piece in (*pieces, b""):
        found += packet(piece, sequence)
        sequence += 1 + len(piece) // LARGEST
    return found


@pytest.mark.parametrize("name", ["some lines", "an empty file", "a duplicate in the middle"])
def test_a_file_that_is_sent_before_it_is_asked_for_and_commands_behind_it(beside: Beside, name: str) -> None:
    def script(client: RawClient) -> None:
        load = packet(client.text(LOAD), 0) + file_of(FILES[name])
        behind = [query(client, BY_ID.format(3)), query(client, "SELECT COUNT(*) FROM loaded")]
        client.write(load + b"".join(request.data for request in behind))
        client.note("asked for", client.packet())
        client.note("loaded", client.result())
        answers(client, behind)

    same(beside, script, before=EMPTY)


def test_two_files_in_one_text(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        data = packet(client.text(f"{LOAD}; SELECT 5; {LOAD}; SELECT 6"), 0)
        client.write(data)
        for lines in (b"1\ta\n", b"2\tb\n"):
            asked = client.packet()
            client.note("asked for", asked)
            client.write(file_of([lines], asked[3] + 1))
            client.note("loaded", client.packet())
            client.note("a result", b"".join(client.packet() for _ in range(4)))
        client.query("SELECT id FROM loaded")

    same(beside, script, ONE_KIND, before=EMPTY)


def test_no_file_is_asked_for_where_the_client_has_not_the_capability(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        client.query("LOAD DATA LOCAL INFILE 'any' INTO TABLE nowhere")
        client.query("SELECT 1")

    same(beside, script, ONE_KIND)


# -- large packets -----------------------------------------------------------------------------------------------------

SIZES = (LARGEST - 1, LARGEST, LARGEST + 1, 40 << 20)
LARGE_KINDS = [("deprecate-eof", CLIENT_DEPRECATE_EOF), ("attributes", CLIENT_QUERY_ATTRIBUTES)]


@pytest.mark.parametrize("size", SIZES)
def test_commands_and_results_beyond_a_packet(beside: Beside, size: int) -> None:
    def script(client: RawClient) -> None:
        text = client.text("SELECT MD5('")
        client.write(packet(text + b"x" * (size - len(text) - 2) + b"')", 0))
        client.note("a long text", client.result())
        overhead = 4 if size < 1 << 24 else 9
        client.query(f"SELECT REPEAT('y', {size - overhead})", "a row of that size")
        client.query(f"SELECT REPEAT('y', {size - overhead}), 1 UNION ALL SELECT 2, 3", "and one behind it")
        client.ping()

    same(beside, script, LARGE_KINDS[: 2 if size < 20 << 20 else 1])


def test_statements_and_parameters_beyond_a_packet(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        client.prepare("SELECT /* " + "c" * LARGEST + " */ ?")
        asked = client.prepare("SELECT MD5(?), ?")
        client.write(packet(long_data(asked.id, LARGEST + 5), 0) + packet(bytes((COM_PING,)), 0))
        client.note("ping behind it", client.one())
        client.execute(asked.id, bound((0xFC, 8), (b"", struct.pack("<q", 1))), step="long data beyond a packet")
        client.execute(asked.id, bound((0xFC, 8), (lenenc(b"p" * LARGEST), struct.pack("<q", 1))), step="a parameter")
        client.execute(asked.id, bound((0xFC, 8), (lenenc(b"p"), struct.pack("<q", 2))), step="types again")

    same(beside, script, ONE_KIND)


def test_commands_of_many_sizes_ahead_of_their_answers(beside: Beside) -> None:
    """Around the sizes at which commands are forwarded as they come."""

    def script(client: RawClient) -> None:
        sent = [
            query(client, f"SELECT LENGTH('{'s' * size}') /* {'t' * more} */")
            for size in (0, 65_480, 65_500, 65_530, 65_536, 70_000, 300_000, 5)
            for more in (0, 3, 100)
        ]
        client.write(b"".join(request.data for request in sent))
        answers(client, sent)

    same(beside, script, ONE_KIND)


def test_a_command_that_mysql_finds_too_large(beside: Beside) -> None:
    """MySQL's error comes though MySQL does not read all that is sent; then the connection ends."""

    def script(client: RawClient) -> None:
        data = packet(bytes((COM_QUERY,)) + b"x" * (66 << 20), 0)
        with contextlib.suppress(OSError):  # it has closed meanwhile
            client.write(data)
        client.note("too large", client.packet())
        client.note("ended", bytes([client.at_end()]))

    same(beside, script, ONE_KIND)
