"""`upwell rank`: says what to warm, to cache and to drop, by the access logs. The launcher loads this module
by name."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from bulk.rank_files import as_json, file_of_keys, write
from bulk.rank_words import cut, headline, key_shown, number
from bulk.ranking import Asked, Ranking, Sums, ranked
from bulk.session import DEFAULT_MASTER, SparkSettings, open_session, why_unavailable
from upwell.command import json_option, print_json
from upwell.extras import how_to_install
from upwell.failed import Failed

if TYPE_CHECKING:
    from bulk.log_files import LogFiles

WIDTH = 80
SPARK_ROWS = 50_000_000  # from which on Spark is quicker than one process, its start included
SHOWN = 10
STATEMENTS = 5  # that are printed whole


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--by", type=click.Choice(("size", "direct", "spark")), default="size", show_default=True,
              help="size: by Spark where there is much to read")  # fmt: skip
@click.option("--spark-master", default=DEFAULT_MASTER, envvar="UPWELL_SPARK_MASTER", show_default=True,
              show_envvar=True, metavar="URL", help="of Spark; it must see the folders")  # fmt: skip
@click.option("--hours", type=click.FloatRange(0, min_open=True), help="the last so many hours alone")
@click.option("--half-life", type=click.FloatRange(0, min_open=True), default=24.0, show_default=True, metavar="HOURS",
              help="after which a read of a key counts half")  # fmt: skip
@click.option("--top", type=click.IntRange(1), default=10_000, show_default=True, help="keys of each cache")
@click.option("--cache", "only", default="", help="this cache alone")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR",
              help="write keys for `upwell fill --keys`, the queries, and a chart there")  # fmt: skip
@json_option
def rank(
    folders: Sequence[Path], by: str, spark_master: str, hours: float | None, half_life: float, top: int, only: str,
    out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Rank what was read, by the access logs in DIR...

    Which keys to warm, which queries to cache, which caches to drop. Logs of several proxies are ranked together; hours
    are counted back from the newest read.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise Failed(f"access logs are Parquet files, which need pyarrow: {how_to_install('rank')}", 2)
    logs = found_in(folders)
    sums, told = summed(logs, Asked(hours, half_life, top), by, spark_master)
    for path, why in logs.skipped:
        click.echo(f"skipped {path}: {why}", err=True)
    if not logs.files:
        raise Failed("none of the access logs can be read", 2)
    ranking = ranked(sums if not only else of_cache(sums, only))
    paths = written(ranking, out) if out is not None else []
    if as_json:
        print_json(as_json_of(ranking, told))
    else:
        show(ranking, told)
        show_files(ranking, paths)


def found_in(folders: Sequence[Path]) -> LogFiles:
    from bulk.log_files import find

    for folder in folders:
        if not folder.is_dir():
            raise click.BadParameter(f"{str(folder)!r} is no folder", param_hint="DIR")
    try:
        logs = find(folders)
    except OSError as error:
        raise Failed(f"the access logs cannot be read: {error}", 2) from None
    if not logs.files and not logs.skipped:
        names = ", ".join(repr(str(folder)) for folder in folders)
        raise Failed(f"no access logs are in {names}: `upwell serve --access-log DIR` writes them", 2)
    return logs


def summed(logs: LogFiles, asked: Asked, by: str, master: str) -> tuple[Sums, str]:
    """(the sums, by what). Raises Failed."""
    why = ""
    elsewhere = not SparkSettings(master).is_local
    if by == "spark" or (by == "size" and (logs.rows >= SPARK_ROWS or elsewhere)):
        try:
            return by_spark(logs, asked, master)
        except NoSpark as error:
            if by == "spark":
                raise Failed(str(error), 2) from None
            why = f" (not by Spark: {error})"
    from bulk.rank_direct import sums_of

    return sums_of(logs, asked), f"directly{why}"


class NoSpark(Exception):
    """A sentence."""


def by_spark(logs: LogFiles, asked: Asked, master: str) -> tuple[Sums, str]:
    """Raises NoSpark."""
    from bulk.rank_spark import sums_of

    with tempfile.TemporaryDirectory(prefix="upwell-spark-", ignore_cleanup_errors=True) as folder:
        settings = SparkSettings(master, folder)
        if why := why_unavailable(settings):
            raise NoSpark(why)
        said = Path(folder, "spark.log")
        try:
            with stderr_in(said):
                session = open_session(settings)
                try:
                    return sums_of(session, logs, asked), f"by Spark {session.version} at {settings.address}"
                finally:
                    session.stop()
        except Exception as error:  # noqa: BLE001 - Spark raises errors of any kind
            lines = str(error).strip().splitlines() or [repr(error)]
            raise NoSpark(f"Spark at {settings.address}: {lines[0][:400]}") from None


@contextmanager
def stderr_in(path: Path) -> Iterator[None]:
    """What this process and Java below it say there is in a file meanwhile."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def of_cache(sums: Sums, name: str) -> Sums:
    names = sorted({part.cache for part in sums.parts if part.cache is not None})
    if name not in names:
        known = f"there are {', '.join(names[:20])}" if names else "they have none"
        raise click.BadParameter(f"no cache {name!r} is in these logs: {known}", param_hint="--cache")
    return Sums(
        [part for part in sums.parts if part.cache == name or part.cache is None],
        [key for key in sums.keys if key.cache == name],
    )


