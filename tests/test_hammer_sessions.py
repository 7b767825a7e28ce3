"""The judges of sessions in `make hammer`: what goes back in time, and what is no one state, is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gtid_tracker.gtid import Gtid
from integration.hammer import own
from integration.hammer.judge import BACK, MIX, STALE, Finding, History, Seen
from integration.hammer.session_judge import NOT_COUNTED, Floor, OneState, stale
from integration.hammer.sessions import marks_of, not_counted, text_of

SOURCE = "00000000-0000-0000-0000-000000000001"


def history() -> History:
    """Group 0 has versions 1 and 2 under GTIDs 1 and 3, group 1 has version 1 under GTID 2."""
    made = History([0, 1])
    for number, group in enumerate((0, 1, 0), 1):
        version = made.begin(group, made.last(group))
        made.committing(group, version)
        made.committed(group, version, Gtid(SOURCE, number))
    return made


def answer(served: str, at: int, **versions: int) -> Seen:
    position = f"{SOURCE}:1-{at}" if at else ""
    return Seen("rows", (), served, position, [(int(name[1:]), version) for name, version in versions.items()])


def kinds(found: Sequence[Finding]) -> list[str]:
    return [finding.kind for finding in found]


# -- one answer after the other ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("served", ["hit", "miss", "passed", "unknown"])
def test_an_answer_older_than_a_hit_before_it_is_found(served: str) -> None:
    floor, tally = Floor(), Counter[str]()
    assert kinds(floor.judge(history(), answer("hit", 3, g0=2), tally)) == []
    assert kinds(floor.judge(history(), answer(served, 1, g0=1), tally)) == [BACK]


def test_another_group_older_than_the_position_of_a_hit_before_is_found() -> None:
    floor, tally = Floor(), Counter[str]()
    assert kinds(floor.judge(history(), answer("hit", 2, g0=1), tally)) == []
    assert kinds(floor.judge(history(), answer("passed", 0, g1=1), tally)) == []
    assert kinds(floor.judge(history(), answer("hit", 1, g1=0), tally)) == [BACK]


@pytest.mark.parametrize("served", ["hit", "passed", "unknown"])
def test_a_hit_behind_a_cached_read_that_mysql_answered_is_found(served: str) -> None:
    floor, tally = Floor(), Counter[str]()
    assert kinds(floor.judge(history(), answer("passed", 0, g0=2), tally)) == []
    assert kinds(floor.judge(history(), answer(served, 1, g0=1), tally)) == [BACK]


def test_a_hit_behind_what_the_client_asked_mysql_for_is_told_and_no_finding() -> None:
    floor, tally = Floor(), Counter[str]()
    assert kinds(floor.judge(history(), replace(answer("passed", 0, g0=2), chosen=True), tally)) == []
    assert kinds(floor.judge(history(), answer("hit", 1, g0=1), tally)) == []
    assert sum(tally.values()) == 1
    assert kinds(floor.judge(history(), answer("hit", 3, g0=2), tally)) == []


def test_what_mysql_answers_must_have_what_was_committed_before() -> None:
    assert kinds(stale(answer("passed", 0, g0=1), {0: 2})) == [STALE]
    assert kinds(stale(answer("passed", 0, g0=2), {0: 2, 1: 1})) == []


# -- one state ---------------------------------------------------------------------------------------------------------


def test_hits_at_one_state_pass_though_the_position_moves() -> None:
    state = OneState()
    assert kinds(state.judge(history(), answer("hit", 2, g1=1))) == []
    assert kinds(state.judge(history(), answer("miss", 3, g0=2))) == []


def test_what_a_cache_has_told_the_transaction_may_be_told_again_behind_mysqls_snapshot() -> None:
    state, told = OneState(), replace(answer("hit", 1, g0=1), rows=[(0, 1)])
    assert not state.has_told(told)
    assert kinds(state.judge(history(), told)) == []
    assert not state.has_told(told), "as long as only caches answer, no session goes back"
    assert kinds(state.judge(history(), replace(answer("passed", 0, g0=2), rows=[(0, 2)], cache="other"))) == []
    assert state.has_told(told) and kinds(state.judge(history(), told)) == []
    assert not state.has_told(replace(told, rows=[(0, 2)])) and not state.has_told(replace(told, prepared=True))
    assert not state.has_told(replace(told, served="passed"))


def test_a_hit_after_what_was_shown_has_changed_is_found() -> None:
    state = OneState()
    assert kinds(state.judge(history(), answer("hit", 2, g0=1))) == []
    assert kinds(state.judge(history(), answer("hit", 3, g1=1))) == [MIX]


def test_a_hit_behind_mysqls_snapshot_is_found() -> None:
    state = OneState()
    assert kinds(state.judge(history(), answer("passed", 0, g0=2))) == []
    assert kinds(state.judge(history(), answer("hit", 3, g0=2))) == [MIX]


def test_two_states_in_one_snapshot_are_found() -> None:
    state = OneState()
    assert kinds(state.judge(history(), answer("passed", 0, g0=1))) == []
    assert kinds(state.judge(history(), answer("passed", 0, g0=2))) == [MIX]


def test_a_snapshot_older_than_a_hit_is_found() -> None:
    state = OneState()
    assert kinds(state.judge(history(), answer("hit", 3, g0=2))) == []
    assert kinds(state.judge(history(), answer("passed", 0, g0=1))) == [BACK]


@pytest.mark.parametrize(("at", "must"), [(2, False), (3, True)])
def test_a_mixed_snapshot_must_be_counted_where_the_proxy_knew(at: int, must: bool) -> None:
    state = OneState()
    state.judge(history(), answer("hit", 2, g0=1))
    state.before_passing(history(), f"{SOURCE}:1-{at}")
    assert kinds(state.judge(history(), answer("passed", 0, g0=2))) == []
    assert (state.mixed, state.must_count) == (True, must)


def test_a_change_that_mysql_does_not_show_behind_a_hit_need_not_be_counted() -> None:
    """It had opened its snapshot before."""
    state = OneState()
    state.judge(history(), answer("hit", 2, g0=1))
    state.before_passing(history(), f"{SOURCE}:1-3")
    assert kinds(state.judge(history(), answer("passed", 0, g0=1))) == []
    assert (state.mixed, state.must_count) == (False, False)


def test_a_snapshot_may_be_as_old_as_the_first_answer_and_no_older() -> None:
    for version, found in ((2, []), (1, [STALE])):
        state = OneState()
        state.judge(history(), replace(answer("hit", 2, g1=0), before={0: 2}))
        assert kinds(state.judge(history(), replace(answer("passed", 0, g0=version), before={0: 3}))) == found
    assert kinds(OneState().judge(history(), replace(answer("passed", 0, g0=2), before={0: 3}))) == [STALE]


def test_a_silent_counter_is_found() -> None:
    tally = Counter({"mixed snapshots that must be counted": 3})
    assert kinds(not_counted(tally, 2)) == [NOT_COUNTED]
    assert not_counted(tally, 3) == []


# -- texts -------------------------------------------------------------------------------------------------------------


def test_a_list_is_written_out_in_a_text_and_has_a_mark_for_each_value_where_it_is_prepared() -> None:
    sql = "SELECT k FROM t WHERE k IN (?) AND n = ?"
    assert text_of(sql, ([1, 2], 3)) == "SELECT k FROM t WHERE k IN (1, 2) AND n = 3"
    assert marks_of(sql, ([1, 2], 3)) == ("SELECT k FROM t WHERE k IN (?, ?) AND n = ?", (1, 2, 3))


def test_every_manner_writes_the_version_that_it_is_given() -> None:
    for name, manner in own.MANNERS.items():
        write = manner("UPDATE own SET version = 77 WHERE k = 5", 5, 1, 77)
        assert any("77" in text for text in write.texts), name
        assert write.inside < len(write.texts) or not write.inside, name
