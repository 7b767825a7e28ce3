"""What sessions with autocommit off have of their hits: requests of three lookups and a COMMIT, over 8 connections,
against MySQL itself. Nothing of such a transaction reaches MySQL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.points import COLUMNS, ROWS, Rounds, Way, cache_points, load_points
from benchmarks.result import Figure, Result, Sheet

SCRIPT = Path(__file__).with_name("three_reads.lua")
ROUNDS = 3


def run(bench: Bench) -> Result:
    load = replace(load_points(bench), script=SCRIPT, prepared=False, options=(f"--keys={ROWS}",))
    server = bench.server
    sheet = Sheet(f"requests of three lookups and a COMMIT, {load.connections} connections of sysbench", COLUMNS)
    result = Result("mysql_transactions", sheets=[sheet])
    with bench.proxy() as (proxy, client):
        cache_points(bench, proxy, client, prepared=False)
        ways = (
            Way("MySQL", server.host, server.port, server.pid),
            Way("Upwell", "127.0.0.1", proxy.mysql_port, proxy.pid),
        )
        rounds = Rounds(ways, load, bench.seconds, ROUNDS)
        counters = client.status().counters
    sheet.rows += rounds.rows("REPEATABLE READ")
    result.figures.append(
        Figure("three hits and COMMIT, autocommit off, to MySQL's", rounds.ratio("Upwell", "MySQL"), "x")
    )
    result.notes.append(
        f"{counters['empty_transactions']} transactions were ended here, {counters['mysql_passed']} statements were"
        " passed through"
    )
    return result
