"""Why keys went away: each cause is provoked, and counted once for each key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from dataflow.changes.large_change import SIZES
from dataflow.guard import Guard
from dataflow.losses import CLOCK, FLUSH, Because, Cause, Losses, emptied
from dataflow.messages import Ddl, Gap, Pair, Restarted, TableChanges, Transaction
from dataflow.operators.answer import AnswerNode
from dataflow.operators.old_answers import KEPT, MOST_BYTES
from gtid_tracker.gtid import Gtid
from sqltypes.expression import Row
from tests.support.engine_rig import OLD, ROWS, Rig, gtids

ANSWERS = "SELECT COUNT(DISTINCT v) FROM t WHERE k = ?"
ALL = "SELECT COUNT(DISTINCT v), COUNT(DISTINCT k) FROM t WHERE v <> ? OR k > 0"  # each change concerns every key
FIRST = "SELECT id, v FROM t WHERE k = ? ORDER BY v, id LIMIT 1"
JOINED = "SELECT x.id, y.v FROM t x JOIN t y ON y.id = x.v WHERE x.k = ?"
TABLES = frozenset({"test.t"})
CHANGED: Because = (Cause.CHANGE, "test.t")


def filled(query: str = ANSWERS, *keys: int, rows: tuple[Row, ...] = ((1,),)) -> Rig:
    rig = Rig(query)
    for key in keys or (7,):
        fill(rig, key, *rows)
    return rig


def fill(rig: Rig, key: int, *rows: Row) -> None:
    rig.read(key)
    (request,) = rig.asked()
    rig.answer(request, list(rows), lower=rig.engine.state.ring.position.freeze())


def lost(rig: Rig) -> dict[Because, int]:
    rig.engine.check_invariants()
    return rig.readers[0].losses.counts


def large(rig: Rig, *pairs: Pair, published: int) -> None:
    rig.engine.state.sizes = replace(SIZES, large=0, published=published)
    event = Transaction(Gtid(OLD, 2), [TableChanges("test.t", list(pairs))])
    assert rig.engine.begin(event) and rig.engine.prepare()
    rig.engine.on_stream(event)


def change(rig: Rig) -> None:
    rig.change(2, (None, (1, 7, 1)))


def no_memory(rig: Rig) -> None:
    rig.engine.limit.bytes = 0
    rig.engine.limit.keep()


def fault(rig: Rig) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("planted")

    pytest.MonkeyPatch().setattr(rig.readers[0].nodes[0], "apply", broken)
    event = Transaction(Gtid(OLD, 2), [TableChanges("test.t", [(None, (1, 7, 1))])])
    Guard(rig.engine, lambda *_: None).on_stream(event)


def remove(rig: Rig) -> None:
    rig.engine.remove(rig.readers[0])


def with_cause(because: Because) -> Callable[[Rig], None]:
    """As the proxy does it."""

    def drop(rig: Rig) -> None:
        reader = rig.readers[0]
        with emptied(reader.memory, because):
            for held in list(reader.entries.values()):
                reader.drop(held)

    return drop


PROVOKED: dict[Cause, Callable[[Rig], object]] = {
    Cause.CHANGE: change,
    Cause.LARGE: lambda rig: large(rig, (None, (1, 7, 1)), published=0),
    Cause.MEMORY: no_memory,
    Cause.SCHEMA: lambda rig: rig.engine.on_stream(Ddl(Gtid(OLD, 2), "ALTER TABLE t ADD x INT", TABLES)),
    Cause.UNREAD_ROWS: lambda rig: rig.engine.on_stream(Ddl(Gtid(OLD, 2), "", TABLES, schema=False)),
    Cause.FLUSH: with_cause(FLUSH),
    Cause.PLANNED_ANEW: remove,
    Cause.CLOCK: with_cause(CLOCK),
    Cause.HISTORY: lambda rig: rig.engine.on_stream(Gap("purged", gtids(1, 2, 3))),
    Cause.FAULT: fault,
    Cause.DOUBT: lambda rig: rig.engine.unasked.repair(rig.readers[0], list(rig.readers[0].entries)),
}


@pytest.mark.parametrize("cause", PROVOKED, ids=str)
def test_each_cause_is_counted_by_its_name(cause: Cause) -> None:
    rig = filled()
    PROVOKED[cause](rig)
    table = "test.t" if cause in (Cause.CHANGE, Cause.LARGE) else ""
    assert lost(rig) == {(cause, table): 1}


def test_all_causes_are_provoked() -> None:
    assert {*PROVOKED, Cause.RESTART} == set(Cause)  # that one needs a key ahead of the position


def test_a_restart_of_the_source_takes_what_is_ahead() -> None:
    rig = Rig(ANSWERS)
    rig.read(7)
    (request,) = rig.asked()
    rig.answer(request, [(1,)], lower=gtids(1, 2, 3))
    assert rig.readers[0].nodes[0].ahead
    rig.engine.on_stream(Restarted(gtids(1, 2, 3)))
    assert lost(rig) == {(Cause.RESTART, ""): 1}


def test_an_answer_ahead_that_the_position_reaches_is_not_lost() -> None:
    rig = Rig(ANSWERS)
    rig.read(7)
    (request,) = rig.asked()
    rig.answer(request, [(1,)], lower=gtids(1, 2, 3))
    node = rig.readers[0].nodes[0]
    node.insert(node.load((7,), [(1,)]))  # at the position: it takes the place of the one ahead
    assert not node.ahead and rig.hit(7) is not None
    assert lost(rig) == {}


@pytest.mark.parametrize("count", [3, 200], ids=["one by one", "all at once"])
@pytest.mark.parametrize("cause", [Cause.SCHEMA, Cause.HISTORY, Cause.CHANGE, Cause.LARGE], ids=str)
def test_each_of_many_keys_is_counted(cause: Cause, count: int) -> None:
    rig = filled(ALL, *range(count), rows=((1, 1),))
    PROVOKED[cause](rig)
    assert sum(lost(rig).values()) == count and {one for one, _ in lost(rig)} == {cause}
    assert not rig.readers[0].nodes[0].entries


def test_a_key_is_lost_once_until_it_is_filled_again() -> None:
    rig = filled()
    change(rig)
    rig.change(3, (None, (2, 7, 1)))
    no_memory(rig)
    assert lost(rig) == {CHANGED: 1} and not rig.readers[0].entries
    rig.engine.limit.bytes = 1 << 20
    fill(rig, 7, (2,))
    rig.change(4, (None, (3, 7, 1)))
    assert lost(rig) == {CHANGED: 2}


def test_a_key_of_a_join_that_loses_two_entries_is_lost_once() -> None:
    rig = Rig(JOINED)
    table: dict[int, Row] = {1: (1, 7, 2), 2: (2, 8, 3), 3: (3, 7, 2)}
    rig.fill_from(table, 7)
    (held,) = rig.readers[0].entries.values()
    assert len(held.deps) == 2
    rig.engine.unasked.repair(rig.readers[0], [held.key])
    assert lost(rig) == {(Cause.DOUBT, ""): 1}
    rig.fill_from(table, 7)
    rig.engine.on_stream(Ddl(Gtid(OLD, 2), "ALTER TABLE t ADD x INT", TABLES))
    assert lost(rig) == {(Cause.DOUBT, ""): 1, (Cause.SCHEMA, ""): 1}


def test_a_maintained_key_that_a_change_alters_is_not_lost() -> None:
    rig = filled(ROWS, 7, rows=((7, 1, 10),))
    rig.change(2, ((1, 7, 10), (1, 7, 11)))
    assert lost(rig) == {} and rig.held(7) == [(1, 11)]


def test_a_maintained_key_whose_rows_do_not_suffice_is_lost_by_the_change() -> None:
    rig = Rig(FIRST)
    rows = {at: (at, 7, at) for at in range(1, 40)}
    rig.fill_from(rows, 7)
    at = 1
    while rig.held(7) is not None:
        at += 1
        rig.change(at, (rows[at - 1], None))
    assert lost(rig) == {CHANGED: 1}


def test_an_evicted_entry_that_keys_share_empties_each_of_them() -> None:
    rig = Rig(JOINED)
    table: dict[int, Row] = {1: (1, 7, 3), 2: (2, 8, 3), 3: (3, 9, 9)}
    rig.fill_from(table, 7)
    rig.fill_from(table, 8)
    shared = rig.readers[0].nodes[1].entries
    (entry,) = [one for one in shared.values() if isinstance(one.dependents, set)]
    entry.owner.discard(entry)
    assert lost(rig) == {(Cause.DOUBT, ""): 2}


# -- needlessly -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("again", "equal"), [((1,), 1), ((2,), 0), ((1.0,), 0)])
def test_an_answer_that_is_the_same_again_was_emptied_needlessly(again: Row, equal: int) -> None:
    rig = filled()
    change(rig)
    assert rig.readers[0].losses.needless == (0, 0), "nobody has asked for it again"
    fill(rig, 7, again)
    assert rig.readers[0].losses.compared == {"test.t": (1, equal)}


@pytest.mark.parametrize(("first", "again", "equal"), [("1.0", "1.0", 1), ("1.0", "1.00", 0)])
def test_decimals_are_compared_as_they_are_written(first: str, again: str, equal: int) -> None:
    rig = filled(rows=((Decimal(first),),))
    change(rig)
    fill(rig, 7, (Decimal(again),))
    assert rig.readers[0].losses.compared == {"test.t": (1, equal)}


def test_what_a_statement_or_memory_has_emptied_is_not_compared() -> None:
    for cause in (Cause.SCHEMA, Cause.MEMORY, Cause.DOUBT):
        rig = filled()
        PROVOKED[cause](rig)
        rig.engine.limit.bytes = 1 << 20
        fill(rig, 7, (1,))
        assert rig.readers[0].losses.compared == {}, cause


@pytest.mark.parametrize("cause", [Cause.CHANGE, Cause.LARGE], ids=str)
def test_some_of_many_that_go_at_once_are_compared(cause: Cause) -> None:
    rig = filled(ALL, *range(200), rows=((1, 1),))
    PROVOKED[cause](rig)
    node = rig.readers[0].nodes[0]
    assert isinstance(node, AnswerNode)
    kept = len(node._old.kept)
    assert 0 < kept <= 32
    rig.engine.state.sizes = SIZES
    for key in range(200):
        fill(rig, key, (1, 1))
    assert rig.readers[0].losses.compared == {"test.t": (kept, kept)}


def test_few_hashes_are_kept_and_later_ones_have_their_turn() -> None:
    rig = Rig(ANSWERS)
    node = rig.readers[0].nodes[0]
    assert isinstance(node, AnswerNode)
    for key in range(20 * KEPT):
        fill(rig, key, (1,))
        rig.change(2 + key, (None, (key, key, 1)))
    assert len(node._old.kept) == KEPT
    late = {(key,) for key in range(19 * KEPT, 20 * KEPT)}
    assert late & node._old.kept.keys()


def test_a_large_answer_is_not_hashed() -> None:
    many = tuple((at,) for at in range(MOST_BYTES // 16))
    rig = filled(ANSWERS, 7, rows=many)
    change(rig)
    fill(rig, 7, *many)
    assert rig.readers[0].losses.compared == {} and lost(rig) == {CHANGED: 1}


# -- counts of a name -------------------------------------------------------------------------------------------------


def test_no_count_falls_when_a_cache_is_made_again() -> None:
    first = Losses()
    first.add(CHANGED, 3)
    first.compare("test.t", equal=True)
    again = Losses(first)
    assert again.total == 0 and again.needless == (0, 0)
    again.add(CHANGED)
    again.add(FLUSH)
    again.compare("test.t", equal=False)
    assert again.ever == ({CHANGED: 4, FLUSH: 1}, {"test.t": (2, 1)})
    assert again.counts == {CHANGED: 1, FLUSH: 1}
