"""What becomes of plans while DDL statements come."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dataflow.messages import Ddl, Failed, GivenUp
from planner.api import plan_query
from planner.matcher import QueryMatcher
from planner.text.fingerprint import fingerprint, outline
from proxy.cache.named_cache import NamedCache
from proxy.cache.planned import Planned
from proxy.catalog.catalog import Catalog, check_name
from proxy.catalog.limits import CacheLimits, Definitions
from proxy.catalog.replanning import FIRST_PAUSE, PlannedAgain
from proxy.catalog.text_planner import TextPlanner
from proxy.planning.process import TOO_COSTLY
from proxy.port.made_by import MadeBy, Origin
from proxy.pump.wire_formats import WireFormats
from sqltypes.errors import (
    ConfigError,
    Overloaded,
    ParseError,
    SourceError,
    UnknownCache,
    UnknownName,
    UnsupportedQuery,
)
from sqltypes.schema import ResultColumn, SchemaSnapshot, Table
from tests.support.engine_rig import WIDE, Rig, T, gtids

TOO_LONG = UnsupportedQuery(TOO_COSTLY, "it takes too long")


def catalog() -> tuple[Catalog, list[object]]:
    """And the events that it gives to the engine."""
    events: list[object] = []
    pump, nobody = cast(Any, SimpleNamespace(on_stream=events.append)), cast(Any, None)
    return Catalog(Rig().engine, pump, nobody, nobody, nobody, QueryMatcher(), nobody), events


@pytest.mark.parametrize("changes", [0, 1, 3])
def test_a_plan_made_across_ddl_is_made_again_until_none_comes(changes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan may be of the tables as they were before, and no cache is there yet that could be told."""
    made, _ = catalog()
    plans: list[Planned] = []

    async def plan_once(sql: str, database: str, *, kept: bool = False) -> Planned:
        await asyncio.sleep(0)
        if len(plans) < changes:
            made.schema_changed(frozenset({"d.t"}))
        plans.append(cast(Planned, SimpleNamespace(plan=SimpleNamespace(tables=()))))
        return plans[-1]

    monkeypatch.setattr(made.texts, "plan", plan_once)
    assert asyncio.run(made.plan("SELECT 1", "d")) is plans[changes]
    assert len(plans) == changes + 1


@pytest.mark.parametrize("schema", [True, False])
def test_what_was_written_without_a_binlog_may_be_anything(schema: bool) -> None:
    made, events = catalog()
    judged = made._changes.count
    made.written_unlogged("a@b", cause="sql_log_bin=0", schema=schema)
    (event,) = events
    assert isinstance(event, Ddl)
    assert (event.gtid, event.tables, event.schema) == (None, None, schema)
    assert (made._changes.count > judged) == schema


class Wanted:
    """A stream that notes which tables are wanted."""

    def __init__(self) -> None:
        self.tables: set[str] = set()

    def want(self, table: Table, columns: frozenset[str]) -> None:
        self.tables.add(table.qualified)

    def unwant(self, table: str) -> None:
        self.tables.discard(table)


def filled(count: int, definitions: Definitions | None = None) -> tuple[Catalog, Rig, Wanted]:
    """A catalog with so many caches of `t` and one of `w`."""
    rig, wanted = Rig(), Wanted()
    handled = SimpleNamespace(handle=lambda effects: None, formats=WireFormats(), on_stream=rig.engine.on_stream)
    doubts = SimpleNamespace(about=lambda *known: None, remove=lambda *dropped: None)
    made = Catalog(
        rig.engine,
        cast(Any, handled),
        cast(Any, None),
        cast(Any, None),
        cast(Any, wanted),
        QueryMatcher(),
        cast(Any, doubts),
        definitions=definitions,
    )
    for number in range(count):
        put(made, f"t{number}", f"SELECT id, v FROM t WHERE k = ? AND v <> {number}")
    put(made, "w", "SELECT id FROM w WHERE k = ?")
    return made, rig, wanted


def planned_of(sql: str) -> Planned:
    snapshot = SchemaSnapshot({("test", table.name): table for table in (T, WIDE)}, (9, 7, 0))
    plan = plan_query(sql, "test", snapshot)
    columns = tuple(ResultColumn(column.name, column.type, True, "") for column in plan.reader.output)
    relations = frozenset((table.schema, table.name) for table in plan.tables)
    found = fingerprint(plan.sql, "test")
    return Planned(plan, columns, relations, frozenset(), found, outline(found.shape))


