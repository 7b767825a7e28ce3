"""The list of what was passed through: what is one shape, what is forgotten, and when planning is asked."""

from __future__ import annotations

import asyncio

import pytest

from planner.text.lift import lifted
from planner.text.scan import Token, scan
from proxy.auto.passed_reads import (
    EACH,
    LATEST,
    LONGEST_SHAPE,
    LONGEST_TEXT,
    MOST_ACCOUNTS,
    TOO_LONG,
    Judgement,
    ProxiedQueries,
    ProxiedQuery,
    shape_of,
)
from proxy.mysql.reads.gate import HAS_WRITTEN, LOCKED
from proxy.port.reasons import NO_REASON, Reason, Why
from sqltypes.errors import Overloaded, SourceDown
from tests.support.fake_system import FakeJudge


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def queries(most: int = 10) -> tuple[ProxiedQueries, FakeJudge, Clock]:
    judge, clock = FakeJudge(), Clock()
    return ProxiedQueries(judge, clock, most), judge, clock


def everything(entry: ProxiedQuery) -> bool:
    return True


def test_texts_that_differ_in_literals_are_one_shape_a_database() -> None:
    proxied, _, clock = queries()
    first = proxied.entry("SELECT a FROM t WHERE id = 1", "shop")
    assert proxied.entry("select a from t where id=2 -- again", "shop") is first
    assert proxied.entry("SELECT a FROM t WHERE id = 1", "other") is not first
    assert proxied.entry("SELECT a FROM t WHERE id = 1 LIMIT 5", "shop") is not first
    first.note(100.0, "app@%")
    clock.now = 1005.0
    first.note(300.0, "bob@%")
    assert (first.count, first.total_us, first.p50_us, first.seen) == (2, 400.0, 200.0, 1005.0)
    assert first.accounts == {"app@%", "bob@%"}
    proxied.check_invariants()


def test_the_median_is_of_the_latest_times() -> None:
    entry = queries()[0].entry("SELECT a FROM t", "shop")
    assert entry.p50_us == 0.0
    for us in [10_000.0] * 100 + [100.0] * LATEST:
        entry.note(us, "app@%")
    assert entry.p50_us == 100.0


def test_texts_of_one_shape_are_noted_without_a_look_at_them() -> None:
    proxied, _, _ = queries()
    texts = proxied.texts("SELECT a FROM t WHERE id = 1", "shop")
    for _ in range(EACH * 10):
        texts.note(100.0, "app@%", b"never looked at")
    assert [(entry.shape, entry.count) for entry in proxied] == [("SELECT a FROM t WHERE id = ?", EACH * 10)]


