"""What others notice of one client that sends texts which are costly to look at, as fast as it can: IN-lists of 10,000
literals, deep ORs, 4,000 select items, each time others.

Another client's hits are timed meanwhile, and before, on the same machine: milliseconds as that client sees them, its
own waiting for a processor among them. The loop's own lateness is told beside.
"""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable
from multiprocessing.synchronize import Event
from time import perf_counter

from benchmarks.bench import SCRATCH, Bench
from benchmarks.points import QUERY, ROWS, cache_points, load_points
from benchmarks.result import Figure, Result, Sheet
from integration.support.raw_client import RawClient
from proxy.mysql.wire.packets import packet

TEXTS: dict[str, Callable[[], str]] = {
    "IN-lists of 10,000 literals": lambda: f"SELECT k FROM sbtest1 WHERE id IN ({', '.join(numbers(10_000))}) LIMIT 1",
    "3,000 ORs": lambda: f"SELECT k FROM sbtest1 WHERE {' OR '.join(f'id = {one}' for one in numbers(3000))} LIMIT 1",
    "4,000 select items": lambda: f"SELECT {', '.join(f'id + {one}' for one in numbers(4000))} FROM sbtest1 LIMIT 1",
}
SECONDS = 5.0


def numbers(count: int) -> list[str]:
    return [str(random.randrange(1, ROWS + 1)) for _ in range(count)]


def run(bench: Bench) -> Result:
    load_points(bench)
    sheet = Sheet("hits of one client, milliseconds", ("meanwhile another sends", "hits", "p50", "p99", "longest"))
    result = Result("hostile_texts", sheets=[sheet])
    with bench.proxy() as (proxy, client):
        cache_points(bench, proxy, client, prepared=False)
        port, user, password = proxy.mysql_port, bench.server.user, bench.server.password
        with RawClient("127.0.0.1", port, user=user, password=password, database=SCRATCH) as reader:
            for key in range(1, ROWS + 1):
                reader.query(QUERY.replace("?", str(key)))
            sheet.rows.append(("nothing", *told(times(reader, bench.seconds * SECONDS))))
            worst: tuple[float, float] = (0.0, 0.0)
            for name in TEXTS:
                ready, stop = multiprocessing.Event(), multiprocessing.Event()
                other = multiprocessing.Process(target=send, args=(name, port, user, password, ready, stop))
                other.start()
                ready.wait(30)
                try:
                    found = told(times(reader, bench.seconds * SECONDS))
                finally:
                    stop.set()
                    other.join(30)
                sheet.rows.append((name, *found))
                worst = max(worst[0], found[2]), max(worst[1], found[3])
    result.figures.append(Figure("p99 of another client's hits", worst[0], "ms"))
    result.figures.append(Figure("the longest of another client's hits", worst[1], "ms"))
    return result


def send(name: str, port: int, user: str, password: str, ready: Event, stop: Event) -> None:
    """In its own process. The texts are made before, so that sending them is all that is done meanwhile."""
    with RawClient("127.0.0.1", port, user=user, password=password, database=SCRATCH) as client:
        packets = [packet(client.text(TEXTS[name]()), 0) for _ in range(50)]
        ready.set()
        while not stop.is_set():
            client.write(random.choice(packets))
            client.result()


def times(client: RawClient, seconds: float) -> list[float]:
    """Milliseconds of each hit."""
    found: list[float] = []
    until = perf_counter() + seconds
    while perf_counter() < until:
        command = packet(client.text(QUERY.replace("?", str(random.randrange(1, ROWS + 1)))), 0)
        started = perf_counter()
        client.write(command)
        client.result()
        found.append((perf_counter() - started) * 1e3)
    return found


def told(found: list[float]) -> tuple[int, float, float, float]:
    ordered = sorted(found)
    return len(ordered), ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)], ordered[-1]
