"""Which indexes find what a row concerns, by the query."""

from __future__ import annotations

import pytest

from dataflow.graph.ways import ordered, ways_of
from dataflow.operators.answer_index import Way
from planner.tree.plan import AnswerArrangement
from sqltypes.schema import SqlType
from tests.support.engine_rig import Rig

UNION = "UNION ALL SELECT id FROM w"  # no operator maintains it
CASES = {
    "WHERE k = ?": [Way((0,))],
    "WHERE k = ? AND v = ?": [Way((0, 1))],
    "WHERE v > ?": [Way((), 0)],
    "WHERE ? > v": [Way((), None, 0)],
    "WHERE v >= ? AND v < ?": [Way((), 0, 1)],
    "WHERE v BETWEEN ? AND ?": [Way((), 0, 1)],
    "WHERE v BETWEEN 3 AND ?": [Way((), None, 0)],
    "WHERE k = ? AND v BETWEEN ? AND ?": [Way((0,), 1, 2)],
    "WHERE k > ? AND v BETWEEN ? AND ?": [Way((), 1, 2)],
    "WHERE k = ? OR v = ?": [Way((0,)), Way((1,))],
    "WHERE (k = ? OR v < ?) AND id > ?": [Way((0,), 2), Way((), None, 1)],
    "WHERE k = ? AND (v = ? OR v > ?)": [Way((0,))],
    "WHERE (v, id) < (?, ?)": [Way((), None, 0), Way((0,), None, 1)],
    "WHERE (v, id) = (?, ?)": [Way((0, 1))],
    "WHERE k = ? OR v <> ?": [],
    "WHERE v <> ?": [],
    "WHERE k + 0 > ?": [],
    "": [],
}


@pytest.mark.parametrize("where", CASES)
def test_ways_of_a_condition(where: str) -> None:
    root = Rig(f"SELECT id FROM t {where} {UNION}").readers[0].plan.reader.root
    assert isinstance(root, AnswerArrangement)
    found = [each.way for each in ways_of(root.inputs[0])]
    assert sorted(found, key=repr) == sorted(CASES[where], key=repr)


@pytest.mark.parametrize(
    ("type_", "least", "most"),
    [
        ("bigint", 9, 10),
        ("datetime", "2024-01-31", "2024-01-31 00:00:01"),
        ("datetime", "2024-01-31 09:00:00.5", "2024-01-31 10:00:00"),
        ("timestamp", "0000-00-00 00:00:00", "1970-01-02 00:00:00"),
        ("date", "2024-09-30", "2024-10-01"),
    ],
)
def test_values_are_ordered_as_mysql_orders_them(type_: str, least: object, most: object) -> None:
    by = ordered(SqlType(type_))
    assert by is not None and by(least) < by(most)


@pytest.mark.parametrize("type_", ["varchar", "double", "year", "time", "enum", "json"])
def test_other_types_are_tried_without_an_order(type_: str) -> None:
    assert ordered(SqlType(type_)) is None


@pytest.mark.parametrize("value", ["2024-1-1", "20240101", "2024-01-01T00:00:00", 20240101])
def test_a_moment_that_is_spelled_otherwise_has_no_place(value: object) -> None:
    by = ordered(SqlType("datetime"))
    assert by is not None and by(value) is None