def put(made: Catalog, name: str, sql: str) -> None:
    cache = made.caches[name] = NamedCache(name, sql, "test")
    made.installed.install(cache, planned_of(sql))


def is_known(made: Catalog, sql: str) -> bool:
    return made.installed._matcher.match(sql, "test", (1,)) is not None


def test_the_caches_of_a_changed_table_are_closed_at_once_and_taken_out_later() -> None:
    async def scenario() -> None:
        made, rig, wanted = filled(20)
        made._schedule = lambda: None  # type: ignore[method-assign]  # none is planned again
        graph = rig.engine.graph
        readers = [cache.reader for cache in made.caches.values() if cache.reader is not None]
        assert wanted.tables == {"test.t", "test.w"}
        made.schema_changed(frozenset({"test.t"}))
        assert [cache.name for cache in made.caches.values() if cache.reader is not None] == ["w"]
        assert len(graph.readers) == 21, "nothing is taken out in this step"
        assert sum(not reader.installed for reader in readers) == 20
        assert wanted.tables == {"test.w"}, "its rows may have other columns from now on"
        await made.installed.leaving.gone()
        assert len(graph.readers) == len(graph.by_plan) == 1 and wanted.tables == {"test.w"}
        assert is_known(made, "SELECT id FROM w WHERE k = ?")
        assert not is_known(made, "SELECT id, v FROM t WHERE k = ? AND v <> 3")
        rig.engine.check_invariants()

    asyncio.run(scenario())


def test_nothing_is_installed_beside_what_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would share arrangements of the table as it was."""
    sql = "SELECT id, v FROM t WHERE k = ? AND v <> 3"

    async def scenario() -> None:
        made, rig, wanted = filled(20)
        made._schedule = lambda: None  # type: ignore[method-assign]

        async def plan_once(sql: str, database: str, *, kept: bool = False) -> Planned:
            return planned_of(sql)

        monkeypatch.setattr(made.texts, "plan", plan_once)
        made.schema_changed(frozenset({"test.t"}))
        assert len(rig.engine.graph.readers) == 21
        cache, existed = await made.create("", sql, "test")
        assert existed and cache.name == "t3" and cache.reader is not None
        assert len(rig.engine.graph.readers) == 2
        assert is_known(made, sql) and wanted.tables == {"test.t", "test.w"}

    asyncio.run(scenario())


def test_who_waits_for_a_cache_that_leaves_is_passed_through_at_once() -> None:
    async def scenario() -> None:
        made, rig, _ = filled(3)
        made._schedule = lambda: None  # type: ignore[method-assign]
        effects: list[object] = []
        made._pump.handle = effects.extend  # type: ignore[method-assign, assignment]
        for name in ("t1", "w"):
            reader = made.caches[name].reader
            assert reader is not None
            rig.readers = [reader]
            rig.read(7)
        (_, request) = rig.asked()
        made.schema_changed(frozenset({"test.t"}))
        assert [effect.why for effect in effects if isinstance(effect, Failed)] == [GivenUp.CACHE_DROPPED]
        assert len(rig.engine.fills.unanswered) == 2
        rig.answer(request, [], lower=gtids(1))
        await made.installed.leaving.gone()
        assert len(rig.engine.graph.readers) == 1

    asyncio.run(scenario())


def test_one_that_cannot_be_taken_out_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        made, rig, _ = filled(5)
        made._schedule = lambda: None  # type: ignore[method-assign]
        noted: list[str] = []
        made._pump.faults = cast(Any, SimpleNamespace(note=lambda kind, name, error: noted.append(name)))
        remove = rig.engine.state.remove
        broken = made.caches["t2"].reader

        def removing(reader: object) -> None:
            if reader is broken:
                raise RuntimeError("no")
            remove(cast(Any, reader))

        monkeypatch.setattr(rig.engine.state, "remove", removing)
        made.schema_changed(None)
        await made.installed.leaving.gone()
        assert set(noted) == {"t2"} and len(rig.engine.graph.readers) == 1

    asyncio.run(scenario())


def test_what_fails_as_one_is_taken_out_leaves_no_reader_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that no cache has would make each plan of its tables old for ever."""

    async def scenario() -> None:
        made, rig, _ = filled(3)
        made._schedule = lambda: None  # type: ignore[method-assign]
        made._pump.faults = cast(Any, SimpleNamespace(note=lambda kind, name, error: None))

        def fails(*given: object) -> None:
            raise RuntimeError("once")

        with monkeypatch.context() as patch:
            patch.setattr(made.installed._matcher, "remove", fails)
            made.schema_changed(None)
            await made.installed.leaving.gone()
        assert not rig.engine.graph.readers

    asyncio.run(scenario())


