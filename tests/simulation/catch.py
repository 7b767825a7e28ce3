"""Switches each rule of docs/consistency.md off (`mutants.py`): the simulation must find out, or it does not look.

python -m tests.simulation.catch
make mutants

prints for each rule the seed that showed it, after how many schedules and seconds. Exits with 1 where one is not caught
within `LONGEST` seconds. The seeds are kept in `caught.txt`: one that has shown a rule is tried first the next time. A
change of the simulation makes other schedules of the same seeds; then the search begins at the first seed again, and
`make mutants` writes the seeds anew.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.simulation.mutant import Mutant
from tests.simulation.mutants import MUTANTS
from tests.simulation.run import failure, run
from tests.simulation.script import Script

LONGEST = 60.0  # seconds of processor time until a mutant must have been caught
CAUGHT = Path(__file__).with_name("caught.txt")


@dataclass(frozen=True)
class Caught:
    """`seed` 0: by the mutant's script. `error` is "" where nothing went wrong."""

    seed: int
    schedules: int
    seconds: float
    error: str


def remembered(path: Path = CAUGHT) -> dict[str, int]:
    """The seed that last showed each rule, by the mutant's name."""
    if not path.exists():
        return {}
    pairs = (line.split(None, 1) for line in path.read_text().splitlines() if not line.startswith("#"))
    return {name: int(seed) for seed, name in pairs}


def remember(seeds: Mapping[str, int], path: Path = CAUGHT) -> None:
    """Keeps the seeds. Mutants that are no more are left out."""
    lines = [f"{seeds[mutant.name]:6} {mutant.name}\n" for mutant in MUTANTS if mutant.name in seeds]
    path.write_text("# The seed that showed each rule switched off. Written by `make mutants`.\n" + "".join(lines))


def catch(mutant: Mutant, first: int = 1, longest: float = LONGEST, known: int | None = None) -> Caught:
    """Runs schedules without the rule until one fails, or for `longest` seconds: of `known`, then from `first` on."""
    started = time.process_time()
    with pytest.MonkeyPatch.context() as patch:
        mutant.switch_off(patch)
        if mutant.script:
            error = failure(Script.read(Path(__file__).with_name("regressions") / f"{mutant.script}.sim"))
            if error:
                return Caught(0, 1, time.process_time() - started, error)
        seeds = itertools.chain([] if known is None else [known], itertools.count(first))
        for tried, seed in enumerate(seeds, 1):
            error = failed(seed) if mutant.trial is None else tried_with(mutant.trial, seed)
            seconds = time.process_time() - started
            if error:
                return Caught(seed, tried, seconds, error)
            if seconds > longest:
                return Caught(seed, tried, seconds, "")
    raise AssertionError("seeds have no end")


def failed(seed: int) -> str:
    ran = run([seed])
    return "" if ran.failed is None else ran.failed[1]


def tried_with(trial: Callable[[int], str], seed: int) -> str:
    try:
        return trial(seed)
    except AssertionError as error:
        return f"AssertionError: {error}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Switch each rule off; the simulation must find out.")
    parser.add_argument("--seed", type=int, help="the first schedule's seed (default: the one kept, then from 1 on)")
    parser.add_argument("--only", default="", help="part of the names of the rules to try")
    options = parser.parse_args(arguments)
    missed = 0
    seeds = remembered()
    print(f"{'rule':74} {'seed':>6} {'schedules':>9} {'seconds':>8}  what was wrong")
    for mutant in MUTANTS:
        if options.only not in mutant.name:
            continue
        known = seeds.get(mutant.name) if options.seed is None else None
        caught = catch(mutant, options.seed or 1, known=known)
        missed += not caught.error
        if caught.error and options.seed is None:
            seeds[mutant.name] = caught.seed
        seed = str(caught.seed or "script") if caught.error else "missed"
        what = caught.error[:70].replace("\n", " ")
        print(f"{mutant.name:74} {seed:>6} {caught.schedules:9} {caught.seconds:8.2f}  {what}", flush=True)
    if options.seed is None:
        remember(seeds)
    print(f"{missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
