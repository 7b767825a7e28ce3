"""IN-lists of ids as ORMs' eager loading sends them, all keys held: how long one takes against MySQL itself.

One client of each, in turns, by the same few lines of Python that only take the answer's bytes: every list has other
ids, and every answer as many bytes. `text`: literals. `prepared`: a statement with as many placeholders, of a cache
that is written with placeholders, too. Each form and length begins with a cache of its own, which lists of that form
and length fill.

Then the proxy's CPU for a prepared list of ten against that for a prepared hit by primary key, in turns. Some
clients are all asked before the first answer is taken, so that what falling asleep and waking up cost hardly counts.
"""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.bench import SCRATCH, Bench
from benchmarks.compare import side as compare
from benchmarks.compare.asked import SESSIONS, Asked, Reads, take
from benchmarks.compare.base import WORKING
from benchmarks.compare.load import all_hits, measured
from benchmarks.compare.priority import before_others
from benchmarks.result import Figure, Result, Sheet
from benchmarks.warming import ask_each, command
from examples.lobsters.cpu import process_seconds
from integration.support.raw_client import RawClient

FIRST, ROWS = 100_000, 20_000
COUNTS = 10, 100, 1000
QUERY = "SELECT id, name, n FROM item WHERE id IN ({})"
WRITTEN = 3  # placeholders in the text of a cache for prepared lists: it is for those of any length
ROUNDS = 15
LISTS = 40  # of a round
BY_KEY = "SELECT id, name, n FROM item WHERE id = ?"
FEW, HELD = 10, 2_000  # ids of the lists that are compared with a key, and ids that are held
PAIRS, OF_EACH = 40, 240  # rounds, and commands of a round


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
                for count in COUNTS:
                    written = "?..." if form == "text" else ", ".join("?" * WRITTEN)
                    client.create_cache(QUERY.format(written), name="items", database=SCRATCH)
                    lists = [range(first, first + count) for first in range(FIRST, FIRST + ROWS, count)]
                    query = QUERY.format(", ".join("?" * count))
                    ask_each(proxy, client, server, query, lists, prepared=form == "prepared")
                    before = client.status().hits
                    sides = Side(direct, form, count, server.pid), Side(through, form, count, proxy.pid)
                    ratio, figures = measure(*sides)
                    sheet.rows.append((form, str(count), *figures))
                    result.figures.append(Figure(f"{form}: lists of {count} ids a second to MySQL's", ratio, "x"))
                    hits, asked = client.status().hits - before, (ROUNDS + 1) * LISTS
                    if hits < asked:
                        raise AssertionError(f"{hits} hits of {asked} lists")
                    client.drop_cache("items")
    to_a_key(result, bench)
    return result


def to_a_key(result: Result, bench: Bench) -> None:
    """With a proxy of its own, where nothing else is held."""
    with before_others([bench.server.pid] if bench.server.pid else []), bench.proxy() as (proxy, client):
        side = compare.Side(WORKING, bench.server, proxy, client)
        client.create_cache(QUERY.format(", ".join("?" * FEW)), name="items", database=SCRATCH)
        client.create_cache(BY_KEY, name="item", database=SCRATCH)
        keys = range(FIRST, FIRST + HELD)
        ten_each = [tuple(keys[at : at + FEW]) for at in range(0, HELD, FEW)]
        lists = Reads(QUERY.format(", ".join("?" * FEW)), "hit", ten_each, OF_EACH)
        loads = [
            Asked(replace(reads, prepared=True), side)
            for reads in (lists, Reads(BY_KEY, "hit", [(key,) for key in keys], OF_EACH))
        ]
        before = side.counts()
        pairs = [[measured(side, load, number) for load in loads] for number in range(PAIRS)]
        all_hits(side.counts() - before, 2 * PAIRS * OF_EACH)
        for load in loads:
            load.close()
    ratio = median(one / other for one, other in pairs)
    result.figures.append(Figure("IN list of 10, prepared: CPU to that of a primary-key hit", ratio, "x"))
    columns = "", "a list of 10", "a hit by primary key"
    sheet = Sheet(f"{SESSIONS} sessions, prepared: microseconds of Upwell's CPU", columns)
    sheet.rows.append(("median", *(median(times) * 1e6 for times in zip(*pairs, strict=True))))
    result.sheets.append(sheet)


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
