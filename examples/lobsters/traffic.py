"""The sample against a MySQL and an Upwell that run already: loads it once, creates its caches, reads pages for ever.

`UPSTREAM` and `UPWELL_GRPC` name the two, `SCALE` the size of the set. compose.yaml runs this; a line a minute says how
much of what the pages read was held. Where Upwell or MySQL is away, as in a restart, it waits and goes on with the
next page. Ctrl-C or SIGTERM ends it with exit status 0.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from types import FrameType

import pymysql

from examples.lobsters.cached import Cached, create_caches
from examples.lobsters.data import Shape, shape_of
from examples.lobsters.direct import Direct
from examples.lobsters.load import DATABASE, connect, is_loaded, load
from examples.lobsters.pages import PageStream, run_page
from examples.lobsters.queries import CATALOGUE
from integration.servers.private_mysql import NoMySQL, Server, find_mysql, in_words
from upwell.client import Client
from upwell.errors import DeadlinePassed, Unavailable, UnknownCache, UpwellError

REPORT_SECONDS = 60.0
AWAY_SECONDS = 1.0  # between tries
GONE = frozenset({1053, 2002, 2003, 2006, 2013, 4031})  # MySQL's errors of a server that is away or shuts down
SEED = 7


class Stopped(BaseException):
    """Ctrl-C or SIGTERM. Not an Exception: nothing on the way may take it for an error."""


def stop(signum: int, frame: FrameType | None) -> None:
    raise Stopped


Streams = tuple[PageStream, PageStream]


def streams_of(shape: Shape) -> Streams:
    """The pages of each variant."""
    return PageStream(shape, "D", SEED), PageStream(shape, "N", SEED)


def visit(client: Client, server: Server, streams: Streams, rounds: int | None = None) -> None:
    """Reads and writes a page of each variant in turn: `rounds` times, or until stopped."""
    made = create_caches(client, CATALOGUE.values(), DATABASE)
    print(f"{len(made.modes)} caches; not cached: {', '.join(made.refused) or 'none'}", flush=True)
    with connect(server, DATABASE) as connection:
        direct, cached = Direct(connection), Cached(client, DATABASE, made)
        reported = time.monotonic()
        for done in count(1):
            for stream in streams:
                _, page = next(stream)
                run_page(page, cached.read, direct.write)
            if time.monotonic() - reported > REPORT_SECONDS or done == rounds:
                print(share_of_hits(cached, done * len(streams)), flush=True)
                reported = time.monotonic()
            if done == rounds:
                return


def is_away(error: Exception) -> bool:
    """Whether to try again will do: MySQL or Upwell is away, or has come back without the caches."""
    if isinstance(error, pymysql.Error):
        return bool(error.args) and error.args[0] in GONE
    return isinstance(error, (Unavailable, DeadlinePassed, UnknownCache)) or getattr(error, "errno", 0) in GONE


def through_restarts(visits: Callable[[], None], pause: Callable[[float], object]) -> None:
    """Begins again after each end by something that is away. Other errors are raised."""
    told = ""
    while True:
        try:
            return visits()
        except (UpwellError, pymysql.Error) as error:
            if not is_away(error):
                raise
            why = in_words(error) if isinstance(error, pymysql.MySQLError) else str(error)
            if why != told:
                told = why
                print(f"waiting: {told}", flush=True)
        pause(AWAY_SECONDS)


def share_of_hits(cached: Cached, pages: int) -> str:
    total = sum(cached.served.values())
    hits = sum(times for (_, served), times in cached.served.items() if served == "hit")
    return f"{pages:,} pages, {total:,} reads, {hits / max(1, total):.1%} of them hits"


def main() -> int:
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        shape = shape_of(os.environ.get("SCALE") or "mid")
        server = find_mysql(os.environ.get("UPSTREAM") or "mysql://root@127.0.0.1:3306")
        if not is_loaded(server):
            rows = load(server, shape, binlog=True)  # the proxy follows already
            print(f"loaded set {shape.name}: {rows:,} rows", flush=True)
        streams = streams_of(shape)
        with Client(os.environ.get("UPWELL_GRPC") or "127.0.0.1:50051") as client:
            through_restarts(lambda: visit(client, server, streams), threading.Event().wait)
    except Stopped:
        return 0
    except pymysql.MySQLError as error:
        who = "vtgate" if os.environ.get("UPSTREAM", "").startswith("vitess:") else "MySQL"
        print(f"{who} says: {in_words(error)}", file=sys.stderr)
        return 3
    except (NoMySQL, UpwellError, ValueError) as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
