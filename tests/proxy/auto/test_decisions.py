"""When automatic caching makes a cache, when it drops one, and that it does not do both in turn."""

from __future__ import annotations

import asyncio

import pytest

from proxy.auto.decisions import AT_ONCE
from proxy.mysql.reads.gate import LOCKED
from proxy.mysql.state.session_variables import PINNED_VALUES, switched_on
from proxy.settings.automatic import Policy
from sqltypes.errors import Overloaded, SourceDown, UnknownCache, UnsupportedQuery, UpwellError
from tests.support.auto_cache_rig import POLICY, SLOW, Rig, made

# -- made --------------------------------------------------------------------------------------------------------------


def test_what_is_asked_often_and_slow_is_cached_with_the_reason() -> None:
    rig = made()
    assert rig.caches.figures().made_by.reason == "asked 100 times in ten minutes, MySQL took 5.00 ms each time"
    assert rig.auto.counters == {"automatic_caches_made": 1, "automatic_caches_dropped": 0}


SECOND = 1_000_000.0
IDLE, BUSY = 0.1, 0.6  # of the loop's time that is used


@pytest.mark.parametrize(
    ("times", "us", "used", "is_made"),
    [
        (1, SECOND, IDLE, False),  # what was asked once may never be asked again
        (2, SECOND, IDLE, True),
        (2, SECOND, BUSY, True),
        (2, 2500.0, IDLE, True),
        (2, 2400.0, IDLE, False),
        (3, 10.0, IDLE, True),  # cheap, while the loop has time
        (3, 10.0, BUSY, False),
        (25, 200.0, BUSY, True),
        (24, 200.0, BUSY, False),
    ],
)
def test_mysqls_time_decides_and_a_few_reads_suffice_while_the_loop_has_time(
    times: int, us: float, used: float, is_made: bool
) -> None:
    rig = Rig()
    rig.load.busy = used
    rig.passed(times, us)
    rig.seconds(5)
    assert bool(rig.caches.made) is is_made
    needed = Policy(memory=0).needed(us, idle=used == IDLE)
    if not is_made:
        asked = rig.proxied.entry(SLOW, "shop")
        assert rig.auto.why_not(asked) == (f"not worth it: {times} reads in the last ten minutes, {needed} are needed")


@pytest.mark.parametrize(
    ("apart", "us", "is_made"), [(5, SECOND, True), (300, SECOND, True), (900, SECOND, False), (300, 200.0, False)]
)
def test_a_repetition_counts_if_it_comes_within_minutes(apart: float, us: float, is_made: bool) -> None:
    rig = Rig()
    rig.passed(1, us)
    rig.seconds(apart)
    rig.passed(1, us)
    rig.seconds(1)
    assert bool(rig.caches.made) is is_made


def test_a_slow_query_a_few_times_a_minute_is_cached_at_its_second_read() -> None:
    rig = Rig()
    for _ in range(3):
        rig.passed(1, 1.8 * SECOND)
        rig.seconds(5)
    assert rig.caches.made == [SLOW]


def test_reads_of_sessions_that_can_have_no_hit_do_not_count() -> None:
    rig = Rig()
    rig.passed(0).note(5000.0, "app@%", 1000, LOCKED)
    rig.seconds(5)
    assert rig.caches.made == [] and rig.passed(0).count == 1000
    rig.passed(2)
    rig.seconds(5)
    assert rig.caches.made == [SLOW]


def test_reads_long_ago_do_not_count() -> None:
    rig = Rig()
    for _ in range(30):
        rig.passed(1, 50_000.0)
        rig.seconds(900)
    assert rig.caches.made == []


def test_a_steady_rate_counts_as_its_reads_in_a_minute() -> None:
    rig = Rig()
    for _ in range(100):
        rig.passed(1, 10.0)
        rig.seconds(120)
    assert rig.caches.made[:1] == [SLOW]


def test_what_is_asked_is_cached_within_seconds() -> None:
    rig = Rig()
    for _ in range(5):
        for shape in range(30):
            rig.passed(6, 200.0, f"SELECT {shape} FROM t")  # of a page of many shapes, six times a second
        rig.seconds(1)
    assert len(rig.caches.made) >= AT_ONCE, "each look makes as many"


def test_the_median_decides_and_not_one_slow_read() -> None:
    rig = Rig()
    rig.load.busy = BUSY
    rig.passed(100, 1.0)
    rig.passed(1, 30_000_000.0)
    rig.seconds(5)
    assert rig.caches.made == []


