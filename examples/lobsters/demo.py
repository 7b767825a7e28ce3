"""The sample from nothing to a table: a MySQL, the data, the proxy, the caches, some traffic; then it keeps serving.

Everything that it started is stopped on Ctrl-C or SIGTERM, in the reverse order, and the exit status is 0. A MySQL that
was given by UPSTREAM is served as it is: nothing is written to it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

import pymysql
from rich.console import Console

from examples.lobsters.cached import Cached, Made, create_caches, wait_until_current
from examples.lobsters.data import Shape, shape_of
from examples.lobsters.direct import Direct
from examples.lobsters.load import DATABASE, connect, load, progress_bar
from examples.lobsters.measure import Effort, Figures, Measurement, draw_keys
from examples.lobsters.pages import PageStream, run_page
from examples.lobsters.proxy_process import ProxyFailed, ProxyProcess
from examples.lobsters.queries import CATALOGUE, Sample, of_variant
from examples.lobsters.table import print_table
from integration.private_mysql import NoMySQL, Server, find_mysql
from upwell.client import Client
from upwell.errors import UpwellError

TRAFFIC_PAGES = 150  # of each variant
SEED = 20


class Stopped(BaseException):
    """Ctrl-C or SIGTERM. Not an Exception: nothing on the way may take it for an error."""


def stop(signum: int, frame: FrameType | None) -> None:
    """Once: what is stopped in consequence must not be interrupted."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.lobsters.run", description="The Lobsters sample.")
    parser.add_argument("--demo", action="store_true", help="end after the table")
    parser.add_argument(
        "--upstream", default=os.environ.get("UPSTREAM", ""), help="an existing MySQL; nothing is loaded"
    )
    parser.add_argument("--scale", default=os.environ.get("SCALE") or "mid", help="tiny, mid, std, users10 or a number")
    parser.add_argument("--trawler-faithful", action="store_true", help="the published benchmark's own data")
    options = parser.parse_args(arguments)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    try:
        shape = shape_of(options.scale)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        with ExitStack() as started:
            equal = Demo(console, started, shape, options.trawler_faithful).run(options.upstream, options.demo)
    except Stopped:
        console.print("stopped")
    except (NoMySQL, ProxyFailed, TimeoutError, UpwellError, pymysql.Error) as error:
        print(error, file=sys.stderr)
        return 3
    else:
        return 0 if equal else 1
    return 0


