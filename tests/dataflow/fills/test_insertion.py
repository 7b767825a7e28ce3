"""An answer of much work is inserted in steps; between two of them changes come, and keys go."""

from __future__ import annotations

import pytest

from dataflow.entries import Held
from dataflow.fills.read import Read
from dataflow.messages import Ddl, Effect, Failed, Filled, Gap, GivenUp, Ready, UpqueryRequest
from gtid_tracker.gtid import Gtid
from sqltypes.expression import Row
from tests.support.engine_rig import OLD, Rig, gtids

JOINED = "SELECT t.id, w.v FROM t JOIN w ON w.id = t.v WHERE t.k = ?"
COUNT = 6
OF_T: list[Row] = [(1, number, number) for number in range(COUNT)]  # k, id, v
OF_W: list[Row] = [(number, 10 * number) for number in range(COUNT)]  # id, v
ANSWER: list[Row] = [(number, 10 * number) for number in range(COUNT)]


def rig_of(most_rows: int = 3) -> Rig:
    """Of keys that join more rows it takes long to derive them."""
    made = Rig(JOINED)
    made.engine.state.placed_at_once = 1
    made.engine.memory.most_rows = most_rows
    return made


def answered(rig: Rig, request: UpqueryRequest) -> list[Effect]:
    """By the state at position 1: rows, and what they lead to."""
    return rig.answer(request, OF_T, OF_W, lower=gtids(1))


def begun(rig: Rig) -> UpqueryRequest:
    rig.read(1)
    (request,) = rig.asked()
    return request


def steps_of(rig: Rig, most: int = 1000) -> list[Effect]:
    effects: list[Effect] = []
    for _ in range(most):
        if not rig.engine.unfinished:
            break
        effects += rig.engine.go_on()
        rig.engine.check_invariants()
    return effects


def held_of(rig: Rig) -> Held | None:
    reader = rig.readers[0]
    return reader.entries.get(reader.key_of((1,)))


def entries_of(rig: Rig) -> int:
    return sum(len(node.entries) for node in rig.readers[0].nodes)


def test_it_takes_several_steps_and_is_whole_at_the_end() -> None:
    rig = rig_of()
    effects = answered(rig, begun(rig))
    assert [effect.rows for effect in effects if isinstance(effect, Ready)] == [ANSWER], "told at once"
    assert 0 < entries_of(rig) < COUNT and held_of(rig) is None and rig.engine.unfinished
    steps_of(rig)
    held = held_of(rig)
    assert held is not None and len(held.deps) == COUNT + 1 == entries_of(rig) and held.watch is None
    assert held.version is not None, "the snapshot's answer still"
    assert rig.held(1) == ANSWER


def test_a_change_between_two_steps_reaches_what_is_placed_and_what_is_not() -> None:
    seen = 0
    for at in range(40):
        rig = rig_of()
        answered(rig, begun(rig))
        steps_of(rig, at)
        seen += rig.engine.unfinished
        rig.change(2, *(((number, 0, 10 * number), (number, 0, 7)) for number in range(COUNT)), table="test.w")
        rig.change(3, ((5, 1, 5), None))
        steps_of(rig)
        assert rig.held(1) == [(number, 7) for number in range(COUNT - 1)]
    assert 5 < seen < 40


def test_what_no_read_asked_for_has_been_compared_by_nobody() -> None:
    rig = rig_of()
    request = rig.engine.unasked.fill(rig.readers[0], {rig.readers[0].key_of((1,)): (1,)})
    assert request is not None
    effects = answered(rig, request) + steps_of(rig)
    held = held_of(rig)
    assert held is not None and len(held.deps) == COUNT + 1 and held.unseen
    (filled,) = [effect for effect in effects if isinstance(effect, Filled)]
    assert filled.asked == 1 and not filled.holes


