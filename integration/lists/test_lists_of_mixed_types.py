"""IN-lists whose values are of several types, NULL that is bound, and FLOAT and DOUBLE columns beside bound parameters:
hits where MySQL compares each value exactly, and MySQL's answers always. Texts and prepared, while rows change."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.oracle.answers import parse
from integration.oracle.trees import Spelled, decimal, double, integer, payload, spelled, string
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit

DATABASE = "mixed_lists"
SEED = int(os.environ.get("UPWELL_LISTS_SEED", "1"))
LARGE = 2**53
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, i INT, ti TINYINT, b BIGINT, u BIGINT UNSIGNED, d DECIMAL(9,2),"
    " dl DECIMAL(30,2), f DOUBLE, fl FLOAT, s VARCHAR(30), y YEAR, bi BIT(8), da DATE, x INT, KEY (i), KEY (b),"
    " KEY (u), KEY (d), KEY (dl), KEY (f), KEY (s))"
)
VALUES = (
    *map(integer, (0, 1, 2, 3, -1, 127, 300, LARGE, LARGE + 1, -LARGE - 1, 2**63 - 1, 2001)),
    *map(string, ("0", "1", "2", "3", "-1", "2.0", "1.5", " 2", "1a", "", "a", str(LARGE + 1), str(2**64 - 1))),
    *map(double, (1.0, 2.0, 1.5, 0.1, float(LARGE), -1.0)),
    *map(decimal, ("1", "2.0", "1.50", "3.00", "0.10", str(LARGE + 1))),
)
COLUMNS = ("i", "ti", "b", "u", "d", "dl", "f", "fl", "s", "y", "bi", "da")
QUERIES = (
    "SELECT id, {c} FROM t WHERE {c} IN (?)",
    "SELECT COUNT(DISTINCT x) FROM t WHERE {c} IN (?)",
    "SELECT COUNT(*) FROM t WHERE {c} NOT IN (?)",
    "SELECT id FROM t WHERE x = 1 AND {c} IN (?) ORDER BY id DESC",
)
WRITES = (
    "UPDATE t SET i = 3 - i, ti = 3 - ti, d = 3 - d, f = 3 - f WHERE id % 4 = {}",
    "UPDATE t SET b = b + 1, u = u - 1, x = 1 - x WHERE id % 5 = {} AND u > 0 AND b < 9e18",
    "INSERT INTO t (i, ti, b, u, d, dl, f, fl, s, y, bi, da, x) SELECT i, ti, b, u, d, dl, f, fl, s, y, bi, da, x"
    " FROM t WHERE id % 7 = {} LIMIT 3",
    "DELETE FROM t WHERE id % 17 = {}",
)


def rows() -> Iterator[str]:
    numbers = (0, 1, 2, 3, -1, 127, LARGE, LARGE + 1, -LARGE - 1, 2**63 - 1)
    for at, number in enumerate(numbers):
        small = number if abs(number) < 128 else at
        unsigned = number if number >= 0 else 2**64 + number
        yield (
            f"({small}, {small}, {number}, {unsigned}, {small}.50, {number}.00, {small}.5, 0.1, '{number}', 2001, 1,"
            f" '2001-01-0{at % 9 + 1}', {at % 2})"
        )
        more = f"{small}, {number}, {small}, {small}, ' {small}', 0, 2, NULL, 1"
        yield f"({small}, {small}, {number}, {unsigned}, {more})"
    yield "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1)"


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    names = "i, ti, b, u, d, dl, f, fl, s, y, bi, da, x"
    made = (TABLE, *(f"INSERT INTO t ({names}) VALUES {row}" for row in rows()))
    with beside_database(mysql, DATABASE, Path(tmp_path_factory.mktemp("state")), *made) as found:
        yield found
        assert not found.call(lambda: found.proxy.app.router.status().counters.get("faults", 0))


def asked(client: RawClient, sql: str, given: list[Spelled] | None, number: int = 0) -> object:
    answer = client.query(sql) if given is None else client.execute(number, payload(given))
    return parse(answer, binary=given is not None).told(ordered="ORDER" in sql)


@pytest.mark.parametrize("column", COLUMNS)
def test_lists_of_mixed_types(beside: Beside, mysql: Server, column: str) -> None:
    rng = random.Random(f"{SEED} {column}")
    wrong: list[str] = []
    served: Counter[str] = Counter()
    with beside.client() as through, beside.direct() as direct:
        for query in QUERIES:
            form = query.format(c=column)
            through.query(f"CREATE CACHE mixed FROM {form}")
            lists = [[rng.choice(VALUES) for _ in range(rng.choice((2, 2, 3, 5)))] for _ in range(14)]
            lists += [[*map(integer, (1, 2)), string("3")], [integer(1), string("2"), double(1.0), decimal("3.00")]]
            for stage in range(2):
                if stage:
                    mysql.execute(f"USE {DATABASE}", rng.choice(WRITES).format(rng.randrange(4)))
                    beside.caught_up()
                for values in lists:
                    text = form.replace("?", ", ".join(value.text for value in values))
                    marks = form.replace("?", ", ".join("?" * len(values)))
                    own, ours = direct.prepare(marks), through.prepare(marks)
                    for _ in range(3):
                        for sql, given in ((text, None), (marks, values)):
                            theirs, mine = asked(direct, sql, given, own.id), asked(through, sql, given, ours.id)
                            how = last_served(beside, through)
                            served[how.split(" ")[0]] += 1
                            if theirs != mine:
                                wrong.append(f"{text} {'prepared' if given else ''} {how}\n  {theirs}\n  {mine}")
            through.query("DROP CACHE mixed")
    print(column, served)
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:10])


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("i", (1, "2", 3.0)),
        ("i", (1, "2", decimal("3.00"), None)),
        ("b", (1, "2")),
        ("u", (1, "2", 0.0)),
        ("d", (1, "1.50", 2.0)),
        ("d", (2, decimal("1.50"))),
        ("f", (1, "1.5", decimal("2.5"), 3.5)),
    ],
)
def test_numbers_of_several_types_are_hits(beside: Beside, column: str, values: tuple[object, ...]) -> None:
    given = [spelled(value) for value in values]
    with beside.client() as through, beside.direct() as direct:
        for query in QUERIES[:2]:
            form = query.format(c=column)
            through.query(f"CREATE CACHE mixed FROM {form}")
            marks = form.replace("?", ", ".join("?" * len(given)))
            own, ours = direct.prepare(marks), through.prepare(marks)
            answers = read_until_hit(beside, through, through.execute, ours.id, payload(given))
            expected = asked(direct, marks, given, own.id)
            assert all(parse(answer, binary=True).told(ordered=False) == expected for answer in answers)
            if None not in values:  # which is no parameter in a text
                text = form.replace("?", ", ".join(value.text for value in given))
                answers = read_until_hit(beside, through, through.query, text)
                assert all(
                    parse(answer, binary=False).told(ordered=False) == asked(direct, text, None) for answer in answers
                )
            through.query("DROP CACHE mixed")


@pytest.mark.parametrize(
    ("condition", "reads"),
    [
        ("i = ?", ((None,), (1,), (None,))),
        ("i <=> ?", ((None,), (1,), (None,))),
        ("s <=> ?", ((None,), ("1",), (None,))),
        ("i IN (?, ?)", ((1, None), (None, None), (None, 2))),
        ("s IN (?, ?)", (("1", None), (None, "2"))),
        ("da > ?", ((None,), ("2001-01-03",))),
        ("f = ?", ((None,), (1.5,), (2.0,), (None,))),
        ("(? IS NULL OR i = ?)", ((None, None), (1, 1), (None, None), (2, 2))),
        ("(? IS NULL OR s = ?)", ((None, None), ("1", "1"), ("2", "2"), (None, None))),
        ("(? IS NOT NULL AND da > ?)", ((None, None), ("2001-01-03", "2001-01-03"))),
        ("fl = ?", ((1.5,), (2.0,), (0.1,))),
        ("fl > ?", ((1.5,), (2.0,), (None,))),
        ("f BETWEEN ? AND ?", ((1.5, 2.5), (0.1, 2.0), (None, 2.0))),
    ],
)
def test_null_and_reals_that_are_bound_are_hits(
    beside: Beside, condition: str, reads: tuple[tuple[object, ...], ...]
) -> None:
    """One after the other, in one statement, as drivers bind them: NULL has a type of its own."""
    with beside.client() as through, beside.direct() as direct:
        for shown in ("id", "COUNT(DISTINCT x)"):
            form = f"SELECT {shown} FROM t WHERE {condition}"
            through.query(f"CREATE CACHE mixed FROM {form}")
            own, ours = direct.prepare(form), through.prepare(form)
            for values in reads:
                given = [spelled(value) for value in values]
                answers = read_until_hit(beside, through, through.execute, ours.id, payload(given))
                expected = asked(direct, form, given, own.id)
                assert all(parse(answer, binary=True).told(ordered=False) == expected for answer in answers), values
            through.query("DROP CACHE mixed")
