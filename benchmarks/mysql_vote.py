"""The vote query through MySQL's own protocol: sysbench with prepared statements over 8 connections, on the 100 hottest
articles, against MySQL itself.

Tables, spellings and keys are those of `vote.py`.
"""

from __future__ import annotations

from benchmarks.bench import SCRATCH, Bench
from benchmarks.points import COLUMNS, Rounds, Way
from benchmarks.result import Figure, Result, Sheet
from benchmarks.sysbench import ONE_KEY, Load
from benchmarks.vote import HOTTEST, SPELLINGS, VOTES, loaded
from benchmarks.warming import ask_each

ROUNDS = 3


def run(bench: Bench) -> Result:
    bench.report(f"loading {VOTES:,} votes")
    sheet = Sheet(f"the {HOTTEST} hottest articles, 8 connections of sysbench", COLUMNS)
    result = Result("mysql_vote", sheets=[sheet])
    with loaded(bench):
        for name, sql in SPELLINGS.items():
            measure(result, bench, name, sql)
    return result


def measure(result: Result, bench: Bench, name: str, sql: str) -> None:
    server = bench.server
    options = f"--statement={sql}", f"--keys={HOTTEST}"
    load = Load(ONE_KEY, SCRATCH, options=options, user=server.user, password=server.password)
    with bench.proxy() as (proxy, client):
        client.create_cache(sql, name="votes", database=SCRATCH)
        ask_each(proxy, client, server, sql, [(key,) for key in range(1, HOTTEST + 1)], prepared=True)
        ways = (
            Way("MySQL", server.host, server.port, server.pid),
            Way("Upwell", "127.0.0.1", proxy.mysql_port, proxy.pid),
        )
        # MySQL answers few of these a second: it gets the time for some hundreds.
        rounds = Rounds(ways, load, max(3.0, bench.seconds), ROUNDS)
        counters = client.status().counters
    result.sheets[0].rows += rounds.rows(name)
    ratio = rounds.ratio("Upwell", "MySQL")
    result.figures.append(Figure(f"{name}: hits a second to MySQL's answers", ratio, "x"))
    result.notes.append(f"{name}: {counters['mysql_passed']} statements were passed through")
