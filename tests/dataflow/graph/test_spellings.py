"""Rows of one group that are spelled otherwise: which of them stands for the group, MySQL's plan decides, and so the
read is MySQL's. What MySQL does with them, the scripts of the oracle's findings ask it."""

from __future__ import annotations

import pytest

from dataflow.messages import Failed
from sqltypes.errors import EvaluationError
from sqltypes.expression import Row
from tests.support.engine_rig import Rig, gtids

GROUPS = "SELECT word, COUNT(*) AS n FROM s GROUP BY word"
COUNT = "SELECT COUNT(*) AS n FROM s WHERE word = ?"
LEAST = "SELECT MIN(word) AS lo, COUNT(*) AS n FROM s"
OF_GROUPS = "SELECT g.n FROM (SELECT word, COUNT(*) AS n FROM s GROUP BY word) g WHERE g.word = ?"
OF_ROWS = "SELECT MAX(y.word) AS hi FROM s x JOIN s y ON y.id = x.id WHERE x.word = ?"


def filled(query: str, *params: object, rows: list[Row]) -> Rig:
    rig = Rig(query)
    rig.read(*params)  # type: ignore[arg-type]
    (request,) = rig.asked()
    rig.answer(request, rows, lower=gtids(1))
    return rig


def is_mysqls(rig: Rig) -> bool:
    """Whether a read of what is held is left to MySQL, without another upquery."""
    try:
        rig.held()
    except EvaluationError:
        return not rig.asked()
    return False


def test_a_group_of_several_spellings_is_not_shown() -> None:
    rig = Rig(GROUPS)
    rig.read()
    (request,) = rig.asked()
    (failed,) = rig.answer(request, [("a", 2, 0), ("b", 1, 1)], lower=gtids(1))
    assert isinstance(failed, Failed) and failed.error is None
    assert is_mysqls(rig)


def test_a_row_of_another_spelling_joins_a_group_and_leaves_it() -> None:
    rig = filled(GROUPS, rows=[("a", 1, 1)])
    rig.change(2, (None, (2, "a")), table="test.s")
    assert rig.held() == [("a", 2)]
    rig.change(3, (None, (3, "A")), table="test.s")
    assert is_mysqls(rig)
    rig.change(4, ((3, "A"), None), table="test.s")
    assert rig.held() is None, "those that are left may be spelled alike, or not: MySQL is asked"


def test_rows_of_a_group_that_is_spelled_alike_come_and_go() -> None:
    rig = filled(GROUPS, rows=[("a", 2, 1)])
    rig.change(2, ((1, "a"), None), table="test.s")
    assert rig.held() == [("a", 1)]
    rig.change(3, ((2, "a"), (2, "A")), table="test.s")
    assert rig.held() == [("A", 1)], "the group's only row"
    rig.change(4, ((2, "A"), (2, "b")), table="test.s")
    assert rig.held() == [("b", 1)]


@pytest.mark.parametrize("query", [COUNT, OF_GROUPS])
def test_spellings_that_are_not_shown_do_not_matter(query: str) -> None:
    rig = filled(query, "a", rows=[("a", "A", 2, 0)])
    assert rig.held("a") == [(2,)]  # type: ignore[arg-type]
    rig.change(2, (None, (3, "a ")), (None, (4, "a")), table="test.s")
    assert rig.held("A") == [(3,)]  # type: ignore[arg-type]


def test_the_least_of_several_spellings_is_not_shown() -> None:
    rig = filled(LEAST, rows=[("b", 2, 1)])
    assert rig.held() == [("b", 2)]
    rig.change(2, (None, (3, "B")), table="test.s")
    assert is_mysqls(rig)
    rig.change(3, (None, (4, "a")), table="test.s")
    assert rig.held() == [("a", 4)], "another is the least"
    assert is_mysqls(filled(LEAST, rows=[("b", 2, 0)]))


def test_the_greatest_of_joined_rows_is_not_shown_if_it_has_several_spellings() -> None:
    rig = Rig(OF_ROWS)
    rig.read("a")  # type: ignore[arg-type]
    (request,) = rig.asked()
    (failed,) = rig.answer(request, [("a", 1), ("A", 2)], [(1, "a"), (2, "A")], lower=gtids(1))
    assert isinstance(failed, Failed) and failed.error is None
    rig.change(2, ((2, "A"), None), table="test.s")
    assert rig.held("a") == [("a",)]  # type: ignore[arg-type]


def test_a_column_that_is_wrongly_left_out_of_a_group_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the planner takes for determined is compared all the same."""
    joined = "FROM s x JOIN s y ON y.word = x.word WHERE x.word = ?"
    monkeypatch.setattr("planner.maintain.build_group.telling", lambda block, exprs: (0,))
    rig = Rig(f"SELECT x.id, y.id AS i, COUNT(*) AS n {joined} GROUP BY x.id, y.id")
    rig.read("a")  # type: ignore[arg-type]
    (request,) = rig.asked()
    (failed,) = rig.answer(request, [("a", 1, "a")], [("a", 1), ("a", 2)], lower=gtids(1))
    assert isinstance(failed, Failed) and failed.error is None
