"""KILL QUERY and max_execution_time end a read that waits for a fill as they end it at MySQL: the same error, and the
same session behind it. Who waits is told by MySQL itself: a lock on the table holds the read, or its fill."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.same_bytes import differences
from integration.support.served import read_until_hit
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, CLIENT_QUERY_ATTRIBUTES, ERR, OK, packet
from tests.support.waiting import until

BY_ID = "SELECT id, n FROM item WHERE id = {}"
INTERRUPTED = b"\xff" + (1317).to_bytes(2, "little") + b"#70100"
TOO_LONG = b"\xff" + (3024).to_bytes(2, "little") + b"#HY000"
KINDS = {"plain": 0, "deprecate-eof": CLIENT_DEPRECATE_EOF, "query-attributes": CLIENT_QUERY_ATTRIBUTES}


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    statements = (
        "CREATE TABLE item (id INT PRIMARY KEY, n INT NOT NULL)",
        "CREATE TABLE other (id INT PRIMARY KEY)",
        "INSERT INTO item SELECT a.n * 10 + b.n, 1 FROM JSON_TABLE('[0,1,2,3,4,5,6,7,8,9]', '$[*]' COLUMNS (n INT PATH"
        " '$')) a, JSON_TABLE('[0,1,2,3,4,5,6,7,8,9]', '$[*]' COLUMNS (n INT PATH '$')) b",
    )
    state = Path(tmp_path_factory.mktemp("state"))
    with beside_database(mysql, "interrupted_reads", state, *statements) as found:
        with found.client() as client:
            assert client.query(f"CREATE CACHE by_id FROM {BY_ID.format('?')}")[4] == 0
        yield found


@pytest.fixture(autouse=True)
def emptied(beside: Beside) -> None:
    """Every key is a hole."""
    beside.mysql.execute(f"UPDATE {beside.proxy.database}.item SET n = n + 1")
    beside.caught_up()
    with beside.client() as client:
        client.query("DROP CACHE by_id")
        assert client.query(f"CREATE CACHE by_id FROM {BY_ID.format('?')}")[4] == 0


class Locked:
    """Nobody reads the table while this is entered."""

    def __init__(self, beside: Beside) -> None:
        self._client = beside.direct()

    def __enter__(self) -> None:
        assert self._client.query("LOCK TABLES item WRITE")[4] != ERR

    def __exit__(self, *_: object) -> None:
        self._client.query("UNLOCK TABLES")
        self._client.close()


def waits(beside: Beside, client: RawClient) -> None:
    """Returns when the client's command waits for the lock, at MySQL or for a fill."""
    number = client.greeting.connection_id
    relays = [one.relay for one in beside.shared.sessions if one.connection_id == number]

    def misses() -> bool:
        return any(relay.task is not None and not relay.server.responses.exchanges for relay in relays)

    def waiting() -> bool:
        if beside.call(misses):
            return True
        rows = beside.mysql.execute("SHOW PROCESSLIST")
        return any(row[0] == number and row[6] and "metadata lock" in row[6] for row in rows)

    asyncio.run(until(waiting))


def ask(client: RawClient, key: int, statement: int) -> bytes:
    """The payload of a read of the key; `statement`: prepared, 0 where it is a text."""
    if not statement:
        return client.text(BY_ID.format(key))
    one = b"\1" if client.attributes else b""  # how many there are, and the length of a name behind the type
    return client.execution(statement, one + b"\0\1\x08\0" + (b"\0" if one else b"") + struct.pack("<q", key))


def interrupted(beside: Beside, client: RawClient, payload: bytes, *, through: bool) -> bytes:
    """The answer to a read that waits when KILL QUERY comes. `through`: so does that, by the proxy."""
    with Locked(beside):
        client.write(packet(payload, 0))
        waits(beside, client)
        with (beside.client if through else beside.direct)() as killer:
            assert killer.query(f"KILL QUERY {client.greeting.connection_id}")[4] == OK
        return client.note("interrupted", client.result())


