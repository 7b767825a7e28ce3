"""`upwell fill`: fills many keys of a cache at once, with a progress bar."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from upwell.client import Client
from upwell.command import cache_names, connection_options, json_option
from upwell.failed import Failed
from upwell.key_text import value_of
from upwell.wire import FILL_BY, Progress

ACCEPTED = 'a line of JSON for each key (7, "x" or [7, "x"]), or a .csv file with a parameter in each column'


@click.command()
@click.argument("cache", shell_complete=cache_names)
@click.option("--all", "everything", is_flag=True, help="all keys that have rows")
@click.option("--keys", type=click.Path(path_type=Path), help=f"those of a file: {ACCEPTED}; - is standard input")
@click.option("--hot", type=click.IntRange(1), help="so many of the keys that were held before the proxy's start")
@click.option("--by", type=click.Choice(tuple(FILL_BY)), default="size", show_default=True,
              help="size: by Spark where there is much to fill")  # fmt: skip
@json_option
@connection_options
def fill(
    cache: str, everything: bool, keys: Path | None, hot: int | None, by: str, as_json: bool, connection: dict[str, Any]
) -> int:
    """Fill the cache CACHE before anybody asks for it. Ctrl-C ends it; what is filled by then stays.

    Exit status 1: some keys could not be held, they are filled when they are read.
    """
    if everything + (keys is not None) + (hot is not None) != 1:
        raise click.UsageError("one of --all, --keys FILE and --hot N is accepted")
    asked = None if keys is None else list(read_keys(keys))
    if asked == []:
        raise click.BadParameter(f"{str(keys)!r} has no keys", param_hint="--keys")
    with Client(**connection) as client, closing(client.cache(cache).fill(asked, hot=hot or 0, by=by)) as going_on:  # type: ignore[type-var]  # a generator
        last = None
        for last in going_on if as_json or not sys.stderr.isatty() else shown(cache, going_on):
            if as_json:
                click.echo(json.dumps(asdict(last)))
    if last is None or not last.done:
        raise Failed("the proxy has ended the fill without a word", 3)
    if not as_json:
        click.echo(summary(cache, last))
    return 1 if last.left else 0


def summary(cache: str, last: Progress) -> str:
    by = {"spark": " by Spark", "direct": ""}.get(last.by, "")
    rate = f", {last.rows / last.seconds:,.0f} rows/s" if last.rows and last.seconds else ""
    left = f"; {last.left:,} could not be held ({last.why})" if last.left else f" ({last.why})" if last.why else ""
    return (
        f"{cache}: {last.held:,} of {last.keys:,} keys held, {last.rows:,} rows in {last.seconds:.1f} s{by}{rate}{left}"
    )


def shown(cache: str, going_on: Iterable[Progress]) -> Iterator[Progress]:
    """The same, with a bar on the terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("keys, {task.fields[rows]:,} rows, {task.fields[rate]:,.0f} a second"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(cache, total=None, rows=0, rate=0.0)
        for progress in going_on:
            stage = "" if progress.stage in ("filling", "done") else f": {progress.stage}"
            bar.update(
                task,
                description=f"{cache}{stage}",
                total=progress.keys or None,
                completed=progress.held + progress.left,
                rows=progress.rows,
                rate=progress.rows / progress.seconds if progress.seconds else 0.0,
            )
            yield progress


def read_keys(path: Path) -> Iterator[object]:
    """The keys of a file. Raises BadParameter with the line that is none."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise click.BadParameter(f"{str(path)!r} cannot be read: {why}", param_hint="--keys") from None
    if path.suffix == ".csv":
        yield from (row for row in csv.reader(io.StringIO(text, newline="")) if row)
        return
    for number, line in enumerate(text.split("\n"), 1):  # other ends of lines may stand in a key
        if not line.strip():
            continue
        try:
            key = value_of(json.loads(line))
        except ValueError:
            key = None
        if key is None:
            raise click.BadParameter(
                f"line {number} of {str(path)!r} is {line.strip()[:60]!r}: {ACCEPTED}", param_hint="--keys"
            )
        yield key
