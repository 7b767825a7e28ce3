"""What an application costs, beside itself without Upwell: pages' time, MySQL's processor time, the share of hits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pymysql

from integration.applications.crawl import Round, visit
from integration.applications.sites import Site
from integration.servers.mysql_server import Server


@dataclass(frozen=True, slots=True)
class Reads:
    """SELECTs of all sessions so far, as the proxy counts them."""

    hits: int
    misses: int
    passed: int

    def since(self, before: Reads) -> Reads:
        return Reads(self.hits - before.hits, self.misses - before.misses, self.passed - before.passed)

    @property
    def share(self) -> float:
        """Of all that were hits."""
        return self.hits / max(1, self.hits + self.misses + self.passed)


def reads(server: Server, port: int) -> Reads:
    """`port`: the proxy's; `server`: of whose administrator it is asked."""
    with pymysql.connect(host="127.0.0.1", port=port, user=server.user, password=server.password) as connection:
        cursor = connection.cursor()
        cursor.execute("SHOW UPWELL STATUS")
        status = dict(cursor.fetchall())
        cursor.execute("SHOW PROXIED QUERIES")
        passed = sum(int(row[2]) for row in cursor.fetchall())
    return Reads(int(status["hits"]), int(status["misses"]), passed)


def processor_seconds(server: Server) -> float:
    """What the server's process has taken so far. Requires: it runs on this machine."""
    assert server.pid is not None
    return time.clock_gettime(~server.pid << 3 | 2)  # the clock that clock_getcpuclockid names


@dataclass(slots=True)
class Side:
    """One site over several rounds: seconds of its pages, seconds of MySQL's processor."""

    site: Site
    pages: float = 0.0
    mysql: float = 0.0

    def round(self, server: Server, paths: Sequence[str]) -> Round:
        before = processor_seconds(server)
        found = visit(self.site, list(paths))
        self.mysql += processor_seconds(server) - before
        self.pages += found.seconds
        return found
