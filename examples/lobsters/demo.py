"""The sample from nothing to the first screen: a MySQL, the data, the proxy, the caches, pages; then it keeps serving.

Everything that it started is stopped on Ctrl-C or SIGTERM, in the reverse order, and the exit status is 0. A MySQL that
was given by UPSTREAM is served as it is: nothing is written to it, but with `--load` the sample's tables.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType

import pymysql
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from examples.lobsters import bulk, report, screen
from examples.lobsters.cached import Made, create_caches, wait_until_applied, wait_until_current
from examples.lobsters.chart import Chart
from examples.lobsters.closed_load import CLIENTS, ClosedLoad, Pages
from examples.lobsters.cpu import process_seconds
from examples.lobsters.data import Shape, shape_of
from examples.lobsters.direct import Direct
from examples.lobsters.keyspace import load_keyspace
from examples.lobsters.load import DATABASE, Connection, connect, database_of, is_loaded, load, progress_bar
from examples.lobsters.measure import Effort, draw_keys
from examples.lobsters.proxy_process import ProxyFailed, ProxyProcess
from examples.lobsters.queries import CATALOGUE, Sample
from examples.lobsters.two_ports import Pair, TwoPorts, all_pairs
from integration.servers.debian_java import provide
from integration.servers.debian_mysql import mysql_client
from integration.servers.existing_vitess import ExistingVitess
from integration.servers.mysql_server import CannotStart
from integration.servers.private_mysql import ExistingServer, NoMySQL, Server, find_mysql, in_words
from upwell.client import Client
from upwell.errors import UpwellError

SEED = 20
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, a service manager, a terminal that is closed
LINE_SECONDS = 10.0
LOAD_SECONDS = 24.0  # of pages
QUICK_SECONDS, QUICK_UNTIL = 4.0, 15.0  # at least, and until so long after the start
DEMO_ENDS = ["The demo ends here, and the proxy with it. `make run` goes on serving."]


class Stopped(BaseException):
    """One of ENDINGS has come. Not an Exception: nothing on the way may take it for an error."""


def stop(signum: int, frame: FrameType | None) -> None:
    """Once: what is stopped in consequence must not be interrupted."""
    for ending in ENDINGS:
        signal.signal(ending, signal.SIG_IGN)
    raise Stopped


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.lobsters.run", description="The Lobsters sample.")
    parser.add_argument("--demo", action="store_true", help="end after the first screen")
    parser.add_argument("--table", action="store_true", help="every query, before the first screen")
    parser.add_argument("--quick", action="store_true", help="measure for less long, and end within 20 seconds")
    parser.add_argument(
        "--spark", action="store_true", help="fill every cache with all its keys by Spark, and audit it"
    )
    parser.add_argument("--pictures", type=Path, default=report.FOLDER, metavar="DIR", help="where pictures go: build/")
    parser.add_argument(
        "--readme", action="store_true", help="put what is printed into README.md, and the picture into docs/"
    )
    parser.add_argument(
        "--upstream", default=os.environ.get("UPSTREAM", ""), help="an existing MySQL or Vitess; nothing is loaded"
    )
    parser.add_argument(
        "--load", action="store_true", help="first load the sample into the keyspace that UPSTREAM=vitess://... names"
    )
    parser.add_argument("--scale", default=os.environ.get("SCALE") or "mid", help="tiny, mid, std, users10 or a number")
    parser.add_argument("--trawler-faithful", action="store_true", help="the published benchmark's own data")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    try:
        shape = shape_of(options.scale)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for ending in ENDINGS:
        if ending != signal.SIGHUP or signal.getsignal(ending) != signal.SIG_IGN:  # nohup has it ignored
            signal.signal(ending, stop)
    try:
        with ExitStack() as started:
            equal = Demo(console, started, shape, options).run()
    except Stopped:
        with suppress(OSError):  # the terminal is gone
            console.print("\nstopped" if console.is_terminal else "stopped")  # a terminal shows ^C on this line
    except pymysql.MySQLError as error:
        who = "vtgate" if options.upstream.startswith("vitess:") else "MySQL"
        print(f"{who} says: {in_words(error)}", file=sys.stderr)
        return 3
    except (NoMySQL, CannotStart, ProxyFailed, TimeoutError, UpwellError) as error:
        print(error, file=sys.stderr)
        return 3
    else:
        return 0 if equal else 1
    return 0


class Demo:
    """One run. `started` gets everything that has to be stopped."""

    def __init__(self, console: Console, started: ExitStack, shape: Shape, options: argparse.Namespace) -> None:
        self.console, self.started, self.shape, self.options = console, started, shape, options
        self.compared = self.different = 0
        self.began = time.monotonic()
        self.folder = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="upwell-run-")))

    def say(self, line: str) -> None:
        self.console.print(line, soft_wrap=True, markup=False)

    @contextmanager
    def busy(self, what: str) -> Iterator[Callable[[str], None]]:
        """A spinner with the seconds, on a terminal; elsewhere a line, and every LINE_SECONDS what is told."""
        if not self.console.is_terminal:
            self.say(what)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as progress:
            task, said = progress.add_task(what), time.monotonic()

            def tell(now: str) -> None:
                nonlocal said
                progress.update(task, description=now)
                if not self.console.is_terminal and time.monotonic() - said > LINE_SECONDS:
                    said = time.monotonic()
                    self.say(now)

            yield tell

    def run(self) -> bool:
        """Whether every answer was equal to MySQL's. Does not return without `--demo`."""
        upstream = self.options.upstream
        looking = "looking for a MySQL (the first time its packages are fetched, about a minute)"
        with self.busy("connecting to the MySQL that UPSTREAM names" if upstream else looking):
            server = self.started.enter_context(find_mysql(upstream or None, report=self.say))
        if server.private or self.options.load:
            self._load(server)
        if self.options.spark:
            with self.busy("looking for a Java (the first time its package is fetched)"):
                os.environ.update(provide(self.say))
        with self.busy("starting Upwell"):
            proxy, client = self._serve(server)
        if proxy.moved:
            self.say(proxy.moved)
        serving = self._serving(server, proxy)
        if server.private or is_loaded(server):
            if not server.private:
                self.shape = shape_found(server)
            shown = self._show(server, proxy, client, serving)
            pictures = report.write(shown, serving.source, self._about(server), self.options.pictures)
            measured = [*screen.measured(shown, serving), *pictures]
        else:
            measured = []
        spark = self._fill(client) if self.options.spark else []
        to_copy = screen.addresses(serving)
        if not measured and not client.caches():
            measured = ["Nothing is cached yet, so there is nothing to measure."] if self.options.demo else []
            to_copy += ["", *screen.next_steps(serving)]
        if self.options.readme:  # the screen of `make run`, or what SPARK=on adds to it
            name, lines = ("spark", spark) if spark else ("screen", [*measured, "", *to_copy])
            screen.README.write_text(screen.with_block(screen.README.read_text(), name, lines))
            shutil.copy(self.options.pictures / f"{report.NAME}.png", report.PICTURES)
        # Not by the console: Ctrl-C in the middle of its work would have it print the screen once more.
        parts = [part for part in (spark, measured, DEMO_ENDS if self.options.demo else to_copy) if part]
        print("", "\n\n".join("\n".join(part) for part in parts), sep="\n", flush=True)
        if not self.options.demo:
            code = proxy.wait()
            raise proxy.failure(f"the proxy has ended by itself, with status {code}")
        return not self.different

    def _about(self, server: Server) -> str:
        """What is measured on, in words."""
        version = server.version().split("-")[0]
        rows = sum(dataclasses.astuple(self.shape)[1:])
        cores = f", {os.cpu_count()} cores for all" if server.private else ""
        return f"MySQL {version}{cores}, {rows:,} users, stories, comments and votes."

    def _load(self, server: Server) -> None:
        started = time.monotonic()
        bar = progress_bar()
        faithful = self.options.trawler_faithful
        if not self.console.is_terminal:
            self.say(f"loading the sample's rows (set {self.shape.name})")
        progress = bar if self.console.is_terminal else None
        if server.private:
            rows = load(server, self.shape, faithful=faithful, progress=progress)
        elif isinstance(server, ExistingVitess):
            rows = load_keyspace(server, self.shape, progress=progress)
        else:
            raise CannotStart("--load is for a keyspace of Vitess: a MySQL that is given is not written to")
        self.say(f"loaded set {self.shape.name}: {rows:,} rows in {time.monotonic() - started:.1f} s")

    def _serve(self, server: Server) -> tuple[ProxyProcess, Client]:
        """The caches of somebody's own MySQL survive, as with `upwell serve`."""
        proxy = self.started.enter_context(ProxyProcess(server.url, self.folder, private_state=server.private))
        client = proxy.wait_ready()
        self.started.callback(client.close)
        return proxy, client

    def _serving(self, server: Server, proxy: ProxyProcess) -> screen.Serving:
        return screen.Serving(
            mysql=f"{server.host}:{server.port}",
            mysql_port=proxy.mysql_port,
            grpc=proxy.target,
            http_port=proxy.http_port,
            log=str(proxy.log),
            user=server.user,
            password=bool(server.password),
            database=DATABASE if server.private else server.database or "",
            source="vtgate" if isinstance(server, ExistingVitess) else "MySQL",
            client=mysql_client(self.folder),
        )

    def _show(self, server: Server, proxy: ProxyProcess, client: Client, serving: screen.Serving) -> screen.Shown:
        """What the first screen shows."""
        with self.busy("making the caches"):
            connection = self._connected(server)
            made = create_caches(client, CATALOGUE.values(), database_of(server))
            if isinstance(server, ExistingVitess):
                wait_until_applied(client, server.executed())
            else:
                wait_until_current(client, connection)
        for id, why in made.refused.items():
            self.say(f"not cached: {id} ({CATALOGUE[id].title}): {why}")
        beside = ExistingServer("127.0.0.1", proxy.mysql_port, server.user, server.password)
        pages = self._load_pages(server, beside, proxy, client, made)
        direct, through = Direct(connection), Direct(self._connected(beside, database_of(server)))
        ports = TwoPorts(direct, through, client, made, Effort(keys=12, seconds=0.03, runs=100))
        written = None
        with self.busy("comparing answers of both ports, and auditing what is held"):
            if server.private:
                wait_until_current(client, connection)
                written = ports.write_until_seen()
                wait_until_current(client, connection)
            self._compare(ports, made)
            audited = self._audit(client)
        if self.options.table:
            self.say("\n".join([*screen.table(self._pairs(ports, made), serving.source), ""]))
        return screen.Shown(pages, made.modes, written, self.compared, audited, self.different)

    def _load_pages(self, server: Server, beside: Server, proxy: ProxyProcess, client: Client, made: Made) -> Pages:
        """The closed load at both ports, drawn as it happens."""

        def hits() -> dict[str, int]:
            found = {cache.name: cache.hits for cache in client.caches()}
            return {id: found[name] for id, name in made.names.items()}

        alone, through = (
            [Direct(self._connected(where, database_of(server))) for _ in range(CLIENTS)] for where in (server, beside)
        )
        load = ClosedLoad(alone, through, self.shape, readable(server.pid), proxy.pid, hits, writes=server.private)
        self.say(f"{'reading and writing' if server.private else 'reading'} pages at both ports")
        source = "vtgate" if isinstance(server, ExistingVitess) else "MySQL"
        with Chart(self.console, source).shown() as tell:
            left = max(QUICK_SECONDS, self.began + QUICK_UNTIL - time.monotonic())
            return load.run(left if self.options.quick else LOAD_SECONDS, tell)

    def _audit(self, client: Client) -> int:
        """Compares all that is held with MySQL: how many answers."""
        done = [one for one in client.audit() if one.done]
        for one in done:
            self.different += len(one.different)
            for key in one.different[:1]:
                self.say(f"DIFFERENT {one.cache}: {key}")
        return sum(one.compared - one.left for one in done)

    def _fill(self, client: Client) -> list[str]:
        """Every cache with all its keys, by Spark, and what that took."""
        titles = {template.cache_name: template.title for template in CATALOGUE.values()}
        names = {cache.name: titles.get(cache.name, cache.name) for cache in client.caches() if cache.state == "ready"}
        with self.busy("starting Spark") as tell:
            found, left = bulk.fill_all(client, names, tell)
        self.different += sum(len(one.audited.different) for one in found if one.audited is not None)
        return bulk.lines(found, left)

    def _connected(self, server: Server, database: str = "") -> Connection:
        connection = connect(server, database or database_of(server))
        self.started.callback(connection.close)
        return connection

    def _pairs(self, ports: TwoPorts, made: Made) -> list[Pair]:
        with self.busy("measuring each query at both ports, and comparing the answers") as tell:
            pairs = all_pairs(ports, made, lambda: Sample(self.shape, SEED), tell)
        for pair in pairs:
            self._count(pair.id, pair.keys, pair.differences)
        return pairs

    def _compare(self, ports: TwoPorts, made: Made) -> None:
        """Some answers of each query."""
        for id in made.names:
            keys = draw_keys(CATALOGUE[id], Sample(self.shape, SEED), 2 if self.options.quick else 5)
            expected = {key: ports.direct.read(id, key) for key in keys}
            found = [line for key, rows in expected.items() for line in ports.differences(id, key, rows)]
            self._count(id, len(keys), found)

    def _count(self, id: str, keys: int, differences: list[str]) -> None:
        self.compared += keys
        self.different += len(differences)
        for line in differences[:1]:
            self.say(f"DIFFERENT {id}: {line}")


def readable(pid: int | None) -> int | None:
    """The process, if its CPU can be read: it cannot in another container, or on another machine."""
    with suppress(OSError):
        if pid is not None:
            process_seconds(pid)
            return pid
    return None


def shape_found(server: Server) -> Shape:
    """The sizes of a sample that is already there."""
    counts = [
        server.execute(f"SELECT COUNT(*) FROM `{database_of(server)}`.{table}")[0][0]
        for table in ("users", "stories", "comments", "votes")
    ]
    return Shape("as found", *(max(1, int(count)) for count in counts))
