"""What is held is counted, freed by reference counts, and kept below the limit by SIEVE."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator

import pytest

from dataflow.entries import GONE, HELD_BYTES, Held
from dataflow.held.arrangement import Memory
from dataflow.messages import Pair
from dataflow.readers.eviction import GOING, Sieve
from dataflow.readers.memory_limit import EVICTING
from sqltypes.expression import Row
from tests.support.engine_rig import Rig, gtids

ROWS = "SELECT id, v FROM t WHERE k = ?"
GROUPS = "SELECT k, v, COUNT(*) AS n, SUM(v) AS s, MIN(v) AS lo FROM t WHERE k = ? GROUP BY k, v"
TOP = "SELECT id, v FROM t ORDER BY v, id LIMIT 3"
JOIN = "SELECT x.id, y.id AS yid FROM t x LEFT JOIN t y ON y.id = x.v WHERE x.k = ?"
EVICT = "SELECT id FROM t WHERE k = ? UNION ALL SELECT id FROM t WHERE v = ?"


@pytest.fixture
def collected() -> Iterator[list[object]]:
    """All that only the cyclic collector can free."""
    while gc.collect():  # what tests before have left: generators in a cycle take two rounds
        pass
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def churn(rig: Rig, keys: int, rng: random.Random) -> None:
    """Fills keys, changes rows of them, evicts most of them."""
    table: dict[int, Row] = {number: (number, number % keys, rng.randrange(keys)) for number in range(keys * 2)}
    for reader, node in enumerate(rig.readers):
        for key in range(keys):
            params = tuple(key for _ in node.plan.parameters)
            rig.fill_from(table, *params, reader=reader)
            rig.hit(*params, reader=reader)
    for number in range(2, keys):
        before = table[number]
        after = (number, rng.randrange(keys), rng.randrange(keys))
        pairs: list[Pair] = [(before, after)]
        table[number] = after
        rig.change(rig.next_gtid(), *pairs)
        for reader, node in enumerate(rig.readers):
            rig.hit(*(number for _ in node.plan.parameters), reader=reader)
    rig.engine.sieve.evict_to(rig.engine.memory.used // 10)
    rig.engine.check_invariants()


def test_filling_changing_and_evicting_leaves_no_cyclic_garbage(collected: list[object]) -> None:
    rig = Rig(ROWS, GROUPS, TOP, JOIN, EVICT)
    churn(rig, 40, random.Random(1))  # what is made once: plans' functions, the first errors
    gc.collect()
    collected.clear()
    churn(rig, 400, random.Random(2))
    gc.collect()
    ours = [found for found in collected if type(found).__module__.startswith(("dataflow", "gtid_tracker"))]
    assert not ours  # the trees by which SQLite's SQL is made are not ours


def test_dropping_a_reader_leaves_no_cyclic_garbage(collected: list[object]) -> None:
    rig = Rig(ROWS, JOIN)
    churn(rig, 40, random.Random(3))
    gc.collect()
    collected.clear()
    for node in rig.readers:
        rig.engine.remove(node)
    rig.readers.clear()
    node = None  # type: ignore[assignment]  # the last one's name
    gc.collect()
    assert not [found for found in collected if type(found).__name__ in ("Held", "Entry", "Fill", "Read")]


@pytest.mark.parametrize("seed", range(10))
def test_bytes_counted_are_those_held_after_anything(seed: int) -> None:
    rng = random.Random(seed)
    rig = Rig(ROWS, GROUPS, TOP, JOIN, EVICT)
    table: dict[int, Row] = {number: (number, number % 5, rng.randrange(6)) for number in range(30)}
    for _ in range(300):
        reader = rng.randrange(len(rig.readers))
        params = tuple(rng.randrange(5) for _ in rig.readers[reader].plan.parameters)
        match rng.randrange(4):
            case 0:
                rig.fill_from(table, *params, reader=reader)
            case 1:
                rig.hit(*params, reader=reader)
            case 2:
                number = rng.randrange(60)
                before = table.pop(number, None)
                after = (number, rng.randrange(5), rng.randrange(6)) if before is None or rng.random() < 0.6 else None
                if after is not None:
                    table[number] = after
                rig.change(rig.next_gtid(), (before, after))
            case _:
                rig.engine.sieve.evict_to(int(rig.engine.memory.used * rng.random()))
        rig.engine.check_invariants()
    rig.engine.reset(gtids(1), "the end")
    assert rig.engine.memory.used == 0
    assert len(rig.engine.sieve) == 0


# -- SIEVE ------------------------------------------------------------------------------------------------------------


class Shelf:
    """A reader of nothing but keys, under a limit of `room` of them."""

    def __init__(self, room: int) -> None:
        self.memory = Memory()
        self.sieve = Sieve(self.memory, segment=16)
        self.held: dict[int, Held] = {}
        self.entries = self.held  # as a reader calls them
        self.watches: dict[Held, Callable[[], None]] = {}
        self.room = room

    def drop(self, held: Held) -> None:
        """As a reader does it."""
        assert isinstance(held.key, int)
        del self.held[held.key]
        held.marks = GONE
        self.memory.used -= held.size

    def tidy(self) -> None:
        pass

    def read(self, key: int) -> bool:
        held = self.held.get(key)
        if held is not None:
            held.visited = True
            return True
        held = self.held[key] = Held(self, key)  # type: ignore[arg-type]  # it drops keys, that is all that is asked
        self.memory.used += held.size
        self.sieve.add(held)
        self.sieve.evict_to(self.room * HELD_BYTES)
        assert self.memory.used <= self.room * HELD_BYTES
        return False


def least_recently_used(keys: list[int], room: int) -> int:
    """Hits of the plain policy."""
    held: dict[int, None] = {}
    hits = 0
    for key in keys:
        if key in held:
            hits += 1
            del held[key]
        elif len(held) == room:
            del held[next(iter(held))]
        held[key] = None
    return hits


def test_scan_leaves_the_keys_in_use_where_plain_recency_loses_them() -> None:
    rng = random.Random(1)
    keys: list[int] = []
    for start in range(1000, 9000, 800):
        keys += [rng.randrange(50) for _ in range(400)]
        keys += range(start, start + 800)  # each once: a report, a crawler
    shelf = Shelf(100)
    hits = sum(shelf.read(key) for key in keys)
    assert hits > least_recently_used(keys, 100) * 1.1
    assert sum(key < 50 for key in shelf.held) >= 45


def test_watched_keys_stay_and_the_others_go() -> None:
    shelf = Shelf(10)
    for key in range(10):
        shelf.read(key)
    for key in (0, 5):
        shelf.held[key].watch = lambda: None
    shelf.sieve.evict_to(0)
    assert sorted(shelf.held) == [0, 5]


def test_nothing_to_evict_ends_the_search() -> None:
    shelf = Shelf(10)
    shelf.memory.used = 1000
    assert shelf.sieve.evict_to(0) == 0


def test_queue_does_not_grow_with_keys_that_are_gone() -> None:
    shelf = Shelf(10)
    for key in range(5000):
        shelf.read(key)
    assert len(shelf.sieve) == 10
    assert sum(map(len, shelf.sieve._segments)) <= 40
    shelf.sieve.check_invariants()


def test_mark_is_given_once_for_any_number_of_hits() -> None:
    shelf = Shelf(3)
    for key in (1, 2, 3, 1, 1, 1):
        shelf.read(key)
    shelf.read(4)  # 1 is spared, 2 goes
    assert sorted(shelf.held) == [1, 3, 4]
    shelf.sieve.evict_to(0)
    assert not shelf.held


def filled_shelf(rng: random.Random) -> Shelf:
    shelf = Shelf(1000)
    for key in range(1000):
        shelf.read(key)
    for key in range(1000):
        shelf.held[key].visited = rng.random() < 0.3
        if rng.random() < 0.05:
            shelf.held[key].watch = lambda: None
    for key in rng.sample(range(1000), 300):
        shelf.drop(shelf.held[key])
    return shelf


@pytest.mark.parametrize("seed", range(20))
def test_what_is_evicted_a_little_at_a_time_is_what_would_have_gone_at_once(seed: int) -> None:
    whole, sliced = filled_shelf(random.Random(seed)), filled_shelf(random.Random(seed))
    rng = random.Random(seed)
    target = rng.randrange(700) * HELD_BYTES
    whole.sieve.evict_to(target)
    evicted, steps = sliced.sieve.evict_to(target, 0), 0
    while sliced.memory.used > target and not sliced.sieve.stuck:
        went = sliced.sieve.go_on(target, most := rng.randrange(1, 200))
        assert went <= most // GOING + 1
        evicted += went
        steps += 1
        if rng.random() < 0.3:
            sliced.sieve.prune_soon()
        sliced.sieve.prune(rng.randrange(40))
        sliced.sieve.check_invariants()
    assert sliced.held.keys() == whole.held.keys() and evicted == whole.sieve.evicted == sliced.sieve.evicted
    assert {key for key, held in sliced.held.items() if held.visited} == {
        key for key, held in whole.held.items() if held.visited
    }
    assert steps > 1 or evicted < 10


@pytest.mark.parametrize("seed", range(30))
def test_keys_that_are_held_all_the_while_are_listed_once_whatever_goes_and_comes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hand goes round several times meanwhile: segments are left, joined to others, and pruned."""
    monkeypatch.setattr("dataflow.readers.eviction.FEW_KEYS", 0)
    rng = random.Random(seed)
    shelf, another = filled_shelf(rng), Shelf(1000)
    another.sieve, another.memory = shelf.sieve, shelf.memory
    another.room = shelf.room = 10_000
    for key in range(200):
        another.read(key)
    stayed = dict(shelf.held)
    listed: list[Held] = []
    for some in shelf.sieve.keys_of(shelf):  # type: ignore[arg-type]
        assert len(some) <= 16
        listed += some
        for _ in range(rng.randrange(4)):
            another.read(rng.randrange(1000, 2000))
            shelf.read(key := rng.randrange(1000, 2000))
            if rng.random() < 0.5:
                shelf.drop(shelf.held[key])
        shelf.sieve.evict_to(shelf.memory.used - rng.randrange(3) * HELD_BYTES, rng.randrange(1, 2000))
        if rng.random() < 0.3:
            shelf.sieve.prune_soon()
        shelf.sieve.prune(rng.randrange(40))
        stayed = {key: held for key, held in stayed.items() if shelf.held.get(key) is held}
    numbers = [held.key for held in listed]
    assert len(numbers) == len(set(numbers)) and set(numbers) >= stayed.keys()
    assert not any(held in listed for held in another.held.values())
    before = len(shelf.sieve._segments)
    for _ in range(3):
        shelf.sieve.evict_to(shelf.memory.used - 100 * HELD_BYTES)
    assert len(shelf.sieve._segments) < before, "segments are joined again"
    shelf.sieve.check_invariants()


