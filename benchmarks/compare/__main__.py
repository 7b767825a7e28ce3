"""The working tree against an earlier commit: the proxy's processor time for each kind of work, in pairs.

    make compare BASE=<commit> ONLY=hits,passes PAIRS=n

Both trees have a proxy beside one private MySQL. Each path is asked a fixed number of operations of the one, then the
same of the other, again and again: what else the machine does meets both alike. What counts is the processor time that
the operating system has for each proxy, the median of the pairs' ratios. The proxies are started anew a few times: the
same code, loaded elsewhere in memory, is up to some percent faster or slower.

All measured processes come before others on the machine meanwhile (`priority.py`), where the user may do so: root.

`base.py` makes the base's tree, `side.py` a proxy of either tree, `paths.py` names the paths, whose loads `asked.py`,
`others.py` and `changes.py` are, and `figures.py` has the ratios. The status is 1 where a path is above the limit.

Changes are compared in two cases; ONLY=changes-all compares all of `benchmarks/changes.py`. `budgets.toml` has budgets
for some paths against one commit of long ago: these are printed where that is the base.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from benchmarks import budgets
from benchmarks.bench import SCRATCH
from benchmarks.budgets import Budget
from benchmarks.compare import figures, paths
from benchmarks.compare.base import WORKING, NoBase, Tree, base_tree
from benchmarks.compare.figures import LIMIT, Compared, Pair
from benchmarks.compare.load import NotWhatItIsCalled
from benchmarks.compare.priority import before_others
from benchmarks.compare.side import serving
from benchmarks.result import Figure, Result, show
from examples.lobsters.load import connect
from examples.lobsters.proxy_process import ProxyFailed
from integration.clients.tools import NotObtainable
from integration.servers.mysql_server import Server
from integration.servers.private_mysql import NoMySQL, find_mysql

PAIRS = 120
STARTS = 4

Report = Callable[[str], None]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make compare", usage="make compare BASE=<commit> [ONLY=...] [PAIRS=n]")
    parser.add_argument("--base", default="", help="a commit: name, branch or tag")
    parser.add_argument("--only", default="", help="paths or groups of them, separated by commas")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="of each path")
    parser.add_argument("--starts", type=int, default=STARTS, help="of both proxies, among which the pairs are shared")
    options = parser.parse_args(arguments)
    if not options.base:
        parser.error("BASE is missing: name the commit to compare with, as in make compare BASE=HEAD~3")
    if options.pairs < 1 or options.starts < 1:
        parser.error("PAIRS is how often each path is measured on both sides: 1 or more")
    # The server and the proxies are stopped on the way out, which a signal would cut short.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 180)

    def report(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    try:
        chosen = paths.wanted(options.only)
        base = base_tree(options.base, report)
        with tempfile.TemporaryDirectory(prefix="upwell-compare-") as folder, find_mysql(report=report) as server:
            compared, notes = compare(base, chosen, server, Path(folder), options.pairs, options.starts, report)
    except ValueError as error:
        parser.error(str(error))
    except (NoBase, NotObtainable, NoMySQL, ProxyFailed, NotWhatItIsCalled) as error:
        print(error, file=sys.stderr)
        return 3
    result = Result("compare", sheets=[figures.sheet(compared, base.name)])
    result.notes = [*notes, *figures.verdict(compared)]
    known = budgets.read()
    rates = [(known.of(result.name, figure.name), figure) for figure in figures.rates(compared, base.commit)]
    result.figures = [figure for budget, figure in rates if budget is not None]
    show(console, result, lambda figure: budgets.verdict(known.of(result.name, figure.name), figure))
    return int(any(not kept(one, budget, figure) for one, (budget, figure) in zip(compared, rates, strict=True)))


def kept(path: Compared, budget: Budget | None, figure: Figure) -> bool:
    """Whether a path has not become slower than it may be: than its budget, where it has one to this base."""
    return path.ratio <= LIMIT if budget is None else budget.kept(figure.value)


def compare(
    base: Tree, chosen: Sequence[paths.Path], server: Server, folder: Path, pairs: int, starts: int, report: Report
) -> tuple[list[Compared], list[str]]:
    """The chosen paths with so many pairs each, and what is to be said of them."""
    paths.load_tables(server)
    found: dict[str, list[Pair]] = defaultdict(list)
    notes: dict[str, None] = {}
    starts = min(starts, pairs)
    for start in range(starts):
        share = pairs // starts + (start < pairs % starts)
        with ExitStack() as stack:
            # The proxies, which are begun here, are scheduled as this process.
            first = stack.enter_context(before_others([server.pid] if server.pid else []))
            if not first:
                notes["this user may not put the measured processes first: what else runs here disturbs more"] = None
            connection = stack.enter_context(connect(server, SCRATCH))
            base_side, tree_side = (stack.enter_context(serving(tree, server, folder)) for tree in (base, WORKING))
            for side in (base_side, tree_side):
                paths.create_caches(side)
            for path in chosen:
                began = time.monotonic()
                try:
                    running = path.begin(base_side, tree_side, connection)
                    found[path.name] += running.pairs(share)
                    running.close()
                except NotWhatItIsCalled as error:
                    raise NotWhatItIsCalled(f"{path.name}: {error}") from None
                if running.note:
                    notes[f"{path.name}: {running.note}"] = None
                now = Compared(path.name, found[path.name])
                report(f"start {start + 1} of {starts}: {path.name} {now.ratio:.3f} ({time.monotonic() - began:.0f} s)")
    return [Compared(path.name, found[path.name]) for path in chosen], list(notes)


if __name__ == "__main__":
    sys.exit(main())
