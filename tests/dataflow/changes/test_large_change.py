"""A transaction that is much work is worked out in steps, beside what is held, and takes effect in one."""

from __future__ import annotations

import random

import pytest

from dataflow.changes.large_change import LargeChange, Sizes
from dataflow.engine import Engine
from dataflow.guard import Guard
from dataflow.messages import Changes, Ddl, Effect, Gap, Pair, Ready, TableChanges, Transaction
from gtid_tracker.gtid import Gtid, GtidSet
from tests.support.engine_rig import OLD, ROWS, Rig, gtids

SUMS = "SELECT SUM(v) FROM t WHERE k = ?"
WINDOW = "SELECT id, ROW_NUMBER() OVER (ORDER BY v) AS r FROM t WHERE k = ?"  # evict mode, by k
TABLE = {number: (number, number % 3, 1) for number in range(9)}
MOVED: list[Pair] = [((number, number % 3, 1), (number, number % 3, 2)) for number in range(9)]


def rig(*queries: str, published: int = 1000, remembered: int = 1000, stale: int = 1000, in_place: int = 0) -> Rig:
    """Each transaction is large, and a row a step."""
    made = Rig(*queries)
    made.engine.state.sizes = Sizes(0, 1, published, remembered, stale, in_place=in_place)
    for number in range(len(queries)):
        for key in range(3):
            made.fill_from(TABLE, key, reader=number)
            assert made.hit(key, reader=number) is not None
    return made


def transaction(number: int, pairs: list[Pair]) -> Transaction:
    return Transaction(Gtid(OLD, number), [TableChanges("test.t", pairs)])


def begun(engine: Engine, pairs: list[Pair]) -> Transaction:
    event = transaction(2, pairs)
    assert engine.begin(event) and engine.under_way is event
    return event


def whole(engine: Engine, event: Transaction) -> list[Effect]:
    """All of its steps."""
    assert engine.begin(event) and engine.prepare()
    return engine.on_stream(event)


def test_until_it_takes_effect_all_is_as_before() -> None:
    made = rig(ROWS, SUMS)
    before = [made.hit(key, reader=number) for number in range(2) for key in range(3)]
    event = begun(made.engine, MOVED)
    steps = 0
    while not made.engine.prepare(1):
        steps += 1
        assert [made.hit(key, reader=number) for number in range(2) for key in range(3)] == before
        assert made.engine.state.ring.position.freeze() == gtids(1)
        made.engine.check_invariants()
    assert steps > 9
    made.engine.on_stream(event)
    assert made.engine.under_way is None
    assert made.engine.state.ring.position.freeze() == gtids(1, 2)
    assert made.held(1) == [(1, 2), (4, 2), (7, 2)] and made.held(1, reader=1) == [(6,)]
    assert [made.hit(key, reader=number) for number in range(2) for key in range(3)] != before


def test_it_is_the_same_in_one_go() -> None:
    made = rig(ROWS, SUMS)
    whole(made.engine, transaction(2, MOVED))
    assert made.held(1) == [(1, 2), (4, 2), (7, 2)] and made.held(1, reader=1) == [(6,)]


def test_what_concerns_too_many_keys_empties_the_arrangement_with_most_of_them() -> None:
    made = rig(ROWS, "SELECT id, v FROM t WHERE id = ?", published=3)
    for key in range(3):
        made.fill_from(TABLE, key, reader=1)
    whole(made.engine, transaction(2, [*MOVED[:3], MOVED[3]]))
    assert made.engine.memory.counters["emptied_by_large_change"] == 1
    held = [[made.held(key, reader=number) is not None for key in range(3)] for number in range(2)]
    assert sorted(held) == [[False] * 3, [True] * 3]
    remains = made.engine.memory.remains
    while remains:
        remains.take_apart(1)
        made.engine.check_invariants()


def test_contents_that_are_too_large_to_be_copied_empty_their_arrangement() -> None:
    made = rig(ROWS, "SELECT id, v FROM t WHERE id = ?")
    for key in range(3):
        made.fill_from(TABLE, key, reader=1)
    sizes = [sum(entry.size for entry in reader.nodes[0].entries.values()) for reader in made.readers]
    made.engine.state.sizes = Sizes(0, 1, 1000, 1000, 1000, sizes[0], 0)
    again: list[Pair] = [((number, number, 2), (number, number, 3)) for number in range(3)]
    whole(made.engine, transaction(2, [*MOVED[:3], *again]))  # of one change of a key nothing is copied
    assert made.engine.memory.counters["emptied_by_large_change"] == 1
    held = [[made.held(key, reader=number) is not None for key in range(3)] for number in range(2)]
    assert sorted(held) == [[False] * 3, [True] * 3]


