"""Executions that are answered without a look at anything but their last 8 bytes: what ends that, ends it in time.

Each test makes a statement hot first, and then does what makes bytes that are equal, or equal but for the key, mean
something else.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient, bound, bound_before
from integration.support.served import last_served, read_until_hit
from proxy.mysql.reads.bound_types import IN_PIECES
from proxy.mysql.session.quick_path import HOT
from proxy.mysql.session.session import Session
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, CLIENT_QUERY_ATTRIBUTES, ERR, lenenc, packet

DATABASE = "hot_hits"
LARGE = (5 << 32) + 7  # its first half is another key
TABLES = (
    "CREATE TABLE item (id BIGINT PRIMARY KEY, name VARCHAR(40))",
    "INSERT INTO item VALUES " + ", ".join(f"({n}, 'item {n}')" for n in range(20)),
    f"INSERT INTO item VALUES ({LARGE}, 'large')",
)
READ = "SELECT id, name FROM item WHERE id = ?"
LONG, LONGLONG, STRING = 3, 8, 0xFD
PATIENCE = 1_000  # rounds of reads
KINDS = [
    pytest.param(CLIENT_DEPRECATE_EOF, id="deprecate-eof"),
    pytest.param(0, id="eof"),
    pytest.param(CLIENT_DEPRECATE_EOF | CLIENT_QUERY_ATTRIBUTES, id="attributes"),
]


@pytest.fixture
def beside(mysql: Server, tmp_path: Path) -> Iterator[Beside]:
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *TABLES)
    with proxy_in_thread(mysql, DATABASE, Path(tmp_path)) as found:
        with found.client() as client:
            assert client.query("CREATE CACHE by_id FROM " + READ)[4] == 0
        found.at_rest()
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {DATABASE}")


def integer(value: int) -> bytes:
    return struct.pack("<q", value)


def again(client: RawClient, value: bytes) -> bytes:
    """The parameters of an execution that leaves the type out."""
    counted = b"\1" if client.attributes else b""
    return counted + bound_before((value,))


def first(client: RawClient, type_: int, value: bytes) -> bytes:
    """The parameters of an execution that tells the type."""
    if client.attributes:
        return b"\1\0\1" + struct.pack("<H", type_) + b"\0" + value
    return bound((type_,), (value,))


def session_of(beside: Beside) -> Session:
    (session,) = beside.shared.sessions
    assert isinstance(session, Session)
    return session


def hot_statement(beside: Beside, client: RawClient) -> int:
    """A statement whose executions are hot, also those that ask for keys 1 to 4."""
    statement = client.prepare(READ).id
    client.execute(statement, first(client, LONGLONG, integer(1)))
    for key in (1, 2, 3, 4):  # a fill may be late
        read_until_hit(beside, client, client.execute, statement, again(client, integer(key)))
    for _ in range(PATIENCE):  # what is filled again meanwhile is not hot
        for key in (1, 2, 3, 4):
            client.execute(statement, again(client, integer(key)))
        if beside.call(lambda: len(session_of(beside).quick.hot)) == 1:
            return statement
    raise AssertionError("no execution becomes hot")


def until(beside: Beside, condition: Callable[[Session], bool]) -> None:
    """Returns when it is so of the session, if there is one: the bytes sent so far have come by themselves."""
    beside.until(lambda: not beside.shared.sessions or condition(session_of(beside)))


def same_as_direct(beside: Beside, capabilities: int, script: Callable[[RawClient, int], bytes]) -> None:
    """`script`: of a client and its hot statement; its answer is MySQL's."""
    with beside.client(capabilities=capabilities) as client:
        found = script(client, hot_statement(beside, client))
    beside.at_rest()
    with beside.direct(capabilities=capabilities) as client:
        statement = client.prepare(READ).id
        client.execute(statement, first(client, LONGLONG, integer(1)))
        assert found == script(client, statement)


@pytest.mark.parametrize("capabilities", KINDS)
def test_a_hot_execution_is_answered_as_by_mysql(beside: Beside, capabilities: int) -> None:
    def script(client: RawClient, statement: int) -> bytes:
        return b"".join(client.execute(statement, again(client, integer(key))) for key in (1, 4, 2))

    same_as_direct(beside, capabilities, script)


