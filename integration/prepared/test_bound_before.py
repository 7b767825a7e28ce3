"""A prepared statement that was bound another type before: MySQL goes on comparing by it, whether the proxy has
answered that execution or MySQL. For each type of column the same executions go to MySQL and through the proxy."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from integration.oracle.answers import Answer, difference, explained, parse
from integration.oracle.asker import Asker
from integration.oracle.kinds import BY_NAME
from integration.oracle.trees import (
    DATE,
    LONGLONG,
    UNSIGNED,
    Spelled,
    clock,
    decimal,
    double,
    integer,
    moment,
    payload,
    string,
)
from proxy.mysql.wire.packets import packet

BEFORE = (integer(1), double(1.0), decimal("1.0"), string("1"), moment("2024-02-29", DATE), clock("12:34:56"))
NAMES = ("ti", "it", "bi", "bu", "dc", "dl", "b1", "b9", "yr", "va", "en", "bv", "da", "d0", "c0")
ALSO = {"b1": string("1"), "b9": string("1")}


def executions(asker: Asker, name: str, text: str, values: Sequence[Sequence[Spelled]]) -> list[Answer]:
    """Of one statement, in this order."""
    session = asker.session(name)
    statement = session.prepare(text)
    answers = []
    for value in values:
        session.write(packet(session.execution(statement.id, payload(value)), 0))
        answers.append(parse(session.result(), binary=True))
    session.close_statement(statement.id)
    return answers


@pytest.mark.parametrize("name", NAMES)
def test_what_was_bound_before_counts(asker: Asker, name: str) -> None:
    kind = BY_NAME[name]
    asker.new_database()
    asker.run([f"CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v {kind.ddl}, KEY (v))"])
    asker.run([f"INSERT INTO t (v) VALUES ({literal})" for literal in kind.literals])
    asker.wait()
    text = "SELECT id FROM t WHERE v = ?"
    asker.create_cache("c", text)
    values = [value for value in kind.near if value.bindable][:4]
    values += [ALSO[name]] if name in ALSO else []
    assert_equal(asker, text, [[before] for before in (*BEFORE, *values[:2])], [[value] for value in values])


# Numbers that are another one as DOUBLE, and one that is not.
FINE = (
    *(integer(2**63 - 1), integer(2**53 + 1), double(2.0**53), decimal(f"{2**53 + 1}"), decimal("1.5")),
    *(string(f"{2**53 + 1}"), integer(1), double(1.5)),
)
TYPES = ("BIGINT", "BIGINT UNSIGNED", "DECIMAL(20,0)", "DECIMAL(30,2)", "DOUBLE", "BIT(64)", "VARCHAR(30)")


def assert_equal(
    asker: Asker, text: str, before: Sequence[Sequence[Spelled]], values: Sequence[Sequence[Spelled]]
) -> None:
    """MySQL and the proxy give the same to executions with `before` and then `values`, twice, whichever they are."""
    executions(asker, "through", text, [*values, *values])  # what is announced is known then, and keys are held
    wrong = []
    for first in before:
        for second in values:
            asked = [first, second, first, second]
            direct, through = (executions(asker, session, text, asked) for session in ("direct", "through"))
            for at, (wanted, found) in enumerate(zip(direct, through, strict=True)):
                if difference(wanted, found, ordered=False, free=False) in ("error", "rows"):
                    told = " before ".join(str([value.text for value in one]) for one in (first, second))
                    wrong.append(f"{told}, execution {at}: {explained(wanted, found)}")
    asker.drop_caches()
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:6])


def fine_numbers(asker: Asker, ddl: str) -> None:
    asker.new_database()
    asker.run([f"CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v {ddl}, w INT)"])
    asker.run([f"INSERT INTO t (v, w) VALUES ({value}, 1)" for value in (2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1, 1, 2)])
    asker.wait()


@pytest.mark.parametrize("ddl", TYPES)
def test_numbers_that_are_no_double_after_a_double(asker: Asker, ddl: str) -> None:
    fine_numbers(asker, ddl)
    text = "SELECT id FROM t WHERE v = ?"
    asker.create_cache("c", text)
    assert_equal(asker, text, [[value] for value in FINE], [[value] for value in FINE])


@pytest.mark.parametrize("where", ["v IN (?, ?)", "v = ? OR v = ?", "v >= ? AND v <= ?", "v = ? AND w = ?"])
def test_a_double_beside_a_number_that_is_none(asker: Asker, where: str) -> None:
    fine_numbers(asker, "BIGINT")
    asker.create_cache("c", f"SELECT id FROM t WHERE {'v IN (?)' if 'IN' in where else where}")
    numbers = (integer(2**53 + 1), integer(1), double(1.5))
    pairs = [[first, second] for first in numbers for second in numbers]
    assert_equal(asker, f"SELECT id FROM t WHERE {where}", pairs, pairs)


NATURAL = Spelled("7", LONGLONG | UNSIGNED, struct.pack("<Q", 7))
SIGNS = [
    [integer(first), integer(second)]
    for first, second in (
        *((5, 2**64 - 1), (2**64 - 1, 5), (2**64 - 1, 2**64 - 1), (2**63, 5)),
        *((5, -1), (-1, 5), (-1, -1), (-(2**63), 5)),
    )
]


@pytest.mark.parametrize("ddl", ["BIGINT", "BIGINT UNSIGNED", "SMALLINT", "INT UNSIGNED", "DECIMAL(20,0)"])
def test_numbers_of_a_list_that_mysql_takes_for_those_of_the_other_sign(asker: Asker, ddl: str) -> None:
    """Behind a list of whole numbers and others MySQL compares the bits of a whole number."""
    asker.new_database()
    asker.run([f"CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v {ddl})"])
    asker.run([f"INSERT IGNORE INTO t (v) VALUES ({value})" for value in (5, 7, -1, 2**63, 2**64 - 1, -(2**63))])
    asker.wait()
    asker.create_cache("c", "SELECT id FROM t WHERE v IN (?)")
    others = (integer(7), NATURAL, decimal("7.0"), double(7.0))
    pairs = [[first, second] for first in others for second in others]
    assert_equal(asker, "SELECT id FROM t WHERE v IN (?, ?)", pairs, SIGNS)