def written(ranking: Ranking, out: Path) -> list[Path]:
    draw: Callable[[Ranking], dict[str, bytes]] | None = None
    if importlib.util.find_spec("matplotlib") is None:
        click.echo(f"there is no chart without matplotlib: {how_to_install('rank')}", err=True)
    else:
        from bulk.rank_chart import draw
    try:
        return write(ranking, out, draw)
    except OSError as error:
        raise click.BadParameter(f"{str(out)!r} cannot be written: {error.strerror}", param_hint="--out") from None


def as_json_of(ranking: Ranking, told: str) -> dict[str, object]:
    return {"by": told, **as_json(ranking)}


# -- for people --------------------------------------------------------------------------------------------------------


def show(ranking: Ranking, told: str) -> None:
    click.echo(f"{headline(ranking)}, {told}")
    if not ranking.rows and not ranking.caches:
        return
    warm = [
        (cut(cache.name, 22), number(cache.reads), f"{100 * cache.share:.0f}", f"{len(cache.keys):,}",
         cut(", ".join(key_shown(hot.key) for hot in cache.keys[:8]), 29))
        for cache in ranking.caches[:SHOWN] if cache.keys
    ]  # fmt: skip
    print_narrow("What to warm", ("cache", "reads", "hit %", "keys", "hottest"), warm, "lrrrl")
    to_cache = [
        (number(one.saved), number(one.reads), number(one.ms), cut(one.database, 12), cut(one.query, 38))
        for one in ranking.to_cache[:SHOWN]
    ]
    print_narrow("What to cache", ("saves s", "reads", "ms each", "database", "query"), to_cache, "rrrll")
    database = ""
    for query in ranking.to_cache[:STATEMENTS]:
        if query.statement:
            if query.database not in ("", database):
                database = query.database
                click.echo(f"USE `{database.replace('`', '``')}`;")
            click.echo(f"{query.statement};")
    if refused := [one for one in ranking.queries if one.why]:
        click.echo(f"{len(refused):,} more cannot be cached, such as {cut(refused[0].query, 30)}: {refused[0].why}")
    to_drop = [
        (cut(one.name, 28), number(one.reads), f"{100 * one.share:.0f}", f"{one.hours:,.1f}", one.why)
        for one in ranking.to_drop[:SHOWN]
    ]
    print_narrow("What to drop", ("cache", "reads", "hit %", "hours seen", "why"), to_drop, "lrrrl")


def print_narrow(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> None:
    """`sides`: l or r of each column."""
    click.echo(f"\n{title}{'' if rows else ': nothing'}")
    if rows:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading, side in zip(headings, sides, strict=True):
            table.add_column(heading, justify="right" if side == "r" else "left", no_wrap=True, overflow="ellipsis")
        for row in rows:
            table.add_row(*row)
        Console(width=WIDTH, highlight=False, markup=False).print(table)


def show_files(ranking: Ranking, paths: Sequence[Path]) -> None:
    if not paths:
        return
    click.echo(f"\nwrote {len(paths)} files to {paths[0].parent}")
    hottest = next((cache for cache in ranking.caches if cache.keys), None)
    if hottest is not None:
        click.echo(f"upwell fill {hottest.name} --keys {paths[0].parent / file_of_keys(hottest.name)}")
