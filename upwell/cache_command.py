"""`upwell cache create|drop|ls|explain`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import click

from upwell.client import Client
from upwell.command import cache_names, connection_options, json_option, print_json, print_table
from upwell.printable import lines, one_line
from upwell.v1 import upwell_pb2 as pb

SELECT = re.compile(r"[\s(]*(?:SELECT|WITH)[\s(*`'\"@]", re.IGNORECASE)  # how a query begins, and no name of a cache
SOME = 3  # caches that are named where a line is about several


@click.group()
def cache() -> None:
    """Make, drop, empty, list and explain caches."""


COLUMNS = (
    "name", "query", "mode", "keys", "bytes", "hits", "misses", "passed", "hit_p50_us", "miss_p50_us", "state"
)  # fmt: skip


def as_dict(made: pb.Cache) -> dict[str, object]:
    """A cache under the names of `SHOW CACHES`, with what that has no column for."""
    shown: dict[str, object] = {name: getattr(made, "sql" if name == "query" else name) for name in COLUMNS}
    shown |= {"database": made.database, "why": made.why, "passed_reason": made.passed_reason}
    shown["parameters"] = [
        {"name": parameter.name, "type": parameter.type.name, "list": parameter.list} for parameter in made.parameters
    ]
    return shown


@cache.command()
@click.argument("sql", default="")
@click.option("--from-query", default="", metavar="ID", help="in the place of SQL: an id of SHOW PROXIED QUERIES")
@click.option("--name", default="", help="its name; one is made up without")
@click.option("--database", default="", help="the default database of the query")
@json_option
@connection_options
def create(sql: str, from_query: str, name: str, database: str, as_json: bool, connection: dict[str, Any]) -> None:
    """Make a cache of SQL, a SELECT with ? for its parameters; `-` reads it from standard input."""
    if bool(sql) == bool(from_query):
        raise click.UsageError("a SELECT, or --from-query, is accepted")
    text = sys.stdin.read() if sql == "-" else sql
    with Client(**connection) as client:
        made = client.create_cache(text, name=name, database=database, from_query=from_query)
    if as_json:
        print_json(as_dict(made))
    else:
        click.echo(f"{made.name}: {made.mode}, {made.state}{': ' + made.why if made.why else ''}")


@cache.command()
@click.argument("name", shell_complete=cache_names)
@connection_options
def drop(name: str, connection: dict[str, Any]) -> None:
    """Drop the cache NAME and what it holds."""
    with Client(**connection) as client:
        client.drop_cache(name)


@cache.command()
@click.argument("name", shell_complete=cache_names)
@connection_options
def flush(name: str, connection: dict[str, Any]) -> None:
    """Empty the cache NAME, and keep it."""
    with Client(**connection) as client:
        click.echo(f"{name} held {client.flush_cache(name)} keys")


@cache.command("ls")
@json_option
@connection_options
def list_caches(as_json: bool, connection: dict[str, Any]) -> None:
    """List the caches."""
    with Client(**connection) as client:
        caches = [as_dict(made) for made in client.caches()]
    if as_json:
        print_json(caches)
    else:
        print_table(COLUMNS, [[_one_line(made[name]) for name in COLUMNS] for made in caches])
        for field, what in (("why", ""), ("passed_reason", "most of the passed reads: ")):
            by_reason: dict[object, list[str]] = {}
            for made in caches:
                if made[field]:
                    by_reason.setdefault(_one_line(made[field]), []).append(one_line(str(made["name"])))
            for reason, names in by_reason.items():
                click.echo(f"{_some(names)}: {what}{reason}")


def _some(names: Sequence[str]) -> str:
    """Names of caches; how many more there are than SOME."""
    more = len(names) - SOME
    return ", ".join(names[:SOME]) + (f" and {more} more" if more > 0 else "")


def _one_line(cell: object) -> object:
    return one_line(cell) if isinstance(cell, str) else cell


@cache.command()
@click.argument("name", default="", metavar="NAME|SQL", shell_complete=cache_names)
@click.option("--sql", default="", help="the SELECT, where it does not begin with SELECT or WITH")
@click.option("--database", default="", help="the default database of the SELECT")
@click.option("--dot", is_flag=True, help="the plan as a Graphviz graph")
@json_option
@connection_options
def explain(name: str, sql: str, database: str, dot: bool, as_json: bool, connection: dict[str, Any]) -> None:
    """Show the plan of the cache NAME, or of a SELECT as it would be cached; `-` reads that from standard input."""
    if bool(name) == bool(sql):
        raise click.UsageError("the name of a cache, or a SELECT, is accepted")
    if name == "-":
        name, sql = "", sys.stdin.read()
    elif SELECT.match(name):
        name, sql = "", name
    with Client(**connection) as client:
        plan = client.explain(name, sql=sql, database=database)
    if as_json:
        print_json({"text": plan.text, "graphviz": plan.graphviz})
    else:
        click.echo(lines(plan.graphviz if dot else plan.text))
