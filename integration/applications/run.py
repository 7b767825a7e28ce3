"""A whole application, with and without Upwell, side by side (`make applications`).

WordPress is installed from the distribution's package, filled, and crawled. Both sites ask the same database, one of
them through Upwell with `--auto-cache=on` and nothing else set. Each page is compared.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from integration.applications.crawl import crawl, different
from integration.applications.php import php
from integration.applications.sides import Side, reads
from integration.applications.sites import Site, site
from integration.applications.wordpress import installed as wordpress
from integration.clients.tools import NotObtainable
from integration.clients.world import upwell_beside
from integration.mysql_server import Server
from integration.private_mysql import find_mysql

WARM_ROUNDS = 12  # before anything is measured: automatic caching decides within seconds


@contextmanager
def both_sites(server: Server, database: str, posts: int, folder: Path) -> Iterator[tuple[Site, Site, int]]:
    """One that asks MySQL, one that asks Upwell, and the proxy's port. Raises NotObtainable."""
    environment = wordpress.fill(server, database, posts)
    with upwell_beside(server, folder, "--auto-cache=on") as port:
        addresses = {"direct": f"{server.host}:{server.port}", "through": f"127.0.0.1:{port}"}
        sites = [
            site(php(), wordpress.tree(), environment | {"SITE_MYSQL": address}, folder / f"{name}.log")
            for name, address in addresses.items()
        ]
        with sites[0] as direct, sites[1] as through:
            yield direct, through, port
    server.execute(f"DROP DATABASE `{database}`")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--posts", type=int, default=400)
    arguments.add_argument("--pages", type=int, default=100, help="that are crawled, as anonymous and as a user")
    arguments.add_argument("--rounds", type=int, default=5, help="that are measured, of each side in turn")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, find_mysql(os.environ.get("UPSTREAM_TEST"), (), print) as server:
        try:
            return compared(server, Path(folder), given.posts, given.pages, given.rounds)
        except NotObtainable as reason:
            print(f"WordPress cannot be had here: {reason}", file=sys.stderr)
            return 2


def compared(server: Server, folder: Path, posts: int, pages: int, rounds: int) -> int:
    """Prints; 1 where a page differs."""
    wrong = 0
    with both_sites(server, "upwell_wordpress", posts, folder) as (direct, through, port):
        for who in ("anonymous", "a user"):
            if who != "anonymous":
                through.cookies |= wordpress.log_in(direct)
            paths = crawl(direct, "/", pages, lambda path: wordpress.PUBLIC.match(path) is not None)
            sides = Side(direct), Side(through)
            for _ in range(WARM_ROUNDS):
                sides[1].round(server, paths)
            sides, before = (Side(direct), Side(through)), reads(server, port)
            for _ in range(rounds):
                one, other = (side.round(server, paths) for side in sides)
                for path, how in different(one, other).items():
                    wrong += 1
                    print(f"{path}: {how}")
            seen = reads(server, port).since(before)
            times = sides[1].pages / sides[0].pages, sides[1].mysql / max(0.01, sides[0].mysql)
            print(
                f"{who:10} {len(paths):4} pages {rounds} times, {wrong} different;"
                f" {seen.share:6.1%} of {seen.hits + seen.misses + seen.passed:,} SELECTs were hits;"
                f" with Upwell a page takes {times[0]:.2f} of its time, MySQL {times[1]:.2f} of its processor time"
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
