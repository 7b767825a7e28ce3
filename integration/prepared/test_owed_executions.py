"""Executions that hits have answered and MySQL is shown later: nobody finds them in the place of his own statement."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient, bound
from integration.support.served import last_served, read_until_hit
from proxy.mysql.session.session import Session
from proxy.mysql.wire.packets import ERR, lenenc, packet

LONGLONG, STRING, DOUBLE = 0x08, 0xFD, 0x05
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, n INT, s VARCHAR(20))",
    "INSERT INTO item VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c'), (4, 40, 'd')",
    "CREATE FUNCTION one() RETURNS INT DETERMINISTIC RETURN 1",
    "CREATE TABLE odd (id INT PRIMARY KEY, dt DATETIME, si SMALLINT)",
    "INSERT INTO odd VALUES (1, '2024-01-05', -5), (2, '2024-01-06', 5), (3, '2024-01-07', 5)",
    "CREATE TABLE wide (id INT PRIMARY KEY, n BIGINT UNSIGNED, d DATE)",
    "INSERT INTO wide VALUES (1, 18446744073709551615, '2024-01-05'), (2, 5, '2024-01-06'), (3, 7, '2024-01-07')",
)
BY_ID = "SELECT id, n FROM item WHERE id = ?"
BY_WORD = "SELECT id FROM item WHERE s = ?"
ALL = "SELECT id FROM item WHERE n > 15"
FORCED = f"/* upwell: force */ {BY_ID}"


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = f"t{os.getpid()}_owed"
    mysql.execute(f"CREATE DATABASE {database}", f"USE {database}", *TABLES)
    state = Path(tmp_path_factory.mktemp("state"))
    with proxy_in_thread(mysql, database, state, verify_new_caches="off") as found:
        with found.client() as client:
            for query in (BY_ID, BY_WORD, ALL):
                assert client.query(f"CREATE CACHE FROM {query}")[4] == 0
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE `{database}`")


def one(value: int = 1) -> bytes:
    return bound((LONGLONG,), (struct.pack("<q", value),))


def word(value: bytes) -> bytes:
    return bound((STRING,), (lenenc(value),))


@pytest.mark.parametrize(
    ("before", "asks"),
    [
        ("UPDATE item SET n = n + 1 WHERE id > 2", "SET @found = ROW_COUNT()"),
        ("UPDATE item SET n = n + 1 WHERE id > 2", "SELECT ROW_COUNT() + 0 * one() INTO @found"),
        (ALL, "SET @found = FOUND_ROWS()"),
        (ALL, "DO @found := FOUND_ROWS() * one()"),
        ("DROP TABLE IF EXISTS nowhere", "SET @found = @@warning_count"),
        ("DROP TABLE IF EXISTS nowhere", "GET DIAGNOSTICS @found = NUMBER"),
        ("SELECT nothing", "GET DIAGNOSTICS CONDITION 1 @found = MYSQL_ERRNO"),
    ],
)
def test_who_asks_about_his_last_statement_is_told_of_none_that_hits_have_left(
    beside: Beside, before: str, asks: str
) -> None:
    def script(client: RawClient, hit: bool) -> bytes:
        statement = client.prepare(BY_ID).id
        for _ in range(3):
            client.execute(statement, one())
        if hit:
            read_until_hit(beside, client, client.execute, statement, one())
            if before == ALL:
                read_until_hit(beside, client, client.query, ALL)
        client.execute(statement, one())
        client.query(before)
        client.query(asks)
        return client.query("SELECT @found") + client.execute(statement, one(2))[4:5]

    with beside.direct() as direct, beside.client() as client:
        assert script(client, True) == script(direct, False)


def test_a_transaction_s_own_isolation_is_left_to_it(beside: Beside) -> None:
    isolation = (
        "SELECT isolation_level INTO @level FROM performance_schema.events_transactions_current"
        " WHERE thread_id = PS_CURRENT_THREAD_ID()"
    )

    def script(client: RawClient, hit: bool) -> bytes:
        statement = client.prepare(BY_ID).id
        client.execute(statement, one())
        if hit:
            read_until_hit(beside, client, client.execute, statement, one())
        for sql in ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET sql_mode = @@sql_mode", "START TRANSACTION"):
            client.query(sql)
        client.query("SELECT n FROM item WHERE id = 1 FOR UPDATE")
        assert client.query(isolation)[4] == 0
        found = client.query("SELECT @level")
        client.query("COMMIT")
        return found

    with beside.direct() as direct, beside.client() as client:
        assert script(client, True) == script(direct, False)


def test_a_large_piece_of_a_value_for_a_statement_that_hits_have_answered(beside: Beside) -> None:
    with beside.client() as client, beside.direct() as direct:
        for session in (direct, client):
            statement = session.prepare(BY_WORD).id
            session.execute(statement, word(b"a"))
            if session is client:
                read_until_hit(beside, client, client.execute, statement, word(b"a"))
            session.long_data(statement, 0, b"b" * 3_000_000)
            session.long_data(statement, 0, b"b" * 300)
            session.execute(statement, bound((STRING,), ()))
            session.execute(statement, word(b"b"))
        assert client.transcript[-2:] == direct.transcript[-2:]


def test_a_large_piece_is_followed_by_a_change_of_the_account(beside: Beside) -> None:
    with beside.client() as client:
        statement = client.prepare(BY_WORD).id
        client.execute(statement, word(b"a"))
        read_until_hit(beside, client, client.execute, statement, word(b"a"))
        change = b"\x11root\0\0" + beside.proxy.database.encode() + b"\0" + b"\xff\0" + b"caching_sha2_password\0"
        piece = packet(b"\x18" + struct.pack("<IH", statement, 0) + b"b", 0)
        client.write(piece + packet(change, 0))
        found = client.authenticated()
        if found[4] == 0xFE:  # MySQL names the plugin again
            client.write(packet(b"", found[3] + 1))
            found = client.authenticated()
        assert found[4] == 0
        assert client.query("SELECT 1")[4] == 1


def test_what_must_be_a_hit_or_an_error_is_not_an_error_for_ever(beside: Beside) -> None:
    """As types come in turns the statement is MySQL's; a new one is not."""
    with beside.client() as client:
        statement = client.prepare(FORCED).id
        kinds: tuple[Callable[[], bytes], ...] = (
            one,
            lambda: word(b"1"),
            lambda: bound((DOUBLE,), (struct.pack("<d", 1),)),
        )
        for turn in range(60):
            client.execute(statement, kinds[turn % 3]())
        (session,) = beside.shared.sessions
        assert isinstance(session, Session)
        for each in session.statements.values():
            beside.call(each.bound.check_invariants)
        client.query("SET NAMES utf8mb4")
        plain = client.prepare(FORCED).id
        assert client.execute(plain, one())[4] != ERR


