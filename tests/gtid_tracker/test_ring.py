"""The ring and the waits on the position."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet
from gtid_tracker.progress import PositionWaits
from gtid_tracker.ring import Ring
from gtid_tracker.tracker import FillTracker

SERVER = "11111111-2222-3333-4444-555555555555"


@dataclass
class Change:
    number: int


def gtid(number: int) -> Gtid:
    return Gtid(SERVER, number)


def gtids(text: str) -> GtidSet:
    return GtidSet.parse(f"{SERVER}:{text}")


def ring_of(numbers: range, **limits: int) -> Ring[Change]:
    ring: Ring[Change] = Ring(gtids("1-10"), **limits)
    for number in numbers:
        ring.push(gtid(number), Change(number))
    return ring


def test_answer_older_than_the_oldest_held_transaction_is_not_admitted() -> None:
    ring = ring_of(range(11, 31), max_transactions=5)
    assert ring.dropped == gtids("1-25")
    assert not ring.admits(gtids("1-24")) and ring.after(gtids("1-24")) is None
    assert ring.admits(gtids("1-25")) and [record.number for record in ring.after(gtids("1-25")) or ()] == [
        *range(26, 31)
    ]
    ring.check_invariants()


def test_records_after_a_lower_bound_with_gaps_come_in_the_order_received() -> None:
    ring = ring_of(range(11, 15))
    ring.push(gtid(20), Change(20))
    ring.push(gtid(15), Change(15))
    assert [record.number for record in ring.after(gtids("1-12:14")) or ()] == [13, 20, 15]


def test_earlier_position_is_known_as_long_as_what_came_since_is_held() -> None:
    ring = ring_of(range(11, 31), max_transactions=5)
    ring.push(gtid(40), None)
    assert ring.position_at(21) == gtids("1-30:40")
    assert ring.position_at(20) == gtids("1-30")
    assert ring.position_at(16) == gtids("1-26")
    assert ring.position_at(15) is None
    assert ring.position_at(22) is None  # not yet


def test_transaction_without_changes_occupies_its_place_but_gives_no_record() -> None:
    ring: Ring[Change] = Ring(GtidSet.empty())
    ring.push(gtid(1), None)
    ring.push(gtid(2), Change(2))
    assert [record.number for record in ring.after(GtidSet.empty()) or ()] == [2]
    assert ring.get(gtid(1)) is None
    ring.check_invariants()


def test_weight_limit_drops_the_oldest() -> None:
    ring: Ring[Change] = Ring(GtidSet.empty(), max_weight=10)
    for number in range(1, 8):
        ring.push(gtid(number), Change(number), 3)
        ring.check_invariants()
    assert len(ring) <= 7
    assert ring.get(gtid(1)) is None


def test_forgetting_makes_every_older_answer_inadmissible() -> None:
    ring = ring_of(range(11, 15))
    left = ring.forget()
    ring.check_invariants()
    assert not ring and sum(1 for _ in left) == 4
    assert ring.dropped == gtids("1-14")
    assert not ring.admits(gtids("1-13"))
    assert ring.admits(gtids("1-14"))


def test_bracket_without_concurrent_commits_is_certain() -> None:
    lower = gtids("1-7")
    bracket = Bracket(SERVER, lower, GtidSet.empty(), lower)
    assert not bracket.uncertain
    assert bracket.needed == lower


def test_bracket_counts_owned_and_newly_executed_as_uncertain() -> None:
    bracket = Bracket(SERVER, gtids("1-7"), gtids("9"), gtids("1-8"))
    assert bracket.uncertain == gtids("8-9")
    assert bracket.needed == gtids("1-9")


def test_owned_transaction_that_was_executed_before_the_lower_bound_is_certain() -> None:
    bracket = Bracket(SERVER, gtids("1-9"), gtids("9"), gtids("1-9"))
    assert not bracket.uncertain


def test_waiter_is_woken_once_by_the_last_transaction_that_it_lacks() -> None:
    rng = random.Random(7)
    for _ in range(200):
        position = MutableGtidSet(gtids("1-10"))
        waits: PositionWaits[str] = PositionWaits()
        needed = {rng.randint(5, 25) for _ in range(rng.randint(1, 6))}
        filed = waits.add(GtidSet.of(gtid(number) for number in needed), position, "fill")
        woken_at = None
        order = list(range(11, 26))
        rng.shuffle(order)
        for number in order:
            position.add(gtid(number))
            if waits.arrived(gtid(number), position):
                assert woken_at is None
                woken_at = number
        late = [number for number in order if number in needed]
        assert filed == bool(late)
        assert woken_at == (late[-1] if late else None)


def test_rolled_back_transaction_ends_the_wait_for_it() -> None:
    position = MutableGtidSet(gtids("1-10"))
    waits: PositionWaits[str] = PositionWaits()
    assert waits.add(gtids("1-12"), position, "fill")
    assert not waits.clear_absent(gtids("12"), position, "fill")
    assert len(waits) == 1
    position.add(gtid(11))
    assert waits.arrived(gtid(11), position) == ["fill"]


def test_removed_waiter_is_never_woken() -> None:
    position = MutableGtidSet(gtids("1-10"))
    waits: PositionWaits[str] = PositionWaits()
    waits.add(gtids("1-11"), position, "one")
    waits.add(gtids("1-11"), position, "other")
    waits.remove("one")
    position.add(gtid(11))
    assert waits.arrived(gtid(11), position) == ["other"]


def test_two_paths_to_one_key_have_upqueries_of_their_own() -> None:
    tracker: FillTracker[str] = FillTracker()
    tracker.start("key", 1, "first")
    tracker.start("key", 2, "second")
    tracker.end("key", 1, "first")
    assert tracker.in_flight == {"key": {2: "second"}}
    tracker.end("key", 2, "another fill")
    assert tracker.in_flight == {"key": {2: "second"}}
