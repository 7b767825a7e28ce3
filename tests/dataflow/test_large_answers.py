"""An answer that is derived, loaded or sorted in steps is the one that is made in one."""

from __future__ import annotations

import random

import pytest

import dataflow.large_answers
from dataflow.large_answers import HeldRows, answered, at_once, finished
from sqltypes.expression import Row
from tests.support.engine_rig import Rig, gtids

QUERIES = (
    "SELECT id, v FROM t WHERE k = ?",
    "SELECT id, v FROM t WHERE k = ? ORDER BY v, id DESC",
    "SELECT v, COUNT(*), MAX(id) FROM t WHERE k = ? GROUP BY v",
    "SELECT DISTINCT v FROM t WHERE k = ? ORDER BY v LIMIT 3",
    "SELECT v, COUNT(*) AS c FROM t WHERE k = ? GROUP BY v HAVING c > 2 ORDER BY c, v",
    "SELECT id, v FROM t WHERE k = ? AND v > 2 ORDER BY v",
)
JOINS = (
    "SELECT t.id, w.v FROM t JOIN w ON w.id = t.v WHERE t.k = ?",
    "SELECT t.id, w.v FROM t LEFT JOIN w ON w.id = t.v WHERE t.k = ? ORDER BY w.v, t.id",
    "SELECT w.v, COUNT(*), SUM(t.id) FROM t JOIN w ON w.id = t.v WHERE t.k = ? GROUP BY w.v",
    "SELECT COUNT(*) FROM t JOIN w ON w.id = t.v WHERE t.k = ?",
)
RNG = random.Random(5)
TABLE = {number: (number, 1, RNG.randrange(8)) for number in range(100)}


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataflow.large_answers, "AT_ONCE", 3)


def joined(query: str) -> Rig:
    made = Rig(query)
    made.read(1)
    (request,) = made.asked()
    wide: list[Row] = [(number, number * 7) for number in range(0, 8, 2)]
    made.answer(request, [(k, *rest) for id_, k, v in TABLE.values() for rest in [(id_, v)]], wide, lower=gtids(1))
    return made


@pytest.mark.parametrize("query", [*QUERIES, *JOINS])
def test_in_steps_and_in_one_are_the_same(query: str) -> None:
    made = joined(query) if " JOIN " in query else Rig(query)
    if " JOIN " not in query:
        made.fill_from(TABLE, 1)
    reader = made.readers[0]
    keys = [(reader.key_of((1,)), (1,))]
    expected = reader.answer(keys)
    assert expected
    assert at_once(answered(reader, keys, reader.held_levels)) == expected
    assert at_once(answered(reader, keys * 2, reader.held_levels)) == reader.answer(keys * 2)
    assert at_once(finished(reader, [], (1,))) == reader.finish([], (1,))
    held = made.engine.hold(reader, *keys[0])
    assert held is not None
    found = HeldRows(held, (1,))
    at_once(found.steps())
    assert found.rows == expected and found.bodies is held.bodies
    made.engine.check_invariants()


def test_a_hole_is_told() -> None:
    made = Rig(QUERIES[0])
    reader = made.readers[0]
    assert at_once(answered(reader, [(5, (5,))], reader.held_levels)) is None


@pytest.mark.parametrize("query", QUERIES[:2])
@pytest.mark.parametrize("stored", [True, False])
def test_a_change_between_two_steps_leaves_no_answer(query: str, stored: bool) -> None:
    """At each of the steps: what comes of it is no answer, or the key has another list of encodings."""
    for at in range(1, 200):
        made = Rig(query)
        made.fill_from(TABLE, 1)
        reader = made.readers[0]
        if stored:
            assert made.hit(1) is not None
        held = reader.entries[1]
        if not stored:
            held.stale()
        found = HeldRows(held, (1,))
        steps = found.steps()
        if sum(1 for _, _ in zip(range(at), steps, strict=False)) < at:
            return
        made.change(2, ((1, 1, TABLE[1][2]), (1, 1, 99)))
        for _ in steps:
            pass
        assert found.bodies is None or held.bodies is not found.bodies
        made.engine.check_invariants()
    raise AssertionError("it does not end")


def test_a_key_that_goes_between_two_steps_stays_away() -> None:
    made = Rig(QUERIES[0])
    made.fill_from(TABLE, 1)
    held = made.readers[0].entries[1]
    held.stale()
    found = HeldRows(held, (1,))
    steps = found.steps()
    next(steps)
    made.readers[0].drop(held)
    for _ in steps:
        pass
    assert found.rows is None and not found.hole
    made.engine.check_invariants()
    assert made.engine.memory.used == 0


@pytest.mark.parametrize("query", [*QUERIES, "SELECT id, ROW_NUMBER() OVER (ORDER BY v) AS r FROM t WHERE k = ?"])
def test_an_entry_is_loaded_in_parts_as_in_one(query: str) -> None:
    made = Rig(query)
    node = made.readers[0].nodes[0]
    width = 4 if "GROUP BY" in query else 2
    rows: list[Row] = [tuple([number % 60, *[number] * (width - 1)]) for number in range(60)]
    if "GROUP BY" not in query and "ROW_NUMBER" not in query:
        rows += rows[:30]
    steps = node.load_in_parts((1,) if "ROW_NUMBER" in query else 1, list(rows), 7)
    parted = at_once(steps)
    whole = node.load(parted.key, list(rows))
    assert parted.size == whole.size
    shown = [list(node.rows(entry.content)) for entry in (parted, whole)]
    assert shown[0] == shown[1]
    assert [row for part in node.rows_in_parts(parted.content, 7) for row in part] == shown[0]