@pytest.mark.parametrize("what", ["statement", "history", "cleared", "closed", "given up"])
def test_what_ends_it_between_two_steps_leaves_nothing_that_is_not_current(what: str) -> None:
    seen = 0
    for at in range(40):
        rig = rig_of()
        request = rig.engine.unasked.fill(rig.readers[0], {rig.readers[0].key_of((1,)): (1,)})
        assert request is not None
        effects = answered(rig, request) + steps_of(rig, at)
        under_way = rig.engine.unfinished
        seen += under_way
        match what:
            case "statement":
                effects += rig.engine.on_stream(Ddl(Gtid(OLD, 2), "", frozenset({"test.w"})))
            case "history":
                effects += rig.engine.on_stream(Gap("lost", gtids(1, 2)))
            case "cleared":
                rig.readers[0].nodes[1].clear()
            case "closed":
                rig.engine.close(rig.readers)
            case "given up":
                rig.engine.unasked.drop([request.id])
        effects += steps_of(rig)
        rig.engine.memory.remains.take_apart(1000)
        rig.engine.check_invariants()
        told = [effect for effect in effects if isinstance(effect, Filled)]
        assert len(told) == (0 if what == "given up" and under_way else 1)
        if what in ("statement", "history", "cleared"):
            assert rig.held(1) is None
        else:
            assert rig.held(1) in (None, ANSWER)
        held = held_of(rig)
        assert entries_of(rig) == 0 or held is not None, "nothing stays that nobody needs"
        assert held is None or held.watch is None
    assert seen > 5


def test_who_comes_between_two_steps_is_told_at_the_position() -> None:
    rig = rig_of()
    answered(rig, begun(rig))
    rig.change(2, ((3, 0, 30), (3, 0, 31)), table="test.w")
    rig.read(1)
    assert not rig.asked(), "it waits for the same fill"
    (ready,) = [effect for effect in steps_of(rig) if isinstance(effect, Ready)]
    assert ready.position == gtids(1, 2) and ready.rows == [*ANSWER[:3], (3, 31), *ANSWER[4:]]


def test_a_read_that_is_answered_in_steps_is_told_the_state_of_one_position() -> None:
    told = set()
    for at in range(40):
        rig = rig_of()
        answered(rig, begun(rig))
        rig.read(1)
        effects = steps_of(rig, at)
        for number, (first, last) in ((2, (0, 50)), (3, (3, 3))):
            pairs = ((0, 0, first), (0, 0, number + 1)), ((5, 0, last), (5, 0, number + 1))
            effects += rig.change(number, *pairs, table="test.w") + steps_of(rig, 1)
        effects += steps_of(rig)
        for ready in [effect for effect in effects if isinstance(effect, Ready)]:
            told.add((str(ready.position), *(value for number, value in ready.rows if number in (0, 5))))
    assert told <= {(str(gtids(1)), 0, 50), (str(gtids(1, 2)), 3, 3), (str(gtids(1, 2, 3)), 4, 4)} and len(told) > 1


def test_one_that_changes_at_every_step_is_mysqls_to_answer() -> None:
    rig = rig_of()
    answered(rig, begun(rig))
    rig.read(1)
    effects: list[Effect] = []
    before = 50
    for number in range(2, 200):
        effects += rig.change(number, ((5, 0, before), (5, 0, number)), table="test.w")
        before = number
    (failed,) = [effect for effect in effects if isinstance(effect, Failed)]
    assert failed.why is GivenUp.HOT_KEY


def test_what_is_missing_below_a_long_key_is_asked_for_by_name() -> None:
    """Its holes were found in steps; nobody looks for them in one."""
    rig = rig_of()
    answered(rig, begun(rig))
    steps_of(rig)
    rig.change(2, ((5, 1, 5), (5, 1, 77)))
    rig.read(1)
    assert not rig.asked()
    steps_of(rig)
    (request,) = rig.asked()
    (statement,) = request.statements
    assert "77" in statement.sql
    effects = rig.answer(request, [(77, 770)], lower=gtids(1, 2)) + steps_of(rig)
    (ready,) = [effect for effect in effects if isinstance(effect, Ready)]
    assert sorted(ready.rows) == [*ANSWER[:5], (5, 770)]


