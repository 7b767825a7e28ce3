"""The long campaigns, one after the other, a line for each: `make nightly`, `make nightly MINUTES=60 SEED=7`.

Each campaign is a make target with its share of the minutes, and with a seed that is another one every night (the day's
number; given again, it makes the same night again). What a campaign prints goes to `build/nightly/NAME.log`. Exits with
1 where one has failed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "build/nightly"
MINUTES = 120.0
STEPS_PER_SECOND = 3000  # of the simulation, about, on one core
GRACE = 3.0  # a campaign that takes so many times its share hangs
SLACK = 1200.0  # seconds more that it may take: tests that are no campaign have no share


@dataclass(frozen=True)
class Campaign:
    """`target`: of make. `share`: of the time; 0 for one that takes what it takes. `given`: what the target is told,
    with {seconds}, {steps} and {seed}."""

    target: str
    share: float = 0.0
    given: tuple[str, ...] = ()

    def command(self, seconds: float, seed: int) -> list[str]:
        """What is run, for a night of so many seconds."""
        own = max(1, round(seconds * self.share))
        filled = (text.format(seconds=own, steps=own * STEPS_PER_SECOND, seed=seed) for text in self.given)
        return ["make", "--no-print-directory", self.target, *filled]

    def longest(self, seconds: float) -> float:
        return seconds * self.share * GRACE + SLACK


CAMPAIGNS = (
    Campaign("unit", 0.0, ("SEED={seed}",)),
    Campaign("collations"),
    Campaign("by-index"),
    Campaign("literals", 0.0, ("SEED={seed}",)),
    Campaign("mutants", 0.0, ("SEED={seed}",)),
    Campaign("oracle-mutants"),
    Campaign("applications"),
    Campaign("driver-suites"),
    Campaign("orm-statements"),
    Campaign("sim", 0.2, ("STEPS={steps}", "SEED={seed}")),
    Campaign("differential", 0.15, ("SECONDS={seconds}", "FIRST={seed}")),
    Campaign("oracle", 0.15, ("SECONDS={seconds}", "SEED={seed}")),
    Campaign("mysql-suite", 0.1, ("SECONDS={seconds}", "SEED={seed}")),
    Campaign("lists", 0.05, ("SECONDS={seconds}", "SEED={seed}")),
    Campaign("bindings", 0.05, ("SECONDS={seconds}", "SEED={seed}")),
    Campaign("sessions", 0.05, ("SECONDS={seconds}", "SEED={seed}")),
    Campaign("fuzz", 0.1, ("SECONDS={seconds}", "SEED={seed}")),
    Campaign("hammer", 0.1, ("SECONDS={seconds}", "SEED={seed}")),
    Campaign("hammer-vitess", 0.05, ("SECONDS={seconds}", "SEED={seed}")),
)


@dataclass(frozen=True)
class Outcome:
    status: int | None  # None: it was ended
    seconds: float
    last: str
    """The last line that it printed, which sums it up."""


def run(command: Sequence[str], log: Path, longest: float) -> Outcome:
    """Runs a campaign with its output in `log`."""
    began = time.monotonic()
    status: int | None = None
    with log.open("wb") as output:
        campaign = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status = campaign.wait(longest)
        except subprocess.TimeoutExpired:
            os.killpg(campaign.pid, signal.SIGTERM)  # make, and what it has begun
            campaign.wait()
        except BaseException:  # Ctrl-C is ours alone: the campaign has a session of its own
            os.killpg(campaign.pid, signal.SIGTERM)
            raise
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return Outcome(status, time.monotonic() - began, lines[-1] if lines else "it printed nothing")


def told(campaign: Campaign, outcome: Outcome, log: Path) -> str:
    """The campaign's line."""
    verdict = "ok" if outcome.status == 0 else "HANGS" if outcome.status is None else "FAILED"
    line = f"{campaign.target:13} {outcome.seconds:7.0f} s  {verdict:6}  {outcome.last[:100]}"
    return line if verdict == "ok" else f"{line}\n{'':13} all of it: {log}"


def main(arguments: Sequence[str] | None = None, campaigns: Sequence[Campaign] = CAMPAIGNS, logs: Path = LOGS) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"of all that have a share ({MINUTES:.0f})")
    parser.add_argument("--seed", type=int, default=int(time.time()) // 86_400 * 1_000_000, help="the night's seed")
    options = parser.parse_args(arguments)
    logs.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}", flush=True)
    failed = 0
    for campaign in campaigns:
        seconds = options.minutes * 60
        log = logs / f"{campaign.target}.log"
        outcome = run(campaign.command(seconds, options.seed), log, campaign.longest(seconds))
        failed += outcome.status != 0
        print(told(campaign, outcome, log), flush=True)
    print(f"{failed or 'none'} of {len(campaigns)} campaigns failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