@pytest.mark.parametrize("begin", ["SET autocommit = 0", "BEGIN"])
def test_it_opens_no_snapshot_that_the_client_has_not(beside: Beside, begin: str) -> None:
    """Behind a changed variable MySQL is shown nothing, where that would begin the transaction's reads."""
    database = beside.proxy.database
    change = "UPDATE item SET n = n + 1000 WHERE id = 4"
    with beside.client() as client:
        read_until_hit(beside, client, client.execute, client.prepare(BY_ID).id, one(4))
    found = {}
    for name, make in (("direct", beside.direct), ("through", beside.client)):
        beside.mysql.execute(f"USE {database}", "UPDATE item SET n = 40 WHERE id = 4")
        beside.caught_up()
        with make() as client:
            client.execute(client.prepare(BY_ID).id, one(4))
            assert name == "direct" or last_served(beside, client).startswith(("hit", "miss"))
            client.query(begin)
            told = client.query("SET default_week_format = 1")
            beside.mysql.execute(f"USE {database}", change)
            beside.caught_up()
            found[name] = told, client.query("SELECT n FROM item WHERE id = 4")
    assert found["through"] == found["direct"]
    beside.mysql.execute(f"USE {database}", "UPDATE item SET n = 40 WHERE id = 4")


BETWEEN = "SELECT id FROM wide WHERE n >= ? AND n < ? ORDER BY id"
OF_DAYS = "SELECT id FROM wide WHERE d IN (?, ?) ORDER BY id"


@pytest.mark.parametrize(
    ("query", "hits", "others"),
    [
        (BETWEEN, [(2.0, b"6"), (2.0, b"8")], [(0.0, b"a"), (0.0, b"18446744073709551615")]),
        (BETWEEN, [(2.0, b"6")], [(2.0, b""), (2.0, b"18446744073709551615"), (2.0, b"5.5")]),
        (OF_DAYS, [(b"2024-01-05", b"2024-01-06")], [(b"0", b"5 ")]),
        (OF_DAYS, [(b"2024-01-05", b"2024-01-06"), (b"2024-01-06", b"2024-01-07")], [(b"0", b"5 ")]),
    ],
)
def test_a_string_that_mysql_cannot_convert_is_compared_as_those_before_were(
    beside: Beside, query: str, hits: list[tuple[bytes | float, ...]], others: list[tuple[bytes | float, ...]]
) -> None:
    """By the first value MySQL resolves the statement, and where it cannot convert one it uses that of the last."""

    def execute(client: RawClient, statement: int, values: tuple[bytes | float, ...]) -> bytes:
        types = [DOUBLE if isinstance(value, float) else STRING for value in values]
        given = [struct.pack("<d", value) if isinstance(value, float) else lenenc(value) for value in values]
        return client.execute(statement, bound(types, given))

    found = []
    with beside.direct() as direct, beside.client() as client:
        client.query(f"CREATE CACHE IF NOT EXISTS FROM {query}")
        for values in hits:
            read_until_hit(beside, client, execute, client, client.prepare(query).id, values)
        for session in (direct, client):
            statement = session.prepare(query).id
            for values in hits:
                execute(session, statement, values)
                assert session is direct or last_served(beside, client).startswith("hit")
            found.append([execute(session, statement, values) for values in others])
    assert found[0] == found[1]


