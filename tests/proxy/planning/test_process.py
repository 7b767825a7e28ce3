"""Planning in a helper process: real processes, real texts."""

from __future__ import annotations

import asyncio
import builtins
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import proxy.planning.process as planning
import sqltypes.generated as generated
from dataflow.graph.graph import Graph
from dataflow.held.arrangement import Memory
from planner.api import plan_evict, plan_query
from planner.session.session_needs import session_needs
from planner.text.fingerprint import fingerprint
from planner.tree.plan import Caution, QueryPlan
from proxy.planning.process import PlanningLimits, PlanningProcess, check_views, is_small, likely_relations
from proxy.settings.machine import APP_DIR
from sqltypes.errors import NeedRelations, ParseError, UnsupportedQuery, UpwellError
from sqltypes.schema import BIGINT, Column, SchemaSnapshot, Table, View
from tests.support.goldens import PLANS, cases, sample_queries, snapshot
from tests.support.waiting import until

T = Table("d", "t", tuple(Column(f"c{at}", BIGINT, False, at) for at in range(20)), ("c0",), (), (("c0",),))
SCHEMA = SchemaSnapshot({("d", "t"): T}, (9, 7, 0))
SMALL = "SELECT c1 FROM t WHERE c0 = ?"
UNTYPED = "SELECT c1 FROM t WHERE c0 & ? AND c2 & ?"


def ors(number: int) -> str:
    return f"SELECT c1 FROM t WHERE c2 = ? AND ({' OR '.join(f'c{at % 20} = {at}' for at in range(number))})"


def unions(number: int) -> str:
    return " UNION ALL ".join("SELECT c0 FROM t WHERE c1 = ?" for _ in range(number))


MIDDLE, COSTLY = ors(20), unions(180)


@asynccontextmanager
async def helper(limits: PlanningLimits | None = None) -> AsyncIterator[PlanningProcess]:
    made = PlanningProcess(limits)
    try:
        yield made
        made.check_invariants()
    finally:
        await made.close()
        assert made.pid is None and not made._processes


async def refusal(waiting: Awaitable[object]) -> UnsupportedQuery:
    with pytest.raises(UnsupportedQuery) as refused:
        await waiting
    return refused.value