BEFORE = {
    "autocommit": (),
    "a transaction": ("BEGIN",),
    "autocommit off": ("SET autocommit = 0",),
    "after warnings": ("SELECT 1/0", "SELECT 1 UNION SELECT 2"),
    "after a write": ("BEGIN", "INSERT INTO other VALUES (7)", "SAVEPOINT s"),
}
BEHIND = (
    "SHOW WARNINGS",
    "SHOW COUNT(*) ERRORS",
    "SELECT FOUND_ROWS()",
    "COMMIT",
    "SELECT id FROM other",
    "SET autocommit = 1",
)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("before", list(BEFORE))
@pytest.mark.parametrize("prepared", [False, True], ids=["text", "prepared"])
def test_as_mysql_is_interrupted(beside: Beside, before: str, kind: str, prepared: bool) -> None:
    transcripts = []
    for through in (False, True):
        with (beside.client if through else beside.direct)(capabilities=KINDS[kind]) as client:
            number = client.prepare(BY_ID.format("?")).id if prepared else 0
            if through:
                read_until_hit(beside, client, answer_of, client, ask(client, 1, number))
            client.transcript.clear()
            for statement in BEFORE[before]:
                client.query(statement)
            found = interrupted(beside, client, ask(client, 2, number), through=through)
            assert found[4:].startswith(INTERRUPTED), found
            for statement in BEHIND:
                client.query(statement)
            client.note("again", answer_of(client, ask(client, 2, number)))
            client.query("DELETE FROM other")
            transcripts.append(client.transcript)
    assert not list(differences(*transcripts))


def answer_of(client: RawClient, payload: bytes) -> bytes:
    client.write(packet(payload, 0))
    return client.result()


def test_others_that_wait_for_the_fill_go_on(beside: Beside) -> None:
    with beside.client() as victim, beside.client() as left, beside.client() as killer:
        for client in (victim, left):
            read_until_hit(beside, client, client.query, BY_ID.format(1))
        with Locked(beside):
            for client in (victim, left):
                client.write(packet(client.text(BY_ID.format(2)), 0))
                waits(beside, client)
            killer.query(f"KILL QUERY {victim.greeting.connection_id}")
            assert victim.result()[4:].startswith(INTERRUPTED)
        assert left.result()[4] == 2, "two columns"


def test_who_may_not_kill_interrupts_nothing(beside: Beside) -> None:
    beside.mysql.execute("CREATE USER stranger", f"GRANT SELECT ON {beside.proxy.database}.* TO stranger")
    try:
        with beside.client() as victim, beside.client(user="stranger") as stranger:
            read_until_hit(beside, victim, victim.query, BY_ID.format(1))
            with Locked(beside):
                victim.write(packet(victim.text(BY_ID.format(2)), 0))
                waits(beside, victim)
                assert stranger.query(f"KILL QUERY {victim.greeting.connection_id}")[4] == ERR
                assert stranger.query("KILL QUERY 999999999")[4] == ERR
                waits(beside, victim)
            assert victim.result()[4] == 2
    finally:
        beside.mysql.execute("DROP USER stranger")


def test_a_session_that_is_at_rest_is_not_interrupted_later(beside: Beside) -> None:
    with beside.client() as victim, beside.client() as killer:
        read_until_hit(beside, victim, victim.query, BY_ID.format(1))
        assert killer.query(f"KILL QUERY {victim.greeting.connection_id}")[4] == OK
        assert victim.query(BY_ID.format(3))[4] == 2


@pytest.mark.parametrize("how", ["session", "hint"])
def test_no_longer_than_max_execution_time(beside: Beside, how: str) -> None:
    text = BY_ID.format(2)
    if how == "hint":
        text = text.replace("SELECT", "SELECT /*+ MAX_EXECUTION_TIME(50) */")
    with beside.client() as client:
        if how == "session":
            client.query("SET SESSION max_execution_time = 50")
        else:
            assert client.query(f"CREATE CACHE limited FROM {text.replace('= 2', '= ?')}")[4] == 0
        read_until_hit(beside, client, client.query, text.replace("= 2", "= 1"))
        with Locked(beside):
            found = client.query(text)
            assert found[4:].startswith(TOO_LONG), found
        client.query("SET SESSION max_execution_time = 0")
        assert client.query(text)[4] == 2
