"""Subscribers: a snapshot, then differences that add up, whatever happens to the key in between."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal

import pytest

import dataflow.readers.in_steps
from dataflow.fills import subscription
from dataflow.fills.read import Read
from dataflow.fills.subscription import BROUGHT, difference
from dataflow.messages import Changes, Ddl, Effect, Failed, Gap, GivenUp, UpqueryFailed
from gtid_tracker.gtid import Gtid
from sqltypes.errors import SourceDown
from sqltypes.expression import Row, Value
from tests.support.engine_rig import OLD, ROWS, Rig, gtids

NUMBER = 1000


def told(effects: list[Effect]) -> list[Changes]:
    return [effect for effect in effects if isinstance(effect, Changes)]


@pytest.fixture
def rig() -> Rig:
    """A subscription to key 7, which has one row."""
    rig = Rig(ROWS)
    assert rig.engine.subscribe(NUMBER, rig.readers[0], 7, (7,)) == []
    (request,) = rig.asked()
    (snapshot,) = told(rig.answer(request, [(7, 1, 10)], lower=gtids(1)))
    assert snapshot.snapshot and snapshot.added == [(1, 10)] and not snapshot.removed
    return rig


def test_change_is_told_as_rows_that_went_and_rows_that_came(rig: Rig) -> None:
    (changes,) = told(rig.change(2, ((1, 7, 10), (1, 7, 11)), (None, (2, 7, 5))))
    assert changes.removed == [(1, 10)]
    assert Counter(changes.added) == Counter([(1, 11), (2, 5)])
    assert not changes.snapshot


def test_change_that_leaves_the_rows_as_they_were_is_not_told(rig: Rig) -> None:
    assert told(rig.change(2, ((1, 7, 10), None), (None, (1, 7, 10)))) == []


def test_change_of_another_key_is_not_told(rig: Rig) -> None:
    assert told(rig.change(2, (None, (2, 8, 5)))) == []


def test_difference_spans_the_time_in_which_the_key_was_a_hole(rig: Rig) -> None:
    assert told(rig.engine.on_stream(Ddl(Gtid(OLD, 2), "TRUNCATE t", frozenset({"test.t"})))) == []
    (request,) = rig.asked()
    (changes,) = told(rig.answer(request, [(7, 3, 30)], lower=gtids(1, 2)))
    assert (changes.removed, changes.added, changes.snapshot) == ([(1, 10)], [(3, 30)], False)


def test_lost_history_is_spanned_too(rig: Rig) -> None:
    assert told(rig.engine.on_stream(Gap("purged", gtids(1, 2, 3)))) == []
    (request,) = rig.asked()
    assert told(rig.answer(request, [(7, 1, 10)], lower=gtids(1, 2, 3))) == []
    (changes,) = told(rig.change(4, ((1, 7, 10), None)))
    assert changes.removed == [(1, 10)]


def test_what_is_told_ends_a_row_of_fills_in_vain(rig: Rig) -> None:
    subscription = rig.engine.subscriptions.by_number[NUMBER]
    subscription.brought = BROUGHT
    assert told(rig.change(2, ((1, 7, 10), (1, 7, 11))))
    assert subscription.brought == 0


def test_watched_key_is_not_evicted_and_may_be_when_nobody_watches_it_any_more(rig: Rig) -> None:
    rig.engine.sieve.evict_to(0)
    assert rig.held(7) == [(1, 10)]
    rig.engine.subscribe(NUMBER + 1, rig.readers[0], 7, (7,))
    rig.engine.unsubscribe(NUMBER)
    rig.engine.sieve.evict_to(0)
    assert rig.held(7) == [(1, 10)]
    rig.engine.unsubscribe(NUMBER + 1)
    rig.engine.sieve.evict_to(0)
    assert rig.held(7) is None
    assert rig.engine.memory.used == 0


def test_second_subscriber_gets_its_snapshot_from_what_is_held(rig: Rig) -> None:
    (snapshot,) = told(rig.engine.subscribe(NUMBER + 1, rig.readers[0], 7, (7,)))
    assert snapshot.snapshot and snapshot.added == [(1, 10)]
    changes = told(rig.change(2, ((1, 7, 10), None)))
    assert sorted(item.subscription for item in changes) == [NUMBER, NUMBER + 1]


def test_dropped_cache_ends_the_subscription(rig: Rig) -> None:
    (end,) = told(rig.engine.remove(rig.readers[0]))
    assert end.lost
    assert told(rig.change(2, ((1, 7, 10), None))) == []
    assert len(rig.engine.subscriptions) == 0


def test_what_is_asked_of_a_dropped_cache_is_told_so_at_once(rig: Rig) -> None:
    """By who had the reader still: no fill will ever come for it."""
    rig.engine.close([rig.readers[0]])
    (end,) = told(rig.engine.subscribe(NUMBER, rig.readers[0], 8, (8,)))
    assert end.lost
    effects = rig.engine.reads.read(Read(1, rig.readers[0], [(8, (8,))]))
    assert effects == [Failed(1, None, GivenUp.CACHE_DROPPED)]
    assert not rig.asked() and not rig.engine.reads.pending


def test_a_dropped_cache_takes_up_no_key_of_what_others_hold(rig: Rig) -> None:
    """By who goes on with a read in steps: the arrangement is another's, too."""
    other = rig.engine.install(rig.readers[0].plan)
    rig.engine.remove(other)
    assert rig.engine.sieve.hold(other, 7, (7,)) is None and not other.entries
    assert rig.engine.sieve.hold(rig.readers[0], 7, (7,)) is not None
    rig.engine.check_invariants()


