"""Settings under which MySQL reads a text, computes, converts or announces otherwise: what a session is answered is
byte for byte what MySQL answers a session that has done the same."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from integration.protocol.test_hits_same_bytes import comparable, without
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient, bound
from integration.support.served import last_served, read_until_hit
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS

DATABASE = "settings_that_change_answers"
DATES = "NO_ZERO_DATE,NO_ZERO_IN_DATE"
TABLES = (
    "CREATE TABLE a (id INT PRIMARY KEY, s VARCHAR(20), f VARCHAR(20), dt DATETIME, ut VARCHAR(9) CHARACTER SET utf16,"
    " c CHAR(9), x DECIMAL(20, 8), doc JSON, pat VARCHAR(20), t VARCHAR(20), at TIMESTAMP,"
    " v INT AS (LENGTH(c)) VIRTUAL, vd DATE AS (STR_TO_DATE(t, '%Y-%m-%d')) VIRTUAL, KEY (s))",
    "SET sql_mode = ''",
    "INSERT INTO a (id, s, f, dt, ut, c, x, doc, pat, t, at) VALUES"
    " (1, 'b', '%Y年', '2024-01-02', 'abc', 'ab', 1.9999999, '[\"a_b\"]', 'a\\\\_b', '0000-00-00', '2024-01-01'),"
    " (2, '😀', 'é%m', '2024-01-02', 'b', 'c', 1, '[]', '', '2024-00-10', '2024-01-01'),"
    " (4, 'x\"y', '', '2024-01-02', 'c', 'c', 2, '[]', '', '2024-01-01', '2024-01-01')",
    "SET sql_mode = 'ALLOW_INVALID_DATES'",
    "CREATE TABLE z (id INT PRIMARY KEY, k INT, d DATE)",
    "INSERT INTO z VALUES (1, 1, '2024-00-10'), (2, 1, '2024-02-31'), (3, 1, '0000-00-00'), (4, 1, '2024-01-01')",
)
PLAIN = "SELECT id, s FROM a WHERE id = 1"
QUOTED = 'SELECT id, s FROM a WHERE s = "b"'
ESCAPED = "SELECT id, s FROM a WHERE s = 'x\\\"y'"
MOMENT = "SELECT id, at FROM a WHERE id = 1"


@dataclass(frozen=True)
class Case:
    """What a session does, and what it asks then. `caches`: where they are not the same texts."""

    name: str
    settings: tuple[str, ...]
    texts: tuple[str, ...]
    caches: tuple[str, ...] = ()


def of_a(*expressions: str) -> tuple[str, ...]:
    return tuple(f"SELECT id, {each} FROM a WHERE id = 1" for each in expressions)


CASES = (
    Case("a status flag tells of escapes", (f"SET sql_mode = 'NO_BACKSLASH_ESCAPES,{DATES}'",), (PLAIN,)),
    Case(
        "double quotes behind two dashes",
        (f"SET sql_mode = 'ANSI_QUOTES,{DATES}'",),
        ('SELECT id, s FROM a WHERE s = --\n "b"', 'SELECT id, s FROM a --\x01 "\n WHERE s = \'x"y\' --\x01 "'),
        (QUOTED,),
    ),
    Case(
        "names of expressions with double quotes",
        (f"SET sql_mode = 'ANSI_QUOTES,{DATES}'",),
        ("SELECT id, CONCAT(`s`, 'x') FROM a WHERE id = 1", "SELECT id, CONCAT(\"s\", 'x') FROM a WHERE id = 1"),
        ("SELECT id, CONCAT(`s`, 'x') FROM a WHERE id = 1",),
    ),
    *(
        Case(f"a SET that fails behind its first: {fails}", (f"SET {sets}, {fails}",), texts)
        for fails in ("GLOBAL gtid_mode = OFF", "gtid_next = 'x'")
        for sets, texts in (
            ("sql_mode = 'ANSI_QUOTES'", (QUOTED,)),
            ("sql_mode = 'NO_BACKSLASH_ESCAPES'", (ESCAPED, PLAIN)),
            ("time_zone = '+05:00'", (MOMENT,)),
            ("sql_select_limit = 0", (PLAIN,)),
            ("character_set_results = utf16", (PLAIN,)),
            ("character_set_client = ascii", ("SELECT id, s FROM a WHERE s = '😀'",)),
        )
    ),
    *(
        Case(f"columns of utf16, results {name}", (f"SET character_set_results = {name}",), of_a("ut"))
        for name in ("NULL", "binary", "latin1")
    ),
    Case("virtual columns, padded", (f"SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH,{DATES}'",), of_a("v", "c")),
    Case("virtual columns, zero dates", ("SET sql_mode = ''",), of_a("vd")),
    Case(
        "zero dates computed with",
        ("SET sql_mode = ''",),
        (
            "SELECT id, DATE(d) FROM z WHERE id = 1",
            "SELECT COUNT(DISTINCT d) FROM z WHERE k = 1",
            "SELECT GROUP_CONCAT(d) FROM z WHERE k = 1",
            "SELECT d, COUNT(*) FROM z WHERE k = 1 GROUP BY d",
        ),
    ),
    Case(
        "fractions of numbers, truncated",
        (f"SET sql_mode = 'TIME_TRUNCATE_FRACTIONAL,{DATES}'",),
        of_a("SEC_TO_TIME(x)", "MICROSECOND(x)", "FROM_UNIXTIME(x)", "MAKETIME(1, 2, x)"),
    ),
    Case(
        "patterns without escapes",
        (f"SET sql_mode = 'NO_BACKSLASH_ESCAPES,{DATES}'",),
        of_a("JSON_SEARCH(doc, 'all', pat)", "s LIKE pat"),
    ),
    *(
        Case(
            f"what the connection's set lacks: {name}",
            (f"SET character_set_connection = {name}",),
            of_a("DATE_FORMAT(dt, f)", "BIT_COUNT('a')", "ut = 'ABC'", "CAST(s AS CHAR)", "CONVERT(s, CHAR(3))"),
        )
        for name in ("latin1", "binary", "utf8mb3")
    ),
)
KINDS = {"OK at the end": CLIENT_DEPRECATE_EOF | CLIENT_MULTI_STATEMENTS, "EOF": CLIENT_MULTI_STATEMENTS}


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *TABLES)
    caches = dict.fromkeys(sql for case in CASES for sql in (case.caches or case.texts))
    with proxy_in_thread(mysql, DATABASE, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            for sql in (*caches, QUOTED):
                client.query(f"CREATE CACHE FROM {sql}")  # some are not supported: MySQL answers them, whatever is set
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {DATABASE}")


@pytest.fixture(scope="module")
def other(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """With a database whose name is not ASCII."""
    name = f"{DATABASE}_é"
    mysql.execute(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}", f"USE {name}", *TABLES)
    with proxy_in_thread(mysql, name, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            assert client.query(f"CREATE CACHE FROM {PLAIN}")[4] == 0
        yield found
    mysql.execute(f"DROP DATABASE {name}")


@contextmanager
def both(beside: Beside, kind: str) -> Iterator[tuple[RawClient, RawClient]]:
    with beside.direct(capabilities=KINDS[kind]) as direct, beside.client(capabilities=KINDS[kind]) as through:
        yield direct, through


def shown(client: RawClient, answer: bytes) -> object:
    """An answer without the number of warnings, of which a hit has none."""
    found = comparable(client, answer)
    if not isinstance(found, tuple):
        return found
    head, rows, end = found
    if client.eof:
        head = [*head[:-1], without(head[-1], 5, 0xFFFF)]
    return head, rows, without(end, 5 if client.eof else 9, 0xFFFF)


def alike(pair: Sequence[RawClient], sql: str, *, times: int = 4) -> None:
    """A text is answered alike, at once and again."""
    direct, through = pair
    for _ in range(times):
        assert shown(through, through.query(sql)) == shown(direct, direct.query(sql)), sql


def do(pair: Sequence[RawClient], *statements: str) -> None:
    for statement in statements:
        assert pair[0].query(statement)[4] == pair[1].query(statement)[4], statement


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answers_are_mysqls(beside: Beside, case: Case, kind: str) -> None:
    with both(beside, kind) as pair:
        for sql in case.caches or case.texts:
            alike(pair, sql)
        do(pair, *case.settings)
        for sql in case.texts:
            alike(pair, sql)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("sql", [QUOTED, ESCAPED])
@pytest.mark.parametrize(
    "statement", ["SET NAMES utf8mb4", "SELECT nothing FROM a", "SET sql_mode = 'x'", "CALL nothing()"]
)
def test_quotes_and_escapes_are_hits_behind_what_leaves_the_mode(
    beside: Beside, statement: str, sql: str, kind: str
) -> None:
    with both(beside, kind) as pair:
        read_until_hit(beside, pair[1], pair[1].query, sql)
        do(pair, statement)
        read_until_hit(beside, pair[1], pair[1].query, sql)
        alike(pair, sql)


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_statement_is_read_again_by_the_mode_of_then(beside: Beside, mysql: Server, kind: str) -> None:
    """MySQL prepares a statement again when a table has changed, by the mode of the execution."""
    sql = 'SELECT id, "s" FROM a WHERE id = ?'
    given = bound((8,), [struct.pack("<q", 1)])
    with both(beside, kind) as pair:
        pair[1].query(f"CREATE CACHE FROM {sql}")
        ids = [client.prepare(sql).id for client in pair]
        read_until_hit(beside, pair[1], pair[1].execute, ids[1], given)
        pair[0].execute(ids[0], given)
        do(pair, "SET sql_mode = 'ANSI_QUOTES'")
        mysql.execute(f"ALTER TABLE {DATABASE}.a COMMENT = 'changed {kind}'")
        executed(pair, ids, given)
        do(pair, "SET sql_mode = DEFAULT")
        for _ in range(4):
            executed(pair, ids, given)


def executed(pair: Sequence[RawClient], ids: Sequence[int], given: bytes) -> None:
    found = [shown(client, client.execute(id_, given)) for client, id_ in zip(pair, ids, strict=True)]
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("results", ["latin1", "utf16", "utf32", "ucs2", "binary", "NULL"])
def test_what_a_session_is_like_is_read_whatever_its_results_are(other: Beside, results: str, kind: str) -> None:
    """The names of its database and account among it."""
    with both(other, kind) as pair:
        do(pair, f"SET character_set_results = {results}", "CALL nothing()")
        alike(pair, PLAIN)
        do(pair, "SET NAMES utf8mb4")
        read_until_hit(other, pair[1], pair[1].query, PLAIN)


def test_an_unknown_mode_is_asked_for_once(beside: Beside) -> None:
    """Behind a failed SET the first read asks what the session is like; the next ones are hits again."""
    with both(beside, "OK at the end") as pair:
        read_until_hit(beside, pair[1], pair[1].query, QUOTED)
        do(pair, "SET time_zone = '+00:00', gtid_next = 'x'")
        alike(pair, QUOTED)
        assert last_served(beside, pair[1]).startswith("hit")
