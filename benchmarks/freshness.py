"""How long a commit takes to be visible: at 500 transactions a second, and to its own writer.

The first is what the proxy itself says (`Status`): from MySQL's time of each commit until the engine has processed it.
Half of the transactions change a key that is held. The second is taken outside: a user writes, and then reads what he
wrote in a session, so that the read waits if it must; beside it, the same read without a session.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from benchmarks.bench import SCRATCH, Bench
from benchmarks.result import Figure, Result, Sheet
from examples.lobsters.cached import wait_until_current
from examples.lobsters.load import Connection
from upwell.client import Client
from upwell.written import gtids

RATE = 500  # transactions a second
WRITERS = 2
ROWS = 2_000
OWN = 500  # writes that are read by their writer


def run(bench: Bench) -> Result:
    seconds = max(5.0, 5 * bench.seconds)
    result = Result("freshness")
    numbers = f"WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
    schema = (
        "CREATE TABLE written (id INT PRIMARY KEY, n INT NOT NULL)",
        f"SET cte_max_recursion_depth = {ROWS}",
        f"INSERT INTO written {numbers} SELECT i, 0 FROM n",
    )
    with bench.scratch(*schema) as connection, bench.proxy() as (_, client):
        client.create_cache("SELECT n FROM written WHERE id = ?", name="written", database=SCRATCH)
        for start in range(1, ROWS // 2 + 1, 100):
            client.cache("written").get_many(range(start, start + 100))
        wait_until_current(client, connection)
        rate = loaded(bench, seconds)
        wait_until_current(client, connection)
        status = client.status()
        figures = {50: status.visible_p50_seconds * 1e3, 99: status.visible_p99_seconds * 1e3}
        result.figures += [
            Figure(f"from commit to visible at {RATE} transactions a second, p{share}", value, "ms")
            for share, value in figures.items()
        ]
        result.notes.append(f"{rate:,.0f} transactions a second were reached")
        result.sheets.append(own_writes(client, connection))
    return result


def loaded(bench: Bench, seconds: float) -> float:
    """Writes at the rate; the rate that came of it."""
    written: list[int] = []
    threads = [threading.Thread(target=write, args=(bench, number, seconds, written)) for number in range(WRITERS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written) == WRITERS, "a writer has failed"
    return sum(written) / (time.perf_counter() - began)


def write(bench: Bench, number: int, seconds: float, written: list[int]) -> None:
    """One writer's share of the transactions, each at its time or as soon after it as can be."""
    with bench.connect(SCRATCH) as connection, connection.cursor() as cursor:
        clock, began, count = threading.Event(), time.perf_counter(), 0
        while (due := began + count * WRITERS / RATE) < began + seconds:
            clock.wait(max(0.0, due - time.perf_counter()))
            row = (count * WRITERS + number) * 7919 % ROWS + 1
            cursor.execute("UPDATE written SET n = n + 1 WHERE id = %s", (row,))
            count += 1
        written.append(count)


def own_writes(client: Client, connection: Connection) -> Sheet:
    """Milliseconds of a read right after its writer's commit."""
    sheet = Sheet("a read of one's own write, ms", ("read", "p50", "p99", "hits", "stale"))
    with client.session() as session:
        cache = session.cache("written")

        def own(row: int) -> object:
            session.wrote(gtids(connection))
            return cache.get(row)

        sheet.rows.append(("in a session", *timed(connection, own)))
    plain = client.cache("written")
    sheet.rows.append(("as it is held", *timed(connection, lambda row: plain.get(row))))
    return sheet


def timed(connection: Connection, read: Callable[[int], object]) -> Sequence[float]:
    """p50 and p99 in ms of `read` after each write; the share of hits, and of answers that lack the write."""
    times, hits, stale = [], 0, 0
    with connection.cursor() as cursor:
        cursor.execute("UPDATE written SET n = 0")
        for number in range(OWN):
            row = number % (ROWS // 2) + 1
            cursor.execute("UPDATE written SET n = %s WHERE id = %s", (number + 1, row))
            began = time.perf_counter()
            answer = read(row)
            times.append((time.perf_counter() - began) * 1e3)
            hits += answer.served == "hit"  # type: ignore[attr-defined]  # a client's Answer
            stale += answer.one.n != number + 1  # type: ignore[attr-defined]
    times.sort()
    return times[len(times) // 2], times[int(len(times) * 0.99)], hits / OWN, stale / OWN
