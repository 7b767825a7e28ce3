"""A hit is announced as MySQL announces its own answer to the same text: of every function, type and shape of query."""

from __future__ import annotations

import os
import random
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.protocol.announced_queries import GIVEN, SHAPES, Shape, expressions, failed, query, tables
from integration.protocol.test_hits_same_bytes import comparable, without
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient, bound
from integration.support.served import last_served
from proxy.mysql.reads.announced import SEVERAL
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF

LONGLONG = 0x08
ITEMS = 12  # in one query
EXPRESSIONS = int(os.environ.get("ANNOUNCED_EXPRESSIONS", "24"))  # of each shape
SEED = int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)
ROUNDS = 3  # of which the first shows how MySQL announces the columns


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = f"t{os.getpid()}_announced"
    mysql.execute(f"CREATE DATABASE {database}", f"USE {database}", *tables())
    with proxy_in_thread(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        yield found
    mysql.execute(f"DROP DATABASE `{database}`")


@pytest.mark.parametrize("eof", [False, True], ids=["deprecate-eof", "eof"])
@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
def test_columns_are_announced_as_mysql_announces_them(beside: Beside, shape: Shape, eof: bool) -> None:
    rng = random.Random(f"{SEED} {shape.name}")
    capabilities = 0 if eof else CLIENT_DEPRECATE_EOF
    wrong: list[str] = []
    served: Counter[str] = Counter()
    with beside.direct(capabilities=capabilities) as direct:
        items = expressions(direct, shape.of, rng, EXPRESSIONS)
        for at in range(0, len(items), ITEMS):
            with beside.client(capabilities=capabilities) as client:
                sql = query(shape, items[at : at + ITEMS])
                if failed(direct.query(sql.replace("?", "1"))):  # together they do not go
                    continue
                wrong += compared(beside, direct, client, sql, served)
    assert not wrong, f"SEED={SEED}, {len(wrong)} of {sum(served.values())}, {served}:\n" + "\n".join(wrong[:3])
    assert served["hit"] or not served, served


def compared(beside: Beside, direct: RawClient, client: RawClient, sql: str, served: Counter[str]) -> Iterator[str]:
    """What differs, as text and prepared."""
    if client.query(f"CREATE CACHE FROM {sql}")[4] == 0xFF:
        return
    ordered = "ORDER BY id" in sql
    statements = direct.prepare(sql), client.prepare(sql)
    for number in range(ROUNDS):
        for value in GIVEN:
            text, given = sql.replace("?", str(value)), bound([LONGLONG], [struct.pack("<q", value)])
            for how in ("text", "prepared"):
                if how == "text":
                    one, other = direct.query(text), client.query(text)
                else:
                    one, other = direct.execute(statements[0].id, given), client.execute(statements[1].id, given)
                told = last_served(beside)
                served[told.split()[0]] += 1
                if unwarned(direct, one, ordered) != unwarned(client, other, ordered):
                    yield f"{how}, round {number}, {told}: {sql} [{value}]\n{differing(one, other)}"


def unwarned(client: RawClient, answer: bytes, ordered: bool) -> object:
    """An answer without the number of warnings at its end: a hit has none."""
    found = comparable(client, answer, ordered=ordered)
    if not isinstance(found, tuple):
        return found
    head, rows, end = found
    if client.eof:
        head[-1] = without(head[-1], 5, 0xFFFF)
    return head, rows, without(end, 5 if client.eof else 9, 0xFFFF)


def differing(one: bytes, other: bytes) -> str:
    at = next((at for at in range(min(len(one), len(other))) if one[at] != other[at]), 0)
    at = max(0, at - 40)
    return f"  MySQL  {one[at : at + 120]!r}\n  Upwell {other[at : at + 120]!r}"


# What drivers cannot read if it is announced otherwise; and what was never a hit.
FOUND = (
    "SELECT YEAR(dt) x, COUNT(*) FROM t WHERE k = ? GROUP BY x",
    "SELECT DISTINCT YEAR(dt) FROM t WHERE k = ?",
    "SELECT DISTINCT DAYOFWEEK(da), DATEDIFF(da, '1999-01-01') FROM t WHERE k = ?",
    "SELECT EXTRACT(MONTH FROM dt) m, COUNT(*) FROM t WHERE k = ? GROUP BY m",
    "SELECT j FROM t WHERE k = ? UNION SELECT j FROM t WHERE k = 2",
    "SELECT MIN(ti) OVER (), LAG(i) OVER (ORDER BY id) FROM t WHERE k = ? ORDER BY id",
    "SELECT MIN(s2), MAX(s3), COUNT(*) FROM t WHERE k = ?",
    "SELECT COALESCE(s2, 'none'), IF(k = 1, s3, ''), TRIM(s4), CAST(s2 AS CHAR), CONCAT(s4, vc) FROM t WHERE k = ?",
    "SELECT CASE WHEN k = 1 THEN s2 ELSE vc END FROM t WHERE k = ?",
)


@pytest.mark.parametrize("sql", FOUND)
def test_what_was_announced_otherwise_is_a_hit(beside: Beside, sql: str) -> None:
    served: Counter[str] = Counter()
    with beside.direct() as direct, beside.client() as client:
        wrong = list(compared(beside, direct, client, sql, served))
    assert not wrong, "\n".join(wrong)
    assert served["hit"] > served["passed"] + served["miss"], served


def test_an_answer_that_needs_no_temporary_table_is_announced_as_that(beside: Beside) -> None:
    """Where the first table has no row, MySQL does not join, and announces what it has prepared."""
    sql = "SELECT DISTINCT YEAR(u.dt) y FROM t JOIN u ON u.k = t.k WHERE t.id = ?"
    with beside.direct() as direct, beside.client() as client:
        assert client.query(f"CREATE CACHE no_rows FROM {sql}")[4] == 0
        statements = direct.prepare(sql), client.prepare(sql)
        served = []
        for key in (999, 1, 999, 1, 999, 1, 3, 998, 3, 998):
            text, given = sql.replace("?", str(key)), bound([LONGLONG], [struct.pack("<q", key)])
            wanted = direct.query(text), direct.execute(statements[0].id, given)
            for number, found in enumerate((client.query(text), client.execute(statements[1].id, given))):
                assert unwarned(client, found, False) == unwarned(direct, wanted[number], False), key
            served.append(last_served(beside))
        assert served[-2:] == ["hit"] * 2


def test_what_mysql_announces_now_so_and_now_otherwise_is_a_hit_as_it_was_announced_last(beside: Beside) -> None:
    """Whether a join is sorted with a temporary table, which keeps no flags of keys, is a matter of statistics."""
    rows = ", ".join(f"({n}, {n // 3})" for n in range(60))
    beside.mysql.execute(
        f"USE `{beside.proxy.database}`",
        "CREATE TABLE piece (id INT PRIMARY KEY, k INT NOT NULL, KEY (k)) STATS_AUTO_RECALC=0",
        "CREATE TABLE head (k INT PRIMARY KEY, g INT NOT NULL, KEY (g)) STATS_AUTO_RECALC=0",
        "CREATE TABLE own (id INT PRIMARY KEY)",
        f"INSERT INTO piece VALUES {rows}",
        "INSERT INTO head VALUES " + ", ".join(f"({n}, {n // 2})" for n in range(20)),
    )
    sql = "SELECT p.k, h.g FROM piece p JOIN head h ON h.k = p.k WHERE p.k IN ({}) ORDER BY p.k, p.id"
    one, other = sql.format("0, 1, 2, 3"), sql.format("4, 5, 6, 7")

    with beside.direct() as direct, beside.client() as client:

        def served(text: str) -> str:
            wanted, found = direct.query(text), client.query(text)
            told = last_served(beside)
            assert unwarned(client, found, True) == unwarned(direct, wanted, True), told
            return told

        assert client.query(f"CREATE CACHE sorted FROM {sql.format('?')}")[4] == 0
        beside.caught_up()
        for text in (one, other):
            served(text)
            served(text)
            assert served(text) == "hit"
        before = direct.query(one)
        # Nothing of the tables changes, and nobody is told.
        beside.mysql.execute(
            f"USE `{beside.proxy.database}`", "ANALYZE NO_WRITE_TO_BINLOG TABLE piece, head", "FLUSH LOCAL TABLES"
        )
        assert unwarned(direct, direct.query(one), True) != unwarned(direct, before, True)
        for ask in ("BEGIN", "INSERT INTO own VALUES (1)", one):  # MySQL answers, and both ways are known
            client.query(ask)
        assert last_served(beside).startswith("passed")
        assert client.query("ROLLBACK")[4] == 0
        assert served(one) == "hit"
        assert served(other) == f"passed {SEVERAL}"
        assert [served(text) for text in (other, one, other)] == ["hit"] * 3
