"""`make mysql-suite`: MySQL's own regression tests through the proxy, until the time is over or all have been played.

Exit status: 0 nothing differed, 1 something did, 3 the suite cannot be had.
"""

from __future__ import annotations

import argparse
import logging
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from integration.mysql_suite import package
from integration.mysql_suite.house import House, Spoilt
from integration.mysql_suite.package import Suite
from integration.mysql_suite.scripts import SUITES, Played, all_tests, path_of, play
from integration.mysql_suite.tally import Finding, Tally
from integration.mysql_suite.tap import Tap
from integration.servers.mysql_server import CannotStart
from integration.support.campaign import in_memory, planned_in_place

TEST_SECONDS = 60.0
AT_A_GLANCE = ("cached", "hit", "refused", "passed", "forwarded")


class Campaign:
    def __init__(
        self, suite: Suite, tally: Tally, *, test_seconds: float = TEST_SECONDS, prepared: bool = False
    ) -> None:
        self.suite, self.tally, self.test_seconds, self.prepared = suite, tally, test_seconds, prepared
        self.house = House(suite, tally)

    def run(self, names: Sequence[str], seconds: float) -> None:
        until = time.monotonic() + seconds
        self.house.begin()
        try:
            for name in names:
                if time.monotonic() > until:
                    break
                self.one(name)
        finally:
            self.house.end()

    def one(self, name: str) -> None:
        """Plays a test and prints its line."""
        tally, tap = self.tally, self.house.tap
        before, began = Counter(tally.counts), time.monotonic()
        played = self.played(name, tap)
        tally.tests += 1
        directly = self.ended_directly(name, tap)
        ended = [found for found in tap.ended if found not in directly]
        tap.ended.clear()
        for how, statement in ended:
            history = tuple(tally.history)
            tally.found(
                Finding(name, how, "through the proxy", statement, "not when MySQL is asked directly", "", history)
            )
        spoilt = ""
        try:
            if played.status is None:
                raise Spoilt(f"it took too long: {tap.waits_for}")
            self.house.tidy()
        except Spoilt as why:
            spoilt = f"new server: {why}"
            self.house.renew()
        counts = ", ".join(f"{tally.counts[kind] - before[kind]} {kind}" for kind in AT_A_GLANCE)
        print(f"{name}: {time.monotonic() - began:.0f} s, {counts} {played.said} {spoilt}".rstrip(), flush=True)

    def played(self, name: str, tap: Tap) -> Played:
        tap.begin(name, self.test_seconds)
        self.tally.test = name
        with tempfile.TemporaryDirectory(prefix="upwell-script-") as folder:
            return play(self.suite, name, tap.port, Path(folder), self.test_seconds, prepared=self.prepared)

    def ended_directly(self, name: str, tap: Tap) -> list[tuple[str, str]]:
        """What also ends or hangs where MySQL is asked directly."""
        if not tap.ended:
            return []
        if not self.house.mysql.answers():
            return tap.ended  # MySQL itself has ended
        self.house.renew()
        direct = Tap(self.house.beside, Tally(), (self.house.mysql.host, self.house.mysql.port), judging=False)
        try:
            self.played(name, direct)
        finally:
            direct.close()
        if not self.house.mysql.answers():
            return tap.ended
        return direct.ended


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make mysql-suite", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1, help="of the order of the tests")
    parser.add_argument("--tests", default="", help="only these: 'subselect group_by json/json_agg', or 'json/*'")
    parser.add_argument(
        "--prepared", action="store_true", help="reads as prepared statements (mysqltest --ps-protocol)"
    )
    parser.add_argument("--test-seconds", type=float, default=TEST_SECONDS, help="of one test")
    parser.add_argument("--keep", type=Path, help="a folder for what differs")
    given = parser.parse_args(arguments)
    tally = Tally(keep=given.keep)
    tell_errors_of(tally)
    try:
        suite = package.find(lambda line: print(line, file=sys.stderr))
    except CannotStart as error:
        print(f"MySQL's test suite cannot be had: {error}", file=sys.stderr)
        return 3
    names = chosen(suite, given.tests.split())
    random.Random(given.seed).shuffle(names)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was counted is printed all the same
    with in_memory(), planned_in_place():
        campaign = Campaign(suite, tally, test_seconds=given.test_seconds, prepared=given.prepared)
        try:
            campaign.run(names, given.seconds)
        finally:
            print(tally)
    return int(bool(tally.findings))


def tell_errors_of(tally: Tally) -> None:
    """An error that the proxy logs is a finding."""

    def note(logger: Any, method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        error = event.get("exc_info")
        trace = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
        trace = trace or (traceback.format_exc() if error else "")
        said = {name: value for name, value in event.items() if name not in ("event", "exc_info")}
        text, what, before = str(event["event"]), f"{said}\n{trace[-2000:]}", tuple(tally.history)
        tally.found(Finding(tally.test, "error in the log", "", text, what, "", before))
        raise structlog.DropEvent

    structlog.configure(processors=[note], wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


def chosen(suite: Suite, wanted: Sequence[str]) -> list[str]:
    """Names of tests. Raises SystemExit where there is none of a name."""
    if not wanted:
        return all_tests(suite)
    names: list[str] = []
    for name in wanted:
        if name.endswith("/*"):
            found = all_tests(suite, (name[:-2],))
        else:
            found = [name] if path_of(suite, name).is_file() else []
        if not found:
            raise SystemExit(f"MySQL's suite has no test {name}; suites that are played: {' '.join(SUITES)}")
        names += found
    return names


if __name__ == "__main__":
    sys.exit(main())
