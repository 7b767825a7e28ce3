"""MySQL goes away and comes back, or ends single sessions: what is in memory is told for as long as was promised, what
is not ends the session, and nothing is left of it."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from integration.conftest import OwnMySQL
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import Ended, RawClient, bound, bound_before
from integration.support.same_bytes import same
from integration.support.served import last_served, read_until_hit
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, packet, parse_error

TABLES = ("CREATE TABLE item (id INT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO item VALUES (1, 10), (2, 20)")
BY_ID = "SELECT id, n FROM item WHERE id = {}"
KEY = bound((8,), (struct.pack("<q", 1),))
STALENESS = 8.0  # seconds: on a busy machine what is asked before takes some
PAUSE = 0.01  # seconds between hits that go on for long: more would only keep the processor from others


def filled(server: Server, database: str = "d") -> None:
    server.execute(f"CREATE DATABASE {database}", f"USE {database}", *TABLES)


def reader(beside: Beside) -> tuple[RawClient, int]:
    """A client whose cached reads are hits, as texts and prepared, and its statement."""
    client = beside.client()
    statement = client.prepare(BY_ID.format("?"))
    read_until_hit(beside, client, client.query, BY_ID.format(1))
    read_until_hit(beside, client, client.execute, statement.id, KEY)
    return client, statement.id


def new_login_is_refused(beside: Beside) -> None:
    with pytest.raises(ConnectionRefusedError) as refused:
        beside.client()
    told = parse_error(refused.value.args[0])
    assert told.errno == 1053, "a number of the client library's own is malformed in an error packet"
    assert told.message == f"Can't connect to MySQL server on '127.0.0.1:{beside.mysql.port}' (111)"


def test_mysql_dies_and_comes_back(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    mysql = own_mysql()
    filled(mysql)
    with proxy_in_thread(mysql, "d", tmp_path, max_staleness=f"{STALENESS}s") as beside:
        with beside.client() as maker:
            assert maker.query(f"CREATE CACHE by_id FROM {BY_ID.format('?')}")[4] == 0
        hitting, statement = reader(beside)
        pinging, _ = reader(beside)
        pause = threading.Event()
        wanted = [data for step, data in hitting.transcript if step == BY_ID.format(1)][-1]
        gone_at = asked_something(beside)
        beside.until(lambda: len(beside.shared.sessions.orphans) == 2)
        assert hitting.query(BY_ID.format(1)) == wanted
        hitting.execute(statement, bound_before((struct.pack("<q", 1),)))
        assert pinging.ping()[4] == 0
        new_login_is_refused(beside)
        with pytest.raises(Ended):
            while True:
                assert hitting.query(BY_ID.format(1)) == wanted
                pause.wait(PAUSE)
        assert monotonic() - gone_at > STALENESS * 0.6, "hits ended too early"
        assert pinging.ping()[4] == 0, "it asks for nothing that nobody knows"
        hitting.close()
        beside.until(lambda: len(beside.shared.sessions.orphans) == 1 and not beside.shared.sessions.closing)

        mysql.start()
        assert pinging.at_end(), "MySQL knows nothing of this session any more"
        pinging.close()
        beside.at_rest()
        client, _ = reader(beside)
        client.close()
        beside.at_rest()


def asked_something(beside: Beside) -> float:
    """MySQL dies under sessions that want something of it, then or later; when that was."""
    passing, _ = reader(beside)
    writing, _ = reader(beside)
    preparing, prepared = reader(beside)
    writing.query("BEGIN")
    writing.query("UPDATE item SET n = n + 1 WHERE id = 2")
    waiting = beside.client()
    waiting.write(packet(waiting.text("SELECT SLEEP(100)"), 0))
    gone_at = monotonic()
    beside.mysql.kill()
    beside.until(lambda: not beside.proxy.app.stream.connected)
    assert waiting.at_end()
    for client, sql in ((passing, "SELECT 1"), (writing, BY_ID.format(1))):
        client.write(packet(client.text(sql), 0))
        assert client.at_end(), "the session is over: drivers call that 2013"
    preparing.write(packet(preparing.execution(prepared, bound_before((struct.pack("<q", 2),))), 0))
    assert preparing.at_end(), "a hole, and nobody to fill it"
    for client in (waiting, passing, writing, preparing):
        client.close()
    return gone_at


def test_mysql_shuts_down_and_comes_back(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    """It ends its sessions before the change stream; they keep their hits all the same."""
    mysql = own_mysql()
    filled(mysql)
    with proxy_in_thread(mysql, "d", tmp_path, max_staleness="60s") as beside:
        with beside.client() as maker:
            assert maker.query(f"CREATE CACHE by_id FROM {BY_ID.format('?')}")[4] == 0
        hitting, _ = reader(beside)
        mysql.halt()
        beside.until(lambda: len(beside.shared.sessions.orphans) == 1)
        hitting.query(BY_ID.format(1))
        assert last_served(beside) == "hit"
        mysql.start()
        assert hitting.at_end()
        hitting.close()
        beside.at_rest()


# -- single sessions ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = "session_ends"
    mysql.execute(f"DROP DATABASE IF EXISTS {database}")
    filled(mysql, database)
    with proxy_in_thread(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            assert client.query(f"CREATE CACHE by_id FROM {BY_ID.format('?')}")[4] == 0
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {database}")


KINDS = [("deprecate-eof", CLIENT_DEPRECATE_EOF), ("plain", 0)]


def number(client: RawClient) -> int:
    """Of the session at MySQL."""
    return client.greeting.connection_id


def test_an_administrator_ends_a_session(beside: Beside) -> None:
    def idle(client: RawClient) -> None:
        client.query(BY_ID.format(1))
        beside.mysql.execute(f"KILL {number(client)}")
        client.note("ended", bytes([client.at_end()]))

    def in_a_statement(client: RawClient) -> None:
        client.write(packet(client.text("SELECT SLEEP(100)"), 0))
        while not beside.mysql.execute(f"SELECT 1 FROM information_schema.processlist WHERE id = {number(client)}"
                                       " AND info LIKE '%SLEEP%'"):  # fmt: skip
            pass
        beside.mysql.execute(f"KILL {number(client)}")
        client.note("ended", bytes([client.at_end()]))

    def a_statement_only(client: RawClient) -> None:
        client.write(packet(client.text("SELECT SLEEP(100)"), 0))
        while not beside.mysql.execute(f"SELECT 1 FROM information_schema.processlist WHERE id = {number(client)}"
                                       " AND info LIKE '%SLEEP%'"):  # fmt: skip
            pass
        beside.mysql.execute(f"KILL QUERY {number(client)}")
        client.note("interrupted", client.result())
        client.query("SELECT 1")

    for script in (idle, in_a_statement, a_statement_only):
        same(beside, script, KINDS)


def test_a_session_that_lived_by_hits_is_ended_too(beside: Beside) -> None:
    client, _ = reader(beside)
    beside.mysql.execute(f"KILL {number(client)}")
    assert client.at_end()
    client.close()


def test_an_idle_client_is_told_why_mysql_ends_its_session(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        client.query("SET wait_timeout = 1")
        client.query(BY_ID.format(1))
        client.note("farewell", client.packet())
        client.note("ended", bytes([client.at_end()]))

    same(beside, script, KINDS[:1])


def test_a_session_that_lives_by_its_hits_lives(beside: Beside) -> None:
    """Longer than MySQL would let it be silent."""
    client, statement = reader(beside)
    client.query("SET wait_timeout = 2")
    started, pause = monotonic(), threading.Event()
    while monotonic() - started < 3.5:
        pause.wait(PAUSE)
        client.query(BY_ID.format(1))
        client.execute(statement, bound_before((struct.pack("<q", 1),)))
    assert last_served(beside) == "hit"
    assert client.query("SELECT 1")[4] == 1
    client.close()
