"""What planning costs by words: in place, each of its two steps, and in the helper process, as its caller waits.

The proxy plans in place what has at most `WORDS_IN_PLACE` words; milliseconds, the best of several.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter, thread_time

from benchmarks.bench import Bench
from benchmarks.result import Result, Sheet
from planner.text.scan import scan
from proxy.planning.process import WORDS_IN_PLACE, PlanningProcess, is_small
from proxy.planning.worker import Job, planned, told
from sqltypes.errors import UnsupportedQuery
from sqltypes.schema import BIGINT, Column, SchemaSnapshot, Table

TIMES = 5
WIDE = tuple(Column(f"c{at}", BIGINT, False, at) for at in range(50))
SCHEMA = SchemaSnapshot({("d", name): Table("d", name, WIDE, ("c0",), (), (("c0",),)) for name in "tu"}, (9, 7, 0))


def ors(number: int) -> str:
    return f"SELECT c0, c1 FROM t WHERE c2 = ? AND ({' OR '.join(f'c{at % 50} = {at}' for at in range(number))})"


def items(number: int) -> str:
    return f"SELECT {', '.join(f'c{at % 50} + {at}' for at in range(number))} FROM t WHERE c2 = ?"


def joins(number: int) -> str:
    tables = " ".join(f"JOIN u a{at} ON a{at}.c0 = a{at - 1}.c1" for at in range(1, number))
    return f"SELECT a0.c0 FROM t a0 {tables} WHERE a0.c0 = ?"


def subqueries(number: int) -> str:
    conditions = (f" AND a.c{at % 50} IN (SELECT c1 FROM u WHERE c2 = {at})" for at in range(number))
    return f"SELECT a.c0 FROM t a WHERE a.c0 = ?{''.join(conditions)}"


def unions(number: int) -> str:
    return " UNION ALL ".join("SELECT c0 FROM t WHERE c1 = ?" for _ in range(number))


SHAPES: tuple[tuple[Callable[[int], str], tuple[int, ...]], ...] = (
    (ors, (1, 4, 20, 100, 150)),
    (items, (1, 6, 50, 200, 400)),
    (joins, (1, 3, 10, 30, 100)),
    (subqueries, (1, 2, 10, 50, 100)),
    (unions, (1, 4, 20, 60, 180)),
)


def run(bench: Bench) -> Result:
    columns = ("text", "words", "plan in place", "the rest in place", "in the helper", "the loop's part of that")
    sheet = Sheet(f"planning, milliseconds (at most {WORDS_IN_PLACE} words are planned in place)", columns)
    asyncio.run(measure(sheet))
    return Result("planning", sheets=[sheet])


async def measure(sheet: Sheet) -> None:
    helper = PlanningProcess()
    try:
        for shape, numbers in SHAPES:
            for number in numbers:
                sql = shape(number)
                plan, rest = in_place(sql)
                aside: float | None = None
                own: float | None = None
                if not is_small(sql, SCHEMA):
                    aside, own = await in_helper(helper, sql)
                sheet.rows.append((shape.__name__, len(scan(sql)), plan, rest, aside, own))
    finally:
        await helper.close()


def in_place(sql: str) -> tuple[float, float]:
    steps = []
    job = Job(sql, "d", SCHEMA)
    for _ in range(TIMES):
        started = thread_time()
        plan = planned(job)
        between = thread_time()
        with suppress(UnsupportedQuery):
            told(plan)
        steps.append((between - started, thread_time() - between))
    plans, rests = zip(*steps, strict=True)
    return min(plans) * 1e3, min(rests) * 1e3


async def in_helper(helper: PlanningProcess, sql: str) -> tuple[float, float]:
    waited, own = [], []
    for _ in range(TIMES):
        started, cpu = perf_counter(), thread_time()
        with suppress(UnsupportedQuery):
            await helper.plan(sql, "d", SCHEMA)
        waited.append(perf_counter() - started)
        own.append(thread_time() - cpu)
    return min(waited) * 1e3, min(own) * 1e3
