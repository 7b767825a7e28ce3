"""Automatic caching where the event loop is short of time: what it makes then, and when it steps back."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.auto_cache_rig import SLOW, Rig

# -- a loop that is short of time --------------------------------------------------------------------------------------


def busy(rig: Rig, seconds: float, us: float, hits: int = 0, left: int = 0, work_us: float = 0.0) -> None:
    """The loop does nothing but statements that take so much of it, a second each with so many hits, reads left to
    MySQL, and work for misses of the cache."""

    async def scenario() -> None:
        for _ in range(int(seconds)):
            for cache in rig.caches.by_name.values():
                cache.figures.hits += hits
                cache.figures.left += left
                cache.figures.work_us += work_us
            for _ in range(4):
                rig.now += 0.25
                rig.used += 0.25
                rig.statements += int(0.25e6 / us)
                rig.auto.tick()
                await asyncio.sleep(0)
                while rig.auto.looking:
                    await asyncio.sleep(0)

    asyncio.run(scenario())


def short_of_time() -> Rig:
    rig = Rig()
    rig.late = 0.0005
    busy(rig, 3, 100.0)
    assert rig.auto.short
    rig.passed(5000, 300.0)
    busy(rig, 1, 100.0)
    return rig


def test_it_is_known_first_what_passing_takes_of_a_short_loop() -> None:
    rig = Rig()
    rig.passed(5000, 300.0)
    busy(rig, 1, 100.0)
    made_at_once = list(rig.caches.made)
    busy(rig, 2, 100.0)
    assert made_at_once == [] and rig.caches.made == [SLOW]


def test_a_few_shapes_are_cached_at_a_time_while_the_loop_is_short() -> None:
    rig = short_of_time()
    for number in range(8):
        rig.passed(1000, 300.0, f"SELECT {number} FROM t")
    busy(rig, 1, 100.0)
    assert len(rig.caches.made) == 3


def test_caches_that_slow_everything_down_are_dropped_within_seconds() -> None:
    rig = short_of_time()
    busy(rig, 12, 150.0, hits=5000)
    assert rig.caches.dropped == [SLOW]
    rig.passed(5000, 300.0)
    busy(rig, 60, 100.0)
    assert rig.caches.made == [SLOW], "it is barred"


def test_those_that_speed_it_up_are_kept() -> None:
    rig = short_of_time()
    busy(rig, 600, 60.0, hits=5000, work_us=20_000.0)
    assert rig.caches.dropped == []


def test_a_cache_whose_reads_are_mostly_left_to_mysql_is_dropped_alone() -> None:
    rig = short_of_time()
    rig.passed(5000, 300.0, "SELECT 2 FROM t")
    busy(rig, 1, 100.0)
    asked = rig.caches.figures("SELECT 2 FROM t")
    for _ in range(15):
        asked.left += 20_000
        busy(rig, 1, 60.0, hits=5000)
    assert rig.caches.dropped == ["SELECT 2 FROM t"]


def test_one_that_takes_long_to_warm_up_has_longer() -> None:
    rig = short_of_time()
    busy(rig, 20, 90.0, hits=1000, work_us=40_000.0)
    assert rig.caches.dropped == []
    busy(rig, 20, 90.0, hits=1000, work_us=40_000.0)
    assert rig.caches.dropped == [SLOW]


def test_a_cache_that_saves_much_of_mysqls_time_is_kept_whatever_the_loop_takes() -> None:
    rig = Rig()
    busy(rig, 3, 100.0)
    rig.passed(5000, 50_000.0)
    busy(rig, 1, 100.0)
    busy(rig, 60, 150.0, hits=500, work_us=100_000.0)
    assert rig.caches.made == [SLOW] and rig.caches.dropped == []


def test_what_a_read_waits_for_the_loop_is_not_mysqls_time() -> None:
    rig = Rig()
    rig.late = 0.002
    busy(rig, 3, 100.0)
    rig.passed(5000, 5_000.0)
    busy(rig, 13, 150.0, hits=500)
    assert rig.caches.dropped == [SLOW]


def test_a_machine_that_leaves_the_loop_no_core_while_nobody_asks_says_nothing_of_caches() -> None:
    rig = short_of_time()
    busy(rig, 8, 60.0, hits=5000)
    busy(rig, 60, 1e9)
    assert rig.caches.dropped == []


def test_after_a_pause_a_short_loop_gives_caches_the_time_of_new_ones() -> None:
    rig = short_of_time()
    busy(rig, 60, 60.0, hits=5000)
    rig.seconds(600)
    busy(rig, 6, 150.0, hits=1000, left=1000)
    assert rig.caches.dropped == []
    busy(rig, 60, 60.0, hits=5000)
    assert rig.caches.dropped == []


# -- keys that come again ----------------------------------------------------------------------------------------------


def keyed(rig: Rig, keys: int, times: int = 5000) -> None:
    entry = rig.passed(0)
    for number in range(times):
        entry.note(300.0, "app@%", key=1 + number % keys)


@pytest.mark.parametrize(("keys", "is_made"), [(100, True), (4000, False)])
def test_a_short_loop_makes_caches_only_where_nearly_each_read_asks_again(keys: int, is_made: bool) -> None:
    rig = Rig()
    busy(rig, 3, 100.0)
    keyed(rig, keys)
    busy(rig, 5, 100.0)
    assert bool(rig.caches.made) is is_made


def test_a_short_loop_makes_one_of_a_small_table_and_holds_all_of_it() -> None:
    rig = Rig()
    rig.judge.small.add(SLOW)
    busy(rig, 3, 100.0)
    keyed(rig, 4000)
    assert "yet" in rig.auto.why_not(rig.proxied.entry(SLOW, "shop"))
    busy(rig, 5, 100.0)
    assert rig.caches.made == rig.caches.held == [SLOW]


@pytest.mark.parametrize(("written", "is_made"), [(300, True), (3000, False)])
def test_a_short_loop_makes_none_of_tables_that_are_changed_often(written: int, is_made: bool) -> None:
    rig = Rig()
    rig.judge.tables = frozenset({"shop.t"})
    busy(rig, 3, 100.0)
    keyed(rig, 100)
    rig.writes["shop.t"] = written
    busy(rig, 5, 100.0)
    assert bool(rig.caches.made) is is_made
    if not is_made:
        assert "changed too often" in rig.auto.why_not(rig.proxied.entry(SLOW, "shop"))


def test_of_a_small_table_not_all_is_held_where_the_same_is_asked_again() -> None:
    rig = Rig()
    rig.judge.small.add(SLOW)
    busy(rig, 3, 100.0)
    keyed(rig, 100)
    busy(rig, 5, 100.0)
    assert rig.caches.made == [SLOW] and rig.caches.held == []


def test_a_loop_that_has_time_makes_them_all_the_same() -> None:
    rig = Rig()
    keyed(rig, 4000)
    rig.seconds(2)
    assert rig.caches.made == [SLOW]


def test_what_a_flood_asks_is_not_cached_before_it_is_known_whether_the_loop_is_short() -> None:
    rig = Rig()
    rig.seconds(10)
    for _ in range(3):
        rig.used += 0.1
        rig.now += 0.25
        rig.auto.tick()  # the flood begins in one of them
    keyed(rig, 4000)
    busy(rig, 6, 100.0)
    assert rig.caches.made == []


def test_behind_a_second_of_it_what_is_asked_is_cached_if_the_loop_is_not_short() -> None:
    rig = Rig()
    keyed(rig, 4000)
    for _ in range(8):
        rig.used += 0.12
        rig.now += 0.25
        rig.statements += 100
        rig.tick()
    assert rig.caches.made == [SLOW]


def test_a_quiet_site_on_busy_cores_is_cached_as_ever() -> None:
    """Others leave the loop no core: it waits for one all the time, and has few statements."""
    rig = Rig()
    busy(rig, 10, 100_000.0)
    rig.passed(100, 3000.0)
    busy(rig, 2, 100_000.0)
    assert rig.auto.load is not None and rig.auto.load.short and not rig.auto.short
    assert rig.caches.made == [SLOW]
    busy(rig, 60, 100_000.0, hits=2, left=3, work_us=5000.0)
    assert rig.caches.dropped == []


def test_where_load_comes_and_goes_nothing_waits_for_that() -> None:
    rig = Rig()
    for number in range(40):
        rig.passed(20, 3000.0)
        rig.used += (0.05, 0.12)[number % 2]
        rig.now += 0.25
        rig.statements += (10, 140)[number % 2]
        rig.tick()
    assert rig.caches.made == [SLOW]


# -- a load that begins to write ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "hits", "us", "is_dropped"),
    [
        (500, 1000, 300.0, True),
        (50, 5000, 300.0, False),  # a hundred hits for each
        (10, 0, 300.0, False),  # fewer than 20 a second
        (500, 1000, 50_000.0, False),  # a hit saves much of MySQL's time
    ],
)
def test_what_a_load_burdens_that_begins_to_write_is_dropped_within_two_seconds(
    written: int, hits: int, us: float, is_dropped: bool
) -> None:
    rig = Rig()
    rig.judge.tables = frozenset({"shop.t"})
    rig.late = 0.0005
    busy(rig, 3, 100.0)
    rig.passed(5000, us)
    busy(rig, 20, 60.0, hits=5000)
    assert rig.caches.made == [SLOW] and rig.caches.dropped == []
    for _ in range(2):
        rig.writes["shop.t"] = rig.writes.get("shop.t", 0) + written
        busy(rig, 1, 100.0, hits=hits)
    assert rig.caches.dropped == ([SLOW] if is_dropped else [])


def test_what_was_dropped_for_writes_is_made_again_when_they_have_ended() -> None:
    rig = Rig()
    rig.judge.tables = frozenset({"shop.t"})
    rig.late = 0.0005
    busy(rig, 3, 100.0)
    rig.passed(5000, 300.0)
    busy(rig, 10, 60.0, hits=5000)
    for _ in range(10):
        rig.writes["shop.t"] = rig.writes.get("shop.t", 0) + 500
        rig.passed(500, 300.0)
        busy(rig, 1, 100.0, hits=1000)
    assert rig.caches.made == rig.caches.dropped == [SLOW]
    for _ in range(180):
        rig.passed(2000, 300.0)
        busy(rig, 1, 100.0)
    assert rig.caches.made == [SLOW, SLOW]