def test_texts_of_several_shapes_are_told_apart_at_first_each_then_by_a_sample() -> None:
    proxied, _, _ = queries()
    texts = proxied.texts("SELECT a FROM t WHERE id = 1 LIMIT 1", "shop")
    for number in range(EACH):
        texts.note(100.0, "app@%", b"SELECT a FROM t WHERE id = 1 LIMIT %d" % (1 + number % 2))
    shapes = {entry.shape: entry for entry in proxied}
    assert {shape: entry.count for shape, entry in shapes.items()} == {
        "SELECT a FROM t WHERE id = ? LIMIT 1": EACH // 2,
        "SELECT a FROM t WHERE id = ? LIMIT 2": EACH // 2,
    }
    for number in range(EACH * LATEST):
        texts.note(300.0, "app@%", b"SELECT a FROM t WHERE id = %d LIMIT 2 -- \xff" % number)
    two = shapes["SELECT a FROM t WHERE id = ? LIMIT 2"]
    assert (two.count, two.p50_us) == (EACH // 2 + EACH * LATEST, 300.0)
    assert two.total_us == 100.0 * EACH / 2 + 300.0 * EACH * LATEST


def test_accounts_of_one_shape_are_bounded() -> None:
    entry = queries()[0].entry("SELECT a FROM t", "shop")
    for number in range(MOST_ACCOUNTS + 5):
        entry.note(1.0, f"user{number}@%")
    assert len(entry.accounts) == MOST_ACCOUNTS and entry.count == MOST_ACCOUNTS + 5


def test_those_that_cost_least_go_when_there_are_too_many() -> None:
    proxied, _, _ = queries(most=10)
    for number in range(10):
        proxied.entry(f"SELECT {number} FROM t", "shop").note(100.0 * number, "app@%")
    proxied.entry("SELECT 10 FROM t", "shop").note(1.0, "app@%")
    assert [entry.shape for entry in proxied] == [f"SELECT {number} FROM t" for number in range(1, 11)]
    assert proxied.forgotten == 1
    proxied.check_invariants()


def test_what_was_costly_long_ago_goes_before_what_is_used_now() -> None:
    proxied, _, clock = queries(most=2)
    proxied.entry("SELECT 'old' FROM t", "shop").note(1_000_000.0, "app@%")
    clock.now += 24 * 3600.0
    proxied.entry("SELECT 'new' FROM t", "shop").note(100.0, "app@%")
    proxied.entry("SELECT 'newest' FROM t", "shop").note(100.0, "app@%")
    assert [entry.shape for entry in proxied] == ["SELECT 'new' FROM t", "SELECT 'newest' FROM t"]


def test_a_clock_that_is_set_back_harms_nothing() -> None:
    proxied, _, clock = queries(most=2)
    proxied.entry("SELECT 1 FROM t", "shop").note(100.0, "app@%")
    clock.now -= 1e9
    for number in range(2, 6):
        proxied.entry(f"SELECT {number} FROM t", "shop").note(100.0, "app@%")
    assert len(proxied) == 2


def test_a_forgotten_entry_that_its_holder_notes_again_is_back_with_its_counts() -> None:
    proxied, _, _ = queries(most=1)
    held = proxied.entry("SELECT 1 FROM t", "shop")
    held.note(100.0, "app@%")
    proxied.entry("SELECT 2 FROM t", "shop").note(100.0, "app@%")
    assert not held.kept
    held.note(100.0, "app@%")
    assert [(entry.shape, entry.count) for entry in proxied] == [("SELECT 1 FROM t", 2)]
    proxied.check_invariants()


def test_an_entry_whose_place_was_taken_counts_for_the_one_there() -> None:
    proxied, _, _ = queries(most=1)
    held = proxied.entry("SELECT 1 FROM t", "shop")
    proxied.entry("SELECT 2 FROM t", "shop")
    other = proxied.entry("SELECT 1 FROM t", "shop")
    held.note(100.0, "app@%")
    assert held is not other and (held.count, other.count) == (0, 1)
    assert list(proxied) == [other]


def test_a_flood_of_texts_keeps_the_list_and_what_is_remembered_of_texts_bounded() -> None:
    proxied, _, _ = queries(most=50)
    for number in range(3000):
        proxied.entry(f"SELECT {number} FROM t", "shop").note(1.0, "app@%")
    proxied.check_invariants()
    assert len(proxied) <= 50 and proxied.forgotten >= 2950


@pytest.mark.parametrize("length", [LONGEST_SHAPE + 1, 10 * LONGEST_SHAPE])
def test_very_long_texts_share_one_entry(length: int) -> None:
    proxied, _, _ = queries()
    for letter in "ab":
        proxied.entry(f"SELECT {letter * length} FROM t", "shop").note(1.0, "app@%")
    assert [(entry.shape, entry.count) for entry in proxied] == [(TOO_LONG, 2)]


def test_a_long_list_of_literals_is_no_long_shape() -> None:
    proxied, _, _ = queries()
    numbers = ", ".join(map(str, range(5000)))
    assert proxied.entry(f"SELECT a FROM t WHERE id IN ({numbers})", "shop").shape == "SELECT a FROM t WHERE id IN (?)"


WHOLE = ", ".join(map(str, range(20)))


@pytest.mark.parametrize(
    ("sql", "few", "many"),
    [
        ("SELECT a FROM t WHERE a IN ({})", "SELECT a FROM t WHERE a IN (?)", "SELECT a FROM t WHERE a IN (?)"),
        ("SELECT a IN ({}) FROM t", f"SELECT a IN ({WHOLE}) FROM t", TOO_LONG),
    ],
)
def test_of_a_long_list_no_item_is_looked_at(sql: str, few: str, many: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither read as a value nor as a token: it would be a long step."""
    scanned: list[int] = []

    def counted(text: str) -> list[Token]:
        scanned.append(len(text))
        return scan(text)

    def valued(*_: object) -> None:
        raise AssertionError("a list's values were read")

    monkeypatch.setattr("planner.text.lift.scan", counted)
    monkeypatch.setattr("planner.text.long_lists._values", valued)
    assert shape_of(sql.format(WHOLE)) == few
    assert shape_of(sql.format(", ".join(map(str, range(10_000))))) == many
    assert max(scanned) < 200


MANY = ", ".join(map(str, range(10_000)))
MARKS = ", ".join("?" * 500)


@pytest.mark.parametrize(
    ("sql", "shape"),
    [
        (f"SELECT a FROM t WHERE s IN ({WHOLE}) AND id IN ({MARKS})", None),  # its author has said what varies
        (f"SELECT a IN ({WHOLE}) AS k FROM t WHERE b IN ({MANY})", f"SELECT a IN ({WHOLE}) AS k FROM t WHERE b IN (?)"),
        (f"SELECT a FROM t WHERE b IN ({MANY}) HAVING a IN ({WHOLE})",
         f"SELECT a FROM t WHERE b IN (?) HAVING a IN ({WHOLE})"),
    ],
)  # fmt: skip
def test_a_list_that_stays_makes_no_other_one_long(sql: str, shape: str | None) -> None:
    assert shape_of(sql) == (shape if shape is not None else lifted(sql))


@pytest.mark.parametrize("hidden", ["/*!80000 SQL_NO_CACHE */ ", "/*!80000 "])
def test_a_long_text_with_a_version_comment_is_not_gone_through(hidden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unwrapped(*_: object) -> None:
        raise AssertionError("it was gone through, token by token")

    monkeypatch.setattr("planner.text.lift.unwrap_version_comments", unwrapped)
    for more in (" OR ".join(f"a = {number}" for number in range(6000)), f"a IN ({MANY})"):
        assert shape_of(f"SELECT {hidden}a FROM t WHERE {more}"[:LONGEST_TEXT]) == TOO_LONG


def test_a_text_that_cannot_be_read_is_listed_as_it_is() -> None:
    proxied, _, _ = queries()
    proxied.entry(" SELECT 'a ", "shop").note(1.0, "app@%")
    assert [entry.shape for entry in proxied] == ["SELECT 'a"]


def test_what_caches_have_answered_ever_since_is_not_listed() -> None:
    """The listener asks for the entry of every text that it sees first."""
    proxied, judge, _ = queries()
    entry = proxied.texts("SELECT a FROM t WHERE id = 1", "shop")
    assert asyncio.run(proxied.listed(everything)) == [] and judge.asked == []
    entry.note(1.0, "app@%", b"SELECT a FROM t WHERE id = 2")
    assert [line.count for line in asyncio.run(proxied.listed(everything))] == [1]


def test_planning_is_asked_when_somebody_looks_and_remembered_until_the_schema_changes() -> None:
    proxied, judge, _ = queries()
    proxied.entry("SELECT a FROM t", "shop").note(1.0, "app@%")
    assert judge.asked == []
    for _ in range(2):
        (line,) = asyncio.run(proxied.listed(everything))
        assert (line.cacheable, line.reason) == (True, "maintain")
    assert judge.asked == ["SELECT a FROM t"]
    judge.schema, judge.refused = 1, {"SELECT a FROM t": "engine: MyISAM"}
    (line,) = asyncio.run(proxied.listed(everything))
    assert (line.cacheable, line.reason) == (False, "engine: MyISAM")


def test_what_is_found_out_by_the_way_takes_a_tenth_of_the_time() -> None:
    """One reader at a time, and none for nine times as long behind it; what is known is told to all."""
    proxied, judge, clock = queries()
    first, second = (proxied.entry(f"SELECT {name} FROM t", "shop") for name in "ab")
    planned = judge.judge

    async def scenario() -> None:
        going_on = asyncio.Event()

        async def slow(sql: str, database: str) -> Judgement:
            clock.now += 2.0
            await going_on.wait()
            return await planned(sql, database)

        judge.judge = slow  # type: ignore[method-assign]
        waiting = asyncio.create_task(proxied.judged_by_the_way(first))
        await asyncio.sleep(0)
        assert await proxied.judged_by_the_way(second) is None
        going_on.set()
        assert await waiting is not None
        clock.now += 17.9
        assert await proxied.judged_by_the_way(second) is None
        assert await proxied.judged_by_the_way(first) is not None
        clock.now += 0.2
        assert await proxied.judged_by_the_way(second) is not None
        judge.schema += 1
        assert await proxied.judged_by_the_way(first) is None

    asyncio.run(scenario())


def test_what_is_not_found_out_at_once_is_known_later() -> None:
    """Who asks goes on: it may have a table open that a DDL statement waits for, and what looks waits for that."""
    proxied, judge, _ = queries()
    entry = proxied.entry("SELECT a FROM t", "shop")
    planned = judge.judge

    async def scenario() -> None:
        committed = asyncio.Event()

        async def locked(sql: str, database: str) -> Judgement:
            await committed.wait()
            return await planned(sql, database)

        judge.judge = locked  # type: ignore[method-assign]
        assert await proxied.judged_by_the_way(entry) is None
        assert await proxied.judged_by_the_way(entry) is None
        committed.set()
        while entry.judgement is None:
            await asyncio.sleep(0)
        assert await proxied.judged_by_the_way(entry) is entry.judgement

    asyncio.run(scenario())


def test_what_is_being_found_out_ends_with_the_proxy() -> None:
    proxied, judge, _ = queries()

    async def scenario() -> None:
        ended = asyncio.Event()

        async def locked(sql: str, database: str) -> Judgement:
            try:
                await asyncio.Event().wait()
                raise AssertionError(sql)
            finally:
                ended.set()

        judge.judge = locked  # type: ignore[method-assign]
        assert await proxied.judged_by_the_way(proxied.entry("SELECT a FROM t", "shop")) is None
        proxied.close()
        await ended.wait()

    asyncio.run(scenario())


def test_a_shape_that_has_a_cache_names_it_while_it_is_there() -> None:
    proxied, judge, _ = queries()
    proxied.entry("SELECT a FROM t", "shop").note(1.0, "app@%")
    reasons = []
    for caches in ({}, {"SELECT a FROM t": "q1"}, {}):
        judge.caches = caches
        reasons += [line.reason for line in asyncio.run(proxied.listed(everything))]
    assert reasons == ["maintain", "cached as 'q1'", "maintain"] and len(judge.asked) == 1


@pytest.mark.parametrize("error", [SourceDown("away"), Overloaded("busy")])
def test_what_cannot_be_told_now_is_not_remembered(error: SourceDown | Overloaded) -> None:
    proxied, judge, _ = queries()
    proxied.entry("SELECT a FROM t", "shop").note(1.0, "app@%")
    judge.failing = error
    (line,) = asyncio.run(proxied.listed(everything))
    assert (line.cacheable, line.reason) == (None, f"not found out yet: {error.message}")
    judge.failing = None
    assert asyncio.run(proxied.listed(everything))[0].cacheable


def test_one_listing_finds_out_about_every_shape() -> None:
    proxied, judge, _ = queries(most=1000)
    for number in range(1000):
        proxied.entry(f"SELECT {number} FROM t", "shop").note(1.0 + number, "app@%")
    lines = asyncio.run(proxied.listed(everything))
    assert len(judge.asked) == len(lines) == 1000 and all(line.cacheable for line in lines)
    asyncio.run(proxied.listed(everything, limit=10))
    assert len(judge.asked) == 1000


def test_where_mysql_does_not_answer_it_is_asked_once_and_what_is_known_is_told() -> None:
    proxied, judge, _ = queries()
    for number in range(5):
        proxied.entry(f"SELECT {number} FROM t", "shop").note(10.0 - number, "app@%")
    asyncio.run(proxied.listed(everything, limit=2))
    asked, judge.failing = len(judge.asked), SourceDown("away")
    judge.schema = 1
    lines = asyncio.run(proxied.listed(everything))
    assert [line.cacheable for line in lines] == [True, True, None, None, None]
    assert {line.reason for line in lines[2:]} == {"not found out yet: away"} and len(judge.asked) <= asked + 1


def test_a_shape_that_could_be_cached_tells_why_it_is_not() -> None:
    proxied, judge, _ = queries()
    proxied.why_not = lambda entry: f"not worth it: {entry.count} reads"
    judge.refused["SELECT 2 FROM t"] = "engine: MyISAM"
    judge.caches["SELECT 3 FROM t"] = "q1"
    for number in (1, 2, 3):
        proxied.entry(f"SELECT {number} FROM t", "shop").note(10.0 - number, "app@%")
    assert [line.reason for line in asyncio.run(proxied.listed(everything))] == [
        "maintain; not worth it: 1 reads", "engine: MyISAM", "cached as 'q1'",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("unable", "reason"),
    [
        (NO_REASON, Reason.NOT_CACHED),
        (HAS_WRITTEN, Reason.TRANSACTION),
        (LOCKED, Reason.SETTING),
    ],
)
def test_a_read_is_counted_by_why_its_session_could_not_have_a_hit(unable: Why, reason: Reason) -> None:
    proxied, _, _ = queries()
    assert proxied.entry("SELECT 1 FROM t", "shop").note(1.0, "app@%", 3, unable) is reason
    assert {one: count for one, count in proxied.by_reason.items() if count} == {reason: 1}, "the others were counted"
