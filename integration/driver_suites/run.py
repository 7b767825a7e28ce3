"""The drivers' own suites, directly at MySQL and through Upwell (`make driver-suites`).

The suite of a driver (`integration/driver_suites/suites.py`) is run at a MySQL, then twice at a proxy before it with
`--auto-cache=on`. Each test must pass, fail or be skipped as it does directly.

The tables of tests live for milliseconds, so automatic caching makes hardly one of their reads a hit. Therefore each
suite is also run `warmed`: what a test reads is cached, and is a hit, before the test reads it. A suite that needs what
a machine has not (Go, a C compiler) is left out with a line.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from integration.applications.sides import reads
from integration.clients.tools import NotObtainable
from integration.clients.world import upwell_beside
from integration.driver_suites.outcomes import FAILED, PASSED, SKIPPED, Difference, Outcomes, count, differences
from integration.driver_suites.suites import BY_NAME, SUITES, Place, Suite, SuiteFailed
from integration.servers.mysql_server import Server
from integration.servers.private_mysql import find_mysql

REQUIRED = "REQUIRE_DRIVER_SUITES"  # names of suites that may not be left out
ROUNDS = 2  # through Upwell
MANY = ("--max-caches-per-account=5000",)  # a warmed suite makes some hundred, of tables that are soon dropped


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of a suite: directly, and where each round through Upwell differs."""

    directly: Outcomes
    different: tuple[tuple[Difference, ...], ...]
    hits: int

    def lacks(self, suite: Suite) -> str:
        """Why this is no test; empty where it is one."""
        if count(self.directly, PASSED) < suite.passes:
            return f"fewer than {suite.passes} tests pass directly"
        if self.hits < suite.hits * len(self.different):
            return f"fewer than {suite.hits} hits in a round"
        return ""


@contextmanager
def places(server: Server, folder: Path, prefix: str) -> Iterator[tuple[Place, Place]]:
    """MySQL itself, and a proxy before it. The account may do everything: suites make users, and ask for settings."""
    user = f"{prefix}_driver"
    direct = Place(server.host, server.port, user, "driver", (f"{prefix}_suite_1", f"{prefix}_suite_2"))
    remove = [f"DROP USER IF EXISTS '{user}'@'%'", *(f"DROP DATABASE IF EXISTS `{name}`" for name in direct.databases)]
    server.execute(
        *remove,
        f"CREATE USER '{user}'@'%' IDENTIFIED BY '{direct.password}'",
        f"GRANT ALL ON *.* TO '{user}'@'%' WITH GRANT OPTION",
    )
    try:
        with upwell_beside(server, folder, "--auto-cache=on", *MANY) as port:
            yield direct, replace(direct, host="127.0.0.1", port=port)
    finally:
        server.execute(*remove)


def compared(
    suite: Suite, server: Server, direct: Place, through: Place, *, whole: bool = True, rounds: int = ROUNDS
) -> Seen:
    """Runs the suite. Raises NotObtainable, and SuiteFailed where it says nothing."""
    suite.fetch()
    make_databases(server, direct)
    directly = suite.outcomes(direct, whole=whole)
    make_databases(server, direct)
    before = reads(server, through.port)
    found = [suite.outcomes(through, whole=whole) for _ in range(rounds)]
    hits = reads(server, through.port).since(before).hits
    return Seen(directly, tuple(tuple(differences(directly, one)) for one in found), hits)


def make_databases(server: Server, place: Place) -> None:
    """Both are empty."""
    for name in place.databases:
        server.execute(f"DROP DATABASE IF EXISTS `{name}`", f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")


def required(suite: Suite) -> bool:
    return suite.name in os.environ.get(REQUIRED, "").split()


def lines(suite: Suite, seen: Seen) -> Iterator[str]:
    """What is printed of a suite."""
    kinds = ", ".join(f"{count(seen.directly, kind)} {kind}" for kind in (PASSED, FAILED, SKIPPED))
    for number, different in enumerate(seen.different, 1):
        same = len(seen.directly) - sum(one.test in seen.directly for one in different)
        yield (
            f"{suite.name:18} {len(seen.directly):4} tests directly ({kinds}); round {number} through Upwell:"
            f" {same} the same, {len(different)} different"
        )
        yield from map(str, different)
    yield f"{suite.name:18} {seen.hits} SELECTs were hits"
    if lacks := seen.lacks(suite):
        yield f"{suite.name:18} {lacks}: this is no test"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(BY_NAME), help="one of them")
    given = parser.parse_args(arguments)
    chosen = [BY_NAME[given.only]] if given.only else list(SUITES)
    wrong: list[str] = []
    left_out: list[str] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        find_mysql(os.environ.get("UPSTREAM_TEST"), (), print) as server,
        places(server, Path(folder), f"t{os.getpid()}") as (direct, through),
    ):
        for suite in chosen:
            try:
                seen = compared(suite, server, direct, through)
            except NotObtainable as reason:
                print(f"{suite.name} cannot be had here: {reason}", flush=True)
                (wrong if required(suite) else left_out).append(suite.name)
                continue
            except SuiteFailed as error:
                print(f"{suite.name}: {error}", flush=True)
                wrong.append(suite.name)
                continue
            print(*lines(suite, seen), sep="\n", flush=True)
            if any(seen.different) or seen.lacks(suite):
                wrong.append(suite.name)
    without = f"; left out: {', '.join(left_out)}" if left_out else ""
    print(f"{len(wrong) or 'none'} of {len(chosen) - len(left_out)} suites failed{without}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