@pytest.mark.parametrize("capabilities", KINDS)
def test_a_value_of_another_type_in_the_same_bytes(beside: Beside, capabilities: int) -> None:
    """b"\\7" and seven digits are a string, or a large integer."""

    def script(client: RawClient, statement: int) -> bytes:
        found = client.execute(statement, first(client, STRING, lenenc(b"0000003")))
        return found + client.execute(statement, again(client, lenenc(b"0000004")))

    same_as_direct(beside, capabilities, script)


def test_another_type_told_by_a_quick_hit(beside: Beside) -> None:
    def script(client: RawClient, statement: int) -> bytes:
        for type_, value in (LONG, integer(3)[:4]), (LONGLONG, integer(LARGE)):
            for _ in range(3):
                client.execute(statement, first(client, type_, value))
        client.execute(statement, again(client, integer(LARGE)))
        client.execute(statement, first(client, LONG, integer(3)[:4]))
        return client.execute(statement, again(client, integer(LARGE)))

    same_as_direct(beside, CLIENT_DEPRECATE_EOF, script)


@pytest.mark.parametrize("capabilities", KINDS)
def test_a_value_sent_in_pieces_before(beside: Beside, capabilities: int) -> None:
    def script(client: RawClient, statement: int) -> bytes:
        client.long_data(statement, 0, b"3")
        until(beside, lambda session: any(one.bound.turned == IN_PIECES for one in session.statements.values()))
        return client.execute(statement, again(client, integer(2)))

    same_as_direct(beside, capabilities, script)


@pytest.mark.parametrize("end", [RawClient.close_statement, RawClient.reset_statement])
def test_after_the_statement_has_ended(beside: Beside, end: Callable[[RawClient, int], object]) -> None:
    def script(client: RawClient, statement: int) -> bytes:
        end(client, statement)
        until(beside, lambda session: end is not RawClient.close_statement or not session.statements)
        return client.execute(statement, again(client, integer(2)))

    same_as_direct(beside, CLIENT_DEPRECATE_EOF, script)


def test_a_piece_of_a_command_that_looks_like_an_execution(beside: Beside) -> None:
    def script(client: RawClient, statement: int) -> bytes:
        inside = packet(client.execution(statement, again(client, integer(2))), 0)
        whole = packet(client.text(b"SELECT HEX('" + inside + b"')"), 0)
        at = whole.index(inside)
        client.write(whole[:at])
        until(beside, lambda session: session.relay.commands.held == at)
        client.write(whole[at : at + len(inside)])
        until(beside, lambda session: session.relay.commands.held > at)
        client.write(whole[at + len(inside) :])
        return client.result()

    same_as_direct(beside, CLIENT_DEPRECATE_EOF, script)


def test_a_change_of_the_row_is_seen(beside: Beside) -> None:
    with beside.client() as client:
        statement = hot_statement(beside, client)
        before = client.execute(statement, again(client, integer(2)))
        beside.mysql.execute(f"UPDATE {DATABASE}.item SET name = 'changed' WHERE id = 2")
        beside.caught_up()
        after = client.execute(statement, again(client, integer(2)))
    assert b"changed" in after
    assert b"changed" not in before


def test_a_dropped_cache_answers_no_more(beside: Beside) -> None:
    with beside.client() as client:
        statement = hot_statement(beside, client)
        with beside.client() as other:
            other.query("DROP CACHE by_id")
        passed = beside.shared.passed
        assert b"item 2" in client.execute(statement, again(client, integer(2)))
    assert beside.shared.passed == passed + 1


def test_a_right_that_is_gone_is_asked_for_again(beside: Beside) -> None:
    mysql = beside.mysql
    mysql.execute(
        "DROP USER IF EXISTS hot_reader",
        "CREATE USER hot_reader IDENTIFIED WITH caching_sha2_password BY ''",
        f"GRANT SELECT ON {DATABASE}.item TO hot_reader",
    )
    try:
        with beside.client(user="hot_reader") as client:
            statement = hot_statement(beside, client)
            mysql.execute(f"REVOKE SELECT ON {DATABASE}.item FROM hot_reader")
            beside.caught_up()
            assert client.execute(statement, again(client, integer(2)))[4] == ERR
    finally:
        mysql.execute("DROP USER hot_reader")


