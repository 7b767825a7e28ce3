"""The engine between a stream and upqueries that the test answers itself: one race at a time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import dataflow.fills.inserting
import dataflow.fills.waiting_reads
from dataflow.fills.read import Read
from dataflow.messages import Effect, Failed, Gap, Ready, Transaction, UpqueryAnswer, UpqueryFailed, UpqueryRequest
from dataflow.readers.derivation import Params
from dataflow.readers.reader import ReaderNode
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import Gtid
from sqltypes.errors import Fault, SourceDown, SourceError
from sqltypes.expression import Key, Row
from tests.support.engine_rig import NEW, OLD, ROWS, Rig, gtids


def test_read_is_not_told_what_was_seen_before_a_change_that_the_position_has() -> None:
    rig = Rig(ROWS)
    rig.read(7)
    (request,) = rig.asked()
    (ready,) = rig.answer(request, [(7, 1, 10)], lower=gtids(1), owned=gtids(9))  # 9 is never to be executed
    assert isinstance(ready, Ready)
    rig.change(2, ((1, 7, 10), (1, 7, 11)))
    assert rig.read(7) == []  # its snapshot lacks 2, which the position has


def test_read_that_joins_an_upquery_in_flight_is_not_told_what_its_snapshot_lacks() -> None:
    rig = Rig(ROWS)
    rig.read(7)
    (request,) = rig.asked()
    rig.change(2, ((1, 7, 10), (1, 7, 11)))
    rig.read(7)
    told = [effect for effect in rig.answer(request, [(7, 1, 10)], lower=gtids(1)) if isinstance(effect, Ready)]
    assert [(ready.waiter, ready.rows) for ready in told] == [(1, [(1, 10)]), (2, [(1, 11)])]


def test_read_that_joins_an_answer_as_new_as_the_position_is_told_at_once() -> None:
    rig = Rig(ROWS, ahead_fills=False)
    rig.read(7)
    (request,) = rig.asked()
    rig.answer(request, [(7, 1, 10)], lower=gtids(1, 2))
    (ready,) = rig.read(7)
    assert isinstance(ready, Ready) and ready.rows == [(1, 10)]


def test_another_server_takes_over_and_keys_are_held_again() -> None:
    rig = Rig(ROWS)
    rig.read(7)
    (request,) = rig.asked()
    rig.answer(request, [], lower=gtids(1))
    rig.engine.on_stream(Gap("another server answers", gtids(1)))
    rig.change(2, (None, (1, 8, 0)))  # on the stream, and not executed yet
    rig.read(7)
    (request,) = rig.asked()
    rig.answer(request, [], lower=gtids(1), server=NEW)
    rig.read(8)
    (request,) = rig.asked()
    rig.answer(request, [(8, 1, 0)], lower=gtids(1, 2), server=NEW)
    assert rig.held(8) == [(1, 0)]


def test_answer_of_a_server_that_the_stream_does_not_follow_moves_no_position() -> None:
    rig = Rig(ROWS)
    rig.read(7)
    (request,) = rig.asked()
    rig.answer(request, [], lower=gtids(1))
    rig.change(2, (None, (1, 8, 0)))
    rig.read(9)
    (request,) = rig.asked()
    rig.answer(request, [], lower=gtids(1), server=NEW)
    assert rig.engine.state.ring.position.freeze() == gtids(1, 2)


def test_answer_of_a_server_whose_stream_is_not_followed_is_told_and_not_held() -> None:
    rig = Rig(ROWS)
    rig.followed = OLD
    rig.read(7)
    (request,) = rig.asked()
    (ready,) = rig.answer(request, [(7, 1, 10)], lower=gtids(1), server=NEW)
    assert isinstance(ready, Ready) and ready.rows == [(1, 10)]
    assert rig.held(7) is None
    rig.followed = NEW
    rig.read(7)
    (request,) = rig.asked()
    rig.answer(request, [(7, 1, 10)], lower=gtids(1), server=NEW)
    assert rig.held(7) == [(1, 10)]


def test_read_of_held_keys_beside_a_miss_of_the_same_batch_is_answered() -> None:
    rig = Rig(ROWS + " AND v > 3", "SELECT x.id FROM t x JOIN t y ON y.id = x.v WHERE x.k = ?")
    rig.read(7, reader=1)
    (request,) = rig.asked()
    rig.answer(request, [(7, 1, 5)], [(5, 1)], lower=gtids(1))
    for held in list(rig.readers[1].entries.values()):
        held.stale()
    rig.read(7, reader=1)
    rig.read(8, reader=1)
    effects = rig.engine.flush()
    assert [effect.waiter for effect in effects if isinstance(effect, Ready)] == [2]


def test_what_mysql_says_of_several_keys_together_is_told_nobody_whose_key_it_may_not_be_about() -> None:
    rig = Rig(ROWS)
    for key in (7, 8, 9):
        rig.read(key)
    (together,) = rig.asked()
    refused = SourceError(1690, "22003", "out of range")
    assert rig.engine.on_failed(UpqueryFailed(together.id, refused)) == []
    first, last = rig.asked()  # in two halves
    assert rig.engine.on_failed(UpqueryFailed(first.id, refused)) == []
    (ready,) = rig.answer(last, [(9, 1, 10)], lower=gtids(1))
    assert isinstance(ready, Ready) and (ready.waiter, ready.rows) == (3, [(1, 10)])
    good, bad = rig.asked()
    assert rig.engine.on_failed(UpqueryFailed(bad.id, refused)) == [Failed(2, refused)]
    (ready,) = rig.answer(good, [(7, 1, 10)], lower=gtids(1))
    assert isinstance(ready, Ready) and (ready.waiter, ready.rows) == (1, [(1, 10)])
    assert rig.held(7) == rig.held(9) == [(1, 10)] and rig.held(8) is None
    assert len(rig.engine.fills.unanswered) == 0 and not rig.engine.reads.pending


def test_one_key_among_many_that_mysql_refuses_costs_some_dozen_upqueries() -> None:
    rig = Rig(ROWS)
    for key in range(100):
        rig.read(key)
    asked, told = 0, 0
    while requests := rig.asked():
        for request in requests:
            asked += 1
            fill = rig.engine.fills.by_number.get(request.id)
            assert fill is not None
            if 66 in fill.keys:
                told += len(rig.engine.on_failed(UpqueryFailed(request.id, SourceError(1690, "22003", "no"))))
            else:
                told += len(rig.answer(request, [(key, 1, 10) for key in fill.keys], lower=gtids(1)))
    assert told == 100 and asked < 20


def test_a_source_that_is_away_is_told_everybody_at_once() -> None:
    rig = Rig(ROWS)
    rig.read(7)
    rig.read(8)
    (request,) = rig.asked()
    failed = rig.engine.on_failed(UpqueryFailed(request.id, SourceDown("gone")))
    assert [effect.waiter for effect in failed if isinstance(effect, Failed)] == [1, 2]


def test_a_flush_asks_for_as_much_as_a_step_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many lists of 1,000 keys were asked for in one step."""
    monkeypatch.setattr(dataflow.fills.waiting_reads, "ASKED", 4)
    rig = Rig("SELECT id, v FROM t WHERE k IN (?...)", ROWS + " AND v > 3")
    lists = [(1, 2, 3), (3, 4), (5, 6, 7, 8, 9, 10), (1, 2)]
    for waiter, keys in enumerate(lists, 1):
        rig.engine.reads.read(Read(waiter, rig.readers[0], [(key, (key,)) for key in keys]))
    rig.waiter = len(lists)
    rig.read(11, reader=1)
    asked = []
    while rig.engine.reads.pending:
        asked.append(rig.asked())
    fills = [[[*rig.engine.fills.by_number[one.id].whole] for one in requests] for requests in asked]
    assert fills == [[[1, 2, 3]], [[4]], [[5, 6, 7, 8, 9, 10]], [[11]]], "the last list waits for the first one's"
    requests = [one for requests in asked for one in requests]
    ready: dict[int, int] = {}
    for request in requests:
        rows: list[Row] = [(key, key, key) for key in rig.engine.fills.by_number[request.id].whole]
        for effect in rig.answer(request, rows, lower=gtids(1)):
            assert isinstance(effect, Ready)
            ready[effect.waiter] = len(effect.rows)
    assert ready == {1: 3, 2: 2, 3: 6, 4: 2, 5: 1}
    rig.engine.check_invariants()