def test_failed_upquery_ends_the_subscription(rig: Rig) -> None:
    rig.engine.on_stream(Ddl(Gtid(OLD, 2), "TRUNCATE t", frozenset({"test.t"})))
    (request,) = rig.asked()
    (end,) = told(rig.engine.on_failed(UpqueryFailed(request.id, SourceDown("connection lost"))))
    assert end.lost
    assert len(rig.engine.subscriptions) == 0


def test_unsubscribing_while_the_snapshot_is_fetched_tells_nothing() -> None:
    rig = Rig(ROWS)
    rig.engine.subscribe(NUMBER, rig.readers[0], 7, (7,))
    (request,) = rig.asked()
    rig.engine.unsubscribe(NUMBER)
    assert told(rig.answer(request, [(7, 1, 10)], lower=gtids(1))) == []


def test_snapshot_waits_for_the_position_so_that_what_follows_joins_on() -> None:
    rig = Rig(ROWS)
    rig.engine.subscribe(NUMBER, rig.readers[0], 7, (7,))
    (request,) = rig.asked()
    assert told(rig.answer(request, [(7, 1, 10)], lower=gtids(1, 2))) == []
    (snapshot,) = told(rig.change(2, (None, (1, 7, 10))))
    assert snapshot.snapshot and snapshot.added == [(1, 10)]


@pytest.mark.parametrize(
    ("before", "after", "removed", "added"),
    [
        ([], [], [], []),
        ([(1,)], [(1,)], [], []),
        ([(1,), (1,)], [(1,)], [(1,)], []),
        ([(1,)], [(1,), (1,), (2,)], [], [(1,), (2,)]),
    ],
)
def test_difference_of_bags(before: list[Row], after: list[Row], removed: list[Row], added: list[Row]) -> None:
    assert difference(before, after) == (removed, added)


def test_a_zero_that_changes_its_sign_is_a_difference() -> None:
    assert repr(difference([(1, 0.0)], [(1, -0.0)])) == "([(1, 0.0)], [(1, -0.0)])"


def test_what_only_a_subscription_kept_goes_with_it_where_memory_is_short() -> None:
    rig = Rig(ROWS)
    rig.engine.subscribe(NUMBER, rig.readers[0], 7, (7,))
    (request,) = rig.asked()
    rig.answer(request, [(7, 1, 10)], lower=gtids(1))
    rig.engine.limit.bytes = 1
    rig.change(2)
    assert rig.held(7) == [(1, 10)], "a key that somebody watches stays"
    rig.engine.unsubscribe(NUMBER)
    assert rig.held(7) is None
    assert rig.engine.memory.used == 0


@pytest.mark.parametrize("seed", range(12))
def test_the_difference_of_many_rows_is_that_of_few(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    values: list[Value] = [None, 1, "a", b"b", Decimal("1.0")] if seed % 3 else [None, 1, 0.0, -0.0, 2.5]
    before: list[Row] = [(number, rng.choice(values)) for number in range(700)]
    after = [row if rng.random() < 0.9 else (row[0], rng.choice(values)) for row in before if rng.random() < 0.95]
    if seed % 2:
        after += rng.choices(after, k=3)
    after += [(number, None) for number in range(700, 710)]
    rng.shuffle(after)
    quick = difference(before, after)
    monkeypatch.setattr(subscription, "MANY", 1 << 30)
    assert repr(quick) == repr(difference(before, after)) and quick[0] and quick[1]


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataflow.readers.in_steps, "AT_ONCE", 3)


TABLE: dict[int, Row] = {number: (number, 7, number % 4) for number in range(20)}


