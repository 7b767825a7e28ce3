"""Many connections through the MySQL listener: ten thousand that do nothing, five hundred that read all the time, and
two thousand a second that come and go.

A MySQL of its own that takes so many. Where the machine's limits (open files, memory) do not allow ten thousand, as
many as they allow, and what they would take is computed from those.
"""

from __future__ import annotations

import resource
import socket
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks import sysbench
from benchmarks.bench import SCRATCH, Bench
from benchmarks.many_clients import Task, many_clients
from benchmarks.points import QUERY, ROWS, cache_points, load_points
from benchmarks.result import Figure, Result, Sheet
from benchmarks.sysbench import Load
from examples.lobsters.cpu import process_seconds, rss
from examples.lobsters.proxy_process import ProxyProcess
from integration.servers.private_mysql import find_mysql
from proxy.settings.machine import OTHER_FILES

IDLE, ACTIVE, FLOOD = 10_000, 500, 2_000
MYSQL_BYTES = 700_000  # that a connection takes at most in MySQL and here, for a guess at what fits
SPARE = 400  # connections that MySQL takes beside the idle ones


def run(bench: Bench) -> Result:
    result = Result("mysql_idle")
    idle = idle_connections(result)
    flags = (
        f"--max-connections={idle + SPARE}",
        "--max-connect-errors=1000000",
        "--table-open-cache=400",
        "--back-log=2000",
        "--thread-cache-size=200",
    )
    with find_mysql(extra_flags=flags, report=bench.report) as server:
        own = replace(bench, server=server, _loaded=False)
        load = load_points(own)
        with own.proxy(f"--mysql-connections={idle + 2 * SPARE}") as (proxy, client):
            cache_points(own, proxy, client, prepared=load.prepared)
            sysbench.run(load, "127.0.0.1", proxy.mysql_port, 2)
            do_nothing(result, own, proxy, load, idle)
            too_many(result, own, proxy)
            at_once(result, own, proxy)
            come_and_go(result, own, proxy, load)
    return result


def idle_connections(result: Result) -> int:
    """How many of them the machine allows."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    memory = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable:")
    )
    by_files = IDLE if files == resource.RLIM_INFINITY else (files - OTHER_FILES) // 2 - SPARE
    allowed = min(IDLE, by_files, memory // MYSQL_BYTES)
    if allowed < IDLE:
        result.notes.append(
            f"{allowed:,} idle connections instead of {IDLE:,}: {files:,} open files, {memory >> 20:,} MB of memory"
        )
    return allowed


def do_nothing(result: Result, bench: Bench, proxy: ProxyProcess, load: Load, idle: int) -> None:
    hits = sysbench.run(load, "127.0.0.1", proxy.mysql_port, bench.seconds)
    before, used = rss(proxy.pid), process_seconds(proxy.pid)
    with many_clients(Task(proxy.mysql_port, SCRATCH, bench.server.user, idle=idle)) as clients:
        opened = clients.told()
        if opened["opened"] != idle:
            raise AssertionError(f"{opened['opened']} sessions of {idle}: {opened['refused']}")
        grown = rss(proxy.pid) - before
        login = (process_seconds(proxy.pid) - used) / idle * 1e6
        beside = sysbench.run(load, "127.0.0.1", proxy.mysql_port, bench.seconds)
        alive = clients.leave()["alive"]
    if alive != idle:
        raise AssertionError(f"{idle - alive} idle sessions were ended")
    result.figures += [
        Figure(f"memory of the proxy for {IDLE:,} idle connections", grown / idle * IDLE / 1e6, "MB"),
        Figure("memory for one", grown / idle / 1e3, "kB"),
        Figure("connections opened a second", idle / opened["seconds"], "/s"),
        Figure("CPU of the proxy for a login", login, "us"),
        Figure("hits a second beside them to those before", beside.per_second / hits.per_second, "x"),
    ]


def too_many(result: Result, bench: Bench, proxy: ProxyProcess) -> None:
    """MySQL's own refusal is what the client gets, byte by byte."""
    server = bench.server
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@max_connections")
        (allowed,) = cursor.fetchone()
        cursor.execute("SET GLOBAL max_connections = 1")  # the proxy's own connections are more already
        direct, through = first_packet(server.port), first_packet(proxy.mysql_port)
        cursor.execute(f"SET GLOBAL max_connections = {allowed}")
    same = float(direct == through and b"Too many connections" in direct)
    result.figures.append(Figure("MySQL's refusal of one connection too many, handed on as it is", same))


def first_packet(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        return sock.recv(1000)


def at_once(result: Result, bench: Bench, proxy: ProxyProcess) -> None:
    """Hits of many sessions at a time: is each served alike?"""
    columns = "answered by", "answers/s", "least of one", "median", "most", "slowest answer ms, median", "most"
    sheet = Sheet(f"{ACTIVE} connections that read all the time", columns)
    result.sheets.append(sheet)
    for name, port in (("MySQL", bench.server.port), ("Upwell", proxy.mysql_port)):
        seconds = max(2.0, bench.seconds)
        task = Task(port, SCRATCH, bench.server.user, active=ACTIVE, seconds=seconds, statement=QUERY, keys=ROWS)
        with many_clients(task) as clients:
            found = clients.told()
        if found["refused"] or found["failed"]:
            raise AssertionError(f"{name}: {found['refused']} {found['failed']}")
        each = [count / seconds for count in found["answers"]]
        slowest = [seconds * 1e3 for seconds in found["slowest"]]
        sheet.rows.append((name, sum(each), min(each), median(each), max(each), median(slowest), max(slowest)))
        if name == "Upwell":
            fair = min(each) / median(each)
            result.figures.append(Figure(f"of {ACTIVE} connections the slowest to the median", fair, "x"))


def come_and_go(result: Result, bench: Bench, proxy: ProxyProcess, load: Load) -> None:
    """Hits of 8 connections, while others log in and leave."""
    columns = "answered by", "statements/s alone", "in the flood", "slowest ms", "logins/s", "refused"
    sheet = Sheet(f"{FLOOD:,} connections a second", columns)
    result.sheets.append(sheet)
    seconds = max(3.0, bench.seconds)
    for name, port in (("MySQL", bench.server.port), ("Upwell", proxy.mysql_port)):
        alone = sysbench.run(load, "127.0.0.1", port, seconds)
        # The flood begins before sysbench's own sessions are there, and ends after them.
        with many_clients(Task(port, SCRATCH, bench.server.user, flood=FLOOD, seconds=seconds + 1)) as clients:
            beside = sysbench.run(load, "127.0.0.1", port, seconds)
            found = clients.told()
        logins = found["in_time"] / (seconds + 1)
        sheet.rows.append((name, alone.per_second, beside.per_second, beside.slowest, logins, found["refused"]))
        if name == "Upwell":
            kept = beside.per_second / alone.per_second
            result.figures.append(
                Figure(f"hits a second in a flood of {FLOOD:,} connects a second to those alone", kept, "x")
            )
    result.notes += [f"refused in the flood: {why}" for why in found["why"]]
