"""Runs schedules of the simulation, and makes a failing one small.

python -m tests.simulation.run --steps 20000 --seed 1
make sim STEPS=1000000 SEED=7
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from tests.simulation.queries import QUERIES
from tests.simulation.rest import rest
from tests.simulation.restarts import Restarts, RestartSchedule
from tests.simulation.schedule import Schedule
from tests.simulation.script import Script, Setup, shrunk
from tests.simulation.sharded_schedule import ShardedSchedule
from tests.simulation.sharded_trials import ShardedTrials, ShardedTrialSchedule
from tests.simulation.simulation import Results, Simulation
from tests.simulation.trials import Trials, TrialSchedule, ViewSchedule

STEPS_PER_SCHEDULE = 400
SCHEDULES_PER_JOB = 20
TRIALS_EVERY = 4  # seeds
VIEWS_EVERY = 12  # likewise those in which views are replaced
SHARDS_EVERY = 5  # likewise those of several shards
RESTARTS_EVERY = 3  # likewise those in which the proxy ends and begins anew
BOTH_EVERY = 5  # likewise those of several shards with comparisons
SOURCES = Path(__file__).parents[2] / "dataflow"
FOUND = Path("build")  # where failing scripts are put
# A rule's counter that stays at zero: what no schedule can bring about.
NOT_REACHED = frozenset({"answers_not_understood", "audit_differences", "removed_row_not_held"})


@dataclass
class Ran:
    """What some schedules came to. `schedules` and `graphs`: digests of those that were different."""

    counts: Counter[str] = field(default_factory=Counter)
    schedules: set[bytes] = field(default_factory=set)
    graphs: set[bytes] = field(default_factory=set)
    failed: tuple[int, str] | None = None  # a seed, and what went wrong

    def add(self, other: Ran) -> None:
        self.counts += other.counts
        self.schedules |= other.schedules
        self.graphs |= other.graphs
        self.failed = self.failed or other.failed


class Altering:
    """Takes a row out of some answers, or changes one: a simulation that looks must fail."""

    def __init__(self, share: float, seed: int) -> None:
        self._share = share
        self._rng = random.Random(seed)

    def __call__(self, results: Results) -> None:
        rng = self._rng
        filled = [rows for rows in results if rows]
        if not filled or rng.random() >= self._share:
            return
        rows = rng.choice(filled)
        at = rng.randrange(len(rows))
        numbers = [place for place, value in enumerate(rows[at]) if isinstance(value, int)]
        if numbers and rng.random() < 0.5:
            row = list(rows[at])
            row[rng.choice(numbers)] += 7  # type: ignore[operator]  # it is a number
            rows[at] = tuple(row)
        else:
            del rows[at]


def digest(thing: object) -> bytes:
    return blake2b(repr(thing).encode(), digest_size=8).digest()


def run(seeds: Sequence[int], steps: int = STEPS_PER_SCHEDULE, alter: float = 0.0) -> Ran:
    """Runs the schedules until one fails."""
    ran = Ran()
    for seed in seeds:
        for schedule in schedules(seed):
            simulation = simulation_of(schedule.setup, Altering(alter, seed) if alter else None)
            try:
                schedule.run(simulation, steps)
                rest(simulation)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
                ran.failed = seed, described(error)
                return ran
            finally:
                simulation.close()
            ran.counts += simulation.counts
            ran.schedules.add(digest(simulation.actions))
            ran.graphs.update(digest(sorted(graph)) for graph in simulation.graphs)
    return ran


def simulation_of(setup: Setup, alter: Altering | None = None) -> Simulation:
    if setup.restarts:
        return Restarts(setup, alter)
    return ShardedTrials(setup, alter) if setup.shards else Trials(setup, alter)


def schedules(seed: int) -> list[Schedule]:
    """Of one seed: of some a second one, in which caches earn their trust, a third, in which views are replaced, a
    fourth, of a source of several shards, a fifth, in which the proxy ends and begins anew, and a sixth, in which
    caches earn their trust before several shards."""
    found = [Schedule(seed)]
    if seed % TRIALS_EVERY == 0:
        found.append(TrialSchedule(seed))
    if seed % VIEWS_EVERY == 0:
        found.append(ViewSchedule(seed))
    if seed % SHARDS_EVERY == 0:
        found.append(ShardedSchedule(seed))
    if seed % RESTARTS_EVERY == 1:
        found.append(RestartSchedule(seed))
    if seed % BOTH_EVERY == 0:
        found.append(ShardedTrialSchedule(seed))
    return found


def described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def kind_of(error: str) -> str:
    """What an error says without its values and the name of the query."""
    words = re.sub(r"\([^)]*\)|\[.*\]|\{.*\}|[0-9a-f]+-[-0-9a-f:]+|\d+", "", error).replace(",", " ").split()
    return " ".join(word for word in words if word not in QUERIES)


def script_of(seed: int, steps: int = STEPS_PER_SCHEDULE) -> Script:
    """The steps of a seed's schedule until it ends or fails; where it has two, of the one that fails."""
    for schedule in schedules(seed):
        simulation = simulation_of(schedule.setup)
        failed = False
        try:
            schedule.run(simulation, steps)
            rest(simulation)
        except Exception:  # noqa: BLE001 - the steps are wanted, not what is wrong with them
            failed = True
        finally:
            simulation.close()
        if failed:
            break
    return Script(schedule.setup, tuple(simulation.actions))


