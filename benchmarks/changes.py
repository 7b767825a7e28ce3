"""Row changes a second, from the binlog's socket to published, by number of caches on the written table.

The proxy is stopped (SIGSTOP), changes are written, the proxy is continued, and the time until its position contains
them all is taken, with the CPU that it used meanwhile: nothing of the writer is in the figure. Half of the changes are
updates, half inserts; in transactions of 1,000 rows, or of one. Every cache is on the one table that is written, so
every change concerns all of them; `held` is the share of (change, cache) pairs whose key is held, as counted: a change
moves that key's rows or its sums. Half of the caches hold rows, half hold aggregates.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.result import Figure, Result, Sheet
from examples.lobsters.cached import wait_until_current
from examples.lobsters.cpu import process_seconds
from examples.lobsters.load import Connection
from upwell.client import Client
from upwell.errors import UpwellError

COLUMNS = 20  # key columns of the table: one for each cache
GROUPS = 1_000  # different values in each
ROWS = 20_000
MANY, FEW = 40_000, 12_000  # row changes of a run: in large transactions, in single-row ones


@dataclass(frozen=True)
class Case:
    """`held`: the share of each cache's keys that are held before the changes come."""

    caches: int
    held: float
    rows_per_transaction: int


CASES = (
    *(Case(caches, 0.3, rows) for caches in (1, 10, 20) for rows in (1_000, 1)),
    *(Case(10, held, rows) for held in (0.0, 1.0) for rows in (1_000, 1)),
)


def group_of(row: int, column: int) -> int:
    """The value of key column `column` (from 1) in row `row`; MySQL computes the same below."""
    return (row * (2 * column + 1) + column * 37) % GROUPS


GROUP_SQL = "({row} * {factor} + {offset}) % " + str(GROUPS)


def group_columns(row: str) -> str:
    return ", ".join(GROUP_SQL.format(row=row, factor=2 * k + 1, offset=37 * k) for k in range(1, COLUMNS + 1))


def schema() -> list[str]:
    keys = ", ".join(f"g{k} INT NOT NULL" for k in range(1, COLUMNS + 1))
    numbers = f"WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
    values = f"i, {group_columns('i')}, i % 1000, 'a note of some length'"
    return [
        f"CREATE TABLE written (id INT PRIMARY KEY, {keys}, amount INT NOT NULL, note VARCHAR(60) NOT NULL)",
        f"SET cte_max_recursion_depth = {ROWS}",
        f"INSERT INTO written {numbers} SELECT {values} FROM n",
        "ALTER TABLE written " + ", ".join(f"ADD KEY (g{k})" for k in range(1, COLUMNS + 1)),
        "CREATE PROCEDURE one_by_one(first INT, number INT)\nBEGIN\n DECLARE i INT DEFAULT first;\n"
        " WHILE i < first + number DO\n"
        f"  IF i % 2 THEN UPDATE written SET amount = amount + 1 WHERE id = i % {ROWS} + 1;\n"
        f"  ELSE INSERT INTO written VALUES (1000000 + i, {group_columns('i')}, 7, 'a note of some length'); END IF;\n"
        "  SET i = i + 1;\n END WHILE;\nEND",
    ]


def cache_sql(number: int) -> str:
    """Odd ones hold rows, even ones aggregates."""
    wanted = "id, amount, note" if number % 2 else "COUNT(*), SUM(amount)"
    return f"SELECT {wanted} FROM written WHERE g{number} = ?"


def run(bench: Bench) -> Result:
    result = Result("changes")
    columns = "caches", "held pairs", "keys held", "rows/transaction", "changes", "changes/s", "changes/CPU s", "wall s"
    sheet = Sheet("from the socket to published", columns)
    for case in CASES:
        wall, cpu, share = measure(bench, case)
        changes = MANY if case.rows_per_transaction > 1 else FEW
        rate = changes / wall
        place = f"{case.caches}", f"{share:.0%}", f"{case.held:.0%}", case.rows_per_transaction, changes
        sheet.rows.append((*place, rate, changes / cpu, wall))
        bench.report(f"{case}: {rate:,.0f} changes a second")
        if case.caches == 10 and case.held == 0.3:
            kind = "single-row" if case.rows_per_transaction == 1 else "multi-row"
            name = f"changes a second, {kind} transactions, 10 caches, {10 * case.held:g} of them touched"
            result.figures.append(Figure(name, rate, "rows/s"))
    result.sheets.append(sheet)
    return result


