"""A fault inside the engine: who waits is told, what may be wrong is emptied, all else goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dataflow.engine import Engine
from dataflow.fills.fill import Fill
from dataflow.fills.inserting import Inserting
from dataflow.fills.read import Read
from dataflow.fills.state import State
from dataflow.fills.waiting_reads import Reads
from dataflow.guard import Guard
from dataflow.messages import (
    Changes,
    Failed,
    Gap,
    Pair,
    Ready,
    TableChanges,
    Transaction,
    UpqueryAnswer,
    UpqueryFailed,
    UpqueryRequest,
)
from dataflow.operators.rows import RowsNode
from dataflow.readers.memory_limit import MemoryLimit
from dataflow.readers.reader import ReaderNode
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import Gtid
from sqltypes.errors import Fault, SourceDown
from tests.support.engine_rig import NOTHING, OLD, ROWS, Rig, gtids

WIDE = "SELECT id, v FROM w WHERE k = ?"


class Guarded(Rig):
    def __init__(self, *queries: str, ahead_fills: bool = False) -> None:
        super().__init__(*queries, ahead_fills=ahead_fills)
        self.faults: list[str] = []
        self.guard = Guard(self.engine, lambda step, what, error: self.faults.append(step))

    def asked(self) -> list[UpqueryRequest]:
        return [effect for effect in self.guard.flush() if isinstance(effect, UpqueryRequest)]


def failing(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, when: Callable[..., bool]) -> None:
    """From now on the function fails where `when` of its arguments is true."""
    whole = getattr(owner, name)

    def broken(*given: Any) -> Any:
        if when(*given):
            raise RuntimeError("planted")
        return whole(*given)

    monkeypatch.setattr(owner, name, broken)


def waiting_for_2(rig: Guarded, reader: int) -> None:
    """A read whose fill was answered while 2 was on its way, by a snapshot too old for the read."""
    rig.engine.on_stream(Transaction(Gtid(OLD, 9 + reader), []))
    rig.read(1, reader=reader)
    (request,) = rig.asked()
    rig.answer(request, [(1, 4, 5)], lower=gtids(1), owned=gtids(2))


@pytest.mark.parametrize("how", ["rolled back", "arrived"])
def test_a_fill_that_cannot_be_inserted_fails_its_own_reads_only(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Guarded(ROWS, WIDE)
    for reader in (0, 1):
        waiting_for_2(rig, reader)
    assert rig.engine.inserting.waiting == 2
    failing(monkeypatch, State, "insertion", lambda state, fill: fill.reader is rig.readers[0])
    if how == "arrived":
        effects = rig.guard.on_stream(Transaction(Gtid(OLD, 2), []))
    else:
        rig.read(2, reader=1)
        (request,) = rig.asked()
        late = gtids(1, 9, 10)
        answer = UpqueryAnswer(request.id, Bracket(OLD, late, NOTHING, late), ([],))
        effects = rig.guard.on_answer(answer, rig.engine.fills.by_number[request.id])
    assert rig.faults == ["an answer"]
    assert [effect.waiter for effect in effects if isinstance(effect, Failed)] == [1]
    assert 2 in [effect.waiter for effect in effects if isinstance(effect, Ready)]
    assert not rig.engine.inserting.waiting and not rig.engine.fills.by_number and not rig.engine.reads.waiting
    assert rig.held(1) is None and rig.held(1, reader=1) == [(4, 5)]
    assert rig.engine.memory.counters["resets"] == 0


def test_a_fault_while_history_is_forgotten_does_not_keep_the_old_position(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new history may use the old one's numbers."""
    rig = Guarded(ROWS)
    rig.read(1)
    rig.asked()
    faults = [True]
    failing(monkeypatch, Engine, "_ask_again", lambda engine: bool(faults and faults.pop()))
    rig.guard.on_stream(Gap("RESET BINARY LOGS AND GTIDS", NOTHING))
    assert rig.faults == ["a change"]
    assert rig.engine.state.ring.position.freeze() == NOTHING
    rig.fill_from({4: (4, 1, 5)}, 1)
    assert rig.held(1) == [(4, 5)]
    rig.change(1, ((4, 1, 5), (4, 1, 6)))
    assert rig.held(1) == [(4, 6)]


def test_reads_of_lost_history_are_asked_for_again_once_each() -> None:
    """They do not join a fill that ends in the same step."""
    rig = Guarded(ROWS)
    node = rig.readers[0]
    for key in (1, 2, 3):
        rig.read(key)
        rig.asked()
    engine = rig.engine
    both = next(iter(engine.reads.waiting.values()))
    both.keys += [(node.key_of((key,)), (key,)) for key in (2, 3)]
    attempts = {read.waiter: read.attempts for read in engine.reads.waiting.values()}
    rig.guard.on_stream(Gap("test", gtids(1)))
    assert {read.waiter: read.attempts - 1 for read in engine.reads.waiting.values()} == attempts
    assert len(engine.reads.missed[node]) == 3 and not engine.fills.by_number