def test_what_cannot_be_cached_is_planned_once_until_the_schema_changes() -> None:
    rig = Rig()
    rig.judge.refused[SLOW] = "engine: MyISAM"
    for _ in range(10):
        rig.passed(100)
        rig.seconds(5)
    assert rig.judge.asked == [SLOW] and rig.caches.made == []
    rig.judge.schema, rig.judge.refused = 1, {}
    rig.seconds(5)
    assert rig.caches.made == [SLOW]


def test_what_somebody_has_cached_is_left_alone() -> None:
    rig = Rig()
    rig.judge.caches[SLOW] = "mine"
    rig.passed(100)
    rig.seconds(60)
    assert rig.caches.made == [] and rig.auto.counters["automatic_caches_made"] == 0


def test_where_somebody_was_quicker_there_is_nothing_to_keep() -> None:
    rig = Rig()
    rig.caches.others.add(SLOW)
    rig.passed(100)
    rig.seconds(60)
    assert rig.auto.counters == {"automatic_caches_made": 0, "automatic_caches_dropped": 0}


def test_a_few_are_made_at_a_look_the_busiest_first() -> None:
    rig = Rig()
    for number in range(AT_ONCE + 2):
        rig.passed(100, 1000.0 * (number + 1), f"SELECT {number} FROM t")
    rig.seconds(POLICY.every)
    assert rig.caches.made == [f"SELECT {number} FROM t" for number in range(AT_ONCE + 1, 1, -1)]
    rig.seconds(5)
    assert len(rig.caches.made) == AT_ONCE + 2


def test_no_more_are_made_than_there_may_be() -> None:
    rig = Rig(Policy(memory=1000, most=2))
    for number in range(4):
        rig.passed(100, 5000.0, f"SELECT {number} FROM t")
    rig.seconds(20)
    assert len(rig.caches.made) == 2


@pytest.mark.parametrize("error", [SourceDown("away"), Overloaded("busy")])
def test_what_cannot_be_made_now_is_made_later(error: UpwellError) -> None:
    rig = Rig()
    rig.passed(1000)
    for place in (rig.judge, rig.caches):
        place.failing = error
        rig.seconds(5)
        assert rig.caches.made == []
        place.failing = None
    rig.seconds(5)
    assert rig.caches.made == [SLOW]


def test_what_fails_when_it_is_made_is_barred() -> None:
    rig = Rig()
    rig.caches.failing = UnsupportedQuery("engine", "MyISAM")
    rig.passed(1000)
    rig.seconds(5)
    rig.caches.failing = None
    rig.seconds(60)
    assert rig.caches.made == []


# -- dropped -----------------------------------------------------------------------------------------------------------


def test_a_cache_that_is_hit_is_kept() -> None:
    rig = made()
    rig.read(hits=600, misses=12, seconds=3600)
    assert rig.caches.dropped == []


def test_a_cache_that_is_hardly_read_stays() -> None:
    """After a pause its hits go on."""
    rig = made()
    rig.seconds(12 * 3600)
    assert rig.caches.dropped == []


def test_caches_that_save_less_make_room_and_may_come_back_at_once() -> None:
    rig = Rig(Policy(memory=1000, most=2))
    for number in range(2):
        rig.passed(100, 5000.0, f"SELECT {number} FROM t")
    rig.seconds(5)
    rig.read(hits=600, misses=0, seconds=300, sql="SELECT 1 FROM t")
    rig.passed(100, 5000.0, "SELECT 2 FROM t")
    rig.seconds(5)
    assert rig.caches.dropped == ["SELECT 0 FROM t"] and rig.caches.made[-1] == "SELECT 2 FROM t"
    rig.seconds(300)
    rig.passed(100, 5000.0, "SELECT 0 FROM t")
    rig.seconds(5)
    assert rig.caches.made[-1] == "SELECT 0 FROM t", "it was not barred"


def test_no_cache_makes_room_for_a_shape_that_takes_less_of_mysql_than_it_saves() -> None:
    rig = Rig(Policy(memory=1000, most=1))
    rig.passed(100)
    rig.seconds(5)
    rig.read(hits=60, misses=0, seconds=300)
    rig.passed(10, 5000.0, "SELECT 2 FROM t")
    rig.seconds(5)
    assert rig.caches.dropped == []