def gone(pid: int) -> bool:
    """Ended, if perhaps not waited for by whoever inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def outcome(sql: str, database: str, schema: SchemaSnapshot) -> QueryPlan | tuple[object, ...]:
    try:
        return plan_query(sql, database, schema)
    except UpwellError as error:
        return type(error), error.args, error.__dict__


def test_the_helper_plans_as_is_planned_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "is_small", lambda sql, schema: False)

    async def scenario() -> None:
        count = 0
        async with helper() as made:
            for file in sorted(PLANS.glob("*.sql")):
                database, schema = snapshot(file)
                named = sample_queries() if file.stem == "lobsters" else ((c.title, c.sql) for c in cases(file))
                for _, sql in named:
                    expected = outcome(sql, database, schema)
                    try:
                        found = await made.plan(sql, database, schema)
                    except UpwellError as error:
                        assert (type(error), error.args, error.__dict__) == expected
                        continue
                    assert found.plan == expected
                    assert found.needs == session_needs(found.plan, schema)
                    assert found.fingerprint == fingerprint(found.plan.sql, database, schema.server_version)
                    held = await made.plan_evict(sql, database, schema, "in doubt", Caution.KEYS)
                    assert held.plan == plan_evict(sql, database, schema, "in doubt", Caution.KEYS)
                    count += 1
            assert made.counters["planning_helpers"] == 1
            assert count > 100

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT c0, c1 + 1 FROM t WHERE c2 = ? AND (c3 = 1 OR c4 = 2)",
        "SELECT a.c0 FROM t a JOIN t b ON b.c0 = a.c1 WHERE a.c0 = ? ORDER BY a.c3",
        "SELECT c1, COUNT(*), SUM(c2) FROM t WHERE c3 = ? GROUP BY c1",
        unions(50),
    ],
)
def test_what_the_helper_has_built_is_installed_without_the_compiler(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "is_small", lambda sql, schema: False)
    monkeypatch.setattr(generated, "_codes", generated._Codes())
    compiled: list[str] = []

    def noting(source: str, *rest: Any) -> Any:
        compiled.append(source)
        return builtins.compile(source, *rest)

    async def scenario() -> None:
        async with helper() as made:
            plan = (await made.plan(sql, "d", SCHEMA)).plan
        monkeypatch.setattr(generated, "compile", noting, raising=False)
        Graph(Memory()).install(plan)
        assert compiled == []
        generated._codes.known.clear()
        Graph(Memory()).install(plan)
        assert 0 < len(compiled) < 60, "of a UNION's parts, each has four functions: what is equal is compiled once"

    asyncio.run(scenario())


def test_errors_are_the_same_in_another_process() -> None:
    for error in (UnsupportedQuery("code", "message", "place"), NeedRelations(frozenset({("a", "b")}))):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error) and again.__dict__ == error.__dict__


def test_a_small_text_needs_no_helper_and_a_view_may_be_anything() -> None:
    async def scenario() -> None:
        async with helper() as made:
            assert (await made.plan(SMALL, "d", SCHEMA)).plan == plan_query(SMALL, "d", SCHEMA)
            assert made.counters["planning_helpers"] == 0
            assert (await made.plan(UNTYPED, "d", SCHEMA)).plan == plan_query(UNTYPED, "d", SCHEMA)
            assert made.counters["planned_aside"] == 1, "it is planned once for each kind of literal"
            held = plan_evict(UNTYPED, "d", SCHEMA, "in doubt")
            assert (await made.plan_evict(UNTYPED, "d", SCHEMA, "in doubt")).plan == held
            assert (await made.plan(MIDDLE, "d", SCHEMA)).plan == plan_query(MIDDLE, "d", SCHEMA)
            assert made.counters["planned_aside"] == 3 and made.counters["planning_helpers"] == 1

    asyncio.run(scenario())
    view = View("d", "v", MIDDLE, ("c1",))
    wide = Table("d", "w", tuple(Column(f"c{at}", BIGINT, False, at) for at in range(900)))
    assert is_small(SMALL, SCHEMA)
    assert not is_small(SMALL, SchemaSnapshot({("d", "t"): T, ("d", "v"): view}))
    assert not is_small("SELECT * FROM w", SchemaSnapshot({("d", "w"): wide}))
    assert not is_small(f"SELECT '{'x' * 5000}' FROM t", SCHEMA)


def test_a_changed_table_is_sent_anew_and_many_do_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "RELATIONS_SENT", 3)

    async def scenario() -> None:
        async with helper() as made:
            for width in (20, 21, 22, 20, 23, 24, 22):
                columns = tuple(Column(f"c{at}", BIGINT, width == 22, at) for at in range(width))
                schema = SchemaSnapshot({("d", "t"): Table("d", "t", columns, ("c0",), (), (("c0",),))}, (9, 7, 0))
                assert (await made.plan(MIDDLE, "d", schema)).plan == plan_query(MIDDLE, "d", schema)
            assert made._helper is not None and len(made._helper._sent) <= 3

    asyncio.run(scenario())


def test_a_costly_text_leaves_the_loop_to_others() -> None:
    """Judged by the loop's own time on the processor, step by step: a busy machine changes nothing."""

    async def scenario() -> None:
        async with helper(PlanningLimits(cpu=60.0)) as made:
            await made.plan(MIDDLE, "d", SCHEMA)
            planning_costly = asyncio.ensure_future(made.plan(COSTLY, "d", SCHEMA))
            steps, longest = 0, 0.0
            while not planning_costly.done():
                before = time.thread_time()
                await asyncio.sleep(0)
                longest, steps = max(longest, time.thread_time() - before), steps + 1
            before = time.thread_time()
            plan_query(COSTLY, "d", SCHEMA)
            in_place = time.thread_time() - before
            print(f"{steps} steps of others, the longest {longest * 1e3:.2f} ms; in place {in_place * 1e3:.1f} ms")
            await planning_costly
            assert steps > 100 and longest < in_place / 4

    asyncio.run(scenario())


