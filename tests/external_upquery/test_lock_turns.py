"""Who may lock which tables, and who is next."""

from __future__ import annotations

from external_upquery.lock_turns import Turns


def test_one_of_a_table_runs_the_others_follow_in_order() -> None:
    turns: Turns[str] = Turns()
    assert turns.take("first", ["t"])
    assert not turns.take("second", ["t"])
    assert not turns.take("third", ["t"])
    assert turns.leave("first") == ["second"]
    assert list(turns) == ["third"]
    assert turns.leave("second") == ["third"]
    assert turns.leave("third") == []
    assert turns.take("fourth", ["t"])


def test_tables_apart_run_side_by_side() -> None:
    turns: Turns[str] = Turns()
    assert turns.take("one", ["t"]) and turns.take("other", ["u"])
    assert not turns.take("both", ["t", "u"])
    assert turns.leave("one") == []
    assert turns.leave("other") == ["both"]


def test_nobody_overtakes_one_who_waits_for_the_same_table() -> None:
    turns: Turns[str] = Turns()
    assert turns.take("one", ["t"])
    assert not turns.take("both", ["t", "u"])
    assert not turns.take("late", ["u"])
    assert turns.leave("one") == ["both"]
    assert turns.leave("both") == ["late"]


def test_one_that_goes_while_it_waits_makes_way() -> None:
    turns: Turns[str] = Turns()
    assert turns.take("one", ["t"])
    assert not turns.take("both", ["t", "u"])
    assert not turns.take("late", ["u"])
    assert turns.leave("both") == ["late"]
    assert turns.leave("one") == [] and len(turns) == 0