def large_rig() -> Rig:
    """A subscription whose answer is told in steps; its rows are asked for."""
    made = Rig(ROWS)
    made.engine.subscriptions.many = made.engine.subscriptions.large_bytes = 0
    made.engine.subscribe(NUMBER, made.readers[0], 7, (7,))
    return made


def went_on(made: Rig, most: int = 1000) -> list[Changes]:
    """What is told until there is nothing to do, or in so many steps."""
    found: list[Changes] = []
    while made.engine.unfinished and most > 0:
        found += told(made.engine.go_on())
        most -= 1
    return found


def asked_and_told(made: Rig, rows: list[Row], *position: int) -> list[Changes]:
    requests = made.asked()
    return [one for request in requests for one in told(made.answer(request, rows, lower=gtids(*position)))]


def sum_of(changes: list[Changes]) -> Counter[Row]:
    assert [one.snapshot for one in changes] == [True] + [False] * (len(changes) - 1)
    has: Counter[Row] = Counter()
    for one in changes:
        has.subtract(one.removed)
        assert all(count >= 0 for count in has.values())
        has.update(one.added)
    return +has


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("how", ["row", "emptied"])
def test_the_rows_of_a_large_answer_are_told_in_steps_and_no_change_between_them_is_lost(how: str) -> None:
    """A change at each step, of the first rows and of the difference."""
    steps_of_first: list[int] = []
    for at in range(200):
        made = large_rig()
        changes = asked_and_told(made, [(7, number, v) for number, _, v in TABLE.values()], 1)
        assert changes == [] and made.engine.unfinished, "it is told later"
        changes += went_on(made, at)
        changes += told(made.change(2, ((1, 7, 1), (1, 7, 50))))
        changes += went_on(made, at)
        if how == "row":
            changes += told(made.change(3, ((2, 7, 2), None), (None, (30, 7, 1))))
        else:
            effects = made.engine.on_stream(Ddl(Gtid(OLD, 3), "TRUNCATE t", frozenset({"test.t"})))
            changes += told(effects)
        changes += went_on(made)
        if how == "emptied":
            changes += asked_and_told(made, [(7, 40, 1), (7, 41, 1)], 1, 2, 3)
            changes += went_on(made)
        rows = made.held(7)
        assert rows is not None and sum_of(changes) == Counter(rows)
        assert not made.asked() and not made.engine.reads.pending
        steps_of_first.append(len(changes))
        made.engine.unsubscribe(NUMBER)
        made.engine.sieve.evict_to(0)
        assert made.engine.memory.used == 0, "nothing watches the key any more"
        if len(changes) == 3 and steps_of_first[-3:] == [3, 3, 3]:
            return
    raise AssertionError("it does not end")


@pytest.mark.usefixtures("few_at_once")
def test_a_large_answer_that_changes_all_the_time_is_told_all_the_same() -> None:
    made = large_rig()
    changes = asked_and_told(made, [(7, number, v) for number, _, v in TABLE.values()], 1)
    for number in range(2, 2 + 3 * subscription.TRIES):
        changes += told(made.change(number, ((1, 7, number - 1), (1, 7, number))))
        changes += went_on(made, 1)
    assert changes, "something is told while the changes go on"
    changes += went_on(made)
    assert sum_of(changes) == Counter(made.held(7) or ())


@pytest.mark.usefixtures("few_at_once")
def test_who_ends_a_subscription_between_two_steps_is_told_nothing_more() -> None:
    made = large_rig()
    asked_and_told(made, [(7, 1, 1), (7, 2, 2)], 1)
    assert went_on(made, 1) == []
    made.engine.unsubscribe(NUMBER)
    assert not made.engine.unfinished and went_on(made) == []
    made.engine.sieve.evict_to(0)
    assert made.engine.memory.used == 0


@pytest.mark.usefixtures("few_at_once")
def test_a_dropped_cache_ends_a_subscription_between_two_steps() -> None:
    made = large_rig()
    asked_and_told(made, [(7, 1, 1), (7, 2, 2)], 1)
    went_on(made, 1)
    (end,) = told(made.engine.remove(made.readers[0]))
    assert end.lost and not made.engine.unfinished


@pytest.mark.usefixtures("few_at_once")
def test_two_subscribers_of_a_large_answer_are_both_told() -> None:
    made = large_rig()
    changes = asked_and_told(made, [(7, number, v) for number, _, v in TABLE.values()], 1)
    made.engine.subscribe(NUMBER + 1, made.readers[0], 7, (7,))
    changes += went_on(made)
    changes += told(made.change(2, ((1, 7, 1), None)))
    changes += went_on(made)
    for number in (NUMBER, NUMBER + 1):
        assert sum_of([one for one in changes if one.subscription == number]) == Counter(made.held(7) or ())