def test_a_flush_that_fails_leaves_no_fill_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has asked for in vain is under way no more, what others ask for is."""
    rig = Guarded(ROWS, WIDE)
    rig.read(1000)
    (earlier,) = rig.asked()
    for key in range(150):
        rig.read(key)
    rig.read(1, reader=1)
    batches: list[int] = []

    def second_of_the_first(fill: Fill, *_: object) -> bool:
        batches.append(fill.reader is rig.readers[0])
        return batches == [True, True]

    failing(monkeypatch, Fill, "request", second_of_the_first)
    effects = rig.guard.flush()
    assert rig.faults == ["asking"]
    (request,) = [effect for effect in effects if isinstance(effect, UpqueryRequest)]
    assert sum(isinstance(effect, Failed) for effect in effects) == 150
    assert set(rig.engine.fills.by_number) == {earlier.id, request.id} and len(rig.engine.fills.unanswered) == 2
    answers = [*rig.answer(earlier, [], lower=gtids(1)), *rig.answer(request, [], lower=gtids(1))]
    assert [effect.waiter for effect in answers if isinstance(effect, Ready)] == [1, 152]
    assert len(rig.engine.fills.unanswered) == 0 and not rig.engine.reads.waiting
    rig.read(5)
    assert rig.asked(), "the key is asked for anew"


def test_a_fault_after_an_upquery_has_failed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Guarded(ROWS)
    rig.read(1)
    (request,) = rig.asked()
    faults = [True]
    failing(monkeypatch, Engine, "between", lambda engine: bool(faults and faults.pop()))
    rig.guard.on_failed(UpqueryFailed(request.id, SourceDown("gone")))
    assert rig.faults == ["a failed upquery"]
    assert 1 not in rig.engine.reads.waiting and not rig.engine.fills.by_number


def test_a_fault_while_answers_that_waited_are_inserted_makes_all_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Guarded(ROWS)
    rig.engine.inserting.most = 1
    for key in (1, 2):
        rig.read(key)
        (request,) = rig.asked()
        rig.answer(request, [(key, key, 5)], lower=gtids(1, 2))
    rig.change(2)
    assert rig.engine.unfinished and rig.held(1) == [(1, 5)]
    faults = [True]
    failing(monkeypatch, Inserting, "insert_due", lambda engine: bool(faults and faults.pop()))
    rig.guard.go_on()
    assert rig.faults == ["answers that waited"]
    assert not rig.engine.unfinished and rig.held(1) is None and rig.held(2) is None


def test_a_fault_in_an_answer_fails_who_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Guarded(ROWS)
    rig.read(1)
    (request,) = rig.asked()
    failing(monkeypatch, ReaderNode, "derive", lambda *given: True)
    answer = UpqueryAnswer(request.id, Bracket(OLD, gtids(1), NOTHING, gtids(1)), ([],))
    (effect,) = rig.guard.on_answer(answer, rig.engine.fills.by_number[request.id])
    assert isinstance(effect, Failed) and isinstance(effect.error, Fault)
    assert not rig.engine.fills.by_number and not rig.engine.reads.waiting


def test_a_fault_after_subscribers_were_to_be_told_ends_the_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they were to be told is lost: they would be told the next difference, and lack this one."""
    rig = Guarded(ROWS)
    rig.engine.subscribe(1000, rig.readers[0], 1, (1,))
    (request,) = rig.asked()
    rig.answer(request, [(1, 4, 5)], lower=gtids(1))
    rig.engine.limit.bytes = 0
    faults = [True]
    failing(monkeypatch, MemoryLimit, "keep", lambda engine: bool(faults and faults.pop()))
    change = TableChanges("test.t", [((4, 1, 5), (4, 1, 6))])
    (end,) = rig.guard.on_stream(Transaction(Gtid(OLD, 2), [change]))
    assert rig.faults == ["a change"]
    assert isinstance(end, Changes) and end.lost
    assert len(rig.engine.subscriptions) == 0 and not rig.engine.reads.waiting


def test_a_flush_that_fails_behind_a_subscriber_s_first_rows_ends_the_subscription(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows were derived, and are lost with the effects of the reader's other reads."""
    rig = Guarded(ROWS)
    reader = rig.readers[0]
    rig.engine.subscribe(1000, reader, 1, (1,))
    rig.engine.reads.read(Read(1, reader, [(2, (2,))]))
    for key in (1, 2):  # held by now: nothing is to be asked for
        entry = reader.nodes[0].load(key, [(key, key, 5)])
        reader.nodes[0].insert(entry)
    failing(monkeypatch, Reads, "_settle", lambda engine, read: read.waiter == 1)
    effects = rig.guard.flush()
    assert rig.faults == ["asking"]
    assert [effect.lost != "" for effect in effects if isinstance(effect, Changes)] == [True]
    assert [effect.waiter for effect in effects if isinstance(effect, Failed)] == [1]


def test_a_fault_within_a_change_leaves_the_count_of_memory_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row of it has grown an entry before."""
    rig = Guarded(ROWS)
    rig.fill_from({1: (1, 1, 5), 2: (2, 2, 5)}, 1)
    rig.fill_from({1: (1, 1, 5), 2: (2, 2, 5)}, 2)
    failing(monkeypatch, RowsNode, "_edit", lambda node, content, gone, come: come == (4, 7))
    pairs: list[Pair] = [(None, (3, 1, 5)), (None, (4, 2, 7)), *[(None, (at, 9, 9)) for at in range(10, 50)]]
    rig.guard.on_stream(Transaction(Gtid(OLD, 2), [TableChanges("test.t", pairs)]))
    assert rig.faults == ["a change"]
    rig.engine.reset(gtids(2), "the end")
    assert rig.engine.memory.used == 0