def asked(beside: Beside) -> int:
    """How often MySQL was asked to prepare a text, for the account's rights and the columns."""
    return beside.call(lambda: beside.proxy.app.engine.memory.counters["mysql_rights_asked"])


def test_nothing_is_asked_again_when_other_caches_come_and_go(beside: Beside) -> None:
    """Automatic caching makes many of them."""
    text = READ.replace("?", "{}").format
    with beside.client() as client:
        statement = hot_statement(beside, client)
        read_until_hit(beside, client, client.query, text(1))
        before = asked(beside)
        for other in ("CREATE CACHE other FROM SELECT id FROM item WHERE name = ?", "DROP CACHE other"):
            assert client.query(other)[4] != ERR
            client.query(text(2))
            assert last_served(beside, client) == "hit", "by a text with another literal"
            client.execute(statement, again(client, integer(3)))
            assert last_served(beside, client) == "hit"
        assert asked(beside) == before
        for again_ in ("DROP CACHE by_id", "CREATE CACHE by_id FROM " + READ):
            assert client.query(again_)[4] != ERR
        read_until_hit(beside, client, client.query, text(2))
        assert asked(beside) > before, "it is another cache"


def test_a_right_is_asked_for_again_after_a_time(beside: Beside) -> None:
    with beside.client() as client:
        statement = hot_statement(beside, client)
        before = asked(beside)
        listener = beside.proxy.app.mysql
        assert listener is not None
        listener._lapsed_at = float("-inf")
        beside.call(listener.tick)
        client.execute(statement, again(client, integer(2)))
        assert asked(beside) == before + 1


def test_an_own_write_is_seen_by_the_next_hot_execution(beside: Beside) -> None:
    with beside.client() as client:
        statement = hot_statement(beside, client)
        for number in range(20):
            client.query(f"UPDATE item SET name = 'own {number}' WHERE id = 2")
            assert b"own %d" % number in client.execute(statement, again(client, integer(2)))
            client.execute(statement, again(client, integer(2)))


def test_a_session_whose_state_differs_is_answered_by_mysql(beside: Beside) -> None:
    def script(client: RawClient, statement: int) -> bytes:
        client.query("SET sql_select_limit = 0")
        return client.execute(statement, again(client, integer(2)))

    same_as_direct(beside, CLIENT_DEPRECATE_EOF, script)


def test_the_position_of_a_hot_hit_is_told_when_it_has_moved_on(beside: Beside) -> None:
    with beside.client() as client:
        statement = hot_statement(beside, client)
        position = beside.call(beside.shared.position.text)
        client.execute(statement, again(client, integer(2)))
        beside.mysql.execute(*[f"UPDATE {DATABASE}.item SET name = 'n{n}' WHERE id = 3" for n in range(5)])
        beside.caught_up()
        assert beside.call(beside.shared.position.text) != position
        explained = client.query("EXPLAIN LAST STATEMENT")
    assert lenenc(position.replace("\n", "").encode()) in explained


def test_a_session_in_use_by_hot_hits_only_is_not_idle(beside: Beside) -> None:
    with beside.client() as client:
        statement = hot_statement(beside, client)
        session = session_of(beside)
        later = beside.shared.clock() + 1000
        client.execute(statement, again(client, integer(2)))
        beside.call(lambda: session.context.note_use(later))
        assert session.context.active_at == later
        beside.call(lambda: session.context.note_use(later + 1000))
        assert session.context.active_at == later


def test_as_many_ways_to_execute_as_a_client_likes_take_no_memory(beside: Beside) -> None:
    with beside.client() as client:
        statement = hot_statement(beside, client)
        for iterations in range(3 * HOT):
            payload = bytearray(client.execution(statement, again(client, integer(2))))
            payload[6:10] = struct.pack("<I", iterations)
            client.write(packet(bytes(payload), 0))
            assert b"item 2" in client.result()
        assert beside.call(lambda: len(session_of(beside).quick.hot)) <= HOT
