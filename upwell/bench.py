"""`upwell bench`: how many reads a second a running proxy answers, as this client sees it.

Over gRPC: several callers in a closed loop on one event loop, on one cache. Each key is read once before the
measurement, so it is held if it fits. With `--mysql` a SELECT over MySQL's protocol, by processes of their own
(`bulk/bench.py`). The result says which share was hits, and where the client's own CPU was the limit.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import click
from click.core import ParameterSource

from upwell.aio import Client
from upwell.client import Client as SynchronousClient
from upwell.command import cache_names, connection_options, json_option, print_json, print_table, read
from upwell.extras import app_module
from upwell.failed import Failed
from upwell.spread import KEYS, SPREADS, Key, drawing, parse_key, parse_numbers

INTERRUPTED = "interrupted: these figures are of what was measured until then"


@dataclass
class Tally:
    """The callers' counts: seconds of each call, and how each key was served."""

    seconds: list[float] = field(default_factory=list)
    served: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False


async def caller(client: Client, cache: str, draw: Callable[[], Key], batch: int, until: float, tally: Tally) -> None:
    """Reads in a loop until that time of the loop's clock."""
    clock = time.perf_counter
    handle = client.cache(cache)
    while clock() < until:
        started = clock()
        drawn = [draw() for _ in range(batch)]
        answers = await handle.get_many(drawn) if batch > 1 else [await handle.get(*drawn[0])]
        tally.seconds.append(clock() - started)
        tally.served.update(answer.served for answer in answers)


async def drive(
    connection: dict[str, Any], cache: str, keys: Sequence[Key], spread: str, batch: int, callers: int, seconds: float
) -> tuple[Tally, float]:
    """The tally, and the wall seconds of the measured part."""
    tally = Tally()
    async with Client(**connection) as client:
        for start in range(0, len(keys), 1000):
            await client.cache(cache).get_many(keys[start : start + 1000])
        started = time.perf_counter()
        draws = (drawing(keys, spread, Random(number)) for number in range(callers))
        try:
            await asyncio.gather(*(caller(client, cache, draw, batch, started + seconds, tally) for draw in draws))
        except asyncio.CancelledError:  # Ctrl-C
            tally.interrupted = True
        return tally, time.perf_counter() - started


