"""Checks of fills: MySQL's own answer to the client's text comes with the fill's rows, and decides about both."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

import pytest

from dataflow.entries import Entries
from dataflow.fills.read import Read
from dataflow.messages import (
    Changes,
    Ddl,
    Differs,
    Effect,
    Failed,
    Finding,
    GivenUp,
    OwnAnswer,
    Ready,
    UpqueryAnswer,
    UpqueryRequest,
)
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import Gtid, GtidSet
from sqltypes.errors import SourceError
from sqltypes.expression import Row
from tests.support.engine_rig import NOTHING, OLD, ROWS, Rig, deliver, gtids

JOIN = "SELECT t.id, w.v FROM t JOIN w ON w.id = t.v WHERE t.k = ?"


@dataclass
class Plain:
    """Compares the rows as they are."""

    sql: str = "the client's text"
    seen: list[list[Row] | None] = field(default_factory=list)
    on_differs: Callable[[Differs], None] = lambda effect: None
    held: Callable[[list[int]], None] | None = None

    def compare(self, rows: list[Row] | None, own: OwnAnswer | SourceError, levels: Sequence[Entries]) -> Finding:
        self.seen.append(rows)
        if isinstance(own, SourceError) or rows is None:
            return Finding.UNKNOWN
        return Finding.AGREES if rows == own.rows else Finding.DIFFERS

    def compare_in_steps(
        self, rows: list[Row] | None, own: OwnAnswer | SourceError, levels: Sequence[Entries]
    ) -> Generator[None, None, Finding]:
        yield
        return self.compare(rows, own, levels)


def ask(rig: Rig, check: Plain | None, *keys: int, reader: int = 0) -> int:
    node = rig.readers[reader]
    rig.waiter += 1
    rig.engine.reads.read(Read(rig.waiter, node, [(node.key_of((key,)), (key,)) for key in keys], check=check))
    return rig.waiter


def answer(
    rig: Rig, request: UpqueryRequest, *results: list[Row], own: Sequence[OwnAnswer | SourceError],
    lower: GtidSet | None = None,
) -> list[Effect]:  # fmt: skip
    seen = lower if lower is not None else gtids(1)
    found = UpqueryAnswer(request.id, Bracket(OLD, seen, NOTHING, seen), results, checks=tuple(own))
    return deliver(rig.engine, found, prepared=PREPARED.get())


PREPARED = ContextVar("PREPARED", default=False)


@pytest.fixture(params=[False, True], ids=["at once", "prepared"], autouse=True)
def prepared(request: pytest.FixtureRequest) -> Iterator[None]:
    """Large answers are prepared in steps before they are delivered."""
    token = PREPARED.set(request.param)
    yield
    PREPARED.reset(token)


def test_a_fill_that_agrees_answers_and_is_held_fresh() -> None:
    rig = Rig(ROWS)
    waiter = ask(rig, Plain(), 7)
    (request,) = rig.asked()
    assert [check.sql for check in request.checks] == ["the client's text"]
    effects = answer(rig, request, [(7, 1, 10)], own=[OwnAnswer([(1, 10)])])
    assert effects == [Ready(waiter, [(1, 10)], gtids(1))]
    held = rig.readers[0].entries[7]
    assert held.version is not None, "nothing has changed since the snapshot: its first hit needs no check"
    rig.change(2, (None, (2, 7, 20)))
    assert held.version is None


@pytest.mark.parametrize("what", ["nothing", "a change", "a key that was held", "no agreement"])
def test_of_a_list_that_agreed_the_versions_are_told_unless_something_was_not_compared(what: str) -> None:
    rig = Rig(ROWS)
    told: list[list[int]] = []
    if what == "a key that was held":
        ask(rig, None, 8)
        (alone,) = rig.asked()
        answer(rig, alone, [(8, 2, 20)], own=[])
    ask(rig, Plain(held=told.append), 7, 8)
    (request,) = rig.asked()
    if what == "a change":
        rig.change(2, (None, (3, 7, 30)))
    own: OwnAnswer | SourceError = OwnAnswer([(1, 10), (2, 20)])
    if what == "no agreement":
        own = SourceError(1317, "70100", "interrupted")
    answer(rig, request, [(7, 1, 10), (8, 2, 20)], own=[own])
    held = [rig.readers[0].entries[key] for key in (7, 8)]
    assert told == ([[item.version for item in held]] if what == "nothing" else [])


def test_a_difference_is_told_first_and_nobody_gets_the_answer() -> None:
    rig = Rig(ROWS)
    check = Plain()
    first, second = ask(rig, check, 7), ask(rig, None, 7)
    (request,) = rig.asked()
    effects = answer(rig, request, [(7, 1, 10)], own=[OwnAnswer([(1, 11)])])
    told, *failed = effects
    assert isinstance(told, Differs) and told.check is check and told.bracket.lower == gtids(1)
    assert failed == [Failed(first, None, GivenUp.DIFFERS), Failed(second, None, GivenUp.DIFFERS)]
    assert rig.held(7) is None and not rig.readers[0].entries
    assert rig.engine.memory.counters["given_up_differs"] == 2


def test_what_cannot_be_compared_is_left_to_mysql_and_held() -> None:
    rig = Rig(ROWS)
    checked, plain = ask(rig, Plain(), 7), ask(rig, None, 7)
    (request,) = rig.asked()
    effects = answer(rig, request, [(7, 1, 10)], own=[SourceError(1317, "70100", "interrupted")])
    assert effects == [Failed(checked, None, GivenUp.UNCHECKED), Ready(plain, [(1, 10)], gtids(1))]
    assert rig.held(7) == [(1, 10)]
    assert rig.readers[0].entries[7].unseen, "who reads it next has it compared"


def test_that_who_asked_for_the_check_went_away_proves_nothing() -> None:
    rig = Rig(ROWS)
    checked, plain = ask(rig, Plain(), 7), ask(rig, None, 7)
    (request,) = rig.asked()
    assert rig.engine.reads.cancel(checked) == []
    effects = answer(rig, request, [(7, 1, 10)], own=[SourceError(1038, "HY001", "out of sort memory")])
    assert effects == [Ready(plain, [(1, 10)], gtids(1))] and rig.readers[0].entries[7].unseen


def test_a_list_that_two_fills_answer_is_compared_when_it_is_held() -> None:
    rig = Rig(ROWS)
    whole, split = ask(rig, Plain("one"), *range(60)), ask(rig, Plain("two"), *range(60, 120))
    requests = rig.asked()
    assert [len(request.checks) for request in requests] == [1, 0]
    effects = [
        effect for request in requests for effect in answer(rig, request, [], own=[OwnAnswer([])] * len(request.checks))
    ]
    assert effects == [Ready(whole, [], gtids(1)), Failed(split, None, GivenUp.UNCHECKED)]
    entries = rig.readers[0].entries
    assert [entries[key].unseen for key in range(120)] == [False] * 60 + [True] * 60


def test_what_was_held_before_and_is_filled_in_vain_has_been_given_to_nobody_either() -> None:
    rig = Rig(ROWS)
    rig.fill_from({1: (1, 7, 10)}, 7)
    assert rig.hit(7) is not None
    used = rig.engine.memory.used
    entry = rig.readers[0].nodes[0].entries[7]
    entry.owner.discard(entry)
    ask(rig, Plain(), 7)
    (request,) = rig.asked()
    answer(rig, request, [(7, 1, 10)], own=[SourceError(1038, "HY001", "out of sort memory")])
    assert rig.held(7) == [(1, 10)] and rig.readers[0].entries[7].unseen
    assert rig.engine.memory.used < used, "its bytes do not count as stored"


def test_what_was_not_compared_is_not_held_ahead_of_the_position() -> None:
    rig = Rig(ROWS)
    ask(rig, Plain(), 7)
    (request,) = rig.asked()
    root = rig.readers[0].nodes[0]
    answer(rig, request, [(7, 1, 10)], own=[SourceError(1038, "HY001", "")], lower=gtids(1, 2))
    assert not root.ahead and rig.held(7) is None
    rig.change(2, (None, (9, 9, 9)))
    assert rig.held(7) == [(1, 10)] and rig.readers[0].entries[7].unseen
    ask(rig, Plain(), 8)
    (request,) = rig.asked()
    answer(rig, request, [(8, 2, 20)], own=[OwnAnswer([(2, 20)])], lower=gtids(1, 2, 3))
    assert 8 in root.ahead, "what agrees is"


def test_what_a_subscription_has_filled_was_not_compared() -> None:
    rig = Rig(ROWS)
    reader = rig.readers[0]
    rig.engine.subscribe(1, reader, 7, (7,))
    (request,) = rig.asked()
    answer(rig, request, [(7, 1, 10)], own=[])
    assert reader.entries[7].unseen


@pytest.mark.parametrize("told", [False, True], ids=["at first", "after a hole"])
def test_a_difference_ends_the_subscriptions_that_wait_for_the_fill(told: bool) -> None:
    """Else they would never hear anything again: nobody asks for them any more."""
    rig = Rig(ROWS)
    rig.engine.subscribe(1000, rig.readers[0], 7, (7,))
    if told:
        (request,) = rig.asked()
        answer(rig, request, [(7, 1, 10)], own=[])
        rig.engine.on_stream(Ddl(Gtid(OLD, 2), "TRUNCATE t", frozenset({"test.t"})))
    ask(rig, Plain(), 7)
    (request,) = rig.asked()
    effects = answer(rig, request, [(7, 1, 10)], own=[OwnAnswer([])], lower=gtids(1, 2))
    assert [effect.lost != "" for effect in effects if isinstance(effect, Changes)] == [True]
    assert len(rig.engine.subscriptions) == 0
    rig.engine.check_invariants()


def test_of_a_list_that_several_fills_bring_nothing_counts_as_compared() -> None:
    rig = Rig(ROWS)
    reader = rig.readers[0]
    rig.engine.reads.read(Read(1, reader, [(key, (key,)) for key in range(101)], doubted=True))
    for request in rig.asked():
        answer(rig, request, [], own=[])
    assert len(reader.entries) == 101 and all(held.unseen for held in reader.entries.values())


def test_another_text_for_the_same_key_needs_its_own_check() -> None:
    rig = Rig(ROWS)
    first = ask(rig, Plain("one spelling"), 7)
    (request,) = rig.asked()
    second = ask(rig, Plain("another"), 7)  # it joins the fill under way
    same = ask(rig, Plain("one spelling"), 7)
    effects = answer(rig, request, [(7, 1, 10)], own=[OwnAnswer([(1, 10)])])
    assert sorted((type(e).__name__, e.waiter) for e in effects if isinstance(e, Ready | Failed)) == [
        ("Failed", second), ("Ready", first), ("Ready", same),
    ]  # fmt: skip


def test_all_keys_of_a_checked_read_come_from_the_snapshot_though_some_are_held() -> None:
    rig = Rig(ROWS)
    rig.fill_from({1: (1, 7, 10)}, 7)
    check = Plain()
    waiter = ask(rig, check, 7, 8)
    (request,) = rig.asked()
    rows: list[Row] = [(1, 10), (2, 20)]
    effects = answer(rig, request, [(7, 1, 10), (8, 2, 20)], own=[OwnAnswer(rows)])
    assert effects == [Ready(waiter, rows, gtids(1))] and check.seen == [rows]


def test_a_join_whose_root_is_held_is_asked_for_from_the_root_on() -> None:
    rig = Rig(ROWS, JOIN)
    node = rig.readers[1]
    ask(rig, None, 7, reader=1)
    (request,) = rig.asked()
    answer(rig, request, [(7, 1, 10)], [(10, 10, 5)], own=[])
    rig.change(2, ((10, 1, 5), None), table="test.w")
    check = Plain()
    waiter = ask(rig, check, 7, reader=1)
    (request,) = rig.asked()
    assert len(request.statements) == 2
    effects = answer(rig, request, [(7, 1, 10)], [], own=[OwnAnswer([])], lower=gtids(1, 2))
    assert effects == [Ready(waiter, [], gtids(1, 2))] and check.seen == [[]]
    assert node.entries[7].version is None, "part of it was held before: what is derived from that is not the fill's"


def test_what_was_brought_forward_is_not_fresh() -> None:
    rig = Rig(ROWS)
    ask(rig, Plain(), 7)
    (request,) = rig.asked()
    rig.change(2, (None, (2, 7, 20)))
    answer(rig, request, [(7, 1, 10)], own=[OwnAnswer([(1, 10)])])
    assert rig.held(7) == [(1, 10), (2, 20)]
    assert rig.readers[0].entries[7].version is None
    rig.engine.check_invariants()


@pytest.mark.parametrize("late", [False, True])
def test_an_answer_says_whether_it_is_what_one_snapshot_saw(late: bool) -> None:
    rig = Rig(ROWS)
    if late:
        rig.change(2, (None, (2, 8, 20)))
    waiter = ask(rig, None, 7)
    (request,) = rig.asked()
    (ready,) = answer(rig, request, [(7, 1, 10)], own=[])  # of a snapshot without 2
    assert isinstance(ready, Ready) and (ready.waiter, ready.rows) == (waiter, [(1, 10)])
    assert ready.settled == late