def test_an_audit_of_a_long_key_finds_what_differs_and_nothing_else() -> None:
    for planted in (False, True):
        for at in range(30):
            rig = rig_of()
            answered(rig, begun(rig))
            steps_of(rig)
            reader, held = rig.readers[0], held_of(rig)
            assert held is not None
            if planted:
                entry = reader.nodes[1].entries[2]
                entry.content = reader.nodes[1].load(2, [(21,)]).content
            request = rig.engine.unasked.audit(reader, {held.key: (1,)})
            assert request is not None
            effects = answered(rig, request) + steps_of(rig, at)
            effects += rig.change(2, ((4, 0, 40), (4, 0, 41)), table="test.w") + steps_of(rig)
            (filled,) = [effect for effect in effects if isinstance(effect, Filled)]
            assert bool(filled.different) == planted


def test_what_has_changed_while_it_was_inserted_is_not_the_answer_that_was_compared() -> None:
    """It was computed here since: a cache that has still to earn its trust compares it."""
    seen = 0
    for at in range(40):
        rig = rig_of()
        answered(rig, begun(rig))
        steps_of(rig, at)
        placed = 3 in rig.readers[0].nodes[1].entries
        under_way = rig.engine.unfinished
        rig.change(2, ((3, 0, 30), (3, 0, 31)), table="test.w")
        steps_of(rig)
        held = held_of(rig)
        assert held is not None and held.version is None
        seen += placed and under_way
    assert seen > 3


def test_what_has_changed_while_one_of_two_keys_was_linked_is_not_what_was_compared() -> None:
    """A change that was sought in the wrong place is not seen at the keys. It counts all the same."""
    came = 0
    for at in range(1, 60):
        rig = rig_of()
        rig.readers[0] = reader = rig.install("SELECT t.id, w.v FROM t JOIN w ON w.id = t.v WHERE t.k IN (?)")
        rig.engine.reads.read(Read(1, reader, [(reader.key_of((key,)), (key,)) for key in (1, 2)]))
        (request,) = rig.asked()
        fill = rig.engine.fills.by_number[request.id]
        numbers = range(10, 10 + COUNT), range(20, 20 + COUNT)
        rows: list[Row] = [(key, number, number) for key, of_key in enumerate(numbers, 1) for number in of_key]
        rig.answer(request, rows, [(number, 7) for _, number, _ in rows], lower=gtids(1))
        steps_of(rig, at)
        if rig.engine.unfinished:
            rig.change(2, ((999, 0, 1), (999, 0, 2)), table="test.w")
            steps_of(rig)
            assert fill.changed, at
            came += 1
    assert came > 20


def test_an_audit_of_several_long_keys_is_at_one_position_for_each() -> None:
    for at in range(60):
        rig = rig_of()
        for key in (1, 2):
            rig.read(key)
            (request,) = rig.asked()
            rig.answer(request, [(key, *row[1:]) for row in OF_T], OF_W, lower=gtids(1))
            steps_of(rig)
        reader = rig.readers[0]
        request_ = rig.engine.unasked.audit(
            reader, {held.key: reader.params_of(held) for held in reader.entries.values()}
        )
        assert request_ is not None
        rows = [(key, *row[1:]) for key in (1, 2) for row in OF_T]
        effects = rig.answer(request_, rows, OF_W, lower=gtids(1)) + steps_of(rig, at)
        effects += rig.change(2, ((4, 0, 40), (4, 0, 41)), table="test.w") + steps_of(rig)
        (filled,) = [effect for effect in effects if isinstance(effect, Filled)]
        assert not filled.different


def test_to_repair_a_key_that_is_not_linked_yet_empties_all_that_it_is_made_of() -> None:
    rig = rig_of()
    rig.readers.append(rig.install("SELECT w.v, t.id FROM t JOIN w ON w.id = t.v WHERE t.k = ?"))
    answered(rig, begun(rig))
    steps_of(rig)
    other = rig.readers[1]
    taken_up = rig.engine.sieve.hold(other, other.key_of((1,)), (1,))
    assert taken_up is not None and len(taken_up.deps) == 1, "to look for all of it is long"
    assert rig.engine.unasked.repair(other, [taken_up.key]) == 1
    assert not any(node.entries for node in other.nodes) and rig.held(1) is None
