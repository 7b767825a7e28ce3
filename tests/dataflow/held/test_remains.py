"""What is let go as a whole: nobody finds it, it counts until it is taken apart, and nothing new goes with it."""

from __future__ import annotations

from dataflow.messages import Changes, Ddl
from dataflow.operators.answer import AnswerNode
from gtid_tracker.gtid import Gtid
from sqltypes.expression import Row
from tests.support.engine_rig import OLD, ROWS, Rig, gtids

WINDOW = "SELECT id, ROW_NUMBER() OVER (ORDER BY v) AS r FROM t WHERE k = ?"  # evict mode, by k
EXISTS = "SELECT id FROM t WHERE k = ? AND EXISTS (SELECT 1 FROM w)"
TABLE = {1: (1, 0, 5), 2: (2, 1, 6), 3: (3, 1, 7)}


def rig(*queries: str, few: int = 0) -> Rig:
    made = Rig(*queries)
    made.engine.memory.remains.few = few
    return made


def answered(made: Rig, key: int, rows: list[Row], reader: int = 0) -> bytes | None:
    """Reads a key, which MySQL answers with these rows."""
    made.read(key, reader=reader)
    (request,) = made.asked()
    made.answer(request, rows, lower=made.engine.state.ring.position.freeze())
    return made.hit(key, reader=reader)


def ddl(made: Rig) -> None:
    made.engine.on_stream(Ddl(Gtid(OLD, made.next_gtid()), "ALTER TABLE t", frozenset({"test.t"})))


def test_nobody_finds_what_was_let_go_and_it_counts_until_it_is_taken_apart() -> None:
    made = rig(ROWS)
    for key in range(10):
        made.fill_from(TABLE, key)
        assert made.hit(key) is not None
    used = made.engine.memory.used
    ddl(made)
    assert made.engine.memory.used == used
    assert made.hit(0) is None and made.held(0) is None
    remains = made.engine.memory.remains
    while remains:
        before = made.engine.memory.used
        remains.take_apart(3)
        assert made.engine.memory.used < before
        made.engine.check_invariants()
    assert made.engine.memory.used == 0


def test_a_step_takes_no_more_apart_than_it_is_told() -> None:
    made = rig(WINDOW)
    for key in range(20):
        answered(made, key, [(key, key, 1)])
    ddl(made)
    remains, steps = made.engine.memory.remains, 0
    while remains:
        remains.take_apart(5)
        steps += 1
    assert steps >= 12, "20 keys, 20 entries, 20 places of the index"


def test_rows_that_come_meanwhile_under_the_same_key_stay_and_are_kept_current() -> None:
    made = rig(ROWS)
    made.fill_from(TABLE, 1)
    ddl(made)
    made.fill_from(TABLE, 1)
    made.engine.memory.remains.take_apart(1000)
    assert made.held(1) == [(2, 6), (3, 7)]
    made.change(made.next_gtid(), ((2, 1, 6), (2, 0, 6)))
    assert made.held(1) == [(3, 7)]


def test_an_answer_that_comes_meanwhile_under_the_same_key_stays_and_goes_with_the_next_change() -> None:
    """The index of what was let go is not that of what came since."""
    made = rig(WINDOW)
    answered(made, 1, [(1, 2, 1), (1, 3, 2)])
    assert isinstance(made.readers[0].nodes[0], AnswerNode)
    ddl(made)
    assert answered(made, 1, [(1, 2, 1)]) is not None
    made.engine.memory.remains.take_apart(1000)
    assert made.hit(1) is not None
    made.change(made.next_gtid(), ((2, 1, 6), (2, 0, 6)))
    assert made.held(1) is None


def test_what_the_ring_has_is_freed_a_little_at_a_time_when_a_column_more_is_wanted() -> None:
    """To free 50,000 transactions at once takes 30 ms."""
    made = rig("SELECT id FROM t WHERE k = ?")
    for _ in range(6):
        number = made.next_gtid()
        made.change(number, (None, (number, 1, 1)))
    made.install(ROWS)
    assert not made.engine.state.ring and made.engine.state.ring.dropped == gtids(*range(1, 8))
    remains = made.engine.memory.remains
    remains.take_apart(5)
    assert remains, "one transaction is left"
    remains.take_apart(5)
    assert not remains


def test_a_change_that_concerns_all_answers_lets_them_go() -> None:
    made = rig(EXISTS)
    for key in range(5):
        answered(made, key, [(key,)])
    assert isinstance(made.readers[0].nodes[0], AnswerNode)
    made.change(made.next_gtid(), (None, (1, 1, 1)), table="test.w")
    assert made.engine.memory.counters["evicted_by_change"] == 5
    assert all(made.held(key) is None for key in range(5))
    assert made.engine.memory.remains
    made.engine.memory.remains.take_apart(1000)
    assert made.engine.memory.used == 0


def test_memory_is_taken_from_what_was_let_go_before_a_key_goes() -> None:
    made = rig(ROWS)
    for key in range(50):
        made.fill_from(TABLE, key)
        made.hit(key)
    ddl(made)
    made.fill_from(TABLE, 7)
    assert made.hit(7) is not None
    made.engine.sieve.evict_to(made.engine.memory.used // 10)
    assert made.hit(7) is not None and made.engine.sieve.evicted == 0


def test_the_hand_may_meet_what_was_let_go() -> None:
    made = rig(ROWS)
    for key in range(5):
        made.fill_from(TABLE, key)
    held = made.readers[0].entries[3]
    ddl(made)
    made.fill_from(TABLE, 3)
    made.readers[0].drop(held)
    assert held.key in made.readers[0].entries and not held.alive
    made.engine.check_invariants()


def test_a_subscriber_of_what_was_let_go_is_told_what_came_of_it() -> None:
    made = rig(ROWS)
    engine, reader = made.engine, made.readers[0]
    made.fill_from(TABLE, 1)
    assert isinstance(engine.subscribe(99, reader, reader.key_of((1,)), (1,))[0], Changes)
    ddl(made)
    assert made.engine.reads.pending, "its key is read again"


def test_lost_history_lets_all_go() -> None:
    made = rig(ROWS, WINDOW)
    made.fill_from(TABLE, 1)
    answered(made, 1, [(1, 2, 1)], reader=1)
    made.engine.reset(gtids(9), "test")
    assert made.held(1) is None and made.held(1, reader=1) is None
    made.engine.memory.remains.take_apart(1000)
    assert made.engine.memory.used == 0


def test_what_a_list_has_asked_for_stays_listed_when_what_was_let_go_before_is_taken_apart() -> None:
    made = rig(ROWS)
    reader = made.readers[0]
    for key in range(5):
        made.fill_from(TABLE, key)
        made.hit(key)
        reader.entries[key].list(0)
    ddl(made)
    assert not reader.listed[0]
    made.fill_from(TABLE, 1)
    made.hit(1)
    held = reader.entries[1]
    body = held.list(0)
    made.engine.memory.remains.take_apart(1000)
    assert held.listed and reader.listed[0] == {1: body}
    used = made.engine.memory.used
    made.change(made.next_gtid(), ((2, 1, 6), (2, 0, 6)))
    assert not held.listed and not reader.listed[0]
    assert made.engine.memory.used < used
