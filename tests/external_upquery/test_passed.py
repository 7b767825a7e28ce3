"""A client's own statement between two readings of what the source had executed."""

from __future__ import annotations

from typing import Any

from external_upquery.passed import commands, passed
from external_upquery.protocol import Answer, Done, Layout, ResultSet
from gtid_tracker.gtid import GtidSet

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
DONE = Done(0, 0, 2, 0)


def never(*arguments: Any) -> Any:
    raise AssertionError("nothing is decoded here")


def row(*values: str) -> ResultSet:
    return ResultSet(Layout((), never, never), [values])


def answers(owned: str, later: str) -> list[Answer]:
    return [row(f"{SERVER}:1-5"), DONE, row("7"), DONE, row(SERVER, owned, later)]


def test_quiet_source_answers_at_exactly_one_position() -> None:
    told = passed(answers("", f"{SERVER}:1-5"))
    assert (told.rows, told.executed, told.horizon) == ([("7",)], f"{SERVER}:1-5", "")


def test_what_was_executed_or_on_its_way_meanwhile_may_be_in_the_rows() -> None:
    told = passed(answers(f"{SERVER}:7#12", f"{SERVER}:1-6"))
    assert (told.executed, told.horizon) == (f"{SERVER}:1-5", f"{SERVER}:1-7")


def test_wait_before_the_reading_is_bounded() -> None:
    awaited = GtidSet.parse(f"{SERVER}:6")
    sent = commands("SELECT 7", awaited, 0.25)
    assert f"WAIT_FOR_EXECUTED_GTID_SET('{SERVER}:6', 0.250)".encode() in sent[0]
    assert b", 0.001)" in commands("SELECT 7", awaited, 0.0)[0], "0 would be without end"
    assert sent[1:] == commands("SELECT 7")
    assert passed([row("0"), *answers("", f"{SERVER}:1-5")]).executed == f"{SERVER}:1-5"
