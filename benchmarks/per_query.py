"""Each query of the sample: MySQL's CPU for an execution against Upwell's for a hit, and times as a client sees them.

Shows where a cache pays and where it does not: single rows by key cost MySQL about as little as the network does, while
aggregates cost it their group's size. Also the aggregates of variant N in batches of 100 keys against one query a key,
and the front page (F1a) end to end.
"""

from __future__ import annotations

import time
from statistics import median

from benchmarks.bench import Bench, CachedSample, median_ratio
from benchmarks.result import Cell, Figure, Result, Sheet
from examples.lobsters.cpu import ConnectionClock, process_seconds
from examples.lobsters.measure import Effort, Figures, Measurement, draw_keys, repeat
from examples.lobsters.queries import CATALOGUE, Sample, of_variant

# Queries of variant N that aggregate, with one key a lookup; those with a list get lists of one.
AGGREGATES = ("S1-N", "S5-N", "NT1-N", "F1b-N", "R1b-N", "U2a-N", "U3-N", "C1b-N", "X1-N")
BATCH = 100
SEED = 31


def run(bench: Bench) -> Result:
    result = Result("per_query")
    templates = list(CATALOGUE.values())
    with bench.cached_sample(templates) as sample:
        effort = Effort(keys=50, seconds=bench.seconds, runs=5_000)
        measurement = Measurement(sample.direct, sample.cached, sample.proxy.pid, effort)
        figures = {id: measurement.template(id, Sample(bench.shape, SEED)) for id in sample.made.modes}
        coverage(result, sample)
        cost(result, figures, sample)
        batches(result, bench, sample)
    return result


def coverage(result: Result, sample: CachedSample) -> None:
    for variant in "DN":
        templates = of_variant(variant)
        cached = sum(template.id in sample.made.modes for template in templates)
        share = 100 * cached / len(templates)
        result.figures.append(Figure(f"templates of variant {variant} cached", share, "%"))
    result.notes += [f"not cached: {id}: {why}" for id, why in sample.made.refused.items()]


def cost(result: Result, figures: dict[str, Figures], sample: CachedSample) -> None:
    columns = (
        "query",
        "mode",
        "MySQL ms",
        "miss ms",
        "hit ms",
        "ratio",
        "MySQL CPU us",
        "hit CPU us",
        "CPU ratio",
        "equal",
    )
    sheet = Sheet("one key at a time: medians; CPU per execution and per hit", columns)
    for id, row in figures.items():
        values: tuple[Cell, ...] = (row.mysql_ms, row.miss_ms, row.hit_ms, row.ratio)
        values = (*values, row.mysql_cpu_us, row.hit_cpu_us, row.cpu_ratio, "no" if row.differences else "yes")
        sheet.rows.append((f"{id} {CATALOGUE[id].title}", sample.made.modes[id], *values))
    result.sheets.append(sheet)
    different = [row for row in figures.values() if row.differences]
    result.notes += [f"DIFFERENT {row.id}: {row.differences[0]}" for row in different]
    result.figures.append(Figure("templates whose hits differ from MySQL's answers", len(different)))
    for variant in "DN":
        ids = [template.id for template in of_variant(variant) if template.id in figures]
        ratio = median_ratio([figures[id].cpu_ratio for id in ids])
        if ratio is not None:
            result.figures.append(Figure(f"MySQL CPU to hit CPU, median over variant {variant}", ratio, "x"))
    front = figures.get("F1a-N")
    if front is not None and front.ratio is not None:
        result.figures.append(Figure("front page (F1a), end to end", front.ratio, "x"))


def batches(result: Result, bench: Bench, sample: CachedSample) -> None:
    """N aggregates: 100 keys a call on Upwell, a query a key on MySQL, as an application without a cache asks."""
    columns = "query", "MySQL us/key", "Upwell us/key", "ratio", "MySQL CPU us/key", "Upwell CPU us/key", "CPU ratio"
    sheet = Sheet(f"aggregates of variant N, batches of {BATCH} held keys", columns)
    ratios = []
    for id in AGGREGATES:
        if id in sample.made.modes:
            row = batch(id, bench, sample)
            ratios.append(row[2])
            sheet.rows.append((f"{id} {CATALOGUE[id].title}", *row))
    result.sheets.append(sheet)
    if ratios:
        middle = sorted(ratios)[len(ratios) // 2]
        result.figures.append(Figure("aggregates per key in batches of 100, median", middle, "x"))
        result.figures.append(Figure("aggregates per key in batches of 100, least", min(ratios), "x"))


def batch(id: str, bench: Bench, sample: CachedSample) -> tuple[float, float, float, float | None, float, float | None]:
    template = CATALOGUE[id]
    keys = draw_keys(template, Sample(bench.shape, SEED + 1), BATCH)
    keys = [tuple(value[:1] if isinstance(value, tuple) else value for value in key) for key in keys]
    effort = Effort(seconds=bench.seconds, runs=20_000)
    clock = ConnectionClock(sample.direct.connection)
    before = clock.seconds() if clock.works else 0.0
    times, runs = repeat(lambda key: sample.direct.read(id, key), keys, effort)
    mysql_cpu = (clock.seconds() - before) / runs * 1e6 if clock.works else None
    cache = sample.cached.cache(id)
    cache.get_many(keys)
    calls: list[float] = []
    before, end = process_seconds(sample.proxy.pid), time.perf_counter() + bench.seconds
    while time.perf_counter() < end or len(calls) < 5:
        start = time.perf_counter()
        answers = cache.get_many(keys)
        calls.append(time.perf_counter() - start)
        assert all(answer.served == "hit" for answer in answers), id
    cpu = (process_seconds(sample.proxy.pid) - before) / len(calls) / len(keys) * 1e6
    # The mean over the keys: hot ones are drawn more often, and cost MySQL more.
    direct, batched = sum(times) / runs * 1e6, median(calls) / len(keys) * 1e6
    return direct, batched, direct / batched, mysql_cpu, cpu, mysql_cpu / cpu if mysql_cpu else None
