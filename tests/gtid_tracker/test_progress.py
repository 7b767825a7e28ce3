"""Waiters for the position: each is looked at when what it waits for arrives, or was rolled back, and not before."""

from __future__ import annotations

import random

from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet
from gtid_tracker.progress import PositionWaits

SERVER = "5e1ec7ed-0000-4000-8000-000000000001"
NOTHING = GtidSet.empty()


def gtids(text: str) -> GtidSet:
    return GtidSet.parse(f"{SERVER}:{text}") if text else NOTHING


class Counted(PositionWaits[str]):
    """Counts how often a waiter is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def _forget(self, waiter: str) -> None:
        self.looks += 1
        super()._forget(waiter)

    def _file(self, missing: GtidSet, waiter: str, unsettled: tuple[Gtid, ...]) -> None:
        self.looks += 1
        super()._file(missing, waiter, unsettled)


def test_who_goes_is_not_looked_for_among_all() -> None:
    """Dictionaries only: nothing that grows with the waiters is gone over."""
    waits, position = Counted(), MutableGtidSet(gtids("1-10"))
    for number in range(1000):
        waits.add(gtids(f"1-{20 + number}"), position, f"fill {number}")
    waits.looks = 0
    for number in range(0, 1000, 10):
        waits.remove(f"fill {number}")
    waits.remove("fill 0")
    assert (len(waits), waits.looks) == (900, 100)
    assert list(waits)[:2] == ["fill 1", "fill 2"]


def test_what_was_rolled_back_is_told_of_those_only_who_saw_it_on_its_way() -> None:
    waits, position = Counted(), MutableGtidSet(gtids("1-10"))
    for number in range(100):
        waits.add(gtids("1-12"), position, f"other {number}")
    waits.add(gtids("1-13"), position, "fill", gtids("12-13"))
    waits.looks = 0
    assert waits.rolled_back(gtids("13"), gtids("1-11")) == {"fill": gtids("12")}
    assert waits.looks == 0
    assert not waits.clear_absent(gtids("12"), position, "fill")
    assert waits.rolled_back(gtids("13"), gtids("1-11")) == {}
    assert waits.rolled_back(NOTHING, gtids("1-11")) == {"fill": gtids("13")}
    assert waits.clear_absent(gtids("13"), position, "fill") is False, "the stream has still to bring 11"
    position.add(Gtid(SERVER, 11))
    assert waits.arrived(Gtid(SERVER, 11), position) == ["fill"]


def test_what_a_reading_finds_executed_is_not_looked_for_any_more() -> None:
    waits, position = Counted(), MutableGtidSet(gtids("1-10"))
    for number in range(100):
        waits.add(gtids("1-12"), position, f"fill {number}", gtids("11-12"))
    assert waits.rolled_back(gtids("12"), gtids("1-11")) == {}
    assert waits.rolled_back(NOTHING, gtids("1-12")) == {}
    assert not waits.unsettled
    position.update(gtids("11-12"))
    assert len(waits.arrived(Gtid(SERVER, 12), position)) == 100


def test_who_was_cleared_or_removed_is_told_of_no_more() -> None:
    waits, position = Counted(), MutableGtidSet(gtids("1-10"))
    waits.add(gtids("1-12"), position, "one", gtids("12"))
    waits.add(gtids("1-12"), position, "other", gtids("12"))
    waits.remove("one")
    assert list(waits.rolled_back(NOTHING, NOTHING)) == ["other"]
    waits.clear()
    assert not waits and waits.rolled_back(NOTHING, NOTHING) == {}


def test_anything_in_any_order_is_what_going_over_all_would_give() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        waits, position = PositionWaits[int](), MutableGtidSet(gtids("1-5"))
        needs: dict[int, set[int]] = {}
        for waiter in range(60):
            here = position.freeze()
            missing = [number for number in range(1, 30) if Gtid(SERVER, number) not in here]
            if not missing:
                break
            match rng.randrange(4):
                case 0 | 1:
                    needed = set(rng.sample(range(1, 30), rng.randrange(1, 4)))
                    owned = GtidSet.of(Gtid(SERVER, number) for number in needed if rng.random() < 0.5)
                    if waits.add(GtidSet.of(Gtid(SERVER, number) for number in needed), position, waiter, owned):
                        needs[waiter] = needed & set(missing)
                    else:
                        assert not needed & set(missing)
                case 2 if needs:
                    some, absent = rng.choice(list(needs)), rng.choice(missing)
                    needs[some].discard(absent)
                    assert waits.clear_absent(gtids(str(absent)), position, some) == (not needs[some])
                    if not needs[some]:
                        del needs[some]
                case _:
                    number = rng.choice(missing)
                    position.add(Gtid(SERVER, number))
                    met = {some for some, needed in needs.items() if not needed - {number}}
                    assert set(waits.arrived(Gtid(SERVER, number), position)) == met
                    needs = {some: needed - {number} for some, needed in needs.items() if some not in met}
            assert set(waits) == set(needs) and len(waits) == len(needs) and bool(waits) == bool(needs)
        assert set(waits) == set(needs)
        for some in list(waits):
            waits.remove(some)
        assert not waits._filed and not waits.unsettled and not waits.places