def test_a_text_that_takes_too_much_time_is_refused_and_the_next_one_planned() -> None:
    async def scenario() -> None:
        async with helper(PlanningLimits(cpu=0.1)) as made:
            await made.plan(MIDDLE, "d", SCHEMA)
            first = made.pid
            error = await refusal(made.plan(unions(220), "d", SCHEMA))
            assert (error.code, str(error)) == (
                "too_costly",
                "too costly to plan: it takes too much of the processor's time",
            )
            await made.plan(MIDDLE, "d", SCHEMA)
            assert made.pid != first and made.counters == {
                "planned_aside": 3,
                "planned_in_vain": 1,
                "planning_helpers": 2,
            }

    asyncio.run(scenario())


def test_a_deadline_by_the_clock_ends_the_helper() -> None:
    async def scenario() -> None:
        async with helper(PlanningLimits(seconds=5)) as made:
            await made.plan(MIDDLE, "d", SCHEMA)
            assert made.pid is not None
            os.kill(made.pid, signal.SIGSTOP)
            stopped, made.limits = made.pid, PlanningLimits(seconds=0.1)
            error = await refusal(made.plan(MIDDLE, "d", SCHEMA))
            assert str(error) == "too costly to plan: it takes too long"
            made.limits = PlanningLimits()
            await made.plan(MIDDLE, "d", SCHEMA)
            assert made.pid != stopped

    asyncio.run(scenario())


def test_memory_has_a_limit() -> None:
    async def scenario() -> None:
        async with helper(PlanningLimits()) as made:
            await made.plan(MIDDLE, "d", SCHEMA)
            assert made.pid is not None
            assert resource.prlimit(made.pid, resource.RLIMIT_AS) == (1 << 28, 1 << 28)
            size = Path(f"/proc/{made.pid}/statm").read_text().split()
            used = int(size[0]) * resource.getpagesize()
            print(f"address space {used >> 20} MB, resident {int(size[1]) * resource.getpagesize() >> 20} MB")
            resource.prlimit(made.pid, resource.RLIMIT_AS, (used, used))
            with suppress(UnsupportedQuery, ParseError):  # it may find room in what it has; the parser may not
                await made.plan(COSTLY, "d", SCHEMA)
            await made.plan(MIDDLE, "d", SCHEMA)

    asyncio.run(scenario())


def test_a_helper_that_others_have_left_no_room_is_another_ones_turn() -> None:
    async def scenario() -> None:
        async with helper() as made:
            await made.plan(MIDDLE, "d", SCHEMA)
            assert made.pid is not None
            resource.prlimit(made.pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))
            await made.plan(unions(60), "d", SCHEMA)
            assert made.counters["planning_helpers"] == 2 and not made.counters["planned_in_vain"]

    asyncio.run(scenario())


def test_a_helper_killed_in_the_middle_is_another_ones_turn() -> None:
    """A helper that has worked before may be ended from outside: one more tries. One that dies of its first job was
    killed by the job."""

    async def scenario() -> None:
        async with helper() as made:
            await made.plan(MIDDLE, "d", SCHEMA)
            first = made.pid
            assert first is not None
            os.kill(first, signal.SIGSTOP)
            waiting = asyncio.ensure_future(made.plan(MIDDLE, "d", SCHEMA))
            await until(lambda: made.counters["planned_aside"] == 2)
            os.kill(first, signal.SIGKILL)
            assert (await waiting).plan == plan_query(MIDDLE, "d", SCHEMA)
            assert made.pid not in (None, first) and gone(first)

        async with helper() as made:
            waiting = asyncio.ensure_future(made.plan(COSTLY, "d", SCHEMA))
            await until(lambda: made._helper is not None and made._helper.asked == 1)
            assert made.pid is not None
            os.kill(made.pid, signal.SIGKILL)
            assert (await refusal(waiting)).code == "too_costly"
            assert made.counters["planned_in_vain"] == 1

    asyncio.run(scenario())


def test_a_query_has_the_words_of_its_views() -> None:
    def beside(words: int) -> SchemaSnapshot:
        view = View(
            "d", "v", f"select {', '.join(f'`d`.`t`.`c{at}` AS `c{at}`' for at in range(words // 8))} from `d`.`t`"
        )
        return SchemaSnapshot({**SCHEMA.relations, ("d", "v"): view}, (9, 7, 0))

    check_views("SELECT c0 FROM v", beside(7_000))
    check_views(ors(1000), SCHEMA)  # without a view the text alone is looked at, elsewhere
    for sql, words in (("SELECT c0 FROM v", 9_000), (ors(700), 7_000)):
        with pytest.raises(UnsupportedQuery, match="with its views") as refused:
            check_views(sql, beside(words))
        assert refused.value.code == "too_long"