def report(tally: Tally, elapsed: float) -> dict[str, float]:
    """The figures, by name. Milliseconds where the name says so."""
    seconds = sorted(tally.seconds)
    total = tally.served.total()
    return {
        "calls_per_second": len(seconds) / elapsed,
        "keys_per_second": total / elapsed,
        "hit_share": tally.served["hit"] / total if total else 0.0,
        "p50_ms": seconds[len(seconds) // 2] * 1000,
        "p99_ms": seconds[len(seconds) * 99 // 100] * 1000,
        "max_ms": seconds[-1] * 1000,
    }


def keys_option(context: click.Context, option: click.Parameter, text: str | None) -> Sequence[Key]:
    try:
        return () if text is None else parse_numbers(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("asked", metavar="CACHE|SELECT", shell_complete=cache_names)
@click.option("--mysql", "url", metavar="URL", envvar="UPWELL_BENCH_MYSQL", show_envvar=True,
              help="ask over MySQL's protocol: mysql://user:password@host:3307/database, the SELECT with ? for its"
              " parameters")  # fmt: skip
@click.option("--direct", metavar="URL", envvar="UPWELL_BENCH_DIRECT", show_envvar=True,
              help="the MySQL itself, asked in turns with Upwell")  # fmt: skip
@click.option("--keys", "numbers", metavar="FIRST..LAST", callback=keys_option, help="a range of keys")
@click.option("--key", "given", multiple=True, help='a key: 7, "a" or [7, "a"]; may be given several times')
@click.option("--keys-file", type=click.Path(path_type=Path), help="a file with a key on each line")
@click.option("--sample", metavar="SQL", default="", help="a SELECT of keys, run once: its rows are the keys")
@click.option("--spread", type=click.Choice(SPREADS), default="uniform", show_default=True,
              help="zipf: the n-th key is read 1/n times as often as the first")  # fmt: skip
@click.option("--database", default="", help="the default database of --sample, over gRPC")
@click.option("--seconds", type=click.FloatRange(min=0.1), default=5.0, show_default=True, help="how long, each side")
@click.option("--warm-up", type=click.FloatRange(min=0), default=2.0, show_default=True,
              help="seconds before, not measured, with --mysql")  # fmt: skip
@click.option("--connections", "--callers", "callers", type=click.IntRange(1, 1000), default=16, show_default=True,
              help="connections, or calls in flight over gRPC")  # fmt: skip
@click.option("--processes", type=click.IntRange(1, 256), help="that ask, with --mysql [default: half of the cores]")
@click.option("--text", is_flag=True, help="with --mysql: as text, not prepared")
@click.option("--batch", type=click.IntRange(1, 10_000), default=1, show_default=True,
              help="keys in each call, over gRPC")  # fmt: skip
@json_option
@connection_options
def bench(
    asked: str,
    url: str | None,
    numbers: Sequence[Key],
    given: tuple[str, ...],
    keys_file: Path | None,
    sample: str,
    as_json: bool,
    connection: dict[str, Any],
    **options: Any,
) -> None:
    """Measure how many reads a second a running proxy answers: on CACHE over gRPC, or of a SELECT with --mysql.

    upwell bench --mysql mysql://app:pw@127.0.0.1:3307/shop --direct mysql://app:pw@127.0.0.1:3306/shop
    --keys 1..100000 --spread zipf 'SELECT * FROM item WHERE id = ?'
    """
    if url is None and given_as_option("direct"):
        raise click.UsageError("--direct goes with --mysql")
    keys: Sequence[Key] = [parse_key(text) for text in given]
    if keys_file is not None:
        keys = [
            *keys,
            *(parse_key(line) for line in read(keys_file, "--keys-file").decode().splitlines() if line.strip()),
        ]
    keys = [*keys, *numbers] if keys else numbers
    if url is not None:
        return over_mysql(asked, url, keys, sample, as_json, **options)
    if sample:
        with SynchronousClient(**connection) as client:
            keys = [*keys, *(tuple(row) for row in client.query(sample, database=options["database"]))]
    if not keys:
        raise click.UsageError(f"no keys: {KEYS} is accepted")
    names = "spread", "batch", "callers", "seconds"
    tally, elapsed = asyncio.run(drive(connection, asked, keys, **{name: options[name] for name in names}))
    if not tally.seconds:
        raise Failed("interrupted before anything was measured", 130)
    figures = report(tally, elapsed)
    if as_json:
        print_json(figures)
    else:
        print_table(("figure", "value"), [(name, f"{figure:,.3f}") for name, figure in figures.items()])
    if tally.interrupted:
        raise Failed(INTERRUPTED, 130)


def given_as_option(name: str) -> bool:
    """Not by a variable, which may stand there for other calls."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def over_mysql(
    sql: str, url: str, keys: Sequence[Key], sample: str, as_json: bool, *, direct: str | None, spread: str,
    seconds: float, warm_up: float, callers: int, processes: int | None, text: bool, **_: Any,
) -> None:  # fmt: skip
    load = app_module("bench --mysql", "bulk.bench")
    words = app_module("bench --mysql", "bulk.bench_report")
    asked = load.Asked(
        sql=sql,
        through=load.upstream(url, "--mysql"),
        direct=None if direct is None else load.upstream(direct, "--direct"),
        keys=keys,
        spread=spread,
        connections=callers,
        processes=processes or max(1, (os.cpu_count() or 1) // 2),
        seconds=seconds,
        warm_up=warm_up,
        prepared=not text,
    )
    with progress() as tell:
        measured, count = load.run(asked, sample, tell)
    (words.show_json if as_json else words.show)(asked, measured, count)
    if measured.interrupted:
        raise Failed(INTERRUPTED, 130)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Shows what is done on one line of a terminal's stderr, which is empty again at the end."""
    shown = sys.stderr.isatty()

    def tell(line: str) -> None:
        if shown:
            click.echo(f"\r\033[K{line}", nl=False, err=True)

    try:
        yield tell
    finally:
        tell("")