def test_few_keys_are_listed_at_once() -> None:
    shelf = filled_shelf(random.Random(1))
    (found,) = shelf.sieve.keys_of(shelf)  # type: ignore[arg-type]
    assert [held.key for held in found] == list(reversed(shelf.held))


def test_an_engine_that_holds_far_too_much_evicts_in_steps() -> None:
    rig = Rig(ROWS)
    for key in range(2000):
        rig.fill_from({key: (key, key, 0)}, key)
    engine = rig.engine
    more: list[bool] = []
    engine.memory.remains.on_more = lambda: more.append(True)
    engine.limit.bytes = engine.memory.used // 10
    engine.limit.keep()
    assert 100 <= engine.sieve.evicted <= EVICTING // GOING and more
    engine.check_invariants()
    steps = 0
    while engine.limit.tidy(50):
        steps += 1
    assert engine.memory.used <= engine.limit.bytes and engine.sieve.evicted > 1700 and steps > 10
    engine.check_invariants()


def test_where_nothing_may_go_evicting_ends() -> None:
    rig = Rig(ROWS)
    for key in range(300):
        rig.fill_from({key: (key, key, 0)}, key)
    for held in rig.readers[0].entries.values():
        held.watch = lambda: None
    rig.engine.limit.bytes = 0
    rig.engine.limit.keep()
    for _ in range(300):
        if not rig.engine.limit.tidy(1):
            break
    assert not rig.engine.limit.tidy(1) and rig.engine.sieve.evicted == 0