def test_one_that_was_just_made_makes_no_room() -> None:
    rig = Rig(Policy(memory=1000, most=1))
    rig.passed(100)
    rig.seconds(5)
    rig.passed(1000, 5000.0, "SELECT 2 FROM t")
    rig.seconds(20)
    assert rig.caches.made == [SLOW] and rig.caches.dropped == []


def test_fewer_reads_than_it_was_made_for_still_keep_it() -> None:
    rig = made()
    rig.read(hits=12, misses=0, seconds=3600)
    assert rig.caches.dropped == []


@pytest.mark.parametrize(
    ("hits", "misses", "miss_us", "is_kept"),
    [
        (20, 1, 2_000_000.0, True),  # a slow first miss, with what is compared with it
        (8, 0, 0.0, True),
        (600, 40, 50_000.0, True),  # nine of ten are hits
        (12, 12, 50_000.0, True),
        (300, 100, 50_000.0, False),
        (48, 720, 10.0, False),
    ],
)
def test_what_is_nearly_all_hits_is_kept_and_a_few_misses_say_nothing(
    hits: int, misses: int, miss_us: float, is_kept: bool
) -> None:
    rig = Rig()
    rig.passed(100, 15.0)  # a hit takes as long as MySQL
    rig.seconds(POLICY.every)
    rig.seconds(POLICY.trial)
    figures = rig.caches.figures()
    figures.miss_p50_us, figures.hit_p50_us = miss_us, 20.0
    for _ in range(4):
        figures.hits += hits // 4
        figures.misses += misses // 4 or misses
        misses -= misses // 4 or misses
        rig.seconds(POLICY.count_every)
    assert rig.caches.dropped == ([] if is_kept else [SLOW])


def test_the_first_reads_of_many_keys_that_come_slowly_do_not_end_a_cache() -> None:
    """A site with a page a second: most of the first reads are each the first one of its page."""
    rig = made()
    figures = rig.caches.figures()
    figures.miss_p50_us = 6500.0
    for _ in range(30):  # five minutes
        figures.misses += 4
        figures.hits += 1
        rig.seconds(10)
    for _ in range(120):
        figures.hits += 9
        figures.misses += 1
        rig.seconds(10)
    assert rig.caches.dropped == []


def test_a_cache_that_is_seldom_read_is_judged_after_ten_minutes() -> None:
    rig = made()
    figures = rig.caches.figures()
    figures.miss_p50_us = 5300.0
    began = rig.now
    while not rig.caches.dropped:
        figures.misses += 4
        rig.seconds(10)
    assert POLICY.seldom <= rig.now - began <= POLICY.seldom + 20


def test_a_cache_that_is_seldom_read_is_judged_by_its_last_reads() -> None:
    rig = made()
    figures = rig.caches.figures()
    figures.miss_p50_us = 5300.0
    while not rig.caches.dropped:
        figures.misses += 1
        rig.seconds(90)
    assert 20 <= figures.misses < 40


def test_a_cache_whose_reads_are_misses_is_dropped() -> None:
    rig = made()
    rig.caches.figures().miss_p50_us = 5300.0
    rig.read(hits=24, misses=600, seconds=600)
    assert rig.caches.dropped == [SLOW]


def test_a_cache_whose_misses_take_longer_than_its_hits_save_is_dropped() -> None:
    rig = Rig()
    rig.passed(1000, 100.0)
    rig.seconds(5)
    rig.caches.figures().miss_p50_us = 400.0
    rig.read(hits=600, misses=600, seconds=600)  # 100 us saved by a hit, 300 lost by a miss
    assert rig.caches.dropped == [SLOW]


def test_a_slow_query_pays_with_fewer_hits() -> None:
    rig = made()
    rig.caches.figures().miss_p50_us = 5300.0
    rig.read(hits=120, misses=600, seconds=3600)
    assert rig.caches.dropped == []


def test_a_cache_that_the_schema_forbids_is_dropped_at_once() -> None:
    rig = made()
    rig.caches.figures().state, rig.caches.figures().why = "refused", "engine: MyISAM"
    rig.seconds(5)
    assert rig.caches.dropped == [SLOW]


def test_one_that_is_rebuilt_is_not() -> None:
    rig = made()
    rig.caches.figures().state = "rebuilding"
    rig.seconds(5)
    assert rig.caches.dropped == []


