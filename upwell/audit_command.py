"""`upwell audit`: compares the held answers with MySQL."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import asdict
from typing import Any

import click

from upwell.client import Client
from upwell.command import cache_names, connection_options, json_option, print_table
from upwell.failed import Failed
from upwell.wire import FILL_BY, Audited

SHOWN = 20  # different keys of a cache


@click.command()
@click.option("--cache", default="", help="this cache alone", shell_complete=cache_names)
@click.option("--repair", is_flag=True, help="forget what differs: it is filled anew when it is read")
@click.option("--by", type=click.Choice(tuple(FILL_BY)), default="size", show_default=True,
              help="size: by Spark where there is much to compare")  # fmt: skip
@json_option
@connection_options
def audit(cache: str, repair: bool, by: str, as_json: bool, connection: dict[str, Any]) -> int:
    """Compare all that is held with MySQL, each key at one position, while everything goes on.

    Exit status 1: something differs.
    """
    done: list[Audited] = []
    with Client(**connection) as client, closing(client.audit(cache, by=by, repair=repair)) as going_on:  # type: ignore[type-var]  # a generator
        last = None
        for last in going_on:
            if as_json:
                click.echo(json.dumps(asdict(last)))
            elif sys.stderr.isatty():
                click.echo(
                    f"\r{last.cache}: {last.compared + last.left:,} of {last.keys:,} keys\033[K", err=True, nl=False
                )
            if last.done:
                done.append(last)
    if not as_json and sys.stderr.isatty() and last is not None:
        click.echo("\r\033[K", err=True, nl=False)
    if last is not None and not last.done:
        raise Failed("the proxy has ended the audit without a word", 3)
    if not as_json:
        show(done)
    return 1 if any(one.different for one in done) else 0


def show(done: list[Audited]) -> None:
    if not done:
        click.echo("there are no caches")
        return
    headings = ("cache", "keys", "compared", "left", "different", "repaired", "rows", "seconds")
    print_table(headings, [(one.cache, one.keys, one.compared, one.left, len(one.different), one.repaired, one.rows,
                            round(one.seconds, 1)) for one in done])  # fmt: skip
    for one in done:
        if one.why:
            click.echo(f"{one.cache}: {one.why}")
        for key in one.different[:SHOWN]:
            click.echo(f"{one.cache} differs at {key}")
        if len(one.different) > SHOWN:
            click.echo(f"{one.cache} differs at {len(one.different) - SHOWN} more (--json names them)")