def test_a_name_that_cannot_be_shown_is_refused() -> None:
    check_name("")  # one is made up
    check_name("story 7")
    for name in (" ", "a\nb", "\x1b[31m", "q" * 65):
        with pytest.raises(ParseError, match=r"the cache's name is .*: up to 64 characters"):
            check_name(name)


def test_what_fails_as_one_is_installed_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        made, disk, _ = on_a_slow_disk(monkeypatch)
        disk.written.set()
        graph = made.installed._engine.graph
        before = len(graph.readers)
        with monkeypatch.context() as patch:
            patch.setattr("proxy.catalog.installed.Encoding", lambda *given: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await made.create("new", NEW, "test")
        assert "new" not in made.caches and len(graph.readers) == before
        cache, _ = await made.create("new", NEW, "test")
        assert cache.reader is not None and cache.reader.installed

    asyncio.run(scenario())


class SlowDisk:
    """Definitions that are written when `written` is set; `writing` is set when that begins."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.writing, self.written = threading.Event(), threading.Event()
        self.error: ConfigError | None = None

    def put(self, name: str, sql: str, database: str, made_by: MadeBy, /) -> None:
        self._wait()
        self.names.append(name)

    def remove(self, name: str, /) -> None:
        self._wait()
        self.names.remove(name)

    def _wait(self) -> None:
        self.writing.set()
        assert self.written.wait(60)
        if self.error is not None:
            raise self.error


def on_a_slow_disk(monkeypatch: pytest.MonkeyPatch) -> tuple[Catalog, SlowDisk, list[str]]:
    """A catalog, its disk, and what is planned."""
    disk, plans = SlowDisk(), list[str]()
    made, _, _ = filled(1, disk)
    made._schedule = lambda: None  # type: ignore[method-assign]

    async def plan_once(sql: str, database: str, *, kept: bool = False) -> Planned:
        plans.append(sql)
        return planned_of(sql)

    monkeypatch.setattr(made.texts, "plan", plan_once)
    return made, disk, plans


async def begun(disk: SlowDisk) -> None:
    assert await asyncio.to_thread(disk.writing.wait, 60)


NEW = "SELECT id FROM w WHERE v = ?"


def test_a_cache_is_there_when_its_definition_is_durable_and_the_loop_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        made, disk, _ = on_a_slow_disk(monkeypatch)
        creating = asyncio.create_task(made.create("new", NEW, "test"))
        await begun(disk)
        assert "new" not in made.caches and not creating.done()
        disk.written.set()
        cache, existed = await creating
        assert made.caches["new"] is cache and cache.reader is not None and not existed and disk.names == ["new"]
        disk.written.clear()
        disk.writing.clear()
        dropping = asyncio.create_task(made.drop("new"))
        await begun(disk)
        assert made.caches["new"] is cache and cache.reader is not None
        disk.written.set()
        await dropping
        assert "new" not in made.caches and disk.names == []

    asyncio.run(scenario())


def test_a_table_that_changes_while_the_definition_is_written_has_the_cache_planned_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        made, disk, plans = on_a_slow_disk(monkeypatch)
        creating = asyncio.create_task(made.create("new", NEW, "test"))
        await begun(disk)
        made.schema_changed(frozenset({"test.w"}))
        disk.written.set()
        cache, _ = await creating
        assert plans == [NEW, NEW] and cache.reader is not None and cache.reader.installed

    asyncio.run(scenario())


def test_where_it_cannot_be_planned_again_its_definition_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        made, disk, _ = on_a_slow_disk(monkeypatch)
        creating = asyncio.create_task(made.create("new", NEW, "test"))
        await begun(disk)
        made.schema_changed(frozenset({"test.w"}))

        async def gone(sql: str, database: str, *, kept: bool = False) -> Planned:
            raise UnknownName("no such table")

        monkeypatch.setattr(made.texts, "plan", gone)
        disk.written.set()
        with pytest.raises(UnknownName):
            await creating
        assert "new" not in made.caches and disk.names == []

    asyncio.run(scenario())


def test_who_goes_away_leaves_a_cache_that_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file says what there is."""

    async def scenario() -> None:
        made, disk, _ = on_a_slow_disk(monkeypatch)
        creating = asyncio.create_task(made.create("new", NEW, "test"))
        await begun(disk)
        for _ in range(3):
            creating.cancel()
            await asyncio.sleep(0)
        assert not creating.done()
        disk.written.set()
        with pytest.raises(asyncio.CancelledError):
            await creating
        assert made.caches["new"].reader is not None and disk.names == ["new"]

    asyncio.run(scenario())


def test_where_the_disk_refuses_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        made, disk, _ = on_a_slow_disk(monkeypatch)
        disk.written.set()
        disk.error = ConfigError("cannot be written")
        before = dict(made.caches)
        with pytest.raises(ConfigError):
            await made.create("new", NEW, "test")
        with pytest.raises(ConfigError):
            await made.drop("w")
        assert made.caches == before and made.caches["w"].reader is not None

    asyncio.run(scenario())


def test_a_table_that_changes_before_the_definition_is_written_has_the_cache_planned_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the very turn of the loop in which the plan is made."""

    async def scenario() -> None:
        made, disk, plans = on_a_slow_disk(monkeypatch)
        disk.written.set()
        plan_once = made.texts.plan

        async def once(sql: str, database: str, *, kept: bool = False) -> Planned:
            if not plans:
                asyncio.get_running_loop().call_soon(made.schema_changed, frozenset({"test.w"}))
            return await plan_once(sql, database, kept=kept)

        monkeypatch.setattr(made.texts, "plan", once)
        cache, _ = await made.create("new", NEW, "test")
        assert plans == [NEW, NEW] and cache.reader is not None and cache.reader.installed

    asyncio.run(scenario())


@pytest.mark.parametrize("trouble", [SourceError(1053, "HY000", "shutdown"), ValueError("a fault"), TOO_LONG], ids=repr)
def test_what_cannot_be_planned_now_is_planned_after_a_pause_and_keeps_no_others(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    async def scenario() -> None:
        made, _, _ = on_a_slow_disk(monkeypatch)
        now = [0.0]
        made._again = PlannedAgain(lambda: now[0])
        del made._schedule
        troubles = {NEW: [trouble, trouble]}

        async def plan_once(sql: str, database: str, *, kept: bool = False) -> Planned:
            for error in troubles.get(sql, [])[:1]:
                troubles[sql].pop()
                raise error
            return planned_of(sql)

        monkeypatch.setattr(made.texts, "plan", plan_once)
        made.adopt("new", NEW, "test", MadeBy(Origin.SQL, "a@b"))
        made.adopt("other", "SELECT id FROM w WHERE v = ? AND id > 1", "test", MadeBy(Origin.SQL, "a@b"))
        for pause in (FIRST_PAUSE, 2 * FIRST_PAUSE):
            await made.settled()
            new = made.caches["new"]
            assert made.caches["other"].state == "ready" and new.state == "refused" and new.why
            assert made.unplanned == 0 and not made.rebuilding
            now[0] += pause - 1
            made.retry()
            assert not made.rebuilding
            now[0] += 1
            made.retry()
        await made.settled()
        assert new.state == "ready" and new.reader is not None
        made._again.check_invariants()

    asyncio.run(scenario())


def test_what_no_cache_can_be_of_is_planned_again_when_its_tables_change_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        made, _, _ = on_a_slow_disk(monkeypatch)
        now = [0.0]
        made._again = PlannedAgain(lambda: now[0])
        del made._schedule

        async def gone(sql: str, database: str, *, kept: bool = False) -> Planned:
            raise UnknownName("no such table")

        monkeypatch.setattr(made.texts, "plan", gone)
        made.adopt("new", NEW, "test", MadeBy(Origin.SQL, "a@b"))
        await made.settled()
        now[0] += 1e6
        made.retry()
        assert not made.rebuilding and made.caches["new"].state == "refused"

    asyncio.run(scenario())


def refusing(
    monkeypatch: pytest.MonkeyPatch, looked: Callable[[Catalog, int], None] = lambda made, times: None
) -> tuple[Catalog, list[str]]:
    """A catalog whose queries name a table that is not there, and the texts that it has planned. `looked`: is called
    at each look, with how many there were."""
    made, _, _ = on_a_slow_disk(monkeypatch)
    del made._schedule
    tried: list[str] = []

    async def plan_with(names: set[tuple[str, str]], sql: str, database: str, schema: object) -> Planned:
        tried.append(sql)
        names.add(("shop", "gone"))
        looked(made, len(tried))
        raise UnknownName("no such table")

    monkeypatch.setattr(made.texts, "_plan_with", plan_with)
    monkeypatch.setattr(made.texts, "plan", partial(TextPlanner.plan, made.texts))
    made.adopt("new", NEW, "shop", MadeBy(Origin.SQL, "a@b"))
    return made, tried


@pytest.mark.parametrize(
    ("changed", "again"),
    [({"shop.other"}, False), ({"shop.Gone"}, True), ({"shop.*"}, True), ({"elsewhere.*"}, False), (None, True)],
)
def test_a_refused_cache_is_planned_again_for_ddl_on_what_was_looked_at(
    monkeypatch: pytest.MonkeyPatch, changed: set[str] | None, again: bool
) -> None:
    async def scenario() -> None:
        made, tried = refusing(monkeypatch)
        await made.settled()
        made.schema_changed(None if changed is None else frozenset(changed))
        await made.settled()
        assert tried.count(NEW) == 1 + again

    asyncio.run(scenario())


@pytest.mark.parametrize(("changed", "tries"), [("shop.other", 1), ("shop.gone", 2)])
def test_what_changes_while_a_plan_is_refused_counts_where_it_was_looked_at(
    monkeypatch: pytest.MonkeyPatch, changed: str, tries: int
) -> None:
    """The cache was ready before, of other tables."""

    def change(made: Catalog, times: int) -> None:
        if times == 1:
            made.schema_changed(frozenset({changed}))

    async def scenario() -> None:
        made, tried = refusing(monkeypatch, change)
        made.caches["new"].names = frozenset({"shop.before"})
        await made.settled()
        assert len(tried) == tries

    asyncio.run(scenario())


def test_what_cannot_be_planned_because_its_tables_are_changing_is_planned_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table may be read when its columns are not there yet; that it has come is told while the plan is made."""

    async def scenario() -> None:
        made, _, _ = on_a_slow_disk(monkeypatch)
        del made._schedule
        tried = []

        async def plan_once(sql: str, database: str, *, kept: bool = False) -> Planned:
            tried.append(sql)
            await asyncio.sleep(0)
            if len(tried) == 1:
                made.schema_changed(None)
                raise UnknownName("no such column")
            return planned_of(sql)

        monkeypatch.setattr(made.texts, "plan", plan_once)
        made.adopt("new", NEW, "test", MadeBy(Origin.SQL, "a@b"))
        await made.settled()
        assert made.caches["new"].state == "ready" and not made.rebuilding

    asyncio.run(scenario())


def test_an_account_drops_its_own_caches_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another may have made one of the same name since the account was asked about."""

    async def scenario() -> None:
        made, disk, _ = on_a_slow_disk(monkeypatch)
        disk.written.set()
        await made.create("new", NEW, "test", MadeBy(Origin.SQL, "a@b"))
        with pytest.raises(UnknownCache):
            await made.drop("new", only_of="c@d")
        assert "new" in made.caches and disk.names == ["new"]
        await made.drop("new", only_of="a@b")
        assert "new" not in made.caches

    asyncio.run(scenario())


def test_an_automatic_cache_that_becomes_an_accounts_own_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        made, disk, _ = on_a_slow_disk(monkeypatch)
        disk.written.set()
        made.limits = CacheLimits(per_account=1)
        automatic, _ = await made.create("", NEW, "test", MadeBy(Origin.AUTOMATIC))
        await made.create("own", "SELECT id FROM w WHERE v = ? AND id > 1", "test", MadeBy(Origin.SQL, "a@b"))
        with pytest.raises(Overloaded):
            await made.create("", NEW, "test", MadeBy(Origin.SQL, "a@b"))
        assert automatic.made_by.origin is Origin.AUTOMATIC

    asyncio.run(scenario())
