"""Parameters whose type no column tells: what is held for a literal is what MySQL answers to the text with it, through
changes of the rows. All forms of `untyped_parameters.py` by UPWELL_WHOLE=1, else some of them."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.oracle.answers import parse
from integration.oracle.trees import DATE, NULL, Spelled, decimal, double, integer, moment, payload, spelled, string
from integration.prepared.untyped_parameters import COMPUTED, FORMS, MIXED, NAMES, ROWS, TABLE, WRITES, filled
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served
from planner.tree.untyped import BEFORE
from proxy.mysql.reads.bound_types import BOUND_BEFORE
from proxy.mysql.wire.packets import packet

DATABASE = "untyped_parameters"
WHOLE = os.environ.get("UPWELL_WHOLE") == "1"
SEED = int(os.environ.get("UPWELL_LITERALS_SEED", "1"))
STRINGS = ("a", "1", "1.5", "", "abc", "A", "2024-01-01", "2024-01-01 10:00:00", "$.a", "one", "1abc", "é", " 1")
BINDABLE = (
    *(integer(1), integer(0), integer(3), integer(-1), integer(2024), integer(20240101), integer(2, 1)),
    Spelled("5", 0x8008, (5).to_bytes(8, "little")),
    *(double(1.5), double(2.0), decimal("1.5"), decimal("2"), decimal("1.50"), NULL, integer(2**64 - 1)),
    *map(string, STRINGS),
    *(moment(text, DATE) for text in ("2024-01-01", "2020-02-29", "1999-01-01")),
    *(moment(text) for text in ("2024-01-01 10:00:00", "2024-01-01 00:00:00", "2024-01-01 23:59:59.25")),
)
BOUND_OFTEN = [form for form in FORMS if "LIKE" in form or any(f"{x} = ?" in form for x in COMPUTED)]
CASES = [form for form in MIXED if any(f"CASE {x} " in form for x in ("s", "e", "b"))]  # text and what is none
CRASHING = "DATEDIFF"  # MySQL 9.7 ends where 0 is bound to it
TOGETHER, OF_EACH, REPEATED = 20, 4, 3
OF_A_COLUMN = (  # of a parameter whose type a column tells
    "with a type by which MySQL goes on comparing",
    "a string that is no plain number, date or time",
)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    rows = [f"INSERT INTO u ({NAMES}) VALUES ({row})" for row in ROWS]
    with beside_database(mysql, DATABASE, Path(tmp_path_factory.mktemp("state")), TABLE, *rows) as found:
        yield found


@pytest.fixture(autouse=True)
def no_caches(beside: Beside) -> Iterator[None]:
    yield
    with beside.client() as client:
        for name in ("kinds", "bound"):
            client.query(f"DROP CACHE {name}")


def shown(client: RawClient, sql: str) -> object:
    found = parse(client.query(sql), binary=False)
    return (found.errno, found.message) if found.errno else (found.columns, found.rows)


@pytest.mark.timeout(1800 if WHOLE else 300)
def test_each_form_with_literals_of_each_kind(beside: Beside, mysql: Server) -> None:
    rng = random.Random(SEED)
    forms = [*FORMS, *MIXED] if WHOLE else [*rng.sample(FORMS, 140), *rng.sample(MIXED, 40)]
    wrong: list[str] = []
    served: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    with beside.client() as through, beside.direct() as direct:
        for at in range(0, len(forms), TOGETHER):
            asked = []
            for number, form in enumerate(forms[at : at + TOGETHER]):
                made = parse(through.query(f"CREATE CACHE u{number} FROM {form}"), binary=False)
                if made.errno:
                    refused[made.message.split(":")[0]] += 1
                asked += [filled(form, rng) for _ in range(OF_EACH)]
            for write in (None, *rng.sample(WRITES, 2)):
                if write is not None:
                    mysql.execute(f"USE {DATABASE}", write.format(rng.randrange(4)))
                    beside.caught_up()
                expected = [shown(direct, sql) for sql in asked]
                for _ in range(REPEATED):
                    for sql, theirs in zip(asked, expected, strict=True):
                        ours = shown(through, sql)
                        served[last_served(beside, through).split(" ")[0]] += 1
                        if ours != theirs:
                            wrong.append(f"{write}: {sql}\n  MySQL  {theirs}\n  Upwell {ours}")
            for number in range(TOGETHER):
                through.query(f"DROP CACHE u{number}")
    print(served, refused)
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:10])
    assert served["hit"] > 0.4 * served.total(), (served, refused)


@pytest.mark.parametrize(
    ("sql", "given"),
    [
        ("SELECT id FROM u WHERE DATE(c) = {} ORDER BY id", ("'2024-01-01'", "20240101", "'2024-01-01 00:00:00'")),
        ("SELECT id FROM u WHERE (c, id) > ('2024-01-01', {}) ORDER BY c, id LIMIT 2", ("1", "'1'", "1.0", "1e0")),
        ("SELECT id FROM u WHERE n & {} ORDER BY id", ("1", "'1'", "1.4", "1e0")),
    ],
)
def test_literals_of_other_kinds_are_other_keys(beside: Beside, sql: str, given: tuple[str, ...]) -> None:
    with beside.client() as through, beside.direct() as direct:
        through.query(f"CREATE CACHE kinds FROM {sql.format('?')}")
        for _ in range(REPEATED):
            for literal in given:
                assert shown(through, sql.format(literal)) == shown(direct, sql.format(literal))
        assert last_served(beside, through).startswith("hit")


@pytest.mark.timeout(1800 if WHOLE else 300)
def test_each_form_bound_with_values_of_each_kind(beside: Beside, mysql: Server) -> None:
    """MySQL does not read each value that is bound as a literal. What it does not is passed."""
    rng = random.Random(SEED)
    some = [*rng.sample(FORMS, 80), *rng.sample(BOUND_OFTEN, 30), *rng.sample(MIXED, 30), *rng.sample(CASES, 30)]
    forms = [*FORMS, *MIXED] if WHOLE else some
    wrong: list[str] = []
    served: Counter[str] = Counter()
    with beside.client() as through, beside.direct() as direct:
        for form in forms:
            if parse(through.query(f"CREATE CACHE bound FROM {form}"), binary=False).errno:
                continue
            text = form.replace("IN (?)", "IN (?, ?)")
            count = text.count("?")
            statements = [client.prepare(text) for client in (direct, through)]
            pools = [[rng.choice(BINDABLE) for _ in range(2)] for _ in range(count)]
            if rng.random() < 0.7:  # as drivers do: one type for each
                pools = [[one, *(two for two in BINDABLE if two.type == one.type)] for one, _ in pools]
            for number in range(8):
                if number == 5:
                    mysql.execute(f"USE {DATABASE}", rng.choice(WRITES).format(rng.randrange(4)))
                    beside.caught_up()
                given = [rng.choice(pool) for pool in pools]
                if CRASHING in form and any(value.text == "0" for value in given):
                    continue
                answers = []
                for client, statement in zip((direct, through), statements, strict=True):
                    client.write(packet(client.execution(statement.id, payload(given)), 0))
                    found = parse(client.result(), binary=True)
                    answers.append((found.errno, found.message) if found.errno else (found.columns, found.rows))
                served[last_served(beside, through).split(" ")[0]] += 1
                if answers[0] != answers[1]:
                    told = f"{text} {[value.text for value in given]} {last_served(beside, through)}"
                    wrong.append(f"{told}\n  MySQL  {answers[0]}\n  Upwell {answers[1]}")
            through.query("DROP CACHE bound")
    print(served)
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:10])
    assert served["hit"], served


@pytest.mark.parametrize(
    ("condition", "hits", "passes"),
    [
        ("DATE(c) = ?", ("2024-01-01", "2024-01-01 00:00:00"), ("a", "2024-1-1", "20240101", "", 20240101)),
        ("DATE(c) = ?", (moment("2024-01-01", DATE), moment("2024-01-01 10:00:00")), ()),
        ("(c, id) > (?, 2)", (moment("2024-01-01 10:00:00"), moment("2024-01-01", DATE)), ()),
        ("c >= ? - INTERVAL 1 DAY", (moment("2024-01-02 10:00:00"),), ()),
        ("YEAR(c) = ?", (2024, 1999, 24, "2024", 2024.0), ("2024.5",)),
        ("s LIKE CONCAT('%', ?, '%')", ("a", "1", "", 1, 1.5, "1.5"), ()),
        ("SUBSTRING(s, 1, 1) = ?", ("a", "ABC"), ()),
        ("FIND_IN_SET(?, s)", ("a", "b", 1.5), ("1.5",)),
        ("MONTH(c) = ?", (1, 0, "1"), ("1.5",)),
        ("(n, s) IN ((?, 'a'))", (1, 2), ()),
        ("(c, id) > (?, 2)", ("2024-01-01", "2024-01-01 10:00:00"), (20240101, "a")),
        ("n & ?", (1, "1", 1.5), ("1.5",)),
    ],
)
def test_values_that_are_bound_are_held_beside_the_literals(
    beside: Beside, condition: str, hits: tuple[object, ...], passes: tuple[object, ...]
) -> None:
    sql = f"SELECT id FROM u WHERE {condition} ORDER BY id"
    with beside.client() as through, beside.direct() as direct:
        through.query(f"CREATE CACHE kinds FROM {sql}")
        for value in (*hits, *passes):
            given, text = payload([spelled(value)]), sql.replace("?", spelled(value).text)
            own, ours = direct.prepare(sql), through.prepare(sql)
            for _ in range(REPEATED):
                assert shown(through, text) == shown(direct, text), value
                executed = (through.execute(ours.id, given), direct.execute(own.id, given))
                mine, theirs = (parse(answer, binary=True) for answer in executed)  # a hit warns of nothing
                assert (mine.columns, mine.rows, mine.errno) == (theirs.columns, theirs.rows, theirs.errno), value
            served = last_served(beside, through)
            why = (BEFORE, *OF_A_COLUMN)
            assert served.startswith("hit") if value in hits else any(one in served for one in why), (value, served)


@pytest.mark.parametrize("shown_", ["'😀é'", "CONCAT(s, '😀')", "'é'"])
@pytest.mark.parametrize("collation", ["", "utf8mb4_bin", "latin1_swedish_ci", "utf16_general_ci"])
def test_any_character_may_stand_in_the_text_and_in_the_other_values(
    beside: Beside, shown_: str, collation: str
) -> None:
    """MySQL converts a text that is prepared in SQL to utf8mb3, which lacks some."""
    sql = f"SELECT id, {shown_} AS x FROM u WHERE n & ? OR s = ? ORDER BY id"
    settings = f"SET collation_connection = {collation}" if collation else "SET @x = 1"
    with beside.client() as through, beside.direct() as direct:
        through.query(settings)
        direct.query(settings)
        hint = f" /*+ QB_NAME(upwell_collation_{collation}) */" if collation else ""
        made = parse(through.query(f"CREATE CACHE kinds FROM {sql.replace('SELECT', 'SELECT' + hint)}"), binary=False)
        assert not made.errno, made.message
        own, ours = direct.prepare(sql), through.prepare(sql)
        for value in ("a", "😀", "é😀"):
            given = payload([spelled(1), string(value)])
            for _ in range(REPEATED):
                executed = (through.execute(ours.id, given), direct.execute(own.id, given))
                mine, theirs = (parse(answer, binary=True) for answer in executed)
                assert (mine.columns, mine.rows, mine.errno) == (theirs.columns, theirs.rows, theirs.errno), value
        if not collation.startswith(("latin1", "utf16")):
            assert last_served(beside, through).startswith("hit"), last_served(beside, through)


def test_null_and_a_value_of_another_type_behind_it_are_mysqls(beside: Beside) -> None:
    sql = "SELECT id FROM u WHERE n & ? ORDER BY id"
    with beside.client() as through, beside.direct() as direct:
        through.query(f"CREATE CACHE kinds FROM {sql}")
        own, ours = direct.prepare(sql), through.prepare(sql)
        for at, value in enumerate((1, None, 1)):
            given = payload([spelled(value)])
            for _ in range(REPEATED):
                assert through.execute(ours.id, given) == direct.execute(own.id, given), value
            assert last_served(beside, through).startswith("hit") == (at == 0), value


def test_a_type_that_was_bound_before_counts(beside: Beside) -> None:
    sql = "SELECT id FROM u WHERE MONTH(c) = ? ORDER BY id"
    with beside.client() as through, beside.direct() as direct:
        through.query(f"CREATE CACHE kinds FROM {sql}")
        own, ours = direct.prepare(sql), through.prepare(sql)
        for value in (1, 1, 1, "1", 1, 1, None, 1):
            given = payload([spelled(value)])
            assert through.execute(ours.id, given) == direct.execute(own.id, given), value
        assert BOUND_BEFORE in last_served(beside, through)
