"""Parameters that are shown: MySQL announces a column by the literal that stands there, or by how a parameter is bound.
What Upwell answers is what MySQL does, column definitions too: over forms and values, as texts and prepared, while
statements are bound with changing types and rows change."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from integration.oracle.answers import parse
from integration.oracle.trees import (
    DATE,
    LONGLONG,
    NULL,
    TINY,
    UNSIGNED,
    Spelled,
    decimal,
    double,
    integer,
    moment,
    payload,
    spelled,
    string,
)
from integration.prepared.untyped_parameters import NAMES, ROWS, TABLE, WRITES
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit
from planner.tree.untyped import BOUND_AND_SHOWN
from proxy.mysql.reads.bound_types import BOUND_BEFORE

DATABASE = "shown_parameters"
WHOLE = os.environ.get("UPWELL_WHOLE") == "1"
SEED = int(os.environ.get("UPWELL_SHOWN_SEED", "1"))
ITEMS = (
    "? AS x", "n * ? AS x", "n + ? AS x", "d * ? AS x", "d - ? AS x", "d / ? AS x", "f * ? AS x", "bu + ? AS x",
    "n DIV ? AS x", "n % ? AS x", "n & ? AS x", "COALESCE(?, n) AS x", "COALESCE(?, s) AS x", "COALESCE(?, d) AS x",
    "COALESCE(n, ?) AS x", "COALESCE(s, ?) AS x", "IFNULL(c, ?) AS x", "IF(?, n, d) AS x", "IF(n > 1, ?, n) AS x",
    "IF(n > ?, s, ?) AS x", "CONCAT(s, ?) AS x", "CONCAT_WS(?, s, n) AS x", "GREATEST(n, ?) AS x", "NULLIF(s, ?) AS x",
    "NULLIF(n, ?) AS x", "CASE WHEN n > 1 THEN ? ELSE 'b' END AS x", "CASE n WHEN ? THEN s ELSE ? END AS x",
    "ROUND(d, ?) AS x", "LEFT(s, ?) AS x", "REPLACE(s, 'a', ?) AS x", "DATE_FORMAT(c, ?) AS x",
    "c + INTERVAL ? DAY AS x", "n = ? AS x", "s LIKE ? AS x", "DATE(c) = ? AS x", "n IN (?, ?) AS x",
    "(SELECT ? + 1) AS x", "(SELECT MAX(n + ?) FROM u y) AS x", "JSON_EXTRACT(j, ?) AS x", "FIELD(s, ?, 'a') AS x",
    "?, n + ?",
)  # fmt: skip
GROUPED = ("SUM(n * ?) AS x", "MAX(COALESCE(n, ?)) AS x", "SUM(IF(n > ?, 1, ?)) AS x", "GROUP_CONCAT(s, ?) AS x")
FORMS = (
    *(f"SELECT {item}, id FROM u WHERE id < ? ORDER BY id" for item in ITEMS),
    *(f"SELECT {item} FROM u WHERE id > ?" for item in GROUPED),
    "SELECT x, id FROM (SELECT id, COALESCE(?, n) AS x FROM u) v WHERE id < ? ORDER BY id",
    "SELECT ? AS x FROM u WHERE id < ? UNION ALL SELECT n FROM u WHERE id = 1 ORDER BY x",
    "SELECT DISTINCT ? AS x, s IS NULL AS y FROM u WHERE id < ? ORDER BY y",
    "SELECT n * ? AS x, COUNT(*) FROM u WHERE id < ? GROUP BY x ORDER BY x",
)
VALUES = (
    *map(integer, (1, 0, 2, 200, 12345, -5, 2**40)),
    *map(string, ("a", "abcdef", "", "2", "1.5", "é", "2024-01-01", "%Y", "%Y-%m", "$.a")),
    *(double(1.5), double(2.0), double(0.1)),
    *map(decimal, ("1.5", "1.25", "1.50", "100.5")),
    *(moment("2024-01-01", DATE), moment("2024-01-01 10:00:00"), NULL),
)
SPELLED = tuple(map(Spelled, ("002", ".5", "0.5", "00.5", "15e-1", "TRUE", "'a''b'", "1.", "2.0e0")))
ROUNDS, TOGETHER = 4, 12


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    rows = [f"INSERT INTO u ({NAMES}) VALUES ({row})" for row in ROWS]
    with beside_database(mysql, DATABASE, Path(tmp_path_factory.mktemp("state")), TABLE, *rows) as found:
        yield found
        assert not found.call(lambda: found.proxy.app.router.status().counters.get("faults", 0))


@pytest.fixture(autouse=True)
def no_caches(beside: Beside) -> Iterator[None]:
    yield
    with beside.client() as client:
        client.query("DROP CACHE shown")


def written(form: str, given: list[Spelled]) -> str:
    for value in given:
        form = form.replace("?", value.text, 1)
    return form


def bound(client: RawClient, number: int, given: list[Spelled]) -> object:
    return parse(client.execute(number, payload(given)), binary=True).told()


@pytest.mark.timeout(1800 if WHOLE else 400)
@pytest.mark.parametrize("collation", ["", "utf8mb4_general_ci"])
def test_each_form_with_values_of_each_kind(beside: Beside, mysql: Server, collation: str) -> None:
    rng = random.Random(f"{SEED} {collation}")
    forms = list(FORMS) if WHOLE else rng.sample(FORMS, 26 if not collation else 10)
    wrong: list[str] = []
    served: Counter[str] = Counter()
    with beside.client() as through, beside.direct() as direct:
        for client in (through, direct):
            if collation:
                client.query(f"SET NAMES utf8mb4 COLLATE {collation}")
        for form in forms:
            made = parse(through.query(f"CREATE CACHE shown FROM {form}"), binary=False)
            if made.errno:
                served[f"no cache: {form}"] += 1
                continue
            count = form.count("?") - 1
            first = rng.choice(VALUES)
            usual = [one for one in VALUES if one.type == first.type]  # as applications do: one type, mostly
            own, ours = direct.prepare(form), through.prepare(form)
            for number in range(ROUNDS * TOGETHER):
                if number and not number % TOGETHER:
                    mysql.execute(f"USE {DATABASE}", rng.choice(WRITES[:4]).format(rng.randrange(4)))
                    beside.caught_up()
                if number == 2 * TOGETHER:
                    own, ours = direct.prepare(form), through.prepare(form)
                chance = rng.random()
                pool = usual if chance < 0.7 else VALUES if chance < 0.9 else SPELLED
                given = [*(rng.choice(pool) for _ in range(count)), integer(rng.choice((3, 4)))]
                if number % 2 and pool is not SPELLED:
                    text = f"{form} {[value.text for value in given]} prepared"
                    theirs, mine = bound(direct, own.id, given), bound(through, ours.id, given)
                else:
                    text = written(form, given)
                    theirs, mine = (parse(client.query(text), binary=False).told() for client in (direct, through))
                how = last_served(beside, through)
                served[how.split(" ")[0]] += 1
                if theirs != mine:
                    wrong.append(f"{text} {how}\n  MySQL  {theirs}\n  Upwell {mine}")
            through.query("DROP CACHE shown")
    print(served)
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:10])
    assert served["hit"] > 0.08 * served.total(), served
    assert sum(count for name, count in served.items() if name.startswith("no cache")) <= 4, served


@pytest.mark.parametrize(
    ("item", "texts", "values"),
    [
        ("? AS x", ("1", "200", "12345"), (1, 200, 2**40)),
        ("n * ? AS x", ("2", "200", "002"), (2, 200, 2**40)),
        ("d * ? AS x", ("2", "200", "002"), ()),
        ("d * ?", (), (2, 200)),
        ("COALESCE(?, s) AS x", ("'a'", "'abcdef'"), ("a", "abcdef")),
        ("CONCAT(s, ?) AS x", ("'a'", "'abcdef'"), ("a", "abcdef")),
        ("IF(?, n, d) AS x", ("1", "0"), (1, 0)),
        ("f * ? AS x", ("2", "2.5e0", "25e-1"), (2, 2.5)),
    ],
)
def test_literals_of_each_length_are_hits(
    beside: Beside, item: str, texts: tuple[str, ...], values: tuple[object, ...]
) -> None:
    form = f"SELECT {item}, id FROM u WHERE id = ?"
    with beside.client() as through, beside.direct() as direct:
        through.query(f"CREATE CACHE shown FROM {form}")
        for literal in (*texts, *texts):
            text = form.replace("?", literal, 1).replace("?", "1")
            answers = read_until_hit(beside, through, through.query, text)
            expected = parse(direct.query(text), binary=False).told()
            assert all(parse(answer, binary=False).told() == expected for answer in answers), literal
        for value in (*values, *values):
            given = [spelled(value), integer(1)]
            own, ours = direct.prepare(form), through.prepare(form)
            answers = read_until_hit(beside, through, through.execute, ours.id, payload(given))
            expected = bound(direct, own.id, given)
            assert all(parse(answer, binary=True).told() == expected for answer in answers), value


def test_what_was_bound_before_counts(beside: Beside) -> None:
    """Behind a DOUBLE MySQL goes on with a DOUBLE."""
    form = "SELECT n * ? AS x FROM u WHERE id = ?"
    with beside.client() as through, beside.direct() as direct:
        through.query(f"CREATE CACHE shown FROM {form}")
        own, ours = direct.prepare(form), through.prepare(form)
        for value in (2, 2, 2, 2.5, 2, 2, 2):
            given = [spelled(value), integer(1)]
            assert bound(through, ours.id, given) == bound(direct, own.id, given), value
        assert BOUND_BEFORE in last_served(beside, through)


HISTORIES = ("NVN", "VVV", "NVNV", "NNVV", "VNV", "VVNN", "VVVV")


@pytest.mark.parametrize(
    ("item", "value"),
    [
        *(("? AS x", value) for value in (integer(2), integer(2, TINY), string("a"))),
        *(("COALESCE(s, ?) AS x", value) for value in (integer(2), double(2.0), string("a"))),
        *(("n + ? AS x", value) for value in (integer(2), replace(integer(2), type=LONGLONG | UNSIGNED))),
        ("SUM(n + ?) AS x", replace(integer(2), type=LONGLONG | UNSIGNED)),
        ("IF(n > 0, ?, s) AS x", double(2.0)),
    ],
    ids=str,
)
def test_null_of_a_type_among_values_of_it(beside: Beside, item: str, value: Spelled) -> None:
    """What MySQL has resolved for NULL it resolves anew for a value, and goes on with that for NULL."""
    form = f"SELECT {item} FROM u WHERE id = ?"
    nothing = replace(value, text="NULL", data=None)
    served: Counter[str] = Counter()
    with beside.client() as through, beside.direct() as direct:
        through.query(f"CREATE CACHE shown FROM {form}")
        for history in HISTORIES * 2:
            own, ours = direct.prepare(form), through.prepare(form)
            for number, what in enumerate(history):
                given = [value if what == "V" else nothing, integer(1)]
                theirs, mine = bound(direct, own.id, given), bound(through, ours.id, given)
                served[last_served(beside, through).split(" ")[0]] += 1
                assert theirs == mine, f"{history[: number + 1]} {last_served(beside, through)}"
    assert served["passed"] and served["hit"], served


def test_what_tells_its_digits_is_mysqls(beside: Beside) -> None:
    form = "SELECT COALESCE(?, n) AS x FROM u WHERE id = ?"
    with beside.client() as through, beside.direct() as direct:
        through.query(f"CREATE CACHE shown FROM {form}")
        for value in ("1.5", "2", decimal("1.5")):
            own, ours = direct.prepare(form), through.prepare(form)
            for _ in range(4):
                given = [spelled(value), integer(1)]
                assert bound(through, ours.id, given) == bound(direct, own.id, given), value
            assert BOUND_AND_SHOWN in last_served(beside, through) or "what was bound before" in last_served(
                beside, through
            )