def test_a_change_that_cannot_be_evaluated_empties_the_arrangement() -> None:
    made = rig(ROWS, "SELECT id FROM t WHERE k = ? AND v * v > 0")
    big = 1 << 62
    whole(made.engine, transaction(2, [*MOVED[:3], (None, (50, 1, big)), MOVED[4]]))
    assert made.held(1, reader=1) is None
    assert made.held(1) == [(1, 2), (4, 2), (7, 1), (50, big)]
    assert made.engine.memory.counters["evaluation_failed"] == 1


def test_answers_that_it_concerns_are_holes() -> None:
    made = rig()
    made.readers.append(made.install(WINDOW))
    for key in (1, 2):
        made.read(key)
        (request,) = made.asked()
        made.answer(request, [(key, 1)], lower=gtids(1))
    whole(made.engine, transaction(2, [((4, 1, 1), (4, 1, 2))]))
    assert made.held(1) is None and made.held(2) == [(2, 1)]


def test_an_answer_that_comes_meanwhile_is_told_and_inserted_after_it() -> None:
    made = rig(ROWS)
    made.read(7)
    (request,) = made.asked()
    event = begun(made.engine, [(None, (50, 7, 1))])
    while not made.engine.prepare(1):
        pass
    told = made.answer(request, [], lower=gtids(1))
    assert [effect.rows for effect in told if isinstance(effect, Ready)] == [[]]
    assert made.held(7) is None and not made.engine.unfinished
    made.engine.on_stream(event)
    while made.engine.unfinished:
        made.engine.go_on()
    assert made.held(7) == [(50, 1)]


def test_of_more_rows_than_are_remembered_an_older_answer_is_not_inserted() -> None:
    made = rig(ROWS, remembered=0)
    made.read(7)
    (request,) = made.asked()
    whole(made.engine, transaction(2, [(None, (50, 7, 1))]))
    made.answer(request, [], lower=gtids(1))
    assert made.held(7) is None
    made.fill_from({50: (50, 7, 1)}, 7)
    assert made.held(7) == [(50, 1)]


def test_columns_that_are_wanted_meanwhile_are_not_taken_from_its_rows() -> None:
    made = rig("SELECT id FROM t WHERE k = ?")
    event = begun(made.engine, [(None, (50, 7, None))])  # decoded without `v`
    made.readers.append(made.install(ROWS))
    made.read(7, reader=1)
    (request,) = made.asked()
    made.engine.on_stream(event)
    made.answer(request, [], lower=gtids(1))
    assert made.held(7, reader=1) is None


def test_subscribers_are_told_at_its_end_of_the_whole() -> None:
    made = rig(ROWS)
    made.engine.subscribe(99, made.readers[0], 1, (1,))
    event = begun(made.engine, MOVED)
    while not made.engine.prepare(1):
        assert made.engine.between() == []
    (changes,) = made.engine.on_stream(event)
    assert isinstance(changes, Changes)
    assert (changes.removed, changes.added) == ([(1, 1), (4, 1), (7, 1)], [(1, 2), (4, 2), (7, 2)])


def test_a_statement_without_a_gtid_does_not_wait_and_what_it_empties_stays_empty() -> None:
    made = rig(ROWS)
    event = begun(made.engine, MOVED)
    made.engine.prepare(5)
    made.engine.on_stream(Ddl(None, "a session wrote with sql_log_bin=0", None))
    assert made.held(1) is None and made.engine.under_way is event
    made.engine.on_stream(event)
    assert made.held(1) is None


def test_another_transaction_comes_after_it() -> None:
    made = rig(ROWS)
    begun(made.engine, MOVED)
    made.engine.prepare(2)
    made.engine.on_stream(transaction(3, [((1, 1, 2), (1, 1, 3))]))
    assert made.engine.under_way is None
    assert made.held(1) == [(1, 3), (4, 2), (7, 2)]


def test_lost_history_ends_it() -> None:
    made = rig(ROWS)
    begun(made.engine, MOVED)
    made.engine.on_stream(Gap("purged", gtids(1, 2, 3)))
    assert made.engine.under_way is None and made.held(1) is None
    assert made.engine.state.ring.position.freeze() == gtids(1, 2, 3)


def test_many_answers_of_one_entry_are_let_go_together() -> None:
    made = rig(stale=2)
    made.readers.append(made.install("SELECT t.id, w.v FROM t JOIN w ON w.id = t.v WHERE t.k = ?"))
    for key in range(3):
        made.read(key)
        (request,) = made.asked()
        made.answer(request, [(key, key, 1)], [(1, 7)], lower=gtids(1))
        assert made.hit(key) is not None
    made.change(2, ((1, 5, 7), (1, 5, 8)), table="test.w")
    assert not made.readers[0].entries and made.engine.memory.remains
    assert made.hit(1) == repr([(1, 8)]).encode(), "what it is derived from is held"
    made.engine.memory.remains.take_apart(1000)
    assert made.hit(1) == repr([(1, 8)]).encode()
    made.engine.check_invariants()


