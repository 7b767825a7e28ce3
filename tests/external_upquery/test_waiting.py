"""Who runs next: fills and reads in their order, reads in a part of the connections."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from external_upquery.waiting import Waiting, part_of_reads


@dataclass(eq=False)
class One:
    read: bool
    place: int = 0


def test_reads_leave_connections_to_fills() -> None:
    waiting: Waiting[One] = Waiting(2)
    reads, fill = [One(read=True) for _ in range(3)], One(read=False)
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
    waiting: Waiting[One] = Waiting(2)
    first, second = One(read=True), One(read=False)
    waiting.add(second)
    waiting.add_first(first)
    assert waiting.next() is first


@pytest.mark.parametrize("seed", range(20))
def test_nobody_waits_while_a_connection_is_free_for_it(seed: int) -> None:
    rng = random.Random(seed)
    connections = rng.randint(1, 6)
    waiting: Waiting[One] = Waiting(part_of_reads(connections))
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
    assert made == len(ended) + len(running) + len(waiting)
