"""Several shards: no key of one waits for another, and what the schedules have come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.simulation.checks import Wrong
from tests.simulation.queries import Parameters
from tests.simulation.rest import MOST_ASKED, rest
from tests.simulation.run import Altering
from tests.simulation.script import Setup
from tests.simulation.sharded import Sharded
from tests.simulation.sharded_schedule import ShardedSchedule
from tests.simulation.shards import DECIDING, groups_asked
from tests.simulation.sql_side import Rows

SEEDS = range(1, 8)
HEALTHY, SLOW = 0, 1  # shards
ROWS: Rows = {
    "a": {number: (number, number % 2, number % 3, 1, number) for number in range(8)},
    "b": {number: (number, number % 2, number) for number in range(6)},
    "n": {number: (number, "aAbB"[number % 4], number % 2) for number in range(6)},
}
SETUP = Setup(ROWS, True, 1 << 30, (1000, 1 << 22), (), shards=((0,), (1,)))
ONE_KEY: dict[str, Parameters] = {
    # What is derived from more than one entry stands nowhere but at the position.
    "rows": (0,),
    "total": (2,),
    "count_by_key": (0,),
    "in_list": ((0, 2),),
    "not_exists": (0,),
    "top_of_key": (0,),
    "names_groups": (0,),
}


@contextmanager
def one_stands_still(*caches: str, kind: type[Sharded] = Sharded) -> Iterator[Sharded]:
    """Both shards have committed much, and the stream brings nothing of one of them. A scatter has told how far that
    is."""
    simulation = kind(replace(SETUP, caches=(*caches, "top")))
    try:
        for number in range(1, 6):
            rows = (("a", number, (number, number % 2, 1, 1, number)), ("a", 6, (6, 0, number % 3, 1, number)))
            simulation.perform(("begin", number, "rows", rows))
            simulation.perform(("advance", number, 4))
        simulation.perform(("read", "top", ()))
        simulation.perform(("flush",))
        simulation.perform(("upquery", -1, 20))
        yield simulation
    finally:
        simulation.close()


def becomes_held(simulation: Sharded, name: str, parameters: Parameters) -> bool:
    """Without anything of the slow shard."""
    brought = simulation.feeds[SLOW].delivered
    for _ in range(MOST_ASKED):
        if simulation.read(name, parameters):
            break
        simulation.perform(("flush",))
        for _ in range(len(simulation.flights)):
            simulation.perform(("upquery", -1, 20))
        simulation.perform(("deliver", 99, HEALTHY))
    assert simulation.feeds[SLOW].delivered == brought and simulation.feeds[SLOW].left
    return not simulation.waiting and simulation.read(name, parameters)


@pytest.mark.parametrize("name", ONE_KEY)
def test_a_key_of_one_shard_is_a_hit_while_the_stream_of_another_stands_still(name: str) -> None:
    with one_stands_still(name) as simulation:
        assert becomes_held(simulation, name, ONE_KEY[name])
        rest(simulation)


def test_a_subscriber_to_a_key_of_one_shard_is_told_meanwhile() -> None:
    with one_stands_still("groups") as simulation:
        simulation.perform(("subscribe", "groups", (0,)))
        simulation.perform(("flush",))
        simulation.perform(("upquery", -1, 20))
        simulation.perform(("deliver", 99, HEALTHY))
        assert simulation.counts["changes"] > 0 and simulation.feeds[SLOW].left


def test_with_the_bracket_of_all_shards_it_would_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above looks. (What needs one entry only may stand ahead of the position.)"""
    monkeypatch.setattr(Sharded, "_shards_of", lambda self, reader, keys: None)
    with one_stands_still("count_by_key") as simulation:
        assert not becomes_held(simulation, "count_by_key", ONE_KEY["count_by_key"])
        assert simulation.engine.inserting.waiting


def test_a_key_of_the_slow_shard_waits_for_it_alone() -> None:
    with one_stands_still("count_by_key") as simulation:
        assert not becomes_held(simulation, "count_by_key", (1,))
        simulation.perform(("deliver", 99, SLOW))
        assert simulation.read("count_by_key", (1,))


def test_which_groups_an_answer_is_of() -> None:
    assert groups_asked("rows", (2,), 2) == frozenset((0,)) and groups_asked("rows", (2,), 3) == frozenset((2,))
    assert groups_asked("in_list", ((0, 1, 2),), 3) == frozenset((0, 1, 2))
    assert groups_asked("union", (0, 1), 2) == frozenset((0, 1))
    assert groups_asked("rows", (None,), 2) is None, "no row has it"
    assert groups_asked("top", (), 2) is None and groups_asked("inner", (1,), 2) is None


def test_altered_answers_of_shards_are_found_out() -> None:
    for seed in SEEDS:
        schedule = ShardedSchedule(seed)
        simulation = Sharded(schedule.setup, Altering(0.02, seed))
        simulation.check_every = 1 << 30
        try:
            schedule.run(simulation, 400)
        except Wrong:
            return
        finally:
            simulation.close()
    pytest.fail("nothing was found")


def test_schedules_of_shards_have_all_that_there_is_to_look_for() -> None:
    counts: Counter[str] = Counter()
    caches: set[str] = set()
    for seed in SEEDS:
        schedule = ShardedSchedule(seed)
        simulation = Sharded(schedule.setup)
        try:
            schedule.run(simulation, 400)
            rest(simulation)
        finally:
            simulation.close()
        counts += simulation.counts
        caches.update(simulation.desk.caches)
    for what in ("answers of some shards", "hits_ahead", "resharded", "shards that are no more", "resets_by_answer"):
        assert counts[what], what
    assert counts["answers"] > counts["answers of some shards"] + 100
    assert len(caches & DECIDING.keys()) > 10 and caches - DECIDING.keys()
