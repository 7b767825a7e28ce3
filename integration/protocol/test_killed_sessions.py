"""MySQL ends the session of a client: the client learns it as it would at MySQL, and is given no hit behind it.

What says so is MySQL itself: an administrator's KILL is over when it has closed the session's socket.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import START, Beside, proxy_in_thread
from integration.support.raw_client import RawClient, bound, bound_before
from integration.support.same_bytes import differences
from integration.support.served import last_served, read_until_hit
from proxy.mysql.session.open_sessions import Member
from proxy.mysql.wire.packets import packet

BY_ID = "SELECT id, n FROM item WHERE id = {}"
KEY = bound((8,), (struct.pack("<q", 1),))
HOT = bound_before((struct.pack("<q", 1),))
WAYS_TO_MYSQL = {"plain": "disabled", "tls": "required"}


@pytest.fixture(scope="module", params=WAYS_TO_MYSQL)
def beside(mysql: Server, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """With and without TLS to MySQL, which hides the end of the connection one layer below."""
    database = f"killed_{request.param}"
    mysql.execute(
        f"DROP DATABASE IF EXISTS {database}",
        f"CREATE DATABASE {database}",
        f"USE {database}",
        "CREATE TABLE item (id INT PRIMARY KEY, n INT NOT NULL, KEY (n))",
        "INSERT INTO item VALUES (1, 10), (2, 20)",
    )
    state = Path(tmp_path_factory.mktemp("state"))
    upstream = f"{mysql.url}?tls={WAYS_TO_MYSQL[request.param]}"
    with proxy_in_thread(mysql, database, state, upstream=upstream) as found:
        with found.client() as client:
            assert client.query(f"CREATE CACHE by_id FROM {BY_ID.format('?')}")[4] == 0
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {database}")


def reader(beside: Beside) -> tuple[RawClient, int]:
    """A client whose cached reads are hits, as texts and prepared, and its statement."""
    client = beside.client()
    statement = client.prepare(BY_ID.format("?"))
    read_until_hit(beside, client, client.query, BY_ID.format(1))
    read_until_hit(beside, client, client.execute, statement.id, KEY)
    client.execute(statement.id, HOT)  # from here on by the shortest way
    client.execute(statement.id, HOT)
    return client, statement.id


def session_of(beside: Beside, client: RawClient) -> Member:
    return next(one for one in beside.shared.sessions if one.connection_id == client.greeting.connection_id)


class Held:
    """Keeps the proxy's loop from looking at its sockets: what comes meanwhile, it sees in one turn."""

    def __init__(self, beside: Beside) -> None:
        self._held, self._go = threading.Event(), threading.Event()
        beside.loop.call_soon_threadsafe(self._hold)
        assert self._held.wait(START)

    def _hold(self) -> None:
        self._held.set()
        self._go.wait(START)

    def release(self) -> None:
        self._go.set()


def kill(beside: Beside, client: RawClient) -> None:
    beside.mysql.execute(f"KILL {client.greeting.connection_id}")


WAYS: dict[str, Callable[[RawClient, int], bytes]] = {
    "text": lambda client, _: client.text(BY_ID.format(1)),
    "hot execution": lambda client, statement: client.execution(statement, HOT),
    "execution": lambda client, statement: client.execution(statement, KEY),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_hit_follows_a_kill(beside: Beside, way: str) -> None:
    """The KILL is over, and then the client asks: the proxy finds both in the same turn of its loop."""
    client, statement = reader(beside)
    held = Held(beside)
    kill(beside, client)
    client.write(packet(WAYS[way](client, statement), 0))
    held.release()
    assert client.at_end(), "a hit on a session that MySQL has ended"
    client.close()


def test_what_a_killed_session_waits_for_is_not_answered(beside: Beside) -> None:
    """A miss is under way elsewhere; the session's own connection, which is idle meanwhile, is ended."""
    client, _ = reader(beside)
    session = session_of(beside, client)
    with beside.direct() as lock:
        for number in range(2, 20):
            lock.query("LOCK TABLES item WRITE")  # the fill waits for it
            client.write(packet(client.text(BY_ID.format(number)), 0))
            beside.until(lambda: session.relay.task is not None or bool(session.relay.server.responses.exchanges))
            if beside.call(lambda: not session.relay.server.responses.exchanges):
                break
            lock.query("UNLOCK TABLES")  # MySQL was asked by the session itself, as it may be
            client.result()
        held = Held(beside)
        kill(beside, client)
        lock.query("UNLOCK TABLES")
        held.release()
        assert client.at_end(), "answered, though MySQL has ended the session"
    client.close()


TRANSACTIONS = {
    "of hits": ("BEGIN", BY_ID.format(1)),
    "autocommit off": ("SET autocommit = 0", BY_ID.format(1)),
    "read at MySQL": ("BEGIN", "SELECT COUNT(*) FROM item", BY_ID.format(1)),
    "written": ("BEGIN", BY_ID.format(1), "UPDATE item SET n = 99 WHERE id = 1", BY_ID.format(1)),
    "read committed": ("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "BEGIN", BY_ID.format(1)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("transaction", TRANSACTIONS)
def test_a_transaction_that_is_killed_is_over(beside: Beside, transaction: str, way: str) -> None:
    """It gets no hit either, and what it has written is no more, for hits of others, too."""
    client, statement = reader(beside)
    for text in TRANSACTIONS[transaction]:
        client.query(text)
    held = Held(beside)
    kill(beside, client)
    client.write(packet(WAYS[way](client, statement), 0))
    held.release()
    assert client.at_end(), "a hit in a transaction that MySQL has ended"
    client.close()
    with beside.client() as other:
        found = read_until_hit(beside, other, other.query, BY_ID.format(1))[-1]
        assert b"\x0210" in found, "10, as it was before"


def test_a_kill_of_the_statement_alone_ends_no_session_that_has_none(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        client.query(BY_ID.format(1))
        beside.mysql.execute(f"KILL QUERY {client.greeting.connection_id}")
        client.query(BY_ID.format(1))
        client.query("SELECT n + 1 FROM item ORDER BY id")

    with beside.direct() as client:
        script(client)
        wanted = client.transcript
    with beside.client() as client:
        script(client)
        assert not list(differences(wanted, client.transcript))


def test_the_words_of_a_timeout_are_the_last_ones(beside: Beside) -> None:
    """MySQL says why it ends the session, and closes; a command that comes behind that is answered by nothing else."""
    client, _ = reader(beside)
    client.query("SET wait_timeout = 1")
    session = session_of(beside, client)
    beside.until(lambda: session.relay.closed)
    client.write(packet(client.text(BY_ID.format(1)), 0))
    told = client.packet()
    assert told[3:7] == b"\0\xff" + (4031).to_bytes(2, "little")
    assert client.at_end()
    client.close()


def test_sessions_that_are_left_alone_go_on(beside: Beside) -> None:
    ended, _ = reader(beside)
    left, statement = reader(beside)
    kill(beside, ended)
    assert ended.at_end()
    left.execute(statement, HOT)
    left.query(BY_ID.format(1))
    assert last_served(beside) == "hit"
    left.close()
    ended.close()
