"""Before Vitess, in pairs with MySQL in the same run: row changes a second from VStream to published, how long a commit
takes to be visible, and the sample's aggregates on a keyspace of two shards.

The first two are of a keyspace of one shard: one proxy follows its MySQL's binlog, another the VStream of its vtgate,
with the same changes. vtgate and vttablet work meanwhile, on the same machine: by the proxy's CPU time the figure is
that of Upwell alone. Where Vitess cannot be built, a note says so.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from statistics import median

from benchmarks import changes
from benchmarks.bench import Bench, median_ratio
from benchmarks.changes import FEW, MANY, Case
from benchmarks.per_query import AGGREGATES
from benchmarks.result import Figure, Result, Sheet
from examples.lobsters.cached import Cached, create_caches, wait_until_current
from examples.lobsters.data import shape_of
from examples.lobsters.direct import Direct
from examples.lobsters.load import DATABASE, Connection, connect, load
from examples.lobsters.measure import Effort, draw_keys, repeat
from examples.lobsters.queries import CATALOGUE, Sample
from integration.clients.tools import NotObtainable
from integration.vitess.built import programs
from integration.vitess.cluster import Cluster, running
from integration.vitess.lobsters import sample_in
from integration.vitess.proxy import address
from upwell.client import Cache, Client

ONE, TWO = "bench", "lobsters"  # keyspaces
SHARDS = {ONE: ("0",), TWO: ("-80", "80-")}
CASES = tuple(Case(10, held, rows) for held in (0.3, 0.0) for rows in (1_000, 1))
SHAPE = shape_of("0.02")  # vtgate joins the front page row by row: of the set std for minutes
SEED = 31
ROWS = 2_000
WRITES = 400  # that are waited for
BATCH = 100  # keys of a call
LOAD = 300  # other transactions a second meanwhile


@dataclass
class AtShard(Bench):
    """The MySQL of the keyspace's one shard; `before`: the address that proxies stand before."""

    before: str = ""
    database: str = ""

    @property
    def url(self) -> str:
        return self.before

    @property
    def scratch_database(self) -> str:
        return self.database

    def scratch(self, *statements: str) -> Connection:
        """In the binlog: a vttablet that was not told of a table does not stream it."""
        connection = self.connect(Cluster.database(ONE))
        with connection.cursor() as cursor:
            for statement in ("DROP TABLE IF EXISTS written", "DROP PROCEDURE IF EXISTS one_by_one", *statements):
                cursor.execute(statement)
        return connection


def run(bench: Bench) -> Result:
    result = Result("vitess")
    try:
        with running(programs(), SHARDS) as cluster:
            binlog, vstream = sides(bench, cluster)
            result.sheets.append(published(bench, result, binlog, vstream))
            result.sheets.append(visible(result, binlog, vstream))
            result.sheets.append(sample(bench, result, cluster))
    except NotObtainable as reason:
        result.notes.append(f"left out, without Vitess: {reason}")
    return result


def sides(bench: Bench, cluster: Cluster) -> tuple[AtShard, AtShard]:
    server, database = cluster.mysqls[ONE, "0"], Cluster.database(ONE)
    common = server, bench.folder, SHAPE, bench.seconds, bench.pages, bench.report
    direct = AtShard(*common, before=f"mysql://root@127.0.0.1:{server.port}/{database}", database=database)
    return direct, AtShard(*common, before=address(cluster, ONE), database=ONE)


def published(bench: Bench, result: Result, binlog: Bench, vstream: Bench) -> Sheet:
    columns = "held", "rows/transaction", "binlog/s", "VStream/s", "share", "binlog/CPU s", "VStream/CPU s", "share"
    sheet = Sheet("row changes from the stream to published, 10 caches", columns)
    for case in CASES:
        rows = MANY if case.rows_per_transaction > 1 else FEW
        (wall, cpu, _), (vitess_wall, vitess_cpu, _) = (changes.measure(side, case) for side in (binlog, vstream))
        place = f"{case.held:.0%}", case.rows_per_transaction
        sheet.rows.append(
            (
                *place,
                rows / wall,
                rows / vitess_wall,
                wall / vitess_wall,
                rows / cpu,
                rows / vitess_cpu,
                cpu / vitess_cpu,
            )
        )
        bench.report(f"{case}: binlog {rows / wall:,.0f}, VStream {rows / vitess_wall:,.0f} changes a second")
        if case.held:
            name = f"row changes a second by VStream, in transactions of {case.rows_per_transaction}"
            result.figures.append(Figure(name, rows / vitess_wall, "rows/s"))
            result.figures.append(Figure(f"{name}: to the binlog's", wall / vitess_wall, "x"))
    return sheet


# -- commit to visible -------------------------------------------------------------------------------------------------


