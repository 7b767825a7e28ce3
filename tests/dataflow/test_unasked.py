"""Fills that no read asks for: a slice of a large fill is inserted like any answer, and it is told what it left."""

from __future__ import annotations

import pytest

from dataflow.fills.inserting import FILL_PATIENCE
from dataflow.messages import Ddl, Effect, Filled, Gap, Ready, UpqueryFailed, UpqueryRequest
from dataflow.readers.derivation import Params
from dataflow.readers.reader import ReaderNode
from gtid_tracker.gtid import Gtid
from sqltypes.errors import SourceDown, SourceError
from sqltypes.expression import Key, Row, Value
from tests.support.engine_rig import NEW, OLD, ROWS, Rig, gtids

JOINED = "SELECT t.id, w.v FROM t JOIN w ON w.id = t.v WHERE t.k = ?"


def keys_of(reader: ReaderNode, *values: int) -> dict[Key, Params]:
    return {reader.key_of((value,)): (value,) for value in values}


def unasked(rig: Rig, *values: int) -> UpqueryRequest:
    request = rig.engine.unasked.fill(rig.readers[0], keys_of(rig.readers[0], *values))
    assert request is not None
    return request


def filled(effects: list[Effect]) -> list[Filled]:
    return [effect for effect in effects if isinstance(effect, Filled)]


def outcome(effects: list[Effect]) -> list[tuple[int, list[Value]]]:
    """Of each `Filled`: how many keys were asked for, and the values of those that are holes."""
    return [(one.asked, [params[0] for _, params in one.holes]) for one in filled(effects)]


def test_a_slice_is_inserted_with_its_own_bracket_and_holds_keys_without_rows() -> None:
    rig = Rig(ROWS)
    first, second = unasked(rig, 7, 8), unasked(rig, 9)
    rig.change(2, ((1, 7, 10), (1, 7, 11)), (None, (5, 9, 50)))
    effects = rig.answer(first, [(7, 1, 10)], lower=gtids(1))
    assert outcome(effects) == [(2, [])] and filled(effects)[0].rows == 1
    effects = rig.answer(second, [(9, 5, 50)], lower=gtids(1, 2))
    assert outcome(effects) == [(1, [])]
    assert rig.held(7) == [(1, 11)], "brought forward"
    assert rig.held(8) == [], "known to have no rows"
    assert rig.held(9) == [(5, 50)], "its snapshot had the change already"


def test_what_is_held_is_not_asked_for_again() -> None:
    rig = Rig(ROWS)
    rig.answer(unasked(rig, 7), [], lower=gtids(1))
    assert rig.engine.unasked.fill(rig.readers[0], keys_of(rig.readers[0], 7)) is None
    request = unasked(rig, 7, 8)
    assert "7" not in request.statements[0].sql and "8" in request.statements[0].sql


def test_a_read_does_not_wait_for_a_slice_and_what_it_has_filled_stays() -> None:
    rig = Rig(ROWS)
    slice_ = unasked(rig, 7, 8)
    rig.read(7)
    (request,) = rig.asked()
    (ready,) = rig.answer(request, [(7, 1, 10)], lower=gtids(1))
    assert isinstance(ready, Ready) and ready.rows == [(1, 10)]
    rig.change(2, ((1, 7, 10), (1, 7, 11)))
    assert outcome(rig.answer(slice_, [(7, 1, 10)], lower=gtids(1))) == [(2, [])]
    assert rig.held(7) == [(1, 11)]


def test_what_no_read_asked_for_is_given_only_once_it_was_looked_at() -> None:
    """A cache that has still to earn its trust compares it with MySQL's own answer first."""
    rig = Rig(ROWS)
    rig.answer(unasked(rig, 7), [(7, 1, 10)], lower=gtids(1))
    reader = rig.readers[0]
    held = reader.entries[reader.key_of((7,))]
    assert held.version is None and held.unseen
    rig.read(8)
    (request,) = rig.asked()
    rig.answer(request, [(8, 2, 20)], lower=gtids(1))
    assert reader.entries[reader.key_of((8,))].version is not None, "the snapshot's answer still, which a read was told"


def test_slices_are_no_measure_of_what_upqueries_take_and_let_misses_go_at_once() -> None:
    rig = Rig(ROWS)
    request = unasked(rig, 7)
    assert len(rig.engine.fills.unanswered) == 0
    rig.answer(request, [], lower=gtids(1))
    assert rig.engine.fills.latency == {}
    assert rig.engine.memory.counters["unasked_upqueries"] == 1
    assert rig.engine.memory.counters["upqueries"] == 0