def failure(script: Script, log: Callable[[str], None] | None = None) -> str:
    """What goes wrong when the script is run; "" if nothing does."""
    simulation = simulation_of(script.setup)
    simulation.check_every = 1
    simulation.log = log
    try:
        for action in script.actions:
            simulation.perform(action)
        rest(simulation)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        return described(error)
    finally:
        simulation.close()
    return ""


def small(seed: int, steps: int = STEPS_PER_SCHEDULE) -> Script:
    """The smallest script that is found to fail as this schedule does."""
    script = script_of(seed, steps)
    found = failure(script)
    kind = kind_of(found)
    made = shrunk(script, lambda tried: kind_of(failure(tried)) == kind) if found else script
    return Script(made.setup, made.actions, f"{failure(made)}\nFound with seed {seed}.")


def report(seed: int, error: str, steps: int) -> None:
    """Prints the smallest failing script that is found, and keeps it in a file."""
    print(f"seed {seed}: {error}", file=sys.stderr)
    script = small(seed, steps)
    failure(script, lambda line: print(line, file=sys.stderr))
    path = FOUND / f"seed-{seed}.sim"
    FOUND.mkdir(exist_ok=True)
    path.write_text(script.text())
    print(
        f"the {len(script.actions)} steps are in {path}; python -m tests.simulation.run --script {path}",
        file=sys.stderr,
    )


def pieces(first: int, schedules: int, steps: int, alter: float) -> Iterator[tuple[range, int, float]]:
    for start in range(first, first + schedules, SCHEDULES_PER_JOB):
        yield range(start, min(start + SCHEDULES_PER_JOB, first + schedules)), steps, alter


def _run_piece(piece: tuple[range, int, float]) -> Ran:
    return run(*piece)


def campaign(first: int, schedules: int, steps: int = STEPS_PER_SCHEDULE, alter: float = 0.0, jobs: int = 1) -> Ran:
    """All the schedules, or those until one fails, in so many processes."""
    total = Ran()
    work = pieces(first, schedules, steps, alter)
    if jobs == 1:
        for piece in work:
            total.add(_run_piece(piece))
            if total.failed:
                break
        return total
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for ran in pool.imap_unordered(_run_piece, work):
            total.add(ran)
            if total.failed:
                break
    return total


def rule_counters() -> set[str]:
    """The counters of the engine's rules, as its sources name them."""
    text = "".join(path.read_text() for path in SOURCES.rglob("*.py"))
    return set(re.findall(r"count\(\s*\"(\w+)\"", text)) | set(re.findall(r"\.fail\(.*?\"(\w+)\"\)", text))


def silent(counts: Counter[str]) -> list[str]:
    """The rules' counters that no schedule has raised."""
    return sorted(name for name in rule_counters() - NOT_REACHED if not counts[name])


def show(ran: Ran, steps: int, seconds: float) -> None:
    print(
        f"{steps} steps, {len(ran.schedules)} different schedules, {len(ran.graphs)} different graphs: nothing found, "
        f"{steps / seconds:.0f} steps a second"
    )
    for name, count in sorted(ran.counts.items()):
        print(f"  {name:32} {count}")
    for name in silent(ran.counts):
        print(f"  {name:32} never")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Simulate schedules of upqueries against the change stream.")
    parser.add_argument("--steps", type=int, default=20_000, help="steps in all (default 20000)")
    parser.add_argument("--seed", type=int, default=1, help="the first schedule's seed (default 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a CPU)")
    parser.add_argument("--alter", type=float, default=0.0, help="the share of answers that are altered: must fail")
    parser.add_argument("--script", type=Path, help="run one script and print what happens")
    options = parser.parse_args(arguments)
    if options.script is not None:
        found = failure(Script.read(options.script), print)
        print(found or "nothing found")
        return 1 if found else 0
    started = time.perf_counter()
    schedules = max(1, options.steps // STEPS_PER_SCHEDULE)
    ran = campaign(options.seed, schedules, alter=options.alter, jobs=max(1, min(options.jobs, schedules)))
    if ran.failed is None:
        show(ran, schedules * STEPS_PER_SCHEDULE, time.perf_counter() - started)
        return 0
    seed, error = ran.failed
    if options.alter:
        print(f"seed {seed}, with altered answers: {error}", file=sys.stderr)
    else:
        report(seed, error, STEPS_PER_SCHEDULE)
    return 1


if __name__ == "__main__":
    sys.exit(main())