LISTS = "SELECT id, v FROM t WHERE k IN (?...)"


def read_lists(rig: Rig, *lists: Sequence[int]) -> None:
    for keys in lists:
        rig.waiter += 1
        rig.engine.reads.read(Read(rig.waiter, rig.readers[0], [(key, (key,)) for key in keys]))


def test_many_who_wait_for_the_same_keys_are_answered_in_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred clients that missed one list of 1,000 ids were all answered in the step of its last fill, in 75 ms."""
    monkeypatch.setattr(dataflow.fills.waiting_reads, "MAX_BATCH", 4)
    monkeypatch.setattr(dataflow.fills.waiting_reads, "ASKED", 20)
    rig = Rig(LISTS)
    read_lists(rig, *[range(first, first + 10) for first in (0, 0, 1, 0, 2, 0, 1)])
    looked: list[int] = []
    reader = rig.readers[0]
    answer = ReaderNode.answer

    def counted(self: ReaderNode, keys: Sequence[tuple[Key, Params]], *, short: bool) -> list[Row] | None:
        looked.append(len(keys))
        return answer(self, keys, short=short)

    monkeypatch.setattr(ReaderNode, "answer", counted)
    steps: list[list[Effect]] = []
    requests = []
    while rig.engine.reads.pending:
        requests += rig.asked()
    for request in requests:
        rows: list[Row] = [(key, key, key) for key in rig.engine.fills.by_number[request.id].whole]
        steps.append(rig.answer(request, rows, lower=gtids(1)))
        assert sum(looked) <= 30, "those whose other fills are under way are not looked at"
        looked.clear()
    while rig.engine.reads.pending:
        steps.append(rig.engine.flush())
        assert sum(looked) <= 30
        looked.clear()
    ready = [effect for effects in steps for effect in effects]
    assert all(isinstance(effect, Ready) and len(effect.rows) == 10 for effect in ready)
    assert sorted(effect.waiter for effect in ready if isinstance(effect, Ready)) == list(range(1, 8))
    assert not rig.engine.reads.waiting and reader.installed
    rig.engine.check_invariants()


def test_a_read_that_is_still_to_be_looked_at_can_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataflow.fills.waiting_reads, "MAX_BATCH", 1)
    monkeypatch.setattr(dataflow.fills.waiting_reads, "ASKED", 2)
    for ending in ("cancelled", "dropped", "failed", "lost"):
        rig = Rig(LISTS)
        read_lists(rig, *[(1, 2)] * 4)
        requests = []
        while rig.engine.reads.pending:
            requests += rig.asked()
        for request in requests:
            (key,) = rig.engine.fills.by_number[request.id].whole
            rig.answer(request, [(key, key, key)], lower=gtids(1))
        waiting = sorted(rig.engine.reads.unsettled)
        assert waiting == [2, 3, 4] and rig.engine.reads.pending
        match ending:
            case "cancelled":
                for waiter in waiting:
                    assert rig.engine.reads.cancel(waiter) == []
                assert not rig.engine.reads.pending
            case "dropped":
                assert [one.waiter for one in rig.engine.close(rig.readers) if isinstance(one, Failed)] == waiting
                assert rig.engine.flush() == []
            case "failed":
                failed = rig.engine.reads.fail_missed(Fault("a test"))
                assert [one.waiter for one in failed if isinstance(one, Failed)] == waiting
            case "lost":
                assert rig.engine.fail_lost(Fault("a test")) == [], "they are looked at yet"
                assert len(rig.engine.flush()) == 1 and len(rig.engine.flush()) == 1 and len(rig.engine.flush()) == 1
        assert not rig.engine.reads.waiting and not rig.engine.reads.pending


def test_value_out_of_range_is_left_to_mysql() -> None:
    rig = Rig("SELECT id, v + 1 AS z FROM w WHERE k = ?")
    rig.read(7)
    (request,) = rig.asked()
    effects = rig.answer(request, [(7, 1, 2**63 - 1)], lower=gtids(1))
    (failed,) = effects
    assert isinstance(failed, Failed) and failed.error is None
    rig.engine.check_invariants()


def test_value_out_of_range_ends_a_subscription() -> None:
    rig = Rig("SELECT id, v + 1 AS z FROM w WHERE k = ?")
    rig.engine.subscribe(50, rig.readers[0], 7, (7,))
    (request,) = rig.asked()
    rig.answer(request, [(7, 1, 1)], lower=gtids(1))
    effects = rig.change(2, ((1, 7, 1), (1, 7, 2**63 - 1)), table="test.w")
    assert [getattr(effect, "lost", "") != "" for effect in effects] == [True]
    assert len(rig.engine.subscriptions) == 0


def test_patterns_that_are_equal_strings_have_answers_of_their_own() -> None:
    rig = Rig("SELECT id FROM s WHERE id < ? AND word LIKE ?", "SELECT id FROM s WHERE id < ? AND word = ?")
    like, equal = rig.readers
    assert like.key_of((9, "a")) != like.key_of((9, "A"))
    assert equal.key_of((9, "a")) == equal.key_of((9, "A"))


def test_least_member_of_an_enum_is_mysqls_to_give() -> None:
    """By number where an index gives it, else by text."""
    rig = Rig("SELECT MIN(level) AS lo FROM e")
    rig.read()
    (request,) = rig.asked()
    rig.answer(request, [("high",)], lower=gtids(1))
    assert rig.held() == [("high",)]
    rig.change(2, (None, (2, "low")), table="test.e")  # the first of the members
    assert rig.held() is None


def test_what_a_later_reading_finds_rolled_back_is_waited_for_no_more() -> None:
    rig = Rig(ROWS, ahead_fills=False)
    rig.read(1)
    (first,) = rig.asked()
    assert len(rig.engine.fills.unanswered) == 1
    rig.answer(first, [(1, 4, 5)], lower=gtids(1), owned=gtids(2))
    assert (len(rig.engine.fills.unanswered), rig.engine.inserting.waiting, rig.held(1)) == (0, 1, None)
    for key, owned, waiting in ((2, gtids(2), 2), (3, gtids(), 0)):
        rig.read(key)
        (request,) = rig.asked()
        rig.answer(request, [], lower=gtids(1), owned=owned)
        assert rig.engine.inserting.waiting == waiting
    assert rig.held(1) == [(4, 5)]
    assert rig.engine.memory.counters["rolled_back_cleared"] == 2


def test_many_who_wait_for_one_answer_are_told_in_several_steps() -> None:
    """Three hundred clients that missed one list of 100 ids were told in the step of its fill, in 22 ms."""
    for lists, steps in ((9, 0), (300, 50)):
        rig = Rig(LISTS)
        read_lists(rig, *[range(100)] * lists)
        requests: list[UpqueryRequest] = []
        while rig.engine.reads.pending:
            requests += rig.asked()
        (request,) = requests
        fill = rig.engine.fills.by_number[request.id]
        rows: list[Row] = [(key, key, key) for key in range(100)]
        answer = UpqueryAnswer(request.id, Bracket(OLD, gtids(1), gtids(), gtids(1)), (rows,))
        assert fill.is_large(answer) == (steps > 0)
        if steps:
            assert len(list(fill.prepare(answer))) >= steps
        ready = [effect for effect in rig.engine.on_answer(answer) if isinstance(effect, Ready)]
        assert len(ready) == lists and all(len(effect.rows) == 100 for effect in ready)


@pytest.mark.parametrize("ahead", [False, True])
def test_answers_that_waited_are_inserted_a_few_at_a_time_and_brought_forward_by_what_came_meanwhile(
    ahead: bool,
) -> None:
    rig = Rig(ROWS, ahead_fills=ahead)
    rig.engine.inserting.most = 2
    for key in range(6):
        rig.read(key)
        (request,) = rig.asked()
        rig.answer(request, [(key, key, 5)], lower=gtids(1, 2))
    assert rig.engine.inserting.waiting == (0 if ahead else 6)
    rig.change(2)
    steps = 0
    while rig.engine.unfinished:
        key = 3 + steps
        rig.change(3 + steps, ((key, key, 5), (key, key, 6)))
        steps += 1
    assert steps == 2 and rig.engine.inserting.waiting == 0
    assert [rig.held(key) for key in range(6)] == [[(key, 6 if key in (3, 4) else 5)] for key in range(6)]


def test_where_many_answers_have_waited_for_an_event_none_is_inserted_in_its_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dataflow.fills.inserting, "MOST_ARRIVED", 2)
    rig = Rig(ROWS, ahead_fills=False)
    for key in range(3):
        rig.read(key)
        (request,) = rig.asked()
        rig.answer(request, [(key, key, 5)], lower=gtids(1, 2))
    rig.change(2)
    assert rig.engine.unfinished and rig.engine.inserting.waiting == 3
    rig.engine.go_on()
    assert not rig.engine.unfinished and [rig.held(key) for key in range(3)] == [[(key, 5)] for key in range(3)]


def test_answers_that_are_to_be_inserted_are_asked_for_again_where_history_is_lost() -> None:
    rig = Rig(ROWS, ahead_fills=False)
    rig.engine.inserting.most = 1
    for key in range(3):
        rig.engine.on_stream(Transaction(Gtid(OLD, 10 + key), []))
        rig.read(key)
        (request,) = rig.asked()
        rig.answer(request, [(key, key, 5)], lower=gtids(1, 2))
    rig.change(2)
    assert rig.engine.unfinished and len(rig.engine.reads.waiting) == 2
    rig.engine.on_stream(Gap("test", gtids(1, 2, 10, 11, 12, 13)))
    assert not rig.engine.unfinished and rig.engine.inserting.waiting == 0
    (request,) = rig.asked()
    lower = gtids(1, 2, 10, 11, 12, 13)
    effects = rig.answer(request, [(1, 1, 5), (2, 2, 5)], lower=lower)
    assert [effect.waiter for effect in effects if isinstance(effect, Ready)] == [2, 3]