def test_keys_that_a_transaction_of_q_concerns_are_told_as_holes() -> None:
    rig = Rig(ROWS)
    request = unasked(rig, 7, 8)
    rig.change(2, ((1, 7, 10), (1, 7, 11)))
    effects = rig.answer(request, [(7, 1, 10)], lower=gtids(1), executed=gtids(1, 2))
    assert outcome(effects) == [(2, [7])]
    assert rig.held(7) is None and rig.held(8) == []


def test_a_slice_waits_for_the_position_and_its_patience_begins_with_the_answer() -> None:
    rig = Rig(ROWS)
    request = unasked(rig, 7)
    rig.clock = 10 * FILL_PATIENCE  # it runs for long
    assert rig.answer(request, [(7, 1, 10)], lower=gtids(1, 2)) == []
    assert rig.engine.tick() == [], "it has just come"
    assert outcome(rig.change(2, (None, (9, 1, 1)))) == [(1, [])]
    assert rig.held(7) == [(1, 10)]
    request = unasked(rig, 8)
    rig.answer(request, [], lower=gtids(1, 2, 3))
    rig.clock += FILL_PATIENCE + 1
    assert outcome(rig.engine.tick()) == [(1, [8])], "the position does not come"


@pytest.mark.parametrize("error", [SourceError(1690, "22003", "out of range"), SourceDown("lost")])
def test_an_upquery_that_fails_tells_why(error: SourceError | SourceDown) -> None:
    rig = Rig(ROWS)
    request = unasked(rig, 7, 8)
    (told_,) = filled(rig.engine.on_failed(UpqueryFailed(request.id, error)))
    assert told_ == Filled(request.id, 2, list(keys_of(rig.readers[0], 7, 8).items()), error=error)


def test_where_history_begins_anew_all_slices_end_with_holes() -> None:
    rig = Rig(ROWS)
    request, waiting = unasked(rig, 7), unasked(rig, 8)
    rig.answer(waiting, [], lower=gtids(1, 2))
    effects = rig.engine.on_stream(Gap("the binlog was purged", gtids(1, 2, 3)))
    assert sorted(outcome(effects)) == [(1, [7]), (1, [8])]
    assert rig.answer(request, [], lower=gtids(1)) == [], "it comes too late"


def test_another_servers_answer_is_not_inserted() -> None:
    rig = Rig(ROWS)
    rig.followed = OLD
    effects = rig.answer(unasked(rig, 7), [], lower=gtids(1), server=NEW)
    (one,) = filled(effects)
    assert [params for _, params in one.holes] == [(7,)] and isinstance(one.error, SourceDown)


def test_a_ring_that_does_not_reach_back_leaves_holes() -> None:
    rig = Rig(ROWS)
    request = unasked(rig, 7)
    rig.change(2, (None, (9, 1, 1)))
    rig.engine.on_stream(Ddl(None, "a statement without a GTID", frozenset({"test.t"})))
    assert outcome(rig.answer(request, [], lower=gtids(1))) == [(1, [7])]
    assert rig.engine.memory.counters["ring_too_short"] == 1


def test_what_is_there_for_another_reader_is_held_for_this_one_too() -> None:
    rig = Rig(ROWS, "SELECT v, id FROM t WHERE k = ?")
    rig.answer(unasked(rig, 7), [(7, 1, 10)], lower=gtids(1))
    other = rig.readers[1]
    assert rig.engine.unasked.fill(other, keys_of(other, 7)) is None
    assert list(other.entries) == [7] and rig.held(7, reader=1) == [(10, 1)]


def audited(rig: Rig, *values: int) -> UpqueryRequest:
    request = rig.engine.unasked.audit(rig.readers[0], keys_of(rig.readers[0], *values))
    assert request is not None
    return request


def differing(effects: list[Effect]) -> list[tuple[list[Value], list[Value]]]:
    """Of each `Filled`: the values of keys that differ, and of those that could not be compared."""
    return [([p[0] for _, p in one.different], [p[0] for _, p in one.holes]) for one in filled(effects)]


