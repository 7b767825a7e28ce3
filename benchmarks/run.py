"""`make bench`: every benchmark of this folder, or those that --only names, on one machine in one run.

Each prints its tables and figures, with met or NOT MET where `budgets.toml` has a budget, and writes
benchmarks/results/NAME.json. At the end stands which budgets are broken, which figures are not yet where the project
wants them, and which budgets this run did not measure. Exit status: 0 all ran, 1 one of them failed, 2 all ran and a
budget is broken, 3 there is no MySQL.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection
from pathlib import Path

from rich.console import Console

from benchmarks import (
    auto_cache,
    budgets,
    calls,
    changes,
    cold_hits,
    decoding,
    freshness,
    hits,
    hostile_texts,
    hot,
    in_lists,
    live_page,
    memory,
    miss,
    mysql_hit_path,
    mysql_hits,
    mysql_idle,
    mysql_login,
    mysql_pass,
    mysql_transactions,
    mysql_vote,
    pages,
    per_query,
    planning,
    restart,
    restart_of_caches,
    spark,
    start,
    trust,
    vitess,
    vote,
)
from benchmarks.bench import Bench
from benchmarks.budgets import Budgets, Judged
from benchmarks.result import Result, show, write
from examples.lobsters.data import shape_of
from integration.servers.private_mysql import NoMySQL, find_mysql

BENCHMARKS: dict[str, Callable[[Bench], Result]] = {
    "hits": hits.run,
    "miss": miss.run,
    "trust": trust.run,
    "per_query": per_query.run,
    "planning": planning.run,
    "vote": vote.run,
    "changes": changes.run,
    "calls": calls.run,
    "cold_hits": cold_hits.run,
    "decoding": decoding.run,
    "freshness": freshness.run,
    "hot": hot.run,
    "start": start.run,
    "restart": restart.run,
    "restart_of_caches": restart_of_caches.run,
    "memory": memory.run,
    "pages": pages.run,
    "mysql_hits": mysql_hits.run,
    "mysql_hit_path": mysql_hit_path.run,
    "in_lists": in_lists.run,
    "live_page": live_page.run,
    "hostile_texts": hostile_texts.run,
    "mysql_pass": mysql_pass.run,
    "mysql_transactions": mysql_transactions.run,
    "mysql_vote": mysql_vote.run,
    "mysql_idle": mysql_idle.run,
    "auto_cache": auto_cache.run,
    "mysql_login": mysql_login.run,
    "vitess": vitess.run,
    "spark": spark.run,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(BENCHMARKS), help="this one; may be given repeatedly")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each single measurement")
    parser.add_argument("--pages", type=int, default=100_000, help="warming pages of `pages`")
    parser.add_argument("--scale", default=os.environ.get("SCALE") or "std", help="set of the sample")
    options = parser.parse_args(arguments)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 180)
    try:
        shape = shape_of(options.scale)
    except ValueError as error:
        parser.error(str(error))

    def report(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    # The server and the proxies are stopped on the way out, which a signal would cut short.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    known = budgets.read()
    results: list[Result] = []
    chosen = list(dict.fromkeys(options.only or BENCHMARKS))
    try:
        with tempfile.TemporaryDirectory(prefix="upwell-bench-") as folder, find_mysql(report=report) as server:
            bench = Bench(server, Path(folder), shape, options.seconds, options.pages, report)
            for name in chosen:
                result = run_one(console, bench, name, known)
                if result is not None:
                    results.append(result)
    except NoMySQL as error:
        print(error, file=sys.stderr)
        return 3
    console.rule("budgets")
    judged = budgets.judge(known, results)
    ran = {result.name for result in results}
    for line in judged.lines(ran):
        report(line)
    return status(len(chosen) - len(results), judged, {result.name for result in results if not result.partial})


def status(failed: int, judged: Judged, ran: Collection[str]) -> int:
    """With which the program ends. `failed`: how many benchmarks did not come to their end; `ran`: those that did, and
    could measure all that they have. A figure that one of these has not measured is a broken budget, too: its name is
    another one now, or it is gone."""
    if failed:
        return 1
    return 2 if judged.broken or judged.missed(ran) else 0


def run_one(console: Console, bench: Bench, name: str, known: Budgets) -> Result | None:
    """Runs it, shows and writes what it found; None where it failed, which does not stop the others."""
    console.rule(name)
    started = time.monotonic()
    try:
        result = BENCHMARKS[name](bench)
    except Exception:  # noqa: BLE001 - the top level of one benchmark: reported, and the others still run
        console.print(traceback.format_exc(), markup=False)
        return None
    of = {figure.name: known.of(result.name, figure.name) for figure in result.figures}
    show(console, result, lambda figure: budgets.verdict(of[figure.name], figure))
    met = {figure.name: budget.kept(figure.value) for figure in result.figures if (budget := of[figure.name])}
    path = write(result, bench.server.version(), met)
    console.print(
        f"{name}: {time.monotonic() - started:.0f} s, written to {path.relative_to(Path.cwd())}", markup=False
    )
    return result


if __name__ == "__main__":
    sys.exit(main())