def test_of_caches_that_hold_too_much_those_go_that_save_least_for_it() -> None:
    rig = Rig()
    for number in range(3):
        rig.passed(100, 5000.0, f"SELECT {number} FROM t")
    rig.seconds(5)
    for number, (hits, size) in enumerate(((1000, 400), (1000, 300), (10, 350))):
        info = rig.caches.figures(f"SELECT {number} FROM t")
        info.hits, info.bytes = hits, size
    rig.seconds(5)
    assert rig.caches.dropped == ["SELECT 2 FROM t"]  # 700 bytes are left, of which 800 may be


def test_nothing_is_made_while_little_memory_is_left() -> None:
    rig = made()
    rig.caches.figures().bytes = 801
    rig.seconds(POLICY.count_every)
    rig.passed(1000, 5000.0, "SELECT 2 FROM t")
    rig.seconds(5)
    assert rig.caches.made == [SLOW] and rig.caches.dropped == []


def test_what_somebody_drops_is_not_made_again_today() -> None:
    rig = made(Policy(memory=1000, every=60))
    rig.caches.by_name.clear()
    for _ in range(24):
        rig.passed(200)
        rig.seconds(3600)
    assert rig.caches.made == [SLOW]
    rig.passed(200)
    rig.seconds(60)
    assert rig.caches.made == [SLOW, SLOW]


def test_one_that_somebody_made_his_own_is_not_dropped() -> None:
    rig = made()
    theirs = rig.caches.by_name.popitem()[1]
    rig.judge.caches[SLOW] = theirs.figures.name
    rig.seconds(3600)
    assert rig.caches.dropped == [] and rig.auto.counters["automatic_caches_dropped"] == 0


def test_one_that_is_gone_when_it_is_to_be_dropped_is_not_counted() -> None:
    rig = made()

    async def gone(name: str) -> None:
        raise UnknownCache(name)

    rig.caches.drop_automatic = gone  # type: ignore[method-assign]
    rig.seconds(POLICY.trial + 10)
    assert rig.auto.counters["automatic_caches_dropped"] == 0


# -- not in turn -------------------------------------------------------------------------------------------------------


def test_what_did_not_pay_comes_back_less_and_less_often() -> None:
    """Its reads come in a flood and then not at all, over and over for a week."""
    rig = Rig(Policy(memory=1000, every=60))
    for _ in range(7 * 24 * 6):
        rig.passed(200)
        rig.seconds(600)
    assert 4 <= len(rig.caches.made) <= 15
    assert len(rig.caches.dropped) in (len(rig.caches.made), len(rig.caches.made) - 1)


def test_what_was_kept_for_long_is_barred_briefly() -> None:
    rig = made()
    for day in range(3):
        rig.read(hits=600, misses=6, seconds=POLICY.settled)
        rig.read(hits=0, misses=600, seconds=600)
        assert len(rig.caches.dropped) == day + 1
        rig.seconds(POLICY.bar)
        rig.passed(100)
        rig.seconds(5)
        assert len(rig.caches.made) == day + 2


def test_reads_that_pass_a_cache_by_do_not_bring_it_back() -> None:
    """Their parameters are of another type than the column: MySQL answers them, whatever is held."""
    rig = Rig()
    for _ in range(120):
        rig.passed(100)
        rig.seconds(5)
    assert len(rig.caches.made) == 1 and rig.caches.dropped == [SLOW]


@pytest.mark.parametrize(("hits", "dropped"), [(0, True), (30, False)])
def test_a_cache_that_its_sessions_turn_out_not_to_be_able_to_use_is_dropped(hits: int, dropped: bool) -> None:
    """What they have was not known as it was made."""
    rig = made()
    figures = rig.caches.figures()
    figures.passed_why = "lc_time_names is 'de_DE' in this session"
    for _ in range(40):
        figures.passed += 10
        figures.hits += hits
        rig.seconds(5)
    assert rig.caches.dropped == ([SLOW] if dropped else [])
    if dropped:
        rig.passed(100)
        assert figures.passed_why in rig.auto.why_not(rig.proxied.entry(SLOW, "shop"))


def test_while_the_source_is_away_nothing_is_decided() -> None:
    rig = made()
    rig.read(hits=600, misses=0, seconds=300)
    rig.usable = False
    rig.seconds(3600)
    rig.usable = True
    rig.seconds(5)
    assert rig.caches.dropped == []