def measure(bench: Bench, case: Case) -> tuple[float, float, float]:
    """(wall seconds, CPU seconds of the proxy, share of pairs that touched a held key)."""
    with bench.scratch(*schema()) as connection, bench.proxy() as (proxy, client):
        held = int(GROUPS * case.held)
        for number in range(1, case.caches + 1):
            client.create_cache(cache_sql(number), name=f"c{number}", database=bench.scratch_database)
            for start in range(0, held, 100):
                client.cache(f"c{number}").get_many(range(start, min(held, start + 100)))
        wait_until_current(client, connection)
        with stopped(proxy.pid):
            rows = list(write(connection, case))
            executed = scalar(connection, "SELECT @@GLOBAL.gtid_executed")
            cpu, began = process_seconds(proxy.pid), time.perf_counter()
        arrived(client, connection, executed)
        wall, cpu = time.perf_counter() - began, process_seconds(proxy.pid) - cpu
        check(client, connection, case)
    touched = sum(group_of(row, k) < held for row in rows for k in range(1, case.caches + 1))
    return wall, cpu, touched / (len(rows) * case.caches)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """The process does nothing meanwhile; what comes for it waits in its sockets."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def write(connection: Connection, case: Case) -> Iterator[int]:
    """Writes the changes; yields for each the number that its group columns are made of."""
    with connection.cursor() as cursor:
        if case.rows_per_transaction == 1:
            cursor.execute(f"CALL one_by_one(1, {FEW})")
            for i in range(1, FEW + 1):
                yield i % ROWS + 1 if i % 2 else i
            return
        size = case.rows_per_transaction
        numbers = "WITH RECURSIVE n AS (SELECT {0} AS i UNION ALL SELECT i + 1 FROM n WHERE i < {1})"
        for start in range(0, MANY // 2, size):
            cursor.execute(
                f"UPDATE written SET amount = amount + 1 WHERE id BETWEEN {start % ROWS + 1} AND {start % ROWS + size}"
            )
            yield from range(start % ROWS + 1, start % ROWS + size + 1)
            values = f"1000000 + i, {group_columns('i')}, 7, 'a note of some length'"
            cursor.execute(f"INSERT INTO written {numbers.format(start, start + size - 1)} SELECT {values} FROM n")
            yield from range(start, start + size)


def arrived(client: Client, connection: Connection, executed: str) -> None:
    """Returns when the proxy's position contains `executed`; a busy proxy may answer late. It is not asked without a
    pause: what it answers meanwhile would be in the figure, and most of it where the stream is read in small pieces."""
    pause, deadline = threading.Event(), time.perf_counter() + 120
    while time.perf_counter() < deadline:
        try:
            position = client.status(timeout=60).position
        except UpwellError:
            continue
        if int(scalar(connection, "SELECT GTID_SUBSET(%s, %s)", (executed, position))):
            return
        pause.wait(0.005)
    raise TimeoutError("the changes did not arrive within 120 s")


def scalar(connection: Connection, sql: str, values: Sequence[str] = ()) -> str:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        row = cursor.fetchone()
    return str(row[0]) if row else ""


def check(client: Client, connection: Connection, case: Case) -> None:
    """A few keys of each cache are as in MySQL."""
    with connection.cursor() as cursor:
        for number in range(1, case.caches + 1):
            for key in (0, 7, GROUPS - 1):
                cursor.execute(cache_sql(number).replace("?", "%s"), (key,))
                expected = sorted(cursor.fetchall())
                seen = sorted(tuple(row) for row in client.cache(f"c{number}").get(key))
                assert seen == expected, (number, key, seen[:3], expected[:3])