def test_an_audit_compares_at_the_position_and_inserts_nothing() -> None:
    rig = Rig(ROWS)
    rig.answer(unasked(rig, 7, 8), [(7, 1, 10)], lower=gtids(1))
    request = audited(rig, 7, 8, 9)
    rig.change(2, ((1, 7, 10), (1, 7, 11)))
    effects = rig.answer(request, [(7, 1, 10), (9, 3, 30)], lower=gtids(1))
    assert differing(effects) == [([], [])], "it is brought forward; 9 is not held"
    assert rig.held(7) == [(1, 11)] and rig.held(9) is None
    effects = rig.answer(audited(rig, 7, 8), [(7, 1, 12), (8, 2, 20)], lower=gtids(1, 2))
    assert differing(effects) == [([7, 8], [])]
    assert rig.engine.memory.counters["audited_keys"] == 4
    assert rig.engine.memory.counters["audit_differences"] == 2
    assert rig.engine.unasked.repair(rig.readers[0], [7, 9]) == 1
    assert rig.held(7) is None and rig.held(8) == []


def test_what_a_transaction_of_q_concerns_is_not_compared() -> None:
    rig = Rig(ROWS)
    rig.answer(unasked(rig, 7, 8), [(7, 1, 10)], lower=gtids(1))
    request = audited(rig, 7, 8)
    rig.change(2, ((1, 7, 10), (1, 7, 11)))
    effects = rig.answer(request, [(7, 1, 10)], lower=gtids(1), executed=gtids(1, 2))
    assert differing(effects) == [([], [7])]


def test_a_stored_answer_of_other_rows_differs_one_in_another_order_does_not() -> None:
    rig = Rig(ROWS)
    rig.answer(unasked(rig, 7), [(7, 1, 10), (7, 2, 20)], lower=gtids(1))
    assert rig.hit(7) is not None
    held = rig.readers[0].entries[7]
    answer: list[Row] = [(7, 1, 10), (7, 2, 20)]
    for body, different in ((b"[(2, 20), (1, 10)]", []), (b"[(1, 10), (2, 21)]", [7])):
        held.bodies = [body]
        assert differing(rig.answer(audited(rig, 7), answer, lower=gtids(1))) == [(different, [])]


def test_of_a_closed_reader_nothing_is_asked_for_and_nothing_inserted() -> None:
    rig = Rig(ROWS)
    reader = rig.readers[0]
    request = unasked(rig, 7)
    rig.engine.remove(reader)
    assert outcome(rig.answer(request, [(7, 1, 10)], lower=gtids(1))) == [(1, [7])]
    assert rig.engine.unasked.fill(reader, keys_of(reader, 8)) is None


def test_what_is_dropped_is_not_told_of() -> None:
    rig = Rig(ROWS)
    first, second = unasked(rig, 7), unasked(rig, 8)
    rig.engine.unasked.drop([first.id])
    assert rig.answer(first, [], lower=gtids(1)) == []
    assert outcome(rig.answer(second, [], lower=gtids(1))) == [(1, [])]


def test_below_a_join_only_what_is_missing_is_asked_for() -> None:
    rig = Rig(JOINED)
    request = unasked(rig, 7)
    assert len(request.statements) == 2, "rows, and what they lead to by a semi-join"
    effects = rig.answer(request, [(7, 1, 3)], [(3, 30)], lower=gtids(1))
    assert outcome(effects) == [(1, [])]
    assert rig.held(7) == [(1, 30)]
    rig.engine.on_stream(Ddl(Gtid(OLD, 2), "ALTER TABLE w", frozenset({"test.w"}), schema=False))
    again = unasked(rig, 7)
    assert len(again.statements) == 1 and "`w`" in again.statements[0].sql
    assert outcome(rig.answer(again, [(3, 31)], lower=gtids(1, 2))) == [(1, [])]
    assert rig.held(7) == [(1, 31)]


def test_which_of_the_rows_that_tie_is_shown_is_no_difference() -> None:
    """LIMIT behind an order that does not tell all rows apart: the rows below must be the same ones."""
    rig = Rig("SELECT v, COUNT(*) FROM t WHERE k = ? GROUP BY v ORDER BY COUNT(*) DESC LIMIT 1")
    groups: list[Row] = [(7, 7, 10, 2), (7, 7, 20, 2), (7, 7, 30, 1)]
    rig.answer(unasked(rig, 7), groups, lower=gtids(1))
    first = rig.held(7)
    answer: list[Row] = [groups[1], groups[0], groups[2]]
    assert differing(rig.answer(audited(rig, 7), answer, lower=gtids(1))) == [([], [])]
    assert rig.held(7) == first
    wrong: list[Row] = [(7, 7, 20, 2), (7, 7, 10, 1), (7, 7, 30, 1)]
    assert differing(rig.answer(audited(rig, 7), wrong, lower=gtids(1))) == [([7], [])]
