"""`upwell top`: the command. Without a terminal it prints a line a second; the screen is `upwell/top/screen.py`."""

from __future__ import annotations

import json
import os
import queue
import sys
from pathlib import Path
from typing import Any

import click

from upwell.command import port_of, print_json, read
from upwell.extras import app_module
from upwell.failed import Failed
from upwell.top.feed import DEFAULT_HTTP, Away, Follower, Place, Refused, look
from upwell.top.state import State
from upwell.top.words import PLAIN, plain_line, read_line

EVERY = 20  # lines from one heading to the next


def place_option(context: click.Context, option: click.Parameter, text: str) -> tuple[str, int]:
    """Of HOST:PORT, or of the page's address as a browser has it."""
    place = text.removeprefix("http://").removesuffix("/")
    host, port = place.rpartition(":")[0].strip("[]"), port_of(place)
    if port is None or not is_host(host):
        raise click.BadParameter(f"{text!r}: HOST:PORT is accepted")
    return host, port


def is_host(text: str) -> bool:
    """Whether somebody can be asked for the address of such a name."""
    try:
        return bool(text.encode("idna")) and text.isprintable() and not set(text) & set(" /@")
    except UnicodeError:
        return False


def cache_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of caches that begin so; none where the proxy cannot be asked."""
    try:
        caches = look(Place(*context.params["http"]))["caches"]
    except (KeyError, TypeError, Away, Refused):
        return []
    return [name for name in caches if name.startswith(incomplete)]


@click.command()
@click.option("--http", metavar="HOST:PORT", default=DEFAULT_HTTP, envvar="UPWELL_HTTP", callback=place_option,
              show_default=True, show_envvar=True, help="the proxy's HTTP listener")  # fmt: skip
@click.option("--token-file", type=click.Path(path_type=Path), envvar="UPWELL_TOKEN_FILE", show_envvar=True,
              help="a file with the bearer token: beyond loopback texts are shown with it")  # fmt: skip
@click.option("--monitor", is_flag=True, help="print each miss and each passed read with its reason, as they happen")
@click.option("--cache", default="", shell_complete=cache_names, help="with --monitor: of this cache alone")
@click.option("--outcome", type=click.Choice(("miss", "passed")), help="with --monitor: these alone")
@click.option("--json", "as_json", is_flag=True, help="one look as JSON; with --monitor a line of JSON for each read")
def top(
    http: tuple[str, int], token_file: Path | None, monitor: bool, cache: str, outcome: str | None, as_json: bool
) -> None:
    """Show a running proxy as it goes on: reads, caches, queries that pass, and why.

    Keys: 1, 2, 3 choose caches, passing queries, and the last misses and passes. s sorts by the next column, r the
    other way round, Enter shows a cache, h the last hour, p pauses, q ends.
    """
    if not monitor and (cache or outcome):
        raise click.UsageError("--cache and --outcome go with --monitor")
    token = None if token_file is None else read(token_file, "--token-file").decode("latin-1").strip()
    if token is not None and not (token.isascii() and token.isprintable()):
        raise click.BadParameter("the token cannot stand in a header: printable ASCII is accepted")
    place = Place(*http, token)
    try:
        if monitor:
            follow_reads(place, cache, outcome or "", as_json=as_json)
        elif as_json:
            print_json(look(place))
        elif sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            look(place)  # what is wrong is told in a line, and not on a screen
            app_module("top", "upwell.top.screen").Top(place).show()
        else:
            follow_lines(place)
    except Away as error:
        raise Failed(str(error), 3) from None
    except Refused as error:
        raise Failed(str(error), 2) from None


class Events:
    """The events of a stream, in the thread that asks for them."""

    def __init__(self, place: Place, path: str) -> None:
        self._told: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._follower = Follower(place, path, lambda kind, data: self._told.put((kind, data)))
        self._begun = self._lost = False

    def __enter__(self) -> Events:
        self._follower.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._follower.close()

    def next(self) -> tuple[str, Any]:
        """Says on stderr where the proxy goes and comes back. Raises Away where it was never there, Refused."""
        while True:
            kind, data = self._told.get()
            if kind == "refused":
                raise Refused(data)
            if kind == "lost":
                if not self._begun:
                    raise Away(data)
                self._lost = True
                click.echo(f"{data}; it is tried again", err=True)
            elif kind == "begun":
                if self._lost:
                    click.echo("connected again", err=True)
                self._begun, self._lost = True, False
            else:
                return kind, data


def follow_lines(place: Place) -> None:
    """A line for each look."""
    state, lines = State(), 0
    with Events(place, "/v1/live") as events:
        while True:
            kind, data = events.next()
            state.take(kind, data)
            if kind in ("overview", "patch"):
                if lines % EVERY == 0:
                    click.echo(" ".join(title.rjust(9) for title in PLAIN))
                lines += 1
                click.echo(plain_line(state))
                sys.stdout.flush()


def follow_reads(place: Place, cache: str, outcome: str, *, as_json: bool) -> None:
    """A line for each read that was no hit."""
    from urllib.parse import urlencode

    wanted = {name: value for name, value in (("cache", cache), ("outcome", outcome)) if value}
    path = f"/v1/reads?{urlencode(wanted)}" if wanted else "/v1/reads"
    with Events(place, path) as events:
        while True:
            _, data = events.next()
            if data["lost"]:
                click.echo(f"{data['lost']:,} more came at once", err=True)
            for one in data["reads"]:
                click.echo(json.dumps(one, ensure_ascii=False) if as_json else read_line(one))
            sys.stdout.flush()