def test_a_fault_in_a_step_empties_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    made = rig(ROWS)
    faults: list[str] = []
    guard = Guard(made.engine, lambda step, what, error: faults.append(step))
    event = transaction(2, MOVED)
    assert guard.begin(event)
    guard.prepare(2)

    def fails(*arguments: object) -> None:
        raise RuntimeError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(LargeChange, "_draft", fails)
        assert guard.prepare(2)
    guard.on_stream(event)
    assert faults == ["a large change", "a change"]
    assert made.held(1) is None
    assert made.engine.state.ring.position.freeze() == gtids(1, 2) and made.engine.under_way is None


OTHERS = "SELECT id, v FROM w WHERE k = ?"


def filled_late(made: Rig, executed: GtidSet) -> None:
    """A cache on another table comes, and its upquery's snapshot has not what is under way, though that has changed
    the table, too: when it was received nobody wanted its rows."""
    made.readers.append(made.install(OTHERS))
    made.read(7, reader=len(made.readers) - 1)
    (request,) = made.asked()
    made.answer(request, [(7, 50, 1)], lower=gtids(1), executed=executed, owned=gtids(2))


def test_rows_that_nobody_wanted_when_it_was_received_are_not_missed_by_a_cache_that_came_since() -> None:
    made = rig(ROWS)
    event = begun(made.engine, MOVED)
    filled_late(made, gtids(1))
    assert made.engine.prepare()
    made.engine.on_stream(event)
    while made.engine.unfinished:
        made.engine.go_on()
    assert made.held(7, reader=1) is None
    made.engine.check_invariants()


def test_nor_is_what_lacks_it_held_ahead_of_the_position() -> None:
    made = rig(ROWS)
    event = begun(made.engine, MOVED)
    filled_late(made, gtids(1, 3))
    assert made.engine.memory.counters["fills_ahead"] == 0
    assert made.engine.prepare()
    made.engine.on_stream(event)
    made.engine.on_stream(transaction(3, [(None, (20, 2, 2))]))
    while made.engine.unfinished:
        made.engine.go_on()
    assert made.held(7, reader=1) is None
    made.engine.check_invariants()


def test_nor_where_it_fails() -> None:
    made = rig(ROWS)
    guard = Guard(made.engine, lambda *given: None)
    event = begun(made.engine, MOVED)
    filled_late(made, gtids(1))
    guard.on_stream(event)  # its steps are not made
    while made.engine.unfinished:
        made.engine.go_on()
    assert made.held(7, reader=1) is None and made.engine.state.ring.position.freeze() == gtids(1, 2)


def test_what_is_of_other_tables_is_inserted_meanwhile() -> None:
    made = rig(ROWS)
    made.readers.append(made.install(OTHERS))
    event = begun(made.engine, MOVED)
    for reader, key in ((1, 7), (0, 8)):
        made.read(key, reader=reader)
        (request,) = made.asked()
        made.answer(request, [], lower=gtids(1))
    assert made.held(7, reader=1) == [] and made.held(8) is None
    assert made.engine.prepare()
    made.engine.on_stream(event)
    made.engine.go_on()
    assert made.held(8) == []


