"""`make oracle`: rounds of random queries, until the time is over; what differs is made small and printed as a script.

Exit status: 0 nothing differed, 1 something did, 3 there is no MySQL to ask.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import pymysql

from integration.oracle.asker import Asker, asker_beside
from integration.oracle.coverage import never
from integration.oracle.grammar import ANYTHING, Focus
from integration.oracle.round import Finding, Round, Tally
from integration.oracle.script import Script
from integration.oracle.shrink import Shrinker
from integration.oracle.writer import EVERY
from integration.servers.mysql_server import Server
from integration.support.campaign import campaign
from proxy.mysql.wire import rows
from tests.support.in_steps import everything_in_steps

DATABASE = "oracle"
ALIKE = 2  # findings of one cause, as far as that shows before they are small, that are made small
MOST = 40  # of all
SHOWN_EVERY = 15.0  # seconds
KINDS = ("error", "rows", "columns", "warnings", "spelling", "trust")
ENDS = pymysql.err.MySQLError, AssertionError  # what ends a round whose MySQL has gone: it refuses what a round needs
AUTOMATIC = {"auto_cache": "on", "auto_cache_reads": "2", "auto_cache_time": "0.001ms"}
EVERYTHING = Focus(partial_dates=True, everything=True, nested=0.1, computed=0.4, set=0.3)
READERS = Focus(computed=1.0, set=1.0)
NESTED = Focus(nested=1.0)


@dataclass
class Result:
    """`small`: scripts of findings, by what they have in common; `alike`: how many of each there were."""

    rounds: int = 0
    tally: Tally = field(default_factory=Tally)
    small: list[Script] = field(default_factory=list)
    unshrunk: list[Finding] = field(default_factory=list)  # that did not differ when they were asked alone
    alike: Counter[tuple[str, ...]] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def found(self) -> bool:
        return bool(self.alike)

    def __str__(self) -> str:
        tally = self.tally
        counts = tally.counts
        lines = [
            f"{self.rounds} rounds in {self.seconds:.0f} s, {counts['asked'] / max(self.seconds, 1):.0f} asked a second"
        ]
        lines += [f"  {count:>9,}  {name}" for name, count in sorted(counts.items())]
        lines += _most("no cache", tally.refused) + _most("MySQL's own errors", tally.errors)
        lines += _most("passed", tally.passed)
        lines += never(tally.texts, [template for _, template in EVERY], tally.used)
        lines += [f"{count:>9,}  {', '.join(rough)}" for rough, count in self.alike.most_common()]
        if not self.found:
            lines.append("nothing differed")
        return "\n".join(lines)


def _most(title: str, counts: Counter[str]) -> list[str]:
    return [f"{title}:"] + [f"  {count:>9,}  {reason}" for reason, count in counts.most_common(12)]


Show = Callable[[str], None]


def oracle(
    asker: Asker,
    seed: int,
    *,
    seconds: float = 0.0,
    rounds: int = 0,
    kinds: Sequence[str] = KINDS,
    show: Show = print,
    small: bool = True,
    once: bool = False,
    focus: Focus = ANYTHING,
    result: Result | None = None,
) -> Result:
    """Rounds from this seed on, until the time is over or so many are done. `kinds`: of what differs, that count;
    `small`: it is made small; `once`: the first round in which something differs is the last; `result`: goes on."""
    result = result or Result()
    begun = monotonic() - result.seconds
    shown = monotonic()
    while (monotonic() - begun < seconds) if not rounds else (result.rounds < rounds):
        played = Round(asker, seed + result.rounds, result.tally, focus)
        played.play()
        result.rounds += 1
        for finding in played.findings:
            if finding.kind in kinds:
                note(asker, result, finding, show, small=small)
        result.seconds = monotonic() - begun
        if once and result.found:
            break
        if monotonic() - shown > SHOWN_EVERY:
            shown = monotonic()
            asked, hits = (result.tally.counts[name] for name in ("asked", "hit"))
            show(f"... {result.rounds} rounds, {asked:,} asked, {hits:,} hits, {len(result.small)} found")
    return result


def note(asker: Asker, result: Result, finding: Finding, show: Show, *, small: bool) -> None:
    result.alike[finding.rough] += 1
    if not small or result.alike[finding.rough] > ALIKE or len(result.small) >= MOST:
        return
    shown = str(finding)
    script = Shrinker(asker, finding).shrink()
    if script is None:
        result.unshrunk.append(finding)
        show(f"differed only in its round: make oracle SEED={finding.seed} ROUNDS=1\n{shown}\n")
        return
    if str(script) not in map(str, result.small):
        result.small.append(script)
        show(f"{script}")


def keep(folder: Path, scripts: Sequence[Script]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, script in enumerate(scripts):
        seed = script.title.split("SEED=")[1].split()[0]
        (folder / f"seed{seed}_{number}.sql").write_text(str(script))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make oracle", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=0, help="so many rounds, whatever time they take")
    parser.add_argument("--keep", type=Path, help="a folder for the scripts of what differs")
    parser.add_argument("--only", choices=KINDS, action="append", help="what may differ: these kinds alone count")
    parser.add_argument("--verify", default="off", help="checks of new caches (--verify-new-caches), which hide faults")
    parser.add_argument("--auto", action="store_true", help="no CREATE CACHE: what is read often is cached by itself")
    parser.add_argument("--steps", action="store_true", help="the proxy takes the smallest answer for a large one")
    parser.add_argument("--nested", action="store_true", help="only joins in brackets, WITH, views, queries in queries")
    parser.add_argument("--readers", action="store_true", help="only sessions of odd variables, and VIRTUAL columns")
    given = parser.parse_args(arguments)
    with campaign("oracle") as (server, state):
        options = {"verify_new_caches": given.verify, **(AUTOMATIC if given.auto else {})}
        result = Result()
        while not _played(server, state, given, options, result):
            result.rounds += 1
            result.tally.counts["MySQL has ended by itself"] += 1
            print(f"MySQL has ended by itself: make oracle SEED={given.seed + result.rounds - 1} ROUNDS=1", flush=True)
            server.kill()  # it may still be writing of its end
            server.start()
    print(result)
    if given.keep:
        keep(given.keep, result.small)
    return int(result.found)


def _played(server: Server, state: Path, given: argparse.Namespace, options: Mapping[str, str], result: Result) -> bool:
    """Whether MySQL was there to the end. Some of what it is asked makes it fail: what comes after is asked of it when
    it has started again."""
    kinds, there = tuple(given.only or KINDS), True
    try:
        with asker_beside(server, DATABASE, state, **options) as asker:
            if given.steps:
                everything_in_steps(asker.beside.proxy.app.engine)
                rows.JOINED_AT_ONCE = 1
            try:
                oracle(
                    asker,
                    given.seed,
                    seconds=given.seconds,
                    rounds=given.rounds,
                    kinds=kinds,
                    focus=NESTED if given.nested else READERS if given.readers else EVERYTHING,
                    result=result,
                )
            except ENDS:
                there = not server.private or server.answers()
                raise
    except ENDS:
        if there:
            raise
    return there


if __name__ == "__main__":
    sys.exit(main())
