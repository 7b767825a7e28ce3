"""Which held answers a change empties, and which not: by the conditions of the query, and by where an answer ends."""

from __future__ import annotations

from typing import Any

import pytest

import dataflow.operators.answer
from dataflow.operators.answer import AnswerNode
from sqltypes.expression import Key, Row
from tests.support.engine_rig import Rig

UNION = " UNION ALL SELECT id FROM w"
TOP = "SELECT id, v FROM t WHERE k = ? AND EXISTS (SELECT 1 FROM w WHERE w.k = t.v AND w.id >= t.id)"  # in evict mode
CASES: list[tuple[str, Key, list[Row], tuple[Row | None, Row | None], bool]] = [
    # the query, a key that is held, its answer, a change, whether it is emptied
    ("SELECT id FROM t WHERE v > ?" + UNION, (5,), [], (None, (1, 1, 6)), True),
    ("SELECT id FROM t WHERE v > ?" + UNION, (5,), [], (None, (1, 1, 5)), False),
    ("SELECT id FROM t WHERE v > ?" + UNION, (5,), [], (None, (1, 1, None)), False),
    ("SELECT id FROM t WHERE v > ?" + UNION, (None,), [], (None, (1, 1, 6)), False),
    ("SELECT id FROM t WHERE v > ?" + UNION, (5,), [], ((1, 1, 6), (1, 1, 4)), True),
    ("SELECT id FROM t WHERE v > ?" + UNION, (5,), [], ((1, 1, 4), (1, 1, 3)), False),
    ("SELECT id FROM t WHERE v BETWEEN ? AND ?" + UNION, (5, 7), [], (None, (1, 1, 7)), True),
    ("SELECT id FROM t WHERE v BETWEEN ? AND ?" + UNION, (5, 7), [], (None, (1, 1, 8)), False),
    ("SELECT id FROM t WHERE k = ? OR v = ?" + UNION, (5, 7), [], (None, (1, 5, 8)), True),
    ("SELECT id FROM t WHERE k = ? OR v = ?" + UNION, (5, 7), [], (None, (1, 6, 7)), True),
    ("SELECT id FROM t WHERE k = ? OR v = ?" + UNION, (5, 7), [], (None, (1, 7, 5)), False),
    ("SELECT id FROM t WHERE v <> ?" + UNION, (5,), [], (None, (1, 1, 5)), False),
    ("SELECT id FROM t WHERE v <> ?" + UNION, (5,), [], (None, (1, 1, 6)), True),
    ("SELECT id FROM t WHERE (v, id) < (?, ?)" + UNION, (5, 3), [], (None, (2, 1, 5)), True),
    ("SELECT id FROM t WHERE (v, id) < (?, ?)" + UNION, (5, 3), [], (None, (3, 1, 5)), False),
    ("SELECT id FROM t WHERE (v, id) = (?, ?)" + UNION, (5, 3), [], (None, (2, 1, 5)), False),
    (TOP + " ORDER BY v LIMIT 2", (1,), [(8, 3), (9, 4)], (None, (1, 1, 5)), False),
    (TOP + " ORDER BY v LIMIT 2", (1,), [(8, 3), (9, 4)], (None, (1, 1, 4)), True),
    (TOP + " ORDER BY v LIMIT 2", (1,), [(8, 3)], (None, (1, 1, 5)), True),
    (TOP + " ORDER BY v LIMIT 2", (1,), [(8, 3), (9, 4)], ((9, 1, 4), (9, 1, 5)), True),
    (TOP + " ORDER BY v LIMIT 2", (1,), [(8, 3), (9, 4)], (None, (1, 1, None)), True),
    (TOP + " ORDER BY v DESC LIMIT 2", (1,), [(8, 4), (9, 3)], (None, (1, 1, 2)), False),
    (TOP + " ORDER BY v DESC LIMIT 2", (1,), [(8, 4), (9, 3)], (None, (1, 1, 5)), True),
    (TOP + " ORDER BY 1 LIMIT 2", (1,), [(8, 4), (9, 3)], (None, (10, 1, 5)), True),  # a number is no column here
    (TOP + " ORDER BY v LIMIT ?", (1, 2), [(8, 3), (9, 4)], (None, (1, 1, 5)), False),
    (TOP + " ORDER BY v LIMIT ?", (1, 3), [(8, 3), (9, 4)], (None, (1, 1, 5)), True),
    (TOP.replace("id, v", "id AS v, v AS x") + " ORDER BY v LIMIT 1", (1,), [(3, 9)], (None, (4, 1, 1)), False),
    (TOP.replace("id, v", "id, -v AS v") + " ORDER BY v LIMIT 1", (1,), [(3, -9)], (None, (4, 1, 99)), True),
    (
        TOP.replace("id, v", "id, v, COUNT(*) OVER ()") + " ORDER BY v LIMIT 1",
        (1,),
        [(3, 9, 1)],
        (None, (4, 1, 99)),
        True,
    ),
    (
        TOP.replace("id, v", "COUNT(*) AS n, MAX(v) AS v") + " ORDER BY v LIMIT 1",
        (1,),
        [(3, 9)],
        (None, (4, 1, 99)),
        True,
    ),
    (
        TOP.replace("id, v", "id, v, JSON_ARRAYAGG(v)") + " ORDER BY v LIMIT 1",
        (1,),
        [(3, 9, "[9]")],
        (None, (4, 1, 99)),
        True,
    ),
    # FOUND_ROWS() counts what is behind the end, too
    (
        TOP.replace("SELECT id", "SELECT SQL_CALC_FOUND_ROWS id") + " ORDER BY v LIMIT 1",
        (1,),
        [(3, 9)],
        (None, (4, 1, 99)),
        True,
    ),
]


