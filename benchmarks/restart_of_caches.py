"""A stop and a start with many caches: how soon the first of them has hits again.

No hit is served before every cache has its plan. The plans of the run before are taken up.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.bench import SCRATCH, Bench
from benchmarks.restart import AFTER, started
from benchmarks.result import Figure, Result, Sheet
from upwell.client import Client

TABLES, KEYS = 26, 20
QUERIES = (
    "SELECT id, b FROM t{0} WHERE id = ?",
    "SELECT COUNT(*), MAX(d) FROM t{0} WHERE a = ?",
    "SELECT x.id, x.b, y.b AS yb, y.c, x.c AS xc FROM t{0} x JOIN t{1} y ON y.id = x.e"
    " WHERE x.a = ? AND x.d > 0.5 AND x.b <> 'nothing' ORDER BY x.id DESC LIMIT 5",
)
ROUNDS = 3


def run(bench: Bench) -> Result:
    bench.scratch(*(statement for number in range(TABLES) for statement in table(number))).close()
    sheet = Sheet(f"{TABLES * len(QUERIES)} caches", ("", "ready s", "first hit s", "all hits s"))
    firsts = []
    with TemporaryDirectory(dir=bench.folder) as folder:
        with started(bench, Path(folder)) as process, process.wait_ready() as client:
            for number in range(TABLES):
                for which, query in enumerate(QUERIES):
                    text = query.format(number, (number + 1) % TABLES)
                    client.create_cache(text, name=f"c{number}_{which}", database=SCRATCH)
            hits_of_all(client)
        for number in range(ROUNDS):
            with started(bench, Path(folder)) as process, process.wait_ready() as client:
                ready = time.monotonic() - process.started
                first = first_hit(client) - process.started
                everything = hits_of_all(client) - process.started
            firsts.append(first)
            sheet.rows.append((f"start {number + 1}", ready, first, everything))
    return Result("restart_of_caches", [Figure("seconds to the first hit", min(firsts), "s")], [sheet])


def table(number: int) -> tuple[str, str]:
    rows = ", ".join(f"({key}, {key % KEYS}, 'x{key}', NOW(), 1.5, {key % 7}, 't')" for key in range(200))
    return (
        f"CREATE TABLE t{number} (id BIGINT PRIMARY KEY, a INT, b VARCHAR(50), c DATETIME, d DECIMAL(10,2), e INT,"
        " f TEXT, KEY (a), KEY (e))",
        f"INSERT INTO t{number} VALUES {rows}",
    )


def first_hit(client: Client) -> float:
    deadline = time.monotonic() + AFTER
    while client.cache("c0_0").get(3).served != "hit":
        if time.monotonic() > deadline:
            raise TimeoutError("no hit")
    return time.monotonic()


def hits_of_all(client: Client) -> float:
    """Reads keys of each cache until all of them are hits; when that was."""
    deadline = time.monotonic() + 4 * AFTER
    names = [f"c{number}_{which}" for number in range(TABLES) for which in range(len(QUERIES))]
    while names:
        answers = {name: client.cache(name).get_many(list(range(KEYS))) for name in names}
        names = [name for name, found in answers.items() if any(one.served != "hit" for one in found)]
        if time.monotonic() > deadline:
            raise TimeoutError(f"no hits of {names}")
    return time.monotonic()
