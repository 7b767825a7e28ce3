"""Who runs next: first come, first served, of those that may: reads and shards have a part of the connections."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from external_upquery.shares import ANY, SEVERAL
from external_upquery.waiting import Waiting, part_of_reads


@dataclass(eq=False)
class One:
    read: bool = False
    kind: str = ANY
    place: int = 0


def test_reads_leave_connections_to_fills() -> None:
    waiting: Waiting[One] = Waiting(4, 100)
    reads, fill = [One(read=True) for _ in range(3)], One()
    for one in (*reads, fill):
        waiting.add(one)
    for expected in (*reads[:2], fill):
        found = waiting.next()
        assert found is expected
        waiting.started(found)
    assert waiting.next() is None and not waiting.due and len(waiting) == 1
    waiting.ended(reads[0])
    assert waiting.due and waiting.next() is reads[2]


def test_who_comes_back_goes_first() -> None:
    waiting: Waiting[One] = Waiting(2, 100)
    first, second = One(read=True), One()
    waiting.add(second)
    waiting.add_first(first)
    assert waiting.next() is first


def test_a_shard_that_hangs_is_passed_over() -> None:
    waiting: Waiting[One] = Waiting(4, 100)
    hung = [One(kind="-80") for _ in range(5)]
    for one in hung:
        waiting.add(one)
    other = One(kind="80-")
    waiting.add(other)
    for expected in (*hung[:2], other):
        found = waiting.next()
        assert found is expected
        waiting.started(found)
    assert waiting.next() is None and not waiting.due and waiting.held_back == 3
    assert (
        waiting.would_run(False, SEVERAL) is False and waiting.would_run(False, "c0-") and waiting.would_run(True, "")
    )
    waiting.ended(other)
    assert waiting.would_run(False, "80-") and not waiting.would_run(False, "-80")
    waiting.ended(hung[0])
    assert waiting.due and waiting.next() is hung[2]


def test_a_shard_that_hangs_leaves_places_in_the_queue() -> None:
    waiting: Waiting[One] = Waiting(4, 10)
    while waiting.has_room(One(kind="-80")):
        waiting.add(One(kind="-80"))
    assert len(waiting) == 5 and waiting.has_room(One(kind="80-")) and waiting.has_room(One())
    while waiting.has_room(One()):
        waiting.add(One())
    assert len(waiting) == 10 and not waiting.has_room(One(kind="80-"))


@dataclass
class Naive:
    """The same in one list, gone through from the front each time."""

    connections: int
    running: list[One] = field(default_factory=list)
    waiting: list[One] = field(default_factory=list)

    def may(self, one: One) -> bool:
        free = self.connections - len(self.running)
        own = len([other for other in self.running if other.kind == one.kind]) + (one.kind == SEVERAL)
        reading = len([other for other in self.running if other.read])
        part = max(1, self.connections - self.connections // 2)
        return (not one.read or reading < part) and (one.kind == ANY or self.connections < 3 or own < free)

    def next(self) -> One | None:
        return next(filter(self.may, self.waiting), None)


@pytest.mark.parametrize("seed", range(60))
def test_it_does_what_one_list_would(seed: int) -> None:
    rng = random.Random(seed)
    kinds = rng.choice(((ANY,), ("-80", "80-"), (ANY, SEVERAL, "-80", "80-"), ("-40", "40-80", "80-", SEVERAL)))
    naive = Naive(rng.randint(1, 9))
    waiting: Waiting[One] = Waiting(naive.connections, 1000)
    for _ in range(400):
        chance = rng.random()
        if chance < 0.5:
            one = One(rng.random() < 0.4, rng.choice(kinds))
            ahead = any(other.read == one.read and naive.may(other) for other in naive.waiting)
            assert waiting.may_run(one) == (naive.may(one) and not ahead)
            if rng.random() < 0.9:
                waiting.add(one)
                naive.waiting.append(one)
            else:
                waiting.add_first(one)
                naive.waiting.insert(0, one)
        elif chance < 0.55 and naive.waiting:
            one = naive.waiting.pop(rng.randrange(len(naive.waiting)))
            waiting.remove(one)
        elif chance < 0.58:
            taken = set(rng.sample(naive.waiting, len(naive.waiting) // 4))
            assert set(waiting.take(lambda one, taken=taken: one in taken)) == taken  # type: ignore[misc]
            naive.waiting = [one for one in naive.waiting if one not in taken]
        elif naive.running:
            one = naive.running.pop(rng.randrange(len(naive.running)))
            waiting.ended(one)
        while len(naive.running) < naive.connections:
            assert waiting.due == (naive.next() is not None)
            found = waiting.next()
            assert found is naive.next()
            if found is None:
                break
            naive.waiting.remove(found)
            naive.running.append(found)
            waiting.started(found)
        assert set(waiting) == set(naive.waiting) and all(one in waiting for one in naive.waiting)
        assert waiting.held_back == len([one for one in naive.waiting if not naive.may(One(False, one.kind))])
        waiting.check_invariants()


@pytest.mark.parametrize("seed", range(20))
def test_nobody_waits_while_a_connection_is_free_for_it(seed: int) -> None:
    rng = random.Random(seed)
    connections = rng.randint(1, 6)
    waiting: Waiting[One] = Waiting(connections, 1000)
    running: list[One] = []
    ended: list[One] = []
    made = 0
    for _ in range(400):
        if rng.random() < 0.5:
            waiting.add(One(read=rng.random() < 0.7))
            made += 1
        elif running:
            one = running.pop(rng.randrange(len(running)))
            waiting.ended(one)
            ended.append(one)
        while len(running) < connections and (found := waiting.next()) is not None:
            waiting.started(found)
            running.append(found)
        waiting.check_invariants()
        assert len(running) == connections or not waiting.due
        assert connections == 1 or sum(one.read for one in running) < connections
        assert sum(one.read for one in running) <= part_of_reads(connections)
    assert made == len(ended) + len(running) + len(waiting)
