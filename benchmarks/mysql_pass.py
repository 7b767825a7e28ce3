"""What passes through to MySQL: what Upwell adds, against a bare uvloop byte forwarder (`bare_uvloop.py`) and against
no proxy at all.

sysbench's primary-key lookups in a proxy without caches, over 8 connections and over one; then a large answer, whose
reader is as fast as Python's `recv_into`, and one that does not read at all for a while.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from statistics import median

import pymysql

from benchmarks.bare_uvloop import Bare
from benchmarks.bench import SCRATCH, Bench
from benchmarks.points import COLUMNS, Rounds, Way, load_points
from benchmarks.result import Figure, Result, Sheet
from benchmarks.sysbench import Load
from examples.lobsters.cpu import peak_rss, process_seconds, rss
from examples.lobsters.load import Connection
from proxy.mysql.wire.packets import COM_QUERY, packet

DIRECT, BARE, UPWELL = "direct", "forwarder", "Upwell"
LARGE = 200 << 20  # bytes of the large answer
LARGE_ROUNDS = 3
ROW_SIZES = 1000, 100
READ = 1 << 20  # bytes at once
END = b"\x05\0\0"  # the length of an EOF packet
SLOW_SECONDS = 1.5


def run(bench: Bench) -> Result:
    load = load_points(bench)
    server = bench.server
    result = Result("mysql_pass")
    with bench.proxy() as (proxy, _), Bare("forward", server.host, server.port) as bare:
        ways = (
            Way(DIRECT, server.host, server.port),
            Way(BARE, "127.0.0.1", bare.port, bare.pid),
            Way(UPWELL, "127.0.0.1", proxy.mysql_port, proxy.pid),
        )
        small(result, bench, ways, load)
        large(result, bench, ways)
        slow(result, bench, ways[2])
    return result


# -- small answers -----------------------------------------------------------------------------------------------------


def small(result: Result, bench: Bench, ways: tuple[Way, ...], load: Load) -> None:
    sheet = Sheet("primary-key lookups of sysbench that pass through", COLUMNS)
    result.sheets.append(sheet)
    for protocol in ("prepared", "text"):
        asked = replace(load, prepared=protocol == "prepared")
        rounds = Rounds(ways, asked, bench.seconds, server=bench.server.pid)
        sheet.rows += rounds.rows(f"{protocol}, {load.connections} connections")
        result.figures += [
            Figure(f"{protocol}: statements a second to the forwarder's", rounds.ratio(UPWELL, BARE), "x"),
            Figure(f"{protocol}: to direct", rounds.ratio(UPWELL, DIRECT), "x"),
            Figure(f"{protocol}: the forwarder's to direct", rounds.ratio(BARE, DIRECT), "x"),
            Figure(f"{protocol}: CPU of the proxy for a statement", rounds.cpu(UPWELL) or 0.0, "us"),
            Figure(f"{protocol}: CPU of the forwarder for a statement", rounds.cpu(BARE) or 0.0, "us"),
        ]
        own, behind = rounds.cpu_ratio(UPWELL, BARE), rounds.behind_ratio(UPWELL, BARE)
        result.partial |= own is None or behind is None
        if own is not None:
            name = f"{protocol}: CPU of the proxy for a passed statement, to the forwarder's"
            result.figures.append(Figure(name, own, "x"))
        if behind is not None:
            name = f"{protocol}: MySQL's CPU for a passed statement, to that behind a bare forwarder"
            result.figures.append(Figure(name, behind, "x"))
    one = Rounds(ways, replace(load, connections=1), bench.seconds)
    sheet.rows += one.rows("prepared, 1 connection")
    direct = one.microseconds(DIRECT)
    result.figures += [
        Figure("one connection: added to a statement", one.microseconds(UPWELL) - direct, "us"),
        Figure("one connection: added by the forwarder", one.microseconds(BARE) - direct, "us"),
    ]


# -- large answers -----------------------------------------------------------------------------------------------------


def large(result: Result, bench: Bench, ways: tuple[Way, ...]) -> None:
    sheet = Sheet(f"an answer of {LARGE >> 20} MB", ("bytes of a row", "answered by", "MB/s", "its CPU ms for 100 MB"))
    result.sheets.append(sheet)
    for size in ROW_SIZES:
        sql = large_query(size)
        speeds: dict[str, list[float]] = {way.name: [] for way in ways}
        used: dict[str, list[float]] = {way.name: [] for way in ways}
        for _ in range(LARGE_ROUNDS):
            for way in ways:
                before = process_seconds(way.pid) if way.pid else 0.0
                with connect(bench, way) as connection:
                    received, seconds = drain(connection, sql)
                speeds[way.name].append(received / seconds / 1e6)
                used[way.name].append((process_seconds(way.pid) - before) / received * 1e11 if way.pid else 0.0)
        for way in ways:
            cpu = median(used[way.name]) if way.pid else None
            sheet.rows.append((f"{size}", way.name, median(speeds[way.name]), cpu))
        for name, other in ((UPWELL, BARE), (UPWELL, DIRECT)):
            ratio = median(one / two for one, two in zip(speeds[name], speeds[other], strict=True))
            result.figures.append(Figure(f"large answer, rows of {size} bytes: {name} to {other}", ratio, "x"))


def large_query(row: int) -> str:
    """Rows of so many bytes, `LARGE` in all, which MySQL makes without reading much."""
    rows = LARGE // row
    value = f"REPEAT('x', {row - 5})"  # header, length
    return f"SELECT {value} FROM sbtest1 a CROSS JOIN sbtest1 b LIMIT {rows}"


def connect(bench: Bench, way: Way) -> Connection:
    """In the open: with TLS its cost would hide the rest."""
    return pymysql.connect(
        host=way.host,
        port=way.port,
        user=bench.server.user,
        password=bench.server.password,
        database=SCRATCH,
        autocommit=True,
        ssl_disabled=True,
    )


def drain(connection: Connection, sql: str) -> tuple[int, float]:
    """Asks, and takes the whole answer unread: its bytes, and seconds from the first to the last of them."""
    sock = ask(connection, sql)
    space = bytearray(READ)
    view = memoryview(space)
    received = sock.recv_into(view)
    if space[4] == 0xFF:
        raise AssertionError(bytes(space[5:200]))
    start = time.perf_counter()
    tail = bytes(view[:received])
    while not ended(tail):
        got = sock.recv_into(view)
        if not got:
            raise AssertionError(f"the answer broke off after {received} bytes")
        received += got
        tail = (tail + bytes(view[max(0, got - 16) : got]))[-16:]
    return received, time.perf_counter() - start


def ask(connection: Connection, sql: str):  # type: ignore[no-untyped-def] # PyMySQL's socket has no type
    sock = connection._sock  # type: ignore[attr-defined]
    sock.settimeout(60)
    sock.sendall(packet(bytes((COM_QUERY,)) + sql.encode(), 0))
    return sock


def ended(tail: bytes) -> bool:
    """Whether an EOF packet stands at the end; the rows have no such bytes."""
    return len(tail) >= 9 and tail[-9:-6] == END and tail[-5] == 0xFE


def slow(result: Result, bench: Bench, way: Way) -> None:
    """A client asks for the large answer and reads nothing, then a little: what the proxy holds for it."""
    assert way.pid is not None
    before, peak_before = rss(way.pid), peak_rss(way.pid)
    with connect(bench, way) as connection:
        sock = ask(connection, large_query(ROW_SIZES[0]))
        grown, pause = 0, threading.Event()
        until = time.monotonic() + SLOW_SECONDS
        while time.monotonic() < until:  # at first nothing, then 64 KB each tenth of a second
            pause.wait(0.1)
            grown = max(grown, rss(way.pid) - before)
            if time.monotonic() > until - SLOW_SECONDS / 2:
                sock.recv(1 << 16)
    name = f"memory that the proxy took while a client of {LARGE >> 20} MB did not read"
    result.figures.append(Figure(name, grown / 1e6, "MB"))
    result.notes.append(f"resident before: {before / 1e6:.0f} MB, the most until then {peak_before / 1e6:.0f} MB")
