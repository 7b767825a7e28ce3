"""Entries ahead of the position: held while the stream lags, each at the cut of its bracket."""

from __future__ import annotations

from dataflow.messages import Ddl, Ready
from dataflow.readers.reader import ReaderNode
from gtid_tracker.gtid import Gtid
from sqltypes.expression import Row
from tests.support.engine_rig import OLD, ROWS, Rig, gtids

GROUPS = "SELECT k, COUNT(*), SUM(v) FROM t WHERE k = ? GROUP BY k"
ANSWERS = "SELECT COUNT(DISTINCT v) FROM t WHERE k = ?"
JOINED = "SELECT x.id, y.v FROM t x JOIN t y ON y.id = x.v WHERE x.k = ?"


def filled(
    rig: Rig, *rows: Row, seen: tuple[int, ...], owned: tuple[int, ...] = (), executed: tuple[int, ...] = ()
) -> None:
    """Key 7 of the first reader, answered by a server that has executed the transactions `seen`."""
    rig.read(7)
    (request,) = rig.asked()
    upper = gtids(*executed) if executed else None
    (ready,) = rig.answer(request, list(rows), lower=gtids(*seen), owned=gtids(*owned), executed=upper)
    assert isinstance(ready, Ready)


def ahead(rig: Rig, reader: int = 0) -> list[Row] | None:
    rig.engine.check_invariants()
    node: ReaderNode = rig.readers[reader]
    found = node.answer_ahead((7,))
    return None if found is None else found[0]


def counted(rig: Rig, name: str) -> int:
    return rig.engine.memory.counters.get(name, 0)


def test_answer_that_the_stream_has_still_to_catch_up_with_is_held_at_once() -> None:
    rig = Rig(ROWS)
    filled(rig, (7, 1, 10), seen=(1, 2, 3))
    assert ahead(rig) == [(1, 10)]
    assert rig.readers[0].answer_ahead((7,)) == ([(1, 10)], gtids(1, 2, 3))
    assert rig.hit(7) is None, "the header of a hit names the position, which this is ahead of"


def test_record_that_the_answer_reflects_is_passed_over_and_a_later_one_applied() -> None:
    rig = Rig(GROUPS)
    filled(rig, (7, 7, 30, 2, 2), seen=(1, 2, 3))
    rig.change(2, (None, (1, 7, 10)))
    assert ahead(rig) == [(7, 2, 30)]
    rig.change(4, (None, (9, 7, 5)))  # not in the order of numbers: sets are compared, not numbers
    assert ahead(rig) == [(7, 3, 35)]
    rig.change(3, (None, (2, 7, 20)))
    assert ahead(rig) is None
    assert rig.held(7) == [(7, 3, 35)], "the position contains the cut: it is held like any other"
    assert counted(rig, "records_in_cut_skipped") == 2


def test_answer_that_lacks_what_was_received_waits_for_the_position() -> None:
    """The source may have lost that: with what the answer has instead, it would be no state that was."""
    rig = Rig(GROUPS)
    rig.read(7)
    (request,) = rig.asked()
    rig.change(4, (None, (9, 7, 5)))
    rig.answer(request, [(7, 7, 30, 2, 2)], lower=gtids(1, 2, 3))
    assert ahead(rig) is None
    rig.change(2, (None, (1, 7, 10)))
    rig.change(3, (None, (2, 7, 20)))
    assert rig.held(7) == [(7, 3, 35)]


def test_record_in_doubt_that_concerns_the_entry_makes_it_a_hole() -> None:
    rig = Rig(GROUPS)
    filled(rig, (7, 7, 30, 2, 2), seen=(1, 2), owned=(4,), executed=(1, 2, 3))
    rig.change(4, (None, (9, 8, 5)))
    assert ahead(rig) == [(7, 2, 30)], "it concerns another key"
    rig.change(3, (None, (2, 7, 20)))
    assert ahead(rig) is None and rig.held(7) is None
    rig.change(2, (None, (1, 7, 10)))
    assert rig.held(7) is None
    assert counted(rig, "conflicts") == 1


def test_transaction_in_doubt_that_never_comes_is_cleared_by_a_later_reading() -> None:
    rig = Rig(ROWS)
    filled(rig, (7, 1, 10), seen=(1,), owned=(9,))
    assert ahead(rig) == [(1, 10)]
    rig.read(8)
    (request,) = rig.asked()
    rig.answer(request, [], lower=gtids(1))  # 9 is neither owned nor executed: it was rolled back
    assert ahead(rig) is None and rig.held(7) == [(1, 10)]


