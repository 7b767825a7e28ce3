"""What pages that look cost the proxy: 200 caches, hits as fast as one client asks (10,000 a second and more), and
three streams of `GET /v1/live`, then a real Chromium with the page beside two.

Rounds with and without who looks, in turns. A round with them uses more of the proxy's CPU than so many hits take
without: that part of each second no hit can have, so it is what the throughput falls by. Every cache is read in every
round, so that every look finds all of them changed.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any

from benchmarks.bench import SCRATCH, Bench
from benchmarks.compare.asked import take
from benchmarks.result import Figure, Result, Sheet
from benchmarks.warming import ask_each, command
from examples.lobsters.cpu import process_seconds
from examples.lobsters.proxy_process import ProxyProcess
from integration.clients.tools import NotObtainable
from integration.http.chromium import found
from integration.support.raw_client import RawClient

CACHES, KEYS = 200, 20
SESSIONS = 8
PAGES = 3
PAIRS = 32
ROUND = 1.0  # seconds: one look
LEAST = 10_000  # hits a second
QUERY = "SELECT name, n + {} FROM item WHERE id = ?"


def run(bench: Bench) -> Result:
    bench.scratch(
        "CREATE TABLE item (id INT PRIMARY KEY, name CHAR(40) NOT NULL, n INT NOT NULL)",
        f"INSERT INTO item WITH RECURSIVE i AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM i WHERE id < {KEYS})"
        " SELECT id, LEFT(SHA2(id, 256), 40), 1000 FROM i",
    ).close()
    sheet = Sheet(
        f"{CACHES} caches; medians",
        ("who looks", "hits a second", "CPU of a hit, us", "% of throughput", "KB a second"),
    )
    result = Result("live_page", sheets=[sheet])
    server = bench.server
    with bench.proxy() as (proxy, client), ExitStack() as stack:
        queries = [QUERY.format(number) for number in range(CACHES)]
        for number, query in enumerate(queries):
            client.create_cache(query, name=f"cache_{number}", database=SCRATCH)
            ask_each(proxy, client, server, query, [(key,) for key in range(1, KEYS + 1)], prepared=True)
        account: dict[str, Any] = {"user": server.user, "password": server.password, "database": SCRATCH}
        clients = [stack.enter_context(RawClient("127.0.0.1", proxy.mysql_port, **account)) for _ in range(SESSIONS)]
        load = Load(clients, queries, proxy.pid)
        before = client.status().hits
        result.figures.append(Figure("throughput that three open pages take", compared(load, proxy, sheet), "%"))
        with_browser(load, proxy, result, sheet)
        hits = client.status().hits - before
        if hits < load.asked:
            raise AssertionError(f"{hits} hits of {load.asked} reads")
    if load.slowest < LEAST:
        result.notes.append(f"the client asked for {load.slowest:,.0f} hits a second at the slowest, not {LEAST:,}")
    return result


class Load:
    """Prepared executions of every cache, on all sessions. `asked`: until now. `slowest`: hits a second of a round."""

    def __init__(self, clients: Sequence[RawClient], queries: Sequence[str], pid: int) -> None:
        self._pid = pid
        self._clients = clients
        self._lanes = []
        for client in clients:
            for query in queries:
                statement = client.prepare(query).id
                commands = [command(client, statement, query, (key,)) for key in range(1, KEYS + 1)]
                client.write(commands[0])
                length = len(client.result())
                self._lanes.append((client, commands, length))
        self._by_client = [self._lanes[at : at + len(queries)] for at in range(0, len(self._lanes), len(queries))]
        self.asked = 0
        self.slowest = float("inf")

    def round(self) -> tuple[float, float]:
        """Hits a second, and the proxy's CPU for one, in seconds."""
        count = 0
        cpu, began = process_seconds(self._pid), time.perf_counter()
        while (took := time.perf_counter() - began) < ROUND:
            for lanes in zip(*self._by_client, strict=True):
                for client, commands, _ in lanes:
                    client.write(random.choice(commands))
                for client, _, length in lanes:
                    take(client.socket, length)
            count += len(self._lanes)
        self.asked += count
        self.slowest = min(self.slowest, count / took)
        return count / took, (process_seconds(self._pid) - cpu) / count


def taken_of(pair: tuple[tuple[float, float], tuple[float, float]]) -> float:
    """Percent of a second of the proxy's CPU that looking takes. `pair`: rounds with and without."""
    (rate, cpu), (_, of_hit) = pair
    return 100 * rate * (cpu - of_hit)


def compared(load: Load, proxy: ProxyProcess, sheet: Sheet) -> float:
    """What three clients that follow the stream take, in percent."""
    load.round()
    pairs = []
    sizes = []
    for number in range(PAIRS):
        sides = {}
        for looks in (number % 2 == 0, number % 2 == 1):
            with looking(proxy, PAGES if looks else 0) as taken:
                sides[looks] = load.round()
            if looks:
                sizes.append(taken() / PAGES / ROUND / 1e3)
        pairs.append((sides[True], sides[False]))
    taken_part = median(map(taken_of, pairs))
    for name, place, part in (("nobody", 1, None), (f"{PAGES} streams", 0, taken_part)):
        rate, cpu = (median(pair[place][what] for pair in pairs) for what in (0, 1))
        sheet.rows.append((name, rate, cpu * 1e6, part, median(sizes) if part else None))
    return taken_part


@contextmanager
def looking(proxy: ProxyProcess, count: int) -> Iterator[Any]:
    """So many clients of the stream. Gives what tells how many bytes they have taken behind the first event."""
    taken = [0] * count
    begun = [threading.Event() for _ in range(count)]

    def read(number: int, stream: socket.socket) -> None:
        while data := stream.recv(1 << 16):
            if begun[number].is_set():
                taken[number] += len(data)
            if b"event: patch" in data:
                begun[number].set()

    with ExitStack() as stack:
        streams = [stack.enter_context(socket.create_connection(("127.0.0.1", proxy.http_port))) for _ in range(count)]
        threads = [threading.Thread(target=read, args=one, daemon=True) for one in enumerate(streams)]
        for thread, stream in zip(threads, streams, strict=True):
            stream.sendall(b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            thread.start()
        for event in begun:
            event.wait(30)
        yield lambda: sum(taken)
        for stream in streams:
            stream.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(30)


def with_browser(load: Load, proxy: ProxyProcess, result: Result, sheet: Sheet) -> None:
    """Likewise with one real page beside two streams, where there is a Chromium."""
    try:
        program, environment = found()
    except NotObtainable as error:
        result.notes.append(f"no page in a browser: {error}")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"], env={**os.environ, **environment}
        )
        pairs = []
        for number in range(PAIRS // 2):
            sides = {}
            for looks in (number % 2 == 0, number % 2 == 1):
                with ExitStack() as stack:
                    if looks:
                        stack.enter_context(looking(proxy, PAGES - 1))
                        page = stack.enter_context(browser.new_page())
                        page.goto(f"http://127.0.0.1:{proxy.http_port}/")
                        page.wait_for_selector("#live.on")
                    sides[looks] = load.round()
            pairs.append((sides[True], sides[False]))
        browser.close()
    rate, cpu = (median(pair[0][what] for pair in pairs) for what in (0, 1))
    sheet.rows.append((f"a page in Chromium, {PAGES - 1} streams", rate, cpu * 1e6, median(map(taken_of, pairs)), None))
