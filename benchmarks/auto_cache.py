"""Automatic caching that one can leave on: sysbench's `oltp_read_only` and `oltp_read_write`.

`make bench ARGS="--only auto_cache --seconds 6"`

Side by side in each round, so that the machine's mood meets all alike:

  direct      MySQL itself
  passing     Upwell with --auto-cache=off: what is never to be fallen below
  automatic   Upwell with --auto-cache=on, a new process: its first seconds ("cold", while it warms), then until it
              finds nothing more to decide ("warm")

then once more with busy cores: one process for each core that does nothing but count. `oltp_read_write` on hot rows is
where caching cannot pay, so automatic caching has to see that by itself.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from statistics import median

from benchmarks import sysbench
from benchmarks.bench import Bench
from benchmarks.points import ROWS, load_points
from benchmarks.result import Figure, Result, Sheet
from benchmarks.sysbench import Load
from examples.lobsters.cpu import process_seconds
from upwell.client import Client

ROUNDS = 3
HOT_ROWS = 100
WARMING = 30.0  # seconds between the first ones and what is called warm
DIRECT, PASSING, AUTOMATIC = "direct", "passing", "automatic"
RATIOS = "warm to direct", "warm to passing", "cold to passing"
SPIN = "while True: pass"


@dataclass(frozen=True, slots=True)
class Case:
    """`behind`: what comes before it through the same proxies."""

    name: str
    load: Load
    busy: bool
    behind: Load | None = None


@dataclass
class Rates:
    """Statements a second of each round, and CPU of the proxy in microseconds a statement."""

    per_second: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    hits: list[float] = field(default_factory=list)

    def note(self, name: str, load: Load, host: str, port: int, seconds: float, pid: int | None = None) -> None:
        used = process_seconds(pid) if pid is not None else 0.0
        outcome = sysbench.run(load, host, port, seconds)
        self.per_second.setdefault(name, []).append(outcome.per_second)
        if pid is not None:
            self.cpu.setdefault(name, []).append((process_seconds(pid) - used) / outcome.statements * 1e6)

    def ratio(self, name: str, to: str) -> float:
        """The median of the rounds' ratios."""
        pairs = zip(self.per_second[name], self.per_second[to], strict=True)
        return median(one / other for one, other in pairs)


def run(bench: Bench) -> Result:
    points = load_points(bench)
    # sysbench's own choice of rows: three of four are of a hundredth of the table.
    read_only = replace(points, script="oltp_read_only", options=(*points.options, "--rand-type=special"))
    autocommit = replace(read_only, options=(*read_only.options, "--skip-trx=on"))
    hot = f"--table-size={HOT_ROWS}"
    read_write = replace(points, script="oltp_read_write", options=("--tables=1", hot, "--rand-type=uniform"))
    writes_too = replace(read_only, script="oltp_read_write")
    cases = (
        Case("oltp_read_only", read_only, busy=False),
        Case("oltp_read_only, in text", replace(read_only, prepared=False), busy=False),
        Case("oltp_read_only, no transactions", autocommit, busy=False),
        Case("oltp_read_only, busy cores", read_only, busy=True),
        Case(f"oltp_read_write on {HOT_ROWS} rows", read_write, busy=False),
        Case(f"oltp_read_write on {HOT_ROWS} rows, busy cores", read_write, busy=True),
        Case("oltp_read_write behind oltp_read_only", writes_too, busy=False, behind=read_only),
    )
    sheet = Sheet(
        f"{points.connections} connections of sysbench, {ROWS:,} rows",
        ("load", "answered by", "statements/s", "its CPU us a statement", "part that are hits"),
    )
    result = Result("auto_cache", sheets=[sheet])
    for case in cases:
        with busy_cores() if case.busy else contextlib.nullcontext():
            rates = measured(bench, case)
        sheet.rows += rows(case, rates)
        for name in RATIOS:
            one, _, other = name.partition(" to ")
            other = f"{PASSING}, {one}" if other == PASSING else other
            ratio = rates.ratio(f"{AUTOMATIC}, {one}", other)
            result.figures.append(Figure(f"{case.name}: {name}", ratio, "x"))
        bench.report(f"{case.name}: " + ", ".join(f"{f.name}: {f.value:.2f}" for f in result.figures[-3:]))
    return result


def measured(bench: Bench, case: Case) -> Rates:
    rates, load, server, seconds = Rates(), case.load, bench.server, bench.seconds
    sysbench.run(load, server.host, server.port, 1.0)  # MySQL reads its pages
    for _ in range(ROUNDS):
        with bench.proxy("--auto-cache=off") as (passing, _), bench.proxy("--auto-cache=on") as (automatic, client):
            ways = ((PASSING, passing), (AUTOMATIC, automatic))
            if case.behind is not None:
                for _, proxy in ways:
                    sysbench.run(case.behind, "127.0.0.1", proxy.mysql_port, WARMING)
            for name, proxy in ways:
                rates.note(f"{name}, cold", load, "127.0.0.1", proxy.mysql_port, seconds, proxy.pid)
            sysbench.run(load, "127.0.0.1", automatic.mysql_port, WARMING)
            before = hits(client)
            for name, proxy in ways:
                rates.note(f"{name}, warm", load, "127.0.0.1", proxy.mysql_port, seconds, proxy.pid)
            rates.hits.append(part(before, hits(client)))
        rates.note(DIRECT, load, server.host, server.port, seconds)
    return rates


def hits(client: Client) -> tuple[int, int]:
    """Hits, and statements that MySQL has answered."""
    status = client.status()
    return status.hits, status.counters["mysql_passed"]


def part(before: tuple[int, int], after: tuple[int, int]) -> float:
    hit, passed = (now - then for now, then in zip(after, before, strict=True))
    return hit / max(1, hit + passed)


def rows(case: Case, rates: Rates) -> list[tuple[str, str, float, float | None, float | None]]:
    return [
        (
            case.name,
            name,
            median(found),
            median(rates.cpu[name]) if name in rates.cpu else None,
            median(rates.hits) if name == f"{AUTOMATIC}, warm" else None,
        )
        for name, found in rates.per_second.items()
    ]


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """A process for each core that needs all of it."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()
