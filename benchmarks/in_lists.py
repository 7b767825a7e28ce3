"""IN-lists of ids as ORMs' eager loading sends them, all keys held: how long one takes against MySQL itself.

One client of each, in turns, by the same few lines of Python that only take the answer's bytes: every list has other
ids, and every answer as many bytes. `text`: literals. `prepared`: a statement with as many placeholders, of a cache
that is written with placeholders, too. Each form and length begins with a cache of its own, which lists of that form
and length fill.
"""

from __future__ import annotations

import random
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.bench import SCRATCH, Bench
from benchmarks.compare.asked import take
from benchmarks.result import Figure, Result, Sheet
from benchmarks.warming import ask_each, command
from examples.lobsters.cpu import process_seconds
from integration.raw_client import RawClient

FIRST, ROWS = 100_000, 20_000
TARGETS = {10: 1.0, 100: 1.5, 1000: 2.0}
QUERY = "SELECT id, name, n FROM item WHERE id IN ({})"
WRITTEN = 3  # placeholders in the text of a cache for prepared lists: it is for those of any length
ROUNDS = 15
LISTS = 40  # of a round


def run(bench: Bench) -> Result:
    bench.scratch(
        "CREATE TABLE item (id INT PRIMARY KEY, name CHAR(40) NOT NULL, n INT NOT NULL)",
        f"SET cte_max_recursion_depth = {ROWS}",
        f"INSERT INTO item WITH RECURSIVE i AS (SELECT {FIRST} AS id UNION ALL SELECT id + 1 FROM i"
        f" WHERE id < {FIRST + ROWS - 1}) SELECT id, LEFT(SHA2(id, 256), 40), id FROM i",
        "ANALYZE TABLE item",
    ).close()
    sheet = Sheet(
        "one client, microseconds a list (median)",
        ("form", "ids", "MySQL", "Upwell", "ratio", "CPU of MySQL", "CPU of Upwell"),
    )
    result = Result("in_lists", sheets=[sheet])
    server = bench.server
    with bench.proxy() as (proxy, client):
        account: dict[str, Any] = {"user": server.user, "password": server.password, "database": SCRATCH}
        with (
            RawClient(server.host, server.port, **account) as direct,
            RawClient("127.0.0.1", proxy.mysql_port, **account) as through,
        ):
            for form in ("text", "prepared"):
                for count, target in TARGETS.items():
                    written = "?..." if form == "text" else ", ".join("?" * WRITTEN)
                    client.create_cache(QUERY.format(written), name="items", database=SCRATCH)
                    lists = [range(first, first + count) for first in range(FIRST, FIRST + ROWS, count)]
                    query = QUERY.format(", ".join("?" * count))
                    ask_each(proxy, client, server, query, lists, prepared=form == "prepared")
                    before = client.status().hits
                    sides = Side(direct, form, count, server.pid), Side(through, form, count, proxy.pid)
                    ratio, figures = measure(*sides)
                    sheet.rows.append((form, str(count), *figures))
                    result.figures.append(Figure(f"{form}: a list of {count} ids", ratio, "x", at_least=target))
                    hits, asked = client.status().hits - before, (ROUNDS + 1) * LISTS
                    if hits < asked:
                        raise AssertionError(f"{hits} hits of {asked} lists")
                    client.drop_cache("items")
    return result


def measure(theirs: Side, ours: Side) -> tuple[float, tuple[float | None, ...]]:
    """How many times as quick as MySQL, microseconds a list of each and their ratio, and the servers' CPU."""
    for side in (theirs, ours):
        side.round()
        side.cpu = 0.0
    rounds = [(theirs.round(), ours.round()) for _ in range(ROUNDS)]
    ratio = median(one / two for one, two in rounds)
    lists = ROUNDS * LISTS
    cpu = [side.cpu / lists * 1e6 if side.pid is not None else None for side in (theirs, ours)]
    return ratio, (median(one for one, _ in rounds), median(two for _, two in rounds), ratio, *cpu)


class Side:
    """One of both, and its answers' length. `pid`: of the server, where it is known; `cpu`: what it has used."""

    def __init__(self, client: RawClient, form: str, count: int, pid: int | None) -> None:
        self.client = client
        self.count = count
        self.pid = pid
        self.cpu = 0.0
        self.query = QUERY.format(", ".join("?" * count))
        self.statement = client.prepare(self.query).id if form == "prepared" else None
        client.write(self._command())
        self.length = len(client.result())

    def _command(self) -> bytes:
        return command(self.client, self.statement, self.query, random.sample(range(FIRST, FIRST + ROWS), self.count))

    def round(self) -> float:
        """Microseconds a list, the median of a round."""
        commands = [self._command() for _ in range(LISTS)]
        found = []
        before = process_seconds(self.pid) if self.pid is not None else 0.0
        for one in commands:
            started = perf_counter()
            self.client.write(one)
            take(self.client.socket, self.length)
            found.append((perf_counter() - started) * 1e6)
        if self.pid is not None:
            self.cpu += process_seconds(self.pid) - before
        return median(found)
