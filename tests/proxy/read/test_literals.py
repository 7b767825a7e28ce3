"""Long texts of `Query`: seen to in slices."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from proxy.port.api import ParameterValue
from proxy.read.literals import SLICE, is_long, read_text, substituted, substituted_in_slices
from sqltypes.errors import BadParameters, NotARead, ParseError


def seen_to(sql: str, *parameters: ParameterValue) -> str:
    return asyncio.run(read_text(sql, parameters))


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT 1", ()),
        ("SELECT ? /* ? */ FROM t WHERE a IN (?...) AND b = '?'; ;", (1, (2, 3))),
        ("(WITH c AS (SELECT ?) SELECT * FROM c)", ("it's",)),
        ("SELECT " + "?, " * 3000 + "1", tuple(range(3000))),
        ("SELECT 1 FROM t WHERE a IN (?...) AND b IN (?...)", (tuple(range(3 * SLICE + 1)), ("x", None, 1.5, True))),
    ],
)
def test_parameters_are_put_in(sql: str, parameters: Sequence[ParameterValue]) -> None:
    assert seen_to(sql, *parameters) == substituted(sql, parameters)
    assert asyncio.run(substituted_in_slices(sql, parameters)) == substituted(sql, parameters)


def test_lists_are_put_in_as_their_values_are() -> None:
    mixed = (1, -(2**63), True, None, "it's", 1.5, b"x")
    for values in (mixed, mixed[:2], mixed[2:3], ()):
        each = substituted("SELECT " + ", ".join("?" * len(values)), values)
        assert substituted("SELECT ?...", (values,)) == each
        assert asyncio.run(substituted_in_slices("SELECT ?...", (values,))) == each


@pytest.mark.parametrize(
    "sql", ["", ";", "SELECT 1; SELECT 2", "DELETE FROM t", "SELECT 1 INTO @a", "WITH c AS (SELECT 1) DELETE FROM t"]
)
def test_what_is_no_read_is_refused(sql: str) -> None:
    with pytest.raises(NotARead):
        seen_to(sql)


def test_parameters_and_placeholders_are_as_many() -> None:
    with pytest.raises(BadParameters, match="2 parameters were given, the query takes 1"):
        seen_to("SELECT ?", 1, 2)
    with pytest.raises(ParseError):
        seen_to("SELECT 'open")


def test_others_have_their_turn_and_cancelling_ends_it() -> None:
    async def scenario() -> int:
        reading = asyncio.ensure_future(read_text("SELECT " + "1, " * 50 * SLICE + "1", ()))
        turns = 0
        while turns < 10:
            assert not reading.done()
            await asyncio.sleep(0)
            turns += 1
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert reading.cancelled()
        return turns

    assert asyncio.run(scenario()) == 10


def test_a_list_of_literals_counts_as_one() -> None:
    assert not is_long("SELECT a FROM t WHERE id IN (" + ", ".join(map(str, range(5000))) + ")")
    assert is_long("SELECT a FROM t WHERE " + " OR ".join(f"id = {number}" for number in range(500)))
    assert is_long("SELECT '" + "x" * 70_000 + "'")