@pytest.mark.parametrize(("odd", "plain"), [("5 ", "-5"), (" 5", "5"), ("5e0", "5"), ("+5", "5"), ("05", "5")])
def test_a_string_in_an_odd_form_is_seen_by_mysql(beside: Beside, odd: str, plain: str) -> None:
    query = "SELECT id FROM odd WHERE id > 0 AND dt = ? AND si = ?"
    first, second = ("2024-01-06", odd), ("2024-01-05 00:00:00", plain)
    with beside.direct() as direct, beside.client() as client:
        client.query(f"CREATE CACHE IF NOT EXISTS FROM {query}")
        for sequence in ((first, second, first, ("0", "-1")), (second, second, first, ("0", "-1"), second)):
            for _ in range(4):
                one_direct, through = direct.prepare(query).id, client.prepare(query).id
                for values in sequence:
                    given = bound([STRING] * 2, [lenenc(value.encode()) for value in values])
                    answer = client.execute(through, given)
                    assert answer == direct.execute(one_direct, given), (sequence, values, last_served(beside, client))


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "SELECT 1", "SET autocommit = 1"])
@pytest.mark.parametrize("begin", ["SET autocommit = 0", "BEGIN", "SET SESSION completion_type = 'CHAIN'"])
def test_a_piece_begins_no_transaction_that_the_client_has_not(beside: Beside, begin: str, end: str) -> None:
    """MySQL is shown the hits before a piece of a value, and the flags of what follows are those of its client."""

    def script(client: RawClient, hit: bool) -> list[bytes]:
        statement = client.prepare(BY_WORD).id
        client.query(begin)
        client.execute(statement, word(b"a"))
        if hit:
            read_until_hit(beside, client, client.execute, statement, word(b"a"))
        found = [client.query(end)]
        client.long_data(statement, 0, b"b")
        found += [client.query("SELECT 1"), client.query("SELECT 2")]
        found.append(client.execute(statement, bound((STRING,), ())))
        found += [client.query("SELECT 3"), client.query("COMMIT"), client.query("SELECT 4")]
        return found

    with beside.client() as client:  # so that the first read in the transaction is one
        read_until_hit(beside, client, client.execute, client.prepare(BY_WORD).id, word(b"a"))
    with beside.direct() as direct, beside.client() as client:
        assert script(client, True) == script(direct, False)


CHANGE = "UPDATE item SET n = n WHERE id = ?"
LATER = ("READ ONLY", "ISOLATION LEVEL READ COMMITTED, READ ONLY")


@pytest.mark.parametrize("autocommit", [1, 0])
@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("what", ["a piece", "an execution"])
@pytest.mark.parametrize(
    "values", [[one(), one(2)], [word(b"2"), one()], [one(), word(b"1"), word(b"2")]], ids=["one", "two", "three"]
)
def test_what_the_next_transaction_is_to_be_is_left_to_it(
    beside: Beside, values: list[bytes], what: str, later: str, autocommit: int
) -> None:
    found = []
    with beside.client() as client:
        for value in (1, 2):
            read_until_hit(beside, client, client.execute, client.prepare(BY_ID).id, one(value))
    for make in (beside.direct, beside.client):
        with make() as client:
            client.query(f"SET autocommit = {autocommit}")
            statement, change = client.prepare(BY_ID).id, client.prepare(CHANGE).id
            for _ in range(3):
                for each in values:
                    client.execute(statement, each)
            client.query("COMMIT")
            client.query(f"SET TRANSACTION {later}")
            if what == "a piece":
                client.long_data(statement, 0, b"1")
            else:
                client.execute(statement, word(b"no number"))
            found.append([client.execute(change, one()), client.query("ROLLBACK"), client.execute(change, one())])
            client.query("ROLLBACK")
    assert found[0] == found[1]