def test_contents_are_copied_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key may go between two of these steps."""
    monkeypatch.setattr("dataflow.changes.large_change.COPIED_AT_ONCE", 0)
    made = rig(ROWS)
    made.engine.state.sizes = Sizes(0, 100, in_place=0)
    event = begun(made.engine, MOVED)
    assert not made.engine.prepare(1)
    node = made.readers[0].nodes[0]
    for key in list(node.entries):
        node.discard(node.entries[key])
        break
    assert made.engine.prepare()
    made.engine.on_stream(event)
    held = [made.held(key) for key in range(3)]
    assert held.count(None) == 1
    made.engine.check_invariants()


@pytest.mark.parametrize("in_place", [0, 100])
def test_a_change_that_cannot_be_evaluated_of_one_key_makes_that_key_a_hole(in_place: int) -> None:
    made = rig(ROWS, "SELECT SUM(v * v) FROM t WHERE k = ?", in_place=in_place)
    big = 1 << 62
    whole(made.engine, transaction(2, [*MOVED, (None, (50, 1, big)), (None, (51, 1, 1))]))
    assert [made.held(key, reader=1) for key in range(3)] == [[(12,)], None, [(12,)]]
    assert made.held(1) == [(1, 2), (4, 2), (7, 2), (50, big), (51, 1)]
    assert made.engine.memory.counters["evaluation_failed"] == 1


@pytest.mark.parametrize("in_place", [0, 100])
def test_a_row_that_is_not_held_makes_its_key_a_hole_and_no_other(in_place: int) -> None:
    made = rig(ROWS, SUMS, in_place=in_place)
    whole(made.engine, transaction(2, [*MOVED[:3], ((90, 1, 5), (90, 1, 6)), ((91, 2, 5), None)]))
    assert [made.held(key) is None for key in range(3)] == [False, True, True]
    assert made.engine.memory.counters["removed_row_not_held"] == 2


def test_a_fault_while_it_takes_effect_leaves_the_memory_counted() -> None:
    made = rig(ROWS, "SELECT id, k FROM t WHERE id = ?")
    guard = Guard(made.engine, lambda *given: None)
    calls = iter((True, False, False))

    def watch() -> None:
        if next(calls, False):
            raise RuntimeError("planted")

    added: list[Pair] = [(None, (100 + number, number % 3, 2)) for number in range(9)]
    event = begun(made.engine, added)
    assert made.engine.prepare()
    list(made.readers[0].entries.values())[2].watch = watch
    guard.on_stream(event)
    assert made.engine.state.ring.position.freeze() == gtids(1, 2)
    while made.engine.memory.remains:
        made.engine.limit.tidy(1000)
    made.engine.check_invariants()


ALL_KINDS = (
    ROWS,
    SUMS,
    "SELECT v, COUNT(*), MAX(id) FROM t WHERE k = ? GROUP BY v",
    "SELECT id, v FROM t WHERE k = ? ORDER BY v, id LIMIT 2",
    "SELECT id FROM t WHERE k = ? AND v > 1",
    "SELECT id, v FROM t WHERE id = ? AND k > 0",
)


def test_few_changes_of_held_keys_need_no_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataflow.held.arrangement.LinearArrangement._draft", None)
    made = rig(ROWS, SUMS, in_place=18)
    before = [made.hit(key, reader=number) for number in range(2) for key in range(3)]
    event = begun(made.engine, MOVED)
    while not made.engine.prepare(1):
        assert [made.hit(key, reader=number) for number in range(2) for key in range(3)] == before
    made.engine.state.graph.check_invariants()
    node = made.readers[0].nodes[0]
    node.discard(node.entries[2])  # a key may go meanwhile
    made.engine.on_stream(event)
    assert made.held(1) == [(1, 2), (4, 2), (7, 2)] and made.held(1, reader=1) == [(6,)]
    assert made.held(2) is None and made.held(2, reader=1) == [(6,)]
    assert made.engine.memory.applied == 18


def test_of_more_the_arrangement_with_most_gets_drafts() -> None:
    made = rig(ROWS, SUMS, "SELECT id, v FROM t WHERE id = ?", in_place=13)
    event = begun(made.engine, MOVED)
    assert made.engine.prepare()
    large = made.engine.state.under_way
    assert large is not None
    assert sorted((of.waits, len(of.beside.made)) for of in large._drafts.values()) == [(0, 3), (3, 0), (9, 0)]
    made.engine.on_stream(event)
    assert made.held(1) == [(1, 2), (4, 2), (7, 2)] and made.held(1, reader=1) == [(6,)]
    assert made.held(1, reader=2) == [(1, 2)]


@pytest.mark.parametrize("seed", range(20))
def test_worked_out_beside_what_is_held_it_gives_what_it_gives_in_one_step(seed: int) -> None:
    """Inserts, updates that move rows and such that do not, and deletes, each kind by itself and mixed."""
    chance = random.Random(seed)
    at_once, beside = Rig(*ALL_KINDS), Rig(*ALL_KINDS)
    rows = {number: (number, number % 4, chance.randrange(4)) for number in range(60)}
    for made in (at_once, beside):
        for number in range(len(ALL_KINDS)):
            for key in range(3):
                made.fill_from(rows, key, reader=number)
    beside.engine.state.sizes = Sizes(0, chance.choice((1, 7, 200)), in_place=chance.choice((0, 10, 2_000)))
    for number in range(2, 12):
        pairs: list[Pair] = []
        kinds = chance.choice(("i", "u", "d", "iud"))
        for _ in range(chance.randrange(1, 30)):
            kind = chance.choice(kinds)
            id_ = max(rows) + 1 if kind == "i" or len(rows) < 5 else chance.choice(list(rows))
            before = rows.pop(id_, None)
            if kind != "d" or before is None:
                key = before[1] if before is not None and chance.random() < 0.7 else chance.randrange(4)
                rows[id_] = (id_, key, chance.randrange(4))
            pairs.append((before, rows.get(id_)))
        event = transaction(number, pairs)
        at_once.engine.on_stream(event)
        whole(beside.engine, event)
        for reader in range(len(ALL_KINDS)):
            for key in range(3):
                told, expected = (made.held(key, reader=reader) for made in (beside, at_once))
                assert (told is None) == (expected is None)
                assert sorted(told or ()) == sorted(expected or ())
