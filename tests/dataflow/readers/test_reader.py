"""How a reader derives an answer from what its arrangements hold, and which columns its plan's names have become."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dataflow.readers.reader import held_bytes
from sqltypes.expression import Row
from tests.support.engine_rig import Rig

TABLE: Mapping[int, Row] = {
    1: (1, 7, 2),
    2: (2, 7, 3),
    3: (3, 8, 1),
    4: (4, 7, None),
    5: (5, 7, 3),
}

ANSWERS: list[tuple[str, tuple[int, ...], list[Row]]] = [
    ("SELECT id, v FROM t WHERE k = ?", (7,), [(1, 2), (2, 3), (4, None), (5, 3)]),
    ("SELECT v, k, id FROM t WHERE id = ?", (3,), [(1, 8, 3)]),
    ("SELECT id + v AS z FROM t WHERE k = ? AND v > ?", (7, 2), [(5,), (8,)]),
    (
        "SELECT x.id, y.id AS yid, y.k FROM t x JOIN t y ON y.id = x.v WHERE x.k = ?",
        (7,),
        [(1, 2, 7), (2, 3, 8), (5, 3, 8)],
    ),
    (
        "SELECT x.id, y.k FROM t x LEFT JOIN t y ON y.id = x.v AND y.k = 8 WHERE x.k = ?",
        (7,),
        [(1, None), (2, 8), (4, None), (5, 8)],
    ),
    ("SELECT x.id FROM t x LEFT JOIN t y ON y.v = x.id WHERE x.k = ? AND y.id IS NULL", (7,), [(4,), (5,)]),
    ("SELECT DISTINCT v FROM t WHERE k = ? ORDER BY v", (7,), [(None,), (2,), (3,)]),
    ("SELECT id FROM t WHERE k = ? ORDER BY v DESC, id DESC LIMIT 2 OFFSET 1", (7,), [(2,), (1,)]),
    ("SELECT id FROM t WHERE k = ? ORDER BY id LIMIT ?", (7, 2), [(1,), (2,)]),
    ("SELECT id FROM t WHERE k = ? ORDER BY id LIMIT ?", (7, 0), []),
    ("SELECT v, COUNT(*) AS n FROM t WHERE k = ? GROUP BY v HAVING COUNT(*) > 1", (7,), [(3, 2)]),
    ("SELECT COUNT(*) AS n, COUNT(v) AS m, MAX(v) AS hi FROM t WHERE k = ?", (9,), [(0, 0, None)]),
    ("SELECT y.k, COUNT(*) AS n FROM t x JOIN t y ON y.id = x.v WHERE x.k = ? GROUP BY y.k", (7,), [(7, 1), (8, 2)]),
    (
        "SELECT x.id, z.k FROM t x LEFT JOIN t y ON y.id = x.v LEFT JOIN t z ON z.id = COALESCE(y.v, 3) WHERE x.k = ?",
        (7,),
        [(1, 8), (2, 7), (4, 8), (5, 7)],
    ),
]


@pytest.mark.parametrize(("query", "params", "expected"), ANSWERS)
def test_answer_of_what_one_upquery_filled(query: str, params: tuple[int, ...], expected: list[Row]) -> None:
    rig = Rig(query)
    rig.fill_from(TABLE, *params)
    rows = rig.held(*params)
    assert rows is not None
    ordered = "ORDER BY" in query
    assert (list(rows) if ordered else sorted(rows, key=repr)) == (expected if ordered else sorted(expected, key=repr))


@pytest.mark.parametrize(("query", "params", "expected"), ANSWERS)
def test_answer_after_every_row_went_and_came_again(query: str, params: tuple[int, ...], expected: list[Row]) -> None:
    rig = Rig(query)
    rig.fill_from(TABLE, *params)
    rig.hit(*params)
    for row in TABLE.values():
        rig.change(rig.next_gtid(), (row, None))
        rig.change(rig.next_gtid(), (None, row))
        rig.engine.check_invariants()
    if rig.hit(*params) is None:
        rig.fill_from(TABLE, *params)
    rows = rig.held(*params)
    assert rows is not None
    assert sorted(rows, key=repr) == sorted(expected, key=repr)


def test_stored_bytes_stay_until_an_entry_they_came_from_changes() -> None:
    rig = Rig("SELECT x.id, y.v FROM t x JOIN t y ON y.id = x.v WHERE x.k = ?")
    rig.fill_from(TABLE, 7)
    body = rig.hit(7)
    assert body is not None and rig.hit(7) is body
    rig.change(rig.next_gtid(), ((3, 8, 1), (3, 8, 9)))  # a partner
    changed = rig.hit(7)
    assert changed is not None and changed != body
    rig.change(rig.next_gtid(), (None, (6, 9, 9)))  # nothing of this key
    assert rig.hit(7) is changed


def test_row_that_leads_to_a_partner_not_held_makes_the_key_a_hole_and_only_that_is_asked() -> None:
    rig = Rig("SELECT x.id, y.v FROM t x JOIN t y ON y.id = x.v WHERE x.k = ?")
    rig.fill_from(TABLE, 7)
    rig.hit(7)
    rig.change(rig.next_gtid(), ((1, 7, 2), (1, 7, 4)))
    assert rig.hit(7) is None
    rig.read(7)
    (request,) = rig.asked()
    (statement,) = request.statements
    assert "= 4" in statement.sql


def test_entries_are_shared_by_readers_and_go_with_the_last() -> None:
    rig = Rig("SELECT id, v FROM t WHERE k = ?", "SELECT id, v FROM t WHERE k = ? AND v > ?")
    assert rig.readers[0].program.root is rig.readers[1].program.root
    rig.fill_from(TABLE, 7)
    assert rig.hit(7, 2, reader=1) is not None  # no upquery of its own
    rig.readers[0].clear()
    assert rig.held(7, 2, reader=1) is not None
    rig.readers[1].clear()
    assert rig.engine.memory.used == 0


def test_what_keys_share_is_counted_once() -> None:
    """A thousand moments of one list of rows, and a thousand lists."""
    rig = Rig("SELECT id, v FROM t WHERE k = ? AND v < ?")
    rig.fill_from({number: (number, 7, number) for number in range(300)}, 7, 0)
    for moment in range(1, 1000):
        assert rig.hit(7, -moment) is not None
    used = rig.engine.memory.used
    assert used / 2 < held_bytes(rig.readers[0]) < used * 2
    rig = Rig("SELECT id, v FROM t WHERE k = ?")
    for key in range(1000):
        rig.fill_from(TABLE, key)
        assert rig.hit(key) is not None
    used = rig.engine.memory.used
    assert used / 2 < held_bytes(rig.readers[0]) < used * 2