# -- looks -------------------------------------------------------------------------------------------------------------


def test_a_tick_begins_a_look_when_one_is_due_and_none_is_under_way() -> None:
    rig = Rig()
    rig.passed(100)

    async def scenario() -> None:
        rig.now = POLICY.every - 1
        rig.auto.tick()
        await asyncio.sleep(0)
        assert rig.judge.asked == []
        rig.now = POLICY.every
        gate = asyncio.Event()
        judge = rig.judge.judge

        async def waiting(sql: str, database: str) -> object:
            await gate.wait()
            return await judge(sql, database)

        rig.judge.judge = waiting  # type: ignore[method-assign, assignment]
        rig.auto.tick()
        rig.now = POLICY.every * 3
        rig.auto.tick()
        gate.set()
        while not rig.caches.made:
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert rig.judge.asked == [SLOW]


def test_a_look_that_fails_is_told_to_who_ticks_and_the_next_is_made() -> None:
    rig = Rig()
    rig.passed(100)

    async def scenario() -> None:
        rig.caches.failing = ZeroDivisionError()  # type: ignore[assignment]
        rig.now += POLICY.every
        rig.auto.tick()
        with pytest.raises(ZeroDivisionError):
            while True:
                await asyncio.sleep(0)
                rig.auto.tick()
        rig.caches.failing = None
        rig.now += POLICY.every
        rig.auto.tick()
        while not rig.caches.made:
            await asyncio.sleep(0)

    asyncio.run(scenario())


def test_a_look_under_way_ends_with_the_proxy() -> None:
    rig = Rig()
    rig.passed(100)

    async def scenario() -> None:
        async def never(sql: str, database: str) -> object:
            return await asyncio.Event().wait()

        rig.judge.judge = never  # type: ignore[method-assign, assignment]
        rig.now += POLICY.every
        rig.auto.tick()
        await asyncio.sleep(0)
        await rig.auto.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


# -- pauses ------------------------------------------------------------------------------------------------------------


def test_after_a_pause_the_first_misses_do_not_cost_a_cache_its_place() -> None:
    """Writes have emptied it meanwhile: its first reads are all misses."""
    rig = made()
    rig.read(hits=600, misses=12, seconds=600)
    rig.seconds(600)
    rig.read(hits=0, misses=300, seconds=60)
    assert rig.caches.dropped == []
    rig.read(hits=600, misses=12, seconds=600)
    assert rig.caches.dropped == []


def test_one_that_never_recovers_from_a_pause_is_dropped() -> None:
    rig = made()
    rig.read(hits=600, misses=12, seconds=600)
    rig.seconds(600)
    rig.read(hits=0, misses=300, seconds=600)
    assert rig.caches.dropped == [SLOW]


def test_pauses_again_and_again_do_not_keep_one_that_does_not_pay() -> None:
    rig = made()
    for _ in range(20):
        rig.read(hits=0, misses=300, seconds=60)
        rig.seconds(600)
    assert rig.caches.dropped == [SLOW]


# -- sessions ----------------------------------------------------------------------------------------------------------


def values(**other: str) -> dict[str, str]:
    """Variables of a session that tells its changes."""
    return {**PINNED_VALUES, **switched_on({}), **other}


def read_by(rig: Rig, **other: str) -> None:
    rig.passed(0).note(5000.0, "app@%", 10, values=values(**other))


def test_no_cache_is_made_that_the_sessions_at_hand_cannot_use() -> None:
    rig = Rig()
    rig.judge.needs = frozenset({"lc_time_names"})
    read_by(rig, lc_time_names="de_DE")
    rig.seconds(30)
    assert rig.caches.made == [] and rig.caches.dropped == []
    told = rig.auto.why_not(rig.proxied.entry(SLOW, "shop"))
    assert told == "not for the sessions that read it: lc_time_names is 'de_DE' in this session"
    read_by(rig)
    rig.seconds(1)
    assert rig.caches.made == [SLOW]


@pytest.mark.parametrize("needs", [frozenset(), frozenset({"div_precision_increment"})])
def test_what_a_query_does_not_need_keeps_no_session_from_its_cache(needs: frozenset[str]) -> None:
    rig = Rig()
    rig.judge.needs = needs
    read_by(rig, lc_time_names="de_DE")
    rig.seconds(1)
    assert rig.caches.made == [SLOW]
