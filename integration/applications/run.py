"""Whole applications, with and without Upwell, side by side (`make applications`).

WordPress, MediaWiki and Redmine are installed from the distribution's packages, Ghost from npm's, Django from PyPI's
with a site of this folder. They are filled and crawled. Both sites ask the same database, one of them through Upwell
with `--auto-cache=on` and nothing else set. Each page is compared. At the end stands which budgets of
`benchmarks/budgets.toml` are broken.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks import budgets
from benchmarks.budgets import Budgets
from benchmarks.result import Figure, Result
from examples.lobsters.cpu import process_seconds
from examples.lobsters.proxy_process import ProxyProcess
from integration.applications.application import Application, installed, serving
from integration.applications.crawl import crawl, different
from integration.applications.django.installed import DJANGO
from integration.applications.ghost.installed import GHOST
from integration.applications.mediawiki.installed import MEDIAWIKI
from integration.applications.paced import paced
from integration.applications.redmine.installed import REDMINE
from integration.applications.shapes import shapes
from integration.applications.sides import Side, reads
from integration.applications.sites import Site
from integration.applications.wordpress.installed import WORDPRESS
from integration.clients.tools import NotObtainable
from integration.clients.world import proxy_beside
from integration.servers.mysql_server import Server
from integration.servers.private_mysql import find_mysql

APPLICATIONS = {
    "wordpress": (WORDPRESS,),
    "mediawiki": (MEDIAWIKI,),
    "redmine": (REDMINE,),
    "ghost": (GHOST,),
    "django": DJANGO,
}
WARM_ROUNDS = 12  # before anything is measured: automatic caching decides within seconds


@contextmanager
def both_sites(
    application: Application, server: Server, database: str, size: int, folder: Path
) -> Iterator[tuple[Site, Site, ProxyProcess]]:
    """One that asks MySQL, one that asks Upwell, and the proxy. Raises NotObtainable."""
    environment = installed(application, server, database, size)
    with (
        proxy_beside(server, folder, "--auto-cache=on") as proxy,
        serving(application, environment, f"{server.host}:{server.port}", folder / "direct.log") as direct,
        serving(application, environment, f"127.0.0.1:{proxy.mysql_port}", folder / "through.log") as through,
    ):
        yield direct, through, proxy
    server.execute(f"DROP DATABASE `{database}`")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", choices=list(APPLICATIONS), help="one of them")
    arguments.add_argument("--size", type=int, default=400, help="posts or pages that it is filled with")
    arguments.add_argument("--pages", type=int, default=100, help="that are crawled, as anonymous and as a user")
    arguments.add_argument("--shapes", action="store_true", help="list the queries that were no hits, and why")
    arguments.add_argument("--rounds", type=int, default=5, help="that are measured, of each side in turn")
    arguments.add_argument("--pace", type=float, help="seconds from page to page, and nothing warms up")
    arguments.add_argument("--span", type=float, default=120, help="seconds of each span with --pace")
    arguments.add_argument("--zone", help="of MySQL and its sessions, such as +02:00")
    given = arguments.parse_args()
    wrong, result = 0, Result("applications")
    judge = paced if given.pace else partial(compared, result=result)
    flags = (f"--default-time-zone={given.zone}",) if given.zone else ()
    chosen = [given.only] if given.only else list(APPLICATIONS)
    for application in (one for name in chosen for one in APPLICATIONS[name]):
        upstream = os.environ.get("UPSTREAM_TEST")
        with tempfile.TemporaryDirectory() as folder, find_mysql(upstream, flags, print) as server:
            try:
                wrong += judge(application, server, Path(folder), given)
            except NotObtainable as reason:
                print(f"{application.name} cannot be had here: {reason}", file=sys.stderr)
                return 2
    if result.figures:
        known = budgets.read()
        here = Budgets([one for one in known.entries if one.benchmark == result.name])
        judged = budgets.judge(here, [result])
        print(*judged.lines(), sep="\n")
        if judged.broken and not wrong:
            return 3
    return 1 if wrong else 0


def compared(application: Application, server: Server, folder: Path, given: argparse.Namespace, result: Result) -> int:
    """Prints, and adds its figures to `result`; how many pages differ."""
    wrong = 0
    with both_sites(application, server, "upwell_application", given.size, folder) as (direct, through, proxy):
        port = proxy.mysql_port
        for who, part in (("anonymous", application.public), ("a user", application.users)):
            if who != "anonymous":
                application.log_in(direct)
                through.cookies |= direct.cookies
            paths = crawl(direct, part, given.pages)
            sides = Side(direct), Side(through)
            for _ in range(WARM_ROUNDS):
                sides[1].round(server, paths)
            sides, before, listed = (Side(direct), Side(through)), reads(server, port), shapes(server, port)
            used = process_seconds(proxy.pid)
            for _ in range(given.rounds):
                one, other = (side.round(server, paths) for side in sides)
                for path, how in different(one, other, application.noise).items():
                    wrong += 1
                    print(f"{path}: {how}")
            used = process_seconds(proxy.pid) - used
            seen = reads(server, port).since(before)
            visits = len(paths) * given.rounds
            times = sides[1].pages / sides[0].pages, sides[1].mysql / max(0.01, sides[0].mysql)
            print(
                f"{application.name}, {who:10} {len(paths):4} pages {given.rounds} times, {wrong} different;"
                f" {seen.share:6.1%} of {seen.hits + seen.misses + seen.passed:,} SELECTs were hits;"
                f" a page takes {sides[0].pages / visits * 1e3:.1f} ms, with Upwell {times[0]:.2f} of that,"
                f" MySQL {times[1]:.2f} of its processor time, and Upwell {used / visits * 1e3:.1f} ms of its own",
                flush=True,
            )
            both = (used + sides[1].mysql) / max(0.01, sides[0].mysql)
            result.figures += [
                Figure(f"{application.name}, {who}: a page to direct", times[0], "x"),
                Figure(f"{application.name}, {who}: Upwell's CPU and MySQL's for a page, to MySQL's alone", both, "x"),
            ]
            if given.shapes:
                print(*shapes(server, port).since(listed), sep="\n", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