def test_who_has_warmed_up_plans_without_loading_a_module() -> None:
    text = """
import sys
from planner.api import plan_query
from proxy.planning.process import warm_up
from proxy.planning.worker import Job, thought
from tests.proxy.planning.test_process import SCHEMA, SMALL
warm_up()
before = set(sys.modules)
thought(Job(SMALL, "d", SCHEMA))
print(sorted(set(sys.modules) - before))
"""
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=APP_DIR, timeout=120)
    assert (ended.stdout, ended.returncode) == ("[]\n", 0), ended.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_helper_stands_back_in_the_session_of_its_proxy() -> None:
    async def scenario() -> None:
        async with helper() as made:
            await made.plan(MIDDLE, "d", SCHEMA)
            assert made.pid is not None
            assert os.getsid(made.pid) == os.getsid(0) and os.getpgid(made.pid) == made.pid
            assert os.getpriority(os.PRIO_PROCESS, made.pid) > os.getpriority(os.PRIO_PROCESS, 0) or os.nice(0) >= 15
            assert os.sched_getscheduler(made.pid) in (os.SCHED_BATCH, os.sched_getscheduler(0))

    asyncio.run(scenario())


def test_the_helper_ends_with_its_caller() -> None:
    async def scenario() -> None:
        async with helper() as made:
            await made.plan(MIDDLE, "d", SCHEMA)
            first = made.pid
            assert first is not None
            os.kill(first, signal.SIGSTOP)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await made.plan(MIDDLE, "d", SCHEMA)
            assert made.pid is None
            await made.plan(MIDDLE, "d", SCHEMA)
            assert made.pid != first

    asyncio.run(scenario())


@pytest.mark.parametrize("moment", ["starting", "idle", "working"])
def test_close_leaves_no_process_behind(moment: str) -> None:
    async def scenario() -> None:
        made = PlanningProcess()
        job = asyncio.ensure_future(made.plan(COSTLY, "d", SCHEMA))
        if moment == "starting":
            await until(lambda: made.counters["planning_helpers"] == 1)
        elif moment == "working":
            await until(lambda: made._helper is not None and made._helper.asked == 1)
        else:
            await job
        await until(lambda: bool(made._processes))
        pids = [process.pid for process in made._processes]
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)
        await made.close()
        assert pids and all(map(gone, pids)) and not made._processes

    asyncio.run(scenario())


def test_a_killed_proxy_leaves_no_helper_behind() -> None:
    text = """
import asyncio, sys, signal, os
sys.path.insert(0, sys.argv[1])
from tests.proxy.planning.test_process import *
async def main():
    made = PlanningProcess()
    await made.plan(MIDDLE, "d", SCHEMA)
    print(made.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""

    async def scenario() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", text, str(Path(__file__).parents[3]), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        await until(lambda: gone(int(out)))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT a FROM t JOIN `u` USING (a) WHERE a IN (SELECT b FROM v)", {"t", "u", "v"}),
        ("SELECT a FROM other.t", set()),  # another keyspace of Vitess is refused where it is named, and not before
        ("SELECT NOW() FROM t", set()),  # refused: the source is not asked
        ("SELECT a FROM t WHERE a = 'open", set()),
        ("SELECT a FROM t WHERE " + " AND ".join(["a = 1"] * 20), set()),  # a long text is read by the helper
    ],
)
def test_the_source_is_asked_ahead_for_what_a_small_text_names(sql: str, wanted: set[str]) -> None:
    assert likely_relations(sql, "d") == {("d", name) for name in wanted}
    assert likely_relations(sql, "") == set()


def test_a_guess_that_is_no_relation_is_none_of_the_plan() -> None:
    relations: dict[tuple[str, str], Table | View] = {("d", "T"): T}
    guess = {("d", "t"), ("d", "cte")}
    assert SchemaSnapshot(relations).named(guess) == set()
    assert SchemaSnapshot(relations, lower_case_table_names=1).named(guess) == {("d", "t")}
