"""Who runs next: first come, first served, of those that may: reads, tables and shards have a part of the
connections."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from external_upquery.shares import ANY, Kind
from external_upquery.waiting import Waiting, part_of_reads

LEFT, RIGHT, BOTH = ("-80",), ("80-",), ("-80", "80-")


@dataclass(eq=False)
class One:
    read: bool = False
    kind: Kind = ANY
    place: int = 0
    lent: bool = False


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
    hung = [One(kind=LEFT) for _ in range(5)]
    for one in hung:
        waiting.add(one)
    other = One(kind=RIGHT)
    waiting.add(other)
    for expected in (*hung[:2], other):
        found = waiting.next()
        assert found is expected
        waiting.started(found)
    assert waiting.next() is None and not waiting.due and waiting.held_back == 3
    assert not waiting.may_run(False, BOTH) and waiting.may_run(False, ("c0-",)) and waiting.may_run(True, ANY)
    waiting.ended(other)
    assert waiting.may_run(False, RIGHT) and not waiting.may_run(False, LEFT)
    waiting.ended(hung[0])
    assert waiting.due and waiting.next() is hung[2]


def test_a_shard_that_hangs_leaves_places_in_the_queue() -> None:
    waiting: Waiting[One] = Waiting(4, 10)
    while waiting.has_room(One(kind=LEFT)):
        waiting.add(One(kind=LEFT))
    assert len(waiting) == 5 and waiting.has_room(One(kind=RIGHT)) and waiting.has_room(One())
    while waiting.has_room(One()):
        waiting.add(One())
    assert len(waiting) == 10 and not waiting.has_room(One(kind=RIGHT))


def test_a_job_of_several_tables_is_not_passed_over_for_ever() -> None:
    """All that it joins is asked for all the time: there is always one that has what it would have to leave."""
    waiting: Waiting[One] = Waiting(4, 100)
    running = [One(kind=(name,)) for name in "tuvw"]
    for one in running:
        waiting.started(one)
    join, other = One(kind=("t", "u")), One(kind=("t", "v"))
    for one in (join, other):
        waiting.add(one)
    served: list[One] = []
    for _ in range(20):
        one = running.pop(0)
        waiting.ended(one)
        if one not in (join, other):
            waiting.add(One(kind=one.kind))
        found = waiting.next()
        assert found is not None
        waiting.started(found)
        running.append(found)
        served.append(found)
    assert served.index(join) < served.index(other) < 15


def test_what_may_be_locked_is_lent_no_connection() -> None:
    waiting: Waiting[One] = Waiting(8, 100)
    hung = [One(kind=("t",)) for _ in range(4)]
    for one in hung:
        waiting.started(one)
    join = One(kind=("t", "u"))
    waiting.add(join)
    assert waiting.next() is None
    waiting.ended(hung[0], answered=False)
    assert waiting.next() is join, "it has its share again"
    waiting.started(hung[0])
    waiting.add_first(join)
    assert waiting.next() is None
    waiting.ended(hung[0])
    waiting.started(hung[0])
    assert waiting.next() is join, "a job for the table was answered while it waited"


@dataclass
class Naive:
    """The same in one list, gone through from the front each time."""

    connections: int
    running: list[One] = field(default_factory=list)
    waiting: list[One] = field(default_factory=list)
    lent: One | None = None
    answered: dict[str, set[One]] = field(default_factory=dict)  # who waited as a job for it was answered last

    def may(self, one: One) -> bool:
        free = self.connections - len(self.running)
        if one.kind == ANY or self.connections < 3:
            leaves = True
        elif len(one.kind) == 1:
            leaves = len([other for other in self.running if other.kind == one.kind]) < free
        else:
            leaves = all(len([other for other in self.running if asked in other.kind]) + 1 < free for asked in one.kind)
        return leaves and self.may_read(one)

    def may_read(self, one: One) -> bool:
        reading = len([other for other in self.running if other.read])
        return not one.read or reading < max(1, self.connections - self.connections // 2)

    def lendable(self) -> One | None:
        """The first that has its share, and may have one more."""
        if self.lent in self.running or len(self.running) == self.connections:
            return None
        # Of the jobs of one kind only the first is looked at.
        first = {(one.read, one.kind): one for one in reversed(self.waiting)}.values()
        held = (one for one in self.waiting if one in first and len(one.kind) > 1 and not self.may(one))
        return next((one for one in held if self.may_read(one) and self.is_free(one)), None)

    def is_free(self, one: One) -> bool:
        """Whether nobody asks for what it asks for, but for such jobs that were answered while it waited."""
        asked = {name for other in self.running for name in other.kind}
        return all(name not in asked or one in self.answered.get(name, ()) for name in one.kind)

    def end(self, one: One) -> None:
        self.running.remove(one)
        for name in one.kind:
            self.answered[name] = set(self.waiting)

    def next(self) -> One | None:
        lendable = self.lendable()
        return next((one for one in self.waiting if one is lendable or self.may(one)), None)

    def start(self, one: One) -> None:
        if not self.may(one):
            self.lent = one
        self.waiting.remove(one)
        self.running.append(one)


@pytest.mark.parametrize("seed", range(60))
def test_it_does_what_one_list_would(seed: int) -> None:
    rng = random.Random(seed)
    kinds = rng.choice(((ANY,), (LEFT, RIGHT), (ANY, BOTH, LEFT, RIGHT), (("c0-",), LEFT, BOTH, ("-80", "c0-"))))
    naive = Naive(rng.randint(1, 9))
    waiting: Waiting[One] = Waiting(naive.connections, 1000)
    for _ in range(400):
        chance = rng.random()
        if chance < 0.5:
            one = One(rng.random() < 0.4, rng.choice(kinds))
            lendable = naive.lendable()
            ahead = any(other.read == one.read and (other is lendable or naive.may(other)) for other in naive.waiting)
            assert waiting.may_run(one.read, one.kind) == (naive.may(one) and not ahead)
            if rng.random() < 0.9:
                waiting.add(one)
                naive.waiting.append(one)
            else:
                waiting.add_first(one)
                naive.waiting.insert(0, one)
                for waited in naive.answered.values():  # it has waited before
                    waited.add(one)
        elif chance < 0.55 and naive.waiting:
            one = naive.waiting.pop(rng.randrange(len(naive.waiting)))
            waiting.remove(one)
        elif chance < 0.58:
            taken = set(rng.sample(naive.waiting, len(naive.waiting) // 4))
            assert set(waiting.take(lambda one, taken=taken: one in taken)) == taken  # type: ignore[misc]
            naive.waiting = [one for one in naive.waiting if one not in taken]
        elif naive.running:
            one = rng.choice(naive.running)
            naive.end(one)
            waiting.ended(one)
        while len(naive.running) < naive.connections:
            assert waiting.due == (naive.next() is not None)
            found = waiting.next()
            assert found is naive.next()
            if found is None:
                break
            naive.start(found)
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
