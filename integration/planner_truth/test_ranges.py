"""Ranges over a table that is held whole: every form of a bound, over every kind of column that has an order, is
answered as MySQL answers it, with rows that come and go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pymysql
import pytest

from dataflow.held.bag import Bag
from dataflow.readers.ranges import Range
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from proxy.mysql.wire.rows import BINARY

DATABASE = "ranges"
ROWS = 2000
TABLE = """CREATE TABLE item (
    id INT PRIMARY KEY, small SMALLINT UNSIGNED, big BIGINT UNSIGNED, price DECIMAL(9, 2), day DATE, at DATETIME(3),
    seen TIMESTAMP NULL, year YEAR, name VARCHAR(40), rate DOUBLE)"""
COLUMNS = ("id", "small", "big", "price", "day", "at", "seen", "year", "name")
FORMS = (
    "{0} BETWEEN %s AND %s", "{0} > %s AND {0} <= %s", "{0} >= %s AND %s > {0}", "NOT ({0} < %s) AND {0} < %s",
    "{0} >= %s AND {0} <= %s AND small <> 3", "%s <= {0} AND ({0} < %s OR small = 1)",
)  # fmt: skip
SHAPES = (
    "SELECT id, {1} FROM item WHERE {0} ORDER BY id",
    "SELECT COUNT(*), SUM(small), MIN({1}), MAX({1}) FROM item WHERE {0}",
    "SELECT DISTINCT small FROM item WHERE {0} ORDER BY small",
    "SELECT {1}, id FROM item WHERE {0} ORDER BY {1} DESC, id LIMIT 5",
)


def value(random: Random, column: str) -> Any:
    match column:
        case "id":
            return random.randrange(ROWS + 20)
        case "small":
            return random.randrange(40)
        case "big":
            return random.randrange(1 << 64)
        case "price":
            return f"{random.randrange(-5000, 5000) / 100:.2f}"
        case "day":
            return f"2024-{random.randrange(1, 13):02}-{random.randrange(1, 29):02}"
        case "at" | "seen":
            return f"2024-{random.randrange(1, 13):02}-{random.randrange(1, 29):02} 10:{random.randrange(60):02}:00"
        case "year":
            return random.randrange(1990, 2030)
    return random.choice(["a", "B", "é", "zz", ""]) + str(random.randrange(50))


def row(random: Random, key: int) -> str:
    values = [str(key)]
    for column in COLUMNS[1:]:
        values.append("NULL" if random.random() < 0.05 else repr(value(random, column)))
    return f"({', '.join(values)}, {random.random()})"


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    random = Random(1)
    rows = ", ".join(row(random, key) for key in range(ROWS))
    mysql.execute(
        f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", TABLE,
        f"INSERT INTO item VALUES {rows}", "ANALYZE TABLE item",
    )  # fmt: skip
    with proxy_in_thread(mysql, DATABASE, Path(tmp_path_factory.mktemp("state"))) as found:
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {DATABASE}")


def connected(port: int) -> pymysql.Connection[Any]:
    return pymysql.connect(host="127.0.0.1", port=port, user="root", database=DATABASE, autocommit=True)


def answer(connection: pymysql.Connection[Any], sql: str, values: tuple[Any, ...]) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall()


def change(random: Random) -> str:
    key = random.randrange(ROWS + 20)
    match random.randrange(3):
        case 0:
            return f"DELETE FROM item WHERE id = {key}"
        case 1:
            return f"REPLACE INTO item VALUES {row(random, key)}"
    column = random.choice(COLUMNS[1:])
    given = "NULL" if random.random() < 0.1 else repr(value(random, column))
    return f"UPDATE item SET {column} = {given} WHERE id BETWEEN {key} AND {key + random.randrange(3)}"


def test_a_range_is_what_mysql_finds(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = [0]
    plain = Range.rows

    def counted(self: Range, content: Any, params: Any) -> Any:
        found = plain(self, content, params)
        looked_up[0] += found is not None
        return found

    monkeypatch.setattr(Range, "rows", counted)
    random = Random(7)
    texts = [
        (column, shape.format(form.format(column), column)) for column in COLUMNS for form in FORMS for shape in SHAPES
    ]
    with connected(beside.port) as through, connected(beside.mysql.port) as direct:
        for _, text in texts:
            answer(through, f"CREATE CACHE IF NOT EXISTS FROM {text.replace('%s', '?')}", ())
        for turn in range(6):
            for column, text in texts:
                first, second = value(random, column), value(random, column)
                values = (first, second) if random.random() < 0.2 else tuple(sorted((first, second)))
                if random.random() < 0.02:
                    values = (None, second)
                shown = sorted if "ORDER" not in text else list
                for _ in range(2):  # a miss, and a hit
                    assert shown(answer(through, text, values)) == shown(answer(direct, text, values)), (text, values)
            beside.mysql.execute(f"USE {DATABASE}", *(change(random) for _ in range(10 + turn)))
            beside.caught_up()
    assert looked_up[0] > len(texts)
    assert any(bag.orders for bag in beside.call(lambda: list(_bags(beside))))
    beside.mysql.execute(f"UPDATE {DATABASE}.item SET small = 7")  # so much that it is worked out in steps
    beside.caught_up()
    beside.call(beside.proxy.app.engine.check_invariants)


def _bags(beside: Beside) -> Iterator[Bag]:
    for node in beside.proxy.app.engine.graph:
        for entry in node.entries.values():
            if isinstance(entry.content, Bag):
                yield entry.content


def test_a_row_that_is_left_out_is_missed(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT id FROM item WHERE id BETWEEN %s AND %s ORDER BY id"
    with connected(beside.port) as through, connected(beside.mysql.port) as direct:
        answer(through, f"CREATE CACHE IF NOT EXISTS FROM {text.replace('%s', '?')}", ())
        for _ in range(3):
            assert answer(through, text, (100, 200)) == answer(direct, text, (100, 200))
        beside.until(lambda: any(bag.orders for bag in _bags(beside)))
        plain = Bag.between
        monkeypatch.setattr(Bag, "between", lambda *given: plain(*given)[1:])
        beside.mysql.execute(f"INSERT INTO {DATABASE}.item (id) VALUES (5000)")
        beside.caught_up()
        assert answer(through, text, (100, 200)) != answer(direct, text, (100, 200))


def test_a_range_that_nobody_has_asked_for_is_a_hit_at_once(beside: Beside) -> None:
    text = "SELECT id, name FROM item WHERE id >= %s AND id < %s ORDER BY name, id"
    router = beside.proxy.app.router
    with connected(beside.port) as through:
        answer(through, f"CREATE CACHE wide FROM {text.replace('%s', '?')}", ())
        for key in range(30):  # and it has earned its trust
            answer(through, text, (key, key + 20))
        cache = beside.call(lambda: router.caches.open("wide", BINARY))
        assert beside.call(lambda: cache.hit((700, 720))) is not None
        assert beside.call(lambda: cache.hit((0, ROWS))) is None, "all rows are looked at in steps"
