"""`upwell bench`: how many reads a second a running proxy answers on one cache, as this client sees it.

Several callers in a closed loop on one event loop. Each key is read once before the measurement, so it is held if it
fits. The result says which share was hits. The client's own CPU is usually the limit.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from upwell.aio import Client
from upwell.client import Client as SynchronousClient
from upwell.command import connection_options, json_option, print_json, print_table, read

Key = tuple[object, ...]


@dataclass
class Tally:
    """The callers' counts: seconds of each call, and how each key was served."""

    seconds: list[float] = field(default_factory=list)
    served: Counter[str] = field(default_factory=Counter)


def parse_key(text: str) -> Key:
    """The parameters of one key: JSON (`7`, `"a"`, `[7, "a"]`), or else a string as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return tuple(value) if isinstance(value, list) else (value,)


async def caller(client: Client, cache: str, keys: Sequence[Key], batch: int, until: float, tally: Tally) -> None:
    """Reads in a loop until that time of the loop's clock."""
    clock = time.perf_counter
    handle = client.cache(cache)
    pick = random.Random(len(tally.seconds)).choices
    while clock() < until:
        started = clock()
        answers = await handle.get_many(pick(keys, k=batch)) if batch > 1 else [await handle.get(*pick(keys)[0])]
        tally.seconds.append(clock() - started)
        tally.served.update(answer.served for answer in answers)


async def drive(
    connection: dict[str, Any], cache: str, keys: Sequence[Key], batch: int, callers: int, seconds: float
) -> tuple[Tally, float]:
    """The tally, and the wall seconds of the measured part."""
    tally = Tally()
    async with Client(**connection) as client:
        for start in range(0, len(keys), 1000):
            await client.cache(cache).get_many(keys[start : start + 1000])
        started = time.perf_counter()
        loops = (caller(client, cache, keys, batch, started + seconds, tally) for _ in range(callers))
        await asyncio.gather(*loops)
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


@click.command()
@click.argument("cache")
@click.option("--key", "given", multiple=True, help='a key: 7, "a" or [7, "a"]; may be given several times')
@click.option("--keys-file", type=click.Path(path_type=Path), help="a file with a key on each line")
@click.option("--sample", metavar="SQL", help="a SELECT of keys, run once by the proxy: its rows are the keys")
@click.option("--database", default="", help="the default database of --sample")
@click.option("--seconds", type=click.FloatRange(min=0.1), default=5.0, show_default=True, help="how long")
@click.option("--callers", type=click.IntRange(1, 1000), default=16, show_default=True, help="calls in flight")
@click.option("--batch", type=click.IntRange(1, 10_000), default=1, show_default=True, help="keys in each call")
@json_option
@connection_options
def bench(
    cache: str,
    given: tuple[str, ...],
    keys_file: Path | None,
    sample: str | None,
    database: str,
    seconds: float,
    callers: int,
    batch: int,
    as_json: bool,
    connection: dict[str, Any],
) -> None:
    """Measure how many reads a second a running proxy answers on CACHE."""
    keys = [parse_key(text) for text in given]
    if keys_file is not None:
        keys += [parse_key(line) for line in read(keys_file, "--keys-file").decode().splitlines() if line.strip()]
    if sample is not None:
        with SynchronousClient(**connection) as client:
            keys += [tuple(row) for row in client.query(sample, database=database)]
    if not keys:
        raise click.UsageError("no keys: --key, --keys-file or --sample with at least one row is accepted")
    tally, elapsed = asyncio.run(drive(connection, cache, keys, batch, callers, seconds))
    figures = report(tally, elapsed)
    if as_json:
        print_json(figures)
    else:
        print_table(("figure", "value"), [(name, f"{figure:,.3f}") for name, figure in figures.items()])
