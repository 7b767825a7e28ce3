"""What every benchmark stands on: a MySQL, the sample in it, and a proxy of its own for each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from examples.lobsters.cached import Cached, Made, create_caches, wait_until_current
from examples.lobsters.data import SETS, Shape
from examples.lobsters.direct import Direct
from examples.lobsters.load import DATABASE, Connection, connect, load
from examples.lobsters.proxy_process import ProxyProcess
from examples.lobsters.queries import Template
from integration.servers.mysql_server import Server
from upwell.client import Client

SCRATCH = "upwell_bench"  # the database for tables that are not the sample's


@dataclass
class Bench:
    """`seconds`: about how long each single measurement may take. `pages`: how many pages warm a cache."""

    server: Server
    folder: Path
    shape: Shape = SETS["mid"]
    seconds: float = 1.0
    pages: int = 100_000
    report: Callable[[str], None] = print
    _loaded: bool = False

    @property
    def url(self) -> str:
        """What the proxies stand before."""
        return self.server.url

    @property
    def scratch_database(self) -> str:
        """That of `scratch`, as the proxies know it."""
        return SCRATCH

    def sample(self, fresh: bool = False) -> None:
        """Sees to it that the sample is loaded; `fresh`: as generated, without what earlier benchmarks wrote."""
        if fresh or not self._loaded:
            self.report(f"loading set {self.shape.name}")
            load(self.server, self.shape)
            self._loaded = True

    def connect(self, database: str | None = DATABASE) -> Connection:
        return connect(self.server, database)

    def scratch(self, *statements: str) -> Connection:
        """A connection to an empty database, after these statements. They are not in the binlog."""
        connection = self.connect(None)
        with connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
            cursor.execute(f"DROP DATABASE IF EXISTS {SCRATCH}")
            cursor.execute(f"CREATE DATABASE {SCRATCH} CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci")
            cursor.execute(f"USE {SCRATCH}")
            for statement in statements:
                cursor.execute(statement)
            cursor.execute("SET sql_log_bin = 1")
        return connection

    @contextmanager
    def proxy(self, *options: str) -> Iterator[tuple[ProxyProcess, Client]]:
        """A proxy with an empty state, on free ports."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            process = ProxyProcess(self.url, Path(folder), options=options, grpc_port=0, http_port=0, mysql_port=0)
            with process, process.wait_ready() as client:
                yield process, client

    @contextmanager
    def cached_sample(self, templates: Sequence[Template]) -> Iterator[CachedSample]:
        """The sample, a proxy, and caches of the templates."""
        self.sample()
        with self.proxy() as (process, client):
            made = create_caches(client, templates, DATABASE)
            for id, why in made.refused.items():
                self.report(f"not cached: {id}: {why}")
            connection = self.connect()
            with connection:
                wait_until_current(client, connection)
                yield CachedSample(process, client, made, Cached(client, DATABASE, made), Direct(connection))


@dataclass
class CachedSample:
    """The sample on both sides."""

    proxy: ProxyProcess
    client: Client
    made: Made
    cached: Cached
    direct: Direct


def median_ratio(values: Sequence[float | None]) -> float | None:
    """The median of those that could be measured."""
    known = sorted(value for value in values if value is not None)
    return known[len(known) // 2] if known else None
