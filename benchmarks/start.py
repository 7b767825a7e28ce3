"""From `upwell serve` to its first answers on a source with 10,000 tables.

Shows that nothing is copied and nothing but the tables of cached queries is looked at. The cache is defined in the
configuration, as after a restart. The clock starts before the process does, so Python's own start is in the figure.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from benchmarks.bench import SCRATCH, Bench
from benchmarks.result import Figure, Result, Sheet
from upwell.client import Client
from upwell.errors import UpwellError

TABLES, CONNECTIONS, ROUNDS = 10_000, 8, 3


def run(bench: Bench) -> Result:
    bench.report(f"creating {TABLES:,} tables")
    with bench.scratch("CREATE TABLE wanted (id INT PRIMARY KEY, title VARCHAR(40))") as connection:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO wanted VALUES (1, 'one'), (2, 'two')")
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(lambda part: create_tables(bench, part), range(CONNECTIONS)))
    definition = bench.folder / "start.toml"
    sql = "SELECT id, title FROM wanted WHERE id = ?"
    definition.write_text(f'[[cache]]\nname = "wanted"\ndatabase = "{SCRATCH}"\nsql = "{sql}"\n')
    rows = [one_start(bench, f"--config={definition}") for _ in range(ROUNDS)]
    sheet = Sheet(
        f"seconds since the process was started; {TABLES:,} tables", ("round", "ready", "first answer", "hit")
    )
    sheet.rows += [(str(number), *row) for number, row in enumerate(rows, 1)]
    first = median(row[2] for row in rows)
    bench.scratch().close()  # the tables are not left to the benchmarks that follow
    return Result("start", [Figure("first cached answer after the start", first, "s")], [sheet])


def create_tables(bench: Bench, part: int) -> None:
    with bench.connect(SCRATCH) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        for number in range(part, TABLES, CONNECTIONS):
            cursor.execute(f"CREATE TABLE other_{number} (id INT PRIMARY KEY, a INT, b VARCHAR(20), KEY (a))")


def one_start(bench: Bench, option: str) -> tuple[float, float, float]:
    """(ready, first answer, first hit)."""
    with bench.proxy(option) as (proxy, client):
        ready = time.monotonic()
        first = answered(client, "miss")
        hit = answered(client, "hit")
        return ready - proxy.started, first - proxy.started, hit - proxy.started


def answered(client: Client, served: str) -> float:
    """When a read of the cache came back as `served`."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if client.cache("wanted").get(1).served in (served, "hit"):
                return time.monotonic()
        except UpwellError:
            continue  # the plan is not ready
    raise TimeoutError("no answer from the cache within 30 s")