def node_of(query: str) -> AnswerNode:
    (node,) = Rig(query).readers[0].nodes
    assert isinstance(node, AnswerNode)
    return node


@pytest.mark.parametrize(("query", "key", "rows", "change", "emptied"), CASES)
def test_a_change_empties_what_it_concerns(
    query: str, key: Key, rows: list[Row], change: tuple[Row | None, Row | None], emptied: bool
) -> None:
    node = node_of(query)
    node.insert(node.load(key, rows))
    node.check_invariants()
    assert list(node.touched("test.t", [change], dict(node.entries))) == ([key] if emptied else [])
    node.apply("test.t", [change], node.entries)
    node.check_invariants()
    assert (key not in node.entries) == emptied


@pytest.mark.parametrize("query", ["SELECT id FROM t WHERE v > ?", "SELECT id FROM t WHERE v <> ?"])
@pytest.mark.parametrize("few", [0, 10_000])
def test_what_was_touched_meanwhile_is_known_however_many_rows_there_were(
    query: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While few rows are noted they tell; then a change of the table concerns every answer."""
    monkeypatch.setattr(dataflow.operators.answer, "MOST_NOTED", few)
    node = node_of(query + UNION)
    seen: dict[Any, Any] = {}
    held = [node.load((number,), []) for number in range(10)]
    for value in (4, 4, 4):
        node.note_touched("test.t", [(None, (1, 1, value))], seen)
    touched = [entry.key[0] for entry in held if node.was_touched(entry, seen)]  # type: ignore[index]  # tuples
    precise = [number for number in range(10) if (number < 4 if ">" in query and "<>" not in query else number != 4)]
    assert touched == (precise if few else list(range(10)))


def test_too_many_to_be_tried_are_emptied_by_what_passes_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataflow.operators.answer, "MOST_TRIED", 3)
    node = node_of("SELECT id FROM t WHERE k = ? AND v <> ?" + UNION)
    for number in range(4):
        node.insert(node.load((1, number), []))
    node.insert(node.load((2, 1), []))
    node.apply("test.t", [(None, (9, 1, 3))], node.entries)
    assert list(node.entries) == [(2, 1)]
    node.check_invariants()
