"""Dates with a zero in them, or of no calendar: where MySQL's answer depends on its plan, the read is MySQL's. What
MySQL does with them, the scripts of the oracle's findings ask it."""

from __future__ import annotations

import pytest

from dataflow.entries import Entry
from planner.api import plan_query
from sqltypes.errors import EvaluationError
from sqltypes.expression import Key, Row
from sqltypes.schema import Column, SchemaSnapshot, SqlType, Table
from tests.support.engine_rig import Rig

BIG, DATE, MOMENT = SqlType("bigint"), SqlType("date"), SqlType("datetime", scale=0)
DAYS = Table(
    "test",
    "d",
    (
        Column("id", BIG, False, 0),
        Column("k", BIG, True, 1),
        Column("day", DATE, True, 2),
        Column("at", MOMENT, True, 3),
    ),
    ("id",),
    indexes=(("id",),),
)
WHOLE, PARTIAL, ZERO, NO_DAY = "2024-05-05", "2024-05-00", "0000-00-00", "2023-02-29"
ROWS = "SELECT id, day FROM d WHERE k = ?"
DISTINCT = "SELECT DISTINCT day FROM d WHERE k = ?"
GROUPS = "SELECT day, COUNT(*) FROM d WHERE k = ? GROUP BY day"
LEAST = "SELECT MIN(day) FROM d WHERE k = ?"
ROWS_GROUPED = "SELECT x.day, COUNT(*) FROM d x JOIN d y ON y.id = x.id WHERE x.k = ? GROUP BY x.day"
OF_ROWS = "SELECT MAX(x.day) FROM d x JOIN d y ON y.id = x.id WHERE x.k = ?"
ORDERED = "SELECT x.id, y.day FROM d x JOIN d y ON y.id = x.id WHERE x.k = ? ORDER BY y.day, x.id"
PUSHED_DOWN = "SELECT x.id, x.day FROM d x LEFT JOIN d y ON y.k = x.id WHERE x.k = ? GROUP BY x.id, x.day"
PUSHED_HAVING = f"{PUSHED_DOWN.replace(', x.day FROM', ', COUNT(y.id) FROM')} HAVING x.day > '2024-05-05' OR x.id > 0"
JOINED = "SELECT x.id, y.day FROM d x JOIN d y ON y.id = x.id WHERE x.k = ?"
BY_DAY = "SELECT x.id, y.id AS other FROM d x JOIN d y ON y.day = x.day WHERE x.k = ?"
BY_MOMENT = "SELECT x.id, y.id AS other FROM d x LEFT JOIN d y ON y.at = x.at WHERE x.k = ?"


def answer(query: str, day: str) -> list[Row]:
    """Of one row with that day."""
    rig = Rig()
    plan = plan_query(query, "test", SchemaSnapshot({("test", "d"): DAYS}, (9, 7, 0)))
    assert plan.mode.value == "maintain", plan.notes
    reader = rig.engine.install(plan)
    row = (1, 1, day, f"{day} 10:00:00")
    levels: list[dict[Key, Entry]] = []
    for node in reader.nodes:
        levels.append({})
        key = {"k": 1, "id": 1, "day": day, "at": row[3]}[node.plan.key[0]]  # type: ignore[union-attr]
        entry = node.new_entry(key, node.load(key, []).content, 0)
        levels[-1][key] = entry
        node.apply("test.d", [(None, row)], levels[-1])
    found = reader.derive((1,), levels)
    assert not found.holes
    return reader.program.finish(found.rows, (1,))


@pytest.mark.parametrize(
    "query", [DISTINCT, GROUPS, LEAST, ROWS_GROUPED, OF_ROWS, ORDERED, BY_DAY, BY_MOMENT, PUSHED_DOWN, PUSHED_HAVING]
)
@pytest.mark.parametrize("day", [PARTIAL, NO_DAY, "2024-04-31"])
def test_a_partial_date_and_one_of_no_calendar_are_left_to_mysql(query: str, day: str) -> None:
    assert answer(query, WHOLE) and answer(query, "2024-02-29")
    with pytest.raises(EvaluationError):
        answer(query, day)


@pytest.mark.parametrize("query", [GROUPS, LEAST, BY_DAY, BY_MOMENT])
def test_so_is_zero_where_it_may_stand_for_one(query: str) -> None:
    """What a fill has grouped, and lookups."""
    with pytest.raises(EvaluationError):
        answer(query, ZERO)


@pytest.mark.parametrize("query", [DISTINCT, ROWS_GROUPED, OF_ROWS, ORDERED])
def test_zero_is_a_date_like_others(query: str) -> None:
    assert ZERO in answer(query, ZERO)[0]


@pytest.mark.parametrize("query", [ROWS, JOINED])
@pytest.mark.parametrize("day", [PARTIAL, ZERO, NO_DAY])
def test_rows_are_as_they_are(query: str, day: str) -> None:
    assert answer(query, day) == [(1, day)]