def test_evicted_key_takes_its_cut_along() -> None:
    rig = Rig(GROUPS)
    filled(rig, (7, 7, 30, 2, 2), seen=(1, 2, 3))
    rig.engine.sieve.evict_to(0)
    assert ahead(rig) is None and rig.engine.memory.used == 0
    rig.change(2, (None, (1, 7, 10)))
    filled(rig, (7, 7, 60, 3, 3), seen=(1, 2, 3, 4))
    rig.change(3, (None, (2, 7, 20)))
    assert ahead(rig) == [(7, 3, 60)]
    rig.change(4, (None, (3, 7, 30)))
    assert rig.held(7) == [(7, 3, 60)]


def test_row_that_moves_between_keys_ahead_and_at_the_position() -> None:
    rig = Rig(ROWS)
    filled(rig, (7, 1, 10), seen=(1, 2))
    rig.read(8)
    (request,) = rig.asked()
    rig.answer(request, [], lower=gtids(1, 2), executed=gtids(1, 2))
    rig.change(3, ((1, 7, 10), (1, 8, 10)))
    assert ahead(rig) == []
    found = rig.readers[0].answer_ahead((8,))
    assert found is not None and found[0] == [(1, 10)]
    rig.change(2)
    assert (rig.held(7), rig.held(8)) == ([], [(1, 10)])


def test_answer_in_evict_mode_goes_only_when_what_it_lacks_concerns_it() -> None:
    rig = Rig(ANSWERS)
    filled(rig, (2,), seen=(1, 2))
    rig.change(2, (None, (1, 7, 10)))
    assert rig.held(7) == [(2,)]
    filled_again = Rig(ANSWERS)
    filled(filled_again, (2,), seen=(1, 2))
    filled_again.change(3, (None, (1, 7, 10)))
    assert ahead(filled_again) is None and filled_again.held(7) is None


def test_ddl_on_its_table_makes_it_a_hole() -> None:
    rig = Rig(ROWS)
    filled(rig, (7, 1, 10), seen=(1, 2, 3))
    rig.engine.on_stream(Ddl(Gtid(OLD, 2), "ALTER TABLE t ...", frozenset({"test.t"})))
    assert ahead(rig) is None
    rig.change(3)
    assert rig.held(7) is None


def test_a_join_takes_it_for_a_hole_and_fills_it_at_the_position() -> None:
    rig = Rig(ROWS, JOINED)
    filled(rig, (7, 1, 10), seen=(1, 2))
    rig.read(7, reader=1)
    (request,) = rig.asked()
    assert len(request.statements) == 2, "the root is asked for again"
    rig.answer(request, [(7, 1, 10)], [(10, 99)], lower=gtids(1, 2))
    assert rig.held(7, reader=1) is None
    rig.change(2, (None, (1, 7, 10)))
    assert (rig.held(7), rig.held(7, reader=1)) == ([(1, 10)], [(1, 99)])


def test_entry_at_the_position_takes_the_place_of_one_ahead() -> None:
    rig = Rig(ROWS, JOINED)
    rig.read(7, reader=1)
    (request,) = rig.asked()
    filled(rig, (7, 1, 11), seen=(1, 2, 3))
    rig.answer(request, [(7, 1, 10)], [(10, 99)], lower=gtids(1))
    assert ahead(rig) is None
    assert (rig.held(7), rig.held(7, reader=1)) == ([(1, 10)], [(1, 99)])
    rig.change(2, ((1, 7, 10), (1, 7, 11)))
    assert rig.hit(7) == b"[(1, 11)]"
    rig.change(3)
    assert rig.held(7) == [(1, 11)]


def test_stream_that_lacks_what_the_server_executed_is_doubted() -> None:
    rig = Rig(ROWS)
    filled(rig, (7, 1, 10), seen=(1, 99))
    rig.clock = 1000.0
    rig.engine.tick()
    rig.engine.tick()
    assert counted(rig, "fills_beyond_stream") == 1
    assert ahead(rig) == [(1, 10)], "time resolves nothing, and takes nothing away"


def test_lost_history_takes_all_of_it() -> None:
    rig = Rig(ROWS)
    filled(rig, (7, 1, 10), seen=(1, 2, 3))
    rig.engine.reset(gtids(1, 2, 3), "purged")
    assert ahead(rig) is None and rig.held(7) is None and rig.engine.memory.used == 0


def test_switched_off_it_waits_for_the_position() -> None:
    rig = Rig(ROWS, ahead_fills=False)
    filled(rig, (7, 1, 10), seen=(1, 2))
    assert ahead(rig) is None
    rig.change(2)
    assert rig.held(7) == [(1, 10)]
