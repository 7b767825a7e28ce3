"""Runs schedules of the simulation, and makes a failing one small.

python -m tests.simulation.run --steps 20000 --seed 1
make sim STEPS=1000000 SEED=7
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

from tests.simulation.simulation import Simulation

STEPS_PER_SCHEDULE = 400
LONGEST_TRACE = 60  # lines that are printed of a schedule that went wrong


def failure(seed: int, steps: int, left_out: frozenset[int] = frozenset()) -> str:
    """What goes wrong in this schedule; "" if nothing does."""
    try:
        Simulation(seed, left_out).run(steps)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        return f"{type(error).__name__}: {error}"
    return ""


def shrunk(seed: int, steps: int, fails: Callable[[frozenset[int]], bool]) -> frozenset[int]:
    """Steps that can be left out, in ever smaller pieces, so that the schedule still fails."""
    left_out: frozenset[int] = frozenset()
    size = steps // 2
    while size:
        for start in range(0, steps, size):
            tried = left_out | frozenset(range(start, min(start + size, steps)))
            if tried != left_out and fails(tried):
                left_out = tried
        size //= 2
    return left_out


def report(seed: int, steps: int, error: str) -> None:
    """Prints the smallest failing schedule that is found, step by step."""
    print(f"seed {seed}: {error}", file=sys.stderr)
    kind = error.split(":")[0]
    left_out = shrunk(seed, steps, lambda tried: failure(seed, steps, tried).startswith(kind))
    simulation = Simulation(seed, left_out)
    try:
        simulation.run(steps)
    except Exception as smallest:  # noqa: BLE001 - it is reported
        print(f"with {steps - len(left_out)} steps: {smallest}", file=sys.stderr)
    trace = [line for line in simulation.trace if line.split(": ")[1] not in ("step", "deliver", "advance_upquery")]
    print("\n".join(trace[-LONGEST_TRACE:]), file=sys.stderr)
    print(f"again: python -m tests.simulation.run --seed {seed} --steps {steps}", file=sys.stderr)


def run(seeds: range, steps: int) -> tuple[Counter[str], int]:
    """(what happened, how many schedules were different from each other). Raises AssertionError where one fails."""
    counts: Counter[str] = Counter()
    different: set[int] = set()
    for seed in seeds:
        simulation = Simulation(seed)
        try:
            counts += simulation.run(steps)
        except Exception as error:
            report(seed, steps, f"{type(error).__name__}: {error}")
            raise
        different.add(hash(tuple(simulation.trace)))
    return counts, len(different)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Simulate schedules of upqueries against the change stream.")
    parser.add_argument("--steps", type=int, default=20_000, help="steps in all (default 20000)")
    parser.add_argument("--seed", type=int, default=1, help="the first schedule's seed (default 1)")
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    schedules = max(1, options.steps // STEPS_PER_SCHEDULE)
    counts, different = run(range(options.seed, options.seed + schedules), STEPS_PER_SCHEDULE)
    seconds = time.perf_counter() - started
    steps = schedules * STEPS_PER_SCHEDULE
    print(
        f"{steps} steps in {schedules} schedules from seed {options.seed} ({different} different): nothing found, "
        f"{steps / seconds:.0f} steps a second"
    )
    for name, count in sorted(counts.items()):
        print(f"  {name:32} {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
