"""When an upquery is to lock what it reads, and that the key is held then."""

from __future__ import annotations

from dataflow.engine import Engine
from dataflow.fills.exact_fills import CONFLICTS, MOST_KEYS, HotKeys
from dataflow.messages import Failed, GivenUp, Ready, UpqueryRequest
from planner.tree.plan import AnswerArrangement
from sqltypes.expression import Row
from tests.support.engine_rig import ROWS, Rig, gtids

UNMAINTAINED = "SELECT v FROM t WHERE k = ? UNION SELECT v FROM t WHERE v = 1000"


def conflict(rig: Rig, reader: int = 0, key: int = 7) -> bool:
    """A read of the key whose upquery may or may not have seen a change of it; whether it was to be exact."""
    rig.read(key, reader=reader)
    (request,) = rig.asked()
    number = rig.next_gtid() + 1
    rig.number = number
    rows: list[Row] = [(key, 1, number)] if reader == 0 else [(1,)]
    rig.answer(request, rows, lower=gtids(*range(1, number)), executed=gtids(*range(1, number + 1)))
    rig.change(number - 1)
    rig.change(number, ((1, key, number - 1), (1, key, number)))
    assert rig.held(key, reader=reader) is None
    return request.exact


def ask(rig: Rig, key: int = 7, reader: int = 0) -> UpqueryRequest:
    rig.read(key, reader=reader)
    (request,) = rig.asked()
    return request


def test_key_whose_fill_was_dropped_three_times_is_filled_exactly_and_held() -> None:
    rig = Rig(ROWS)
    assert [conflict(rig) for _ in range(CONFLICTS)] == [False, False, False]
    request = ask(rig)
    assert request.exact
    (ready,) = rig.answer(request, [(7, 1, rig.number)], lower=gtids(*range(1, rig.number + 1)))
    assert isinstance(ready, Ready)
    assert rig.held(7) == [(1, rig.number)]
    rig.change(rig.number + 1, ((1, 7, rig.number), (1, 7, 100)))
    assert rig.held(7) == [(1, 100)]


def test_once_it_was_held_the_count_begins_anew() -> None:
    rig = Rig(ROWS)
    for _ in range(CONFLICTS):
        conflict(rig)
    rig.answer(ask(rig), [], lower=gtids(*range(1, rig.number + 1)))
    rig.readers[0].clear()
    for node in rig.engine.graph:
        node.clear()
    assert [conflict(rig) for _ in range(CONFLICTS)] == [False, False, False]
    assert ask(rig).exact


def test_exact_fill_that_is_dropped_too_is_repeated_less_and_less_often() -> None:
    rig = Rig(ROWS)
    exact = [number for number in range(1, 60) if conflict(rig)]
    assert exact == [4, 7, 13, 25, 49]


def test_other_keys_of_the_batch_are_not_locked() -> None:
    rig = Rig(ROWS)
    for _ in range(CONFLICTS):
        conflict(rig)
    rig.read(7)
    rig.read(8)
    hot, other = rig.asked()
    assert hot.exact and "7" in hot.statements[0].sql and "8" not in hot.statements[0].sql
    assert not other.exact and "8" in other.statements[0].sql and "7" not in other.statements[0].sql


def test_read_that_nothing_could_answer_is_not_given_up_when_an_exact_fill_is_due() -> None:
    rig = Rig(ROWS)
    rig.change(2)
    rig.read(7)  # nothing without 2 can answer it
    exact = []
    for number in range(3, 3 + CONFLICTS):
        (request,) = rig.asked()
        exact.append(request.exact)
        assert rig.answer(request, [], lower=gtids(1), executed=gtids(*range(1, number + 1))) == []
        told = rig.change(number, ((1, 7, number - 1), (1, 7, number)))
        assert not any(isinstance(effect, Failed) for effect in told)
    (request,) = rig.asked()
    assert (*exact, request.exact) == (False, False, False, True)
    told = rig.answer(request, [], lower=gtids(1), executed=gtids(*range(1, 7)))
    told += rig.change(6, ((1, 7, 5), (1, 7, 6)))
    assert [effect.why for effect in told if isinstance(effect, Failed)] == [GivenUp.HOT_KEY]


def test_switched_off_no_upquery_is_exact() -> None:
    rig = Rig(ROWS)
    rig.engine.state.hot_keys = HotKeys(enabled=False)
    assert not any(conflict(rig) for _ in range(2 * CONFLICTS))
    assert Engine(gtids(1), 1 << 20, lambda: 0.0, exact_fills=False).state.hot_keys.enabled is False


def test_what_is_not_maintained_and_what_is_slow_is_never_locked() -> None:
    rig = Rig(ROWS, UNMAINTAINED)
    assert isinstance(rig.readers[1].plan.reader.root, AnswerArrangement)
    assert not any(conflict(rig, reader=1) for _ in range(2 * CONFLICTS))
    for _ in range(CONFLICTS):
        conflict(rig)
    rig.engine.fills.latency[rig.readers[0].tag] = 1.0
    assert not ask(rig).exact


def test_memory_of_conflicts_is_bounded_and_ends_with_the_reader() -> None:
    rig = Rig(ROWS)
    hot, reader = HotKeys(enabled=True), rig.readers[0]
    for key in range(MOST_KEYS + 10):
        for _ in range(CONFLICTS):
            hot.dropped(reader, key)
    assert len(hot.by_reader[reader]) == MOST_KEYS
    assert not hot.due(reader, [9]) and hot.due(reader, [10])
    hot.forget(reader)
    assert not hot.by_reader


def test_what_was_due_before_they_were_switched_off_is_filled_without_locks() -> None:
    rig = Rig(ROWS)
    hot, reader = HotKeys(enabled=True), rig.readers[0]
    for _ in range(CONFLICTS):
        hot.dropped(reader, 1)
    hot.enabled = False
    assert [exact for _, exact in hot.batches(reader, {1: (1,)}, 10, 0.0)] == [False]