class Demo:
    """One run. `started` gets everything that has to be stopped."""

    def __init__(self, console: Console, started: ExitStack, shape: Shape, faithful: bool) -> None:
        self.console, self.started, self.shape, self.faithful = console, started, shape, faithful
        self.differences = 0
        self.folder = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="upwell-run-")))

    def say(self, line: str) -> None:
        self.console.print(line, soft_wrap=True, markup=False)

    def run(self, upstream: str, demo: bool) -> bool:
        """Whether every answer was equal to MySQL's. Returns only if `demo`."""
        server = self.started.enter_context(find_mysql(upstream or None, report=self.say))
        ours = server.private
        if ours:
            self._load(server)
        proxy, client = self._serve(server)
        if ours:
            self._show(server, proxy, client, traffic=True)
        elif has_database(server, DATABASE):
            self.shape = shape_found(server)
            self._show(server, proxy, client, traffic=False)
        self._tell(server, proxy)
        if not demo:
            code = proxy.wait()
            raise proxy.failure(f"the proxy has ended by itself, with status {code}")
        return not self.differences

    def _load(self, server: Server) -> None:
        started = time.monotonic()
        bar = progress_bar()
        rows = load(server, self.shape, faithful=self.faithful, progress=bar if self.console.is_terminal else None)
        self.say(f"loaded set {self.shape.name}: {rows:,} rows in {time.monotonic() - started:.1f} s")

    def _serve(self, server: Server) -> tuple[ProxyProcess, Client]:
        """The caches of somebody's own MySQL survive, as with `upwell serve`."""
        proxy = self.started.enter_context(ProxyProcess(server.url, self.folder, private_state=server.private))
        client = proxy.wait_ready()
        self.started.callback(client.close)
        return proxy, client

    def _show(self, server: Server, proxy: ProxyProcess, client: Client, traffic: bool) -> None:
        made = create_caches(client, CATALOGUE.values(), DATABASE)
        connection = connect(server, DATABASE)
        self.started.callback(connection.close)
        direct, cached = Direct(connection), Cached(client, DATABASE, made)
        wait_until_current(client, connection)
        measurement = Measurement(direct, cached, proxy.pid, Effort(keys=12, seconds=0.12))
        figures = [self._measure(measurement, id) for id in made.modes]
        print_table(self.console, figures, made.modes)
        self._name_refused(made)
        self._name_differences(figures, "")
        if traffic:
            self._send_pages(client, direct, cached)
            self._name_differences(self._compare_again(measurement, made), " after the writes")

    def _measure(self, measurement: Measurement, id: str) -> Figures:
        with self.console.status(f"measuring {id}"):
            return measurement.template(id, Sample(self.shape, SEED))

    def _name_refused(self, made: Made) -> None:
        for variant in "DN":
            templates = of_variant(variant)
            held = sum(template.id in made.modes for template in templates)
            share = held / len(templates)
            self.say(f"variant {variant}: {held} of {len(templates)} query templates cached ({share:.0%})")
        for id, why in made.refused.items():
            self.say(f"not cached: {id} ({CATALOGUE[id].title}): {why}")

    def _name_differences(self, figures: list[Figures], when: str) -> None:
        different = [row for row in figures if row.differences]
        keys = sum(row.keys for row in figures)
        self.say(f"{keys:,} answers compared with MySQL's{when}: {len(different)} templates differ")
        self.differences += len(different)
        for row in different:
            self.say(f"DIFFERENT {row.id}: {row.differences[0]}")

    def _send_pages(self, client: Client, direct: Direct, cached: Cached) -> None:
        """Pages of both variants, with their writes; then waits until the proxy has seen these."""
        cached.served.clear()
        reads = writes = 0
        start = time.monotonic()
        for variant in "DN":
            for (_, page), _ in zip(PageStream(self.shape, variant, SEED), range(TRAFFIC_PAGES), strict=False):
                sent, written = run_page(page, cached.read, direct.write)
                reads, writes = reads + sent, writes + written
        seconds = time.monotonic() - start
        hits = sum(count for (_, served), count in cached.served.items() if served == "hit")
        self.say(
            f"traffic: {2 * TRAFFIC_PAGES} pages, {reads:,} reads of which {hits / max(1, reads):.0%} hits, "
            f"{writes} writes, {seconds:.1f} s"
        )
        wait_until_current(client, direct.connection)

    def _compare_again(self, measurement: Measurement, made: Made) -> list[Figures]:
        results = []
        for id in made.modes:
            keys = draw_keys(CATALOGUE[id], Sample(self.shape, SEED), 5)
            figures = Figures(id, len(keys))
            measurement.compare(figures, {key: measurement.direct.read(id, key) for key in keys})
            results.append(figures)
        return results

    def _tell(self, server: Server, proxy: ProxyProcess) -> None:
        self.say("serving:" if not proxy.moved else f"serving ({proxy.moved}):")
        self.say(f"  MySQL  {server.host}:{server.port}")
        self.say(f"  gRPC   {proxy.target}")
        self.say(f"  HTTP   http://127.0.0.1:{proxy.http_port}/")
        self.say(f"  MySQL  127.0.0.1:{proxy.mysql_port}, for any client: your account, this port")
        self.say(f"  to look: .venv/bin/upwell cache ls --grpc {proxy.target}")


def has_database(server: Server, name: str) -> bool:
    rows = server.execute(f"SELECT 1 FROM information_schema.schemata WHERE schema_name = '{name}'")
    return bool(rows)


def shape_found(server: Server) -> Shape:
    """The sizes of a sample that is already there."""
    counts = [
        server.execute(f"SELECT COUNT(*) FROM `{DATABASE}`.{table}")[0][0]
        for table in ("users", "stories", "comments", "votes")
    ]
    return Shape("as found", *(max(1, int(count)) for count in counts))
