"""Hits over MySQL's own protocol against MySQL itself: sysbench's primary-key lookups over 8 connections.

Prepared statements and text. In the same rounds a bare responder (`bare_uvloop.py`), which gives all statements one
answer: what Python with uvloop reaches at all, and so what could be gained from here.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.bare_uvloop import Bare
from benchmarks.bench import Bench
from benchmarks.points import COLUMNS, ROWS, Rounds, Way, cache_points, load_points
from benchmarks.result import Figure, Result, Sheet
from benchmarks.sysbench import Load
from upwell.client import Client

PROTOCOLS = "prepared", "text"


def run(bench: Bench) -> Result:
    load = load_points(bench)
    server = bench.server
    sheet = Sheet(f"primary-key lookups, {load.connections} connections of sysbench, {ROWS:,} keys", COLUMNS)
    result = Result("mysql_hits", sheets=[sheet])
    with Bare("answer", server.host, server.port) as bare:
        for protocol in PROTOCOLS:
            asked = replace(load, prepared=protocol == "prepared")
            with bench.proxy() as (proxy, client):
                cache_points(bench, proxy, client, prepared=asked.prepared)
                ways = (
                    Way("MySQL", server.host, server.port, server.pid),
                    Way("Upwell", "127.0.0.1", proxy.mysql_port, proxy.pid),
                    Way("bare responder", "127.0.0.1", bare.port, bare.pid),
                )
                measure(result, bench, client, ways, asked, protocol)
    return result


def measure(result: Result, bench: Bench, client: Client, ways: tuple[Way, ...], load: Load, protocol: str) -> None:
    before = client.status()
    rounds = Rounds(ways, load, bench.seconds)
    after = client.status()
    asked = sum(one.outcome.statements for one in rounds.measured["Upwell"])
    hits = after.hits - before.hits
    # Each connection's first execution asks for rights; all the others must be hits, or this measures something else.
    if hits < asked:
        raise AssertionError(f"{hits} hits of {asked} statements: {after.counters['mysql_passed']} were passed through")
    result.sheets[0].rows += rounds.rows(protocol)
    ratio, ceiling = rounds.ratio("Upwell", "MySQL"), rounds.ratio("bare responder", "MySQL")
    result.figures += [
        Figure(f"{protocol}: hits a second to MySQL's lookups", ratio, "x"),
        Figure(f"{protocol}: the bare responder's to MySQL's", ceiling, "x"),
        Figure(f"{protocol}: hits a second to the bare responder's", rounds.ratio("Upwell", "bare responder"), "x"),
    ]