def visible(result: Result, *sides: Bench) -> Sheet:
    """Taken outside: from the end of a COMMIT at MySQL until a hit shows it."""
    sheet = Sheet("from a commit to a hit that shows it, ms", ("stream", "others' transactions/s", "p50", "p99"))
    for name, side in zip(("binlog", "VStream"), sides, strict=True):
        for others in (0, LOAD):
            times = sorted(seen_after(side, others))
            p50, p99 = times[len(times) // 2] * 1e3, times[int(len(times) * 0.99)] * 1e3
            sheet.rows.append((name, others, p50, p99))
            result.figures += [
                Figure(f"ms from commit to visible by {name}, beside {others} transactions/s, p{share}", value, "ms")
                for share, value in ((50, p50), (99, p99))
            ]
    return sheet


def seen_after(side: Bench, load: int) -> list[float]:
    numbers = f"WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
    schema = (
        "CREATE TABLE written (id INT PRIMARY KEY, n INT NOT NULL)",
        f"SET cte_max_recursion_depth = {ROWS}",
        f"INSERT INTO written {numbers} SELECT i, 0 FROM n",
    )
    with side.scratch(*schema) as connection, side.proxy() as (_, client):
        client.create_cache("SELECT n FROM written WHERE id = ?", name="written", database=side.scratch_database)
        for start in range(1, ROWS + 1, 100):
            client.cache("written").get_many(range(start, start + 100))
        wait_until_current(client, connection)
        with writing(side, load):
            return [one_seen(client, connection, number) for number in range(WRITES)]


def one_seen(client: Client, connection: Connection, number: int) -> float:
    row, cache = number % (ROWS // 2) + 1, client.cache("written")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE written SET n = %s WHERE id = %s", (number + 1, row))
    began = time.perf_counter()
    while tuple(cache.get(row)[0]) != (number + 1,):
        if time.perf_counter() - began > 10:
            raise TimeoutError("a write was not seen within 10 s")
    return time.perf_counter() - began


@contextmanager
def writing(side: Bench, rate: int) -> Iterator[None]:
    """Somebody else commits at this rate, of the other rows."""
    ended = threading.Event()

    def write() -> None:
        with closing(side.connect(Cluster.database(ONE))) as connection, connection.cursor() as cursor:
            began, count = time.perf_counter(), 0
            while not ended.wait(max(0.0, began + count / rate - time.perf_counter())):
                count += 1
                cursor.execute("UPDATE written SET n = n + 1 WHERE id = %s", (ROWS // 2 + 1 + count % (ROWS // 2),))

    thread = threading.Thread(target=write)
    if rate:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if rate:
            thread.join()


# -- the sample --------------------------------------------------------------------------------------------------------


def sample(bench: Bench, result: Result, cluster: Cluster) -> Sheet:
    """A key at a time, at the source and as a hit: on MySQL and on two shards."""
    of_one = "ms", "hit ms", f"in {BATCH}s", "ratio"
    columns = "query", *(f"{of} {name}" for of in ("MySQL", "vtgate") for name in of_one), "vtgate's ratio to MySQL's"
    sheet = Sheet(f"the sample's aggregates (set {SHAPE.name}): medians", columns)
    load(bench.server, SHAPE)
    bench._loaded = False  # another set than the other benchmarks'
    found = []
    with closing(Direct(bench.connect())) as direct, bench.proxy() as (_, client):
        mysql = gains(bench, direct, client, DATABASE)
    with sample_in(cluster, TWO, SHAPE) as server, closing(Direct(connect(server, TWO))) as direct:
        side = AtShard(server, bench.folder, SHAPE, bench.seconds, bench.pages, bench.report, before=server.url)
        with side.proxy() as (_, client):
            sharded = gains(bench, direct, client, TWO)
    for id, on_two in sharded.items():
        on_mysql = mysql[id]
        ratio, vitess_ratio = on_mysql[0] / on_mysql[1], on_two[0] / on_two[1]
        found.append(vitess_ratio / ratio)
        row = *on_mysql, ratio, *on_two, vitess_ratio, vitess_ratio / ratio
        sheet.rows.append((f"{id} {CATALOGUE[id].title}", *row))
        if id == "F1a-N":
            result.figures.append(Figure("front page (F1a) on two shards, end to end", vitess_ratio, "x"))
    middle = median_ratio(found)
    if middle is not None:
        result.figures.append(Figure("gain on two shards to the gain on MySQL, median of the aggregates", middle, "x"))
    return sheet


def gains(bench: Bench, direct: Direct, client: Client, database: str) -> dict[str, tuple[float, float, float]]:
    """By query, of those that the source takes: milliseconds at the source, of a hit, and of a hit among BATCH."""
    made = create_caches(client, [CATALOGUE[id] for id in ("F1a-N", *AGGREGATES)], database)
    cached = Cached(client, database, made)
    return {id: gain(id, direct, cached.cache(id), Effort(20, bench.seconds, 2_000)) for id in made.names}


def gain(id: str, direct: Direct, cache: Cache, effort: Effort) -> tuple[float, float, float]:
    keys = draw_keys(CATALOGUE[id], Sample(SHAPE, SEED), effort.keys)
    many = (keys * BATCH)[:BATCH]
    while not all([cache.get(*key).served == "hit" for key in keys]):
        pass
    at_source, _ = repeat(lambda key: direct.read(id, key), keys, effort)
    hits, _ = repeat(lambda key: cache.get(*key), keys, effort)
    batches, _ = repeat(lambda _: cache.get_many(many), [()], effort)
    return median(at_source) * 1e3, median(hits) * 1e3, median(batches) * 1e3 / BATCH
