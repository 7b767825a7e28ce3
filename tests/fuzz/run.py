"""Bytes that no client and no server should send, and clients and servers that go at any moment, against all that
speaks MySQL's protocol here.

python -m tests.fuzz.run --seconds 600 --seed 7
make fuzz SECONDS=600 SEED=7

Each seed makes some cases for the decoders, one for a login and one for a session; the seeds follow each other from the
first one on. The only outcomes are answers, `Malformed` where a decoder is defined to say so, and ended connections.
What has any other is made small and printed as a script.
"""

from __future__ import annotations

import argparse
import gc
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from types import FrameType

from tests.fuzz.decoders import bytes_case
from tests.fuzz.logins import login_case
from tests.fuzz.sessions import session_case
from tests.fuzz.shrinking import Case, Finding, failure, shrunk
from tests.fuzz.system import Counts
from tests.fuzz.texts import texts_case

DECODERS_PER_SESSION = 20
HANGS = 60  # seconds: what has not ended by then never will
SHOWN_EVERY = 10.0  # seconds


class Hangs(Exception):
    """It does not end."""


@dataclass
class Fuzzed:
    """What some seeds came to. `counts`: of cases by kind; `answered`: how sessions were answered."""

    seeds: int = 0
    counts: Counts = field(default_factory=Counter)
    answered: Counts = field(default_factory=Counter)
    findings: dict[str, tuple[int, Case, Finding]] = field(default_factory=dict)

    @property
    def cases(self) -> int:
        return sum(self.counts.values())


def cases_of(seed: int) -> Iterator[Case]:
    """The cases of one seed. What one kind draws does not change the cases of another."""
    decoders, texts, logins, sessions = (
        random.Random(f"{kind} {seed}") for kind in ("decoders", "texts", "logins", "sessions")
    )
    for _ in range(DECODERS_PER_SESSION):
        yield bytes_case(decoders)
    for _ in range(2):
        yield texts_case(texts)
    yield login_case(logins)
    yield session_case(sessions)


def watched(case: Case, counts: Counts) -> Finding | None:
    """Its failure; also that it does not end."""

    def on_alarm(number: int, frame: FrameType | None) -> None:
        raise Hangs(f"a case has not ended in {HANGS} seconds")

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, HANGS)
    try:
        return failure(case, counts)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fuzz(seeds: Iterator[int], seconds: float, show: Callable[[Fuzzed], None] = lambda _: None) -> Fuzzed:
    """Tries the seeds' cases, until the time is over. Of findings that are alike the first one is kept."""
    fuzzed = Fuzzed()
    ends = monotonic() + seconds
    shown = monotonic()
    for seed in seeds:
        fuzzed.seeds += 1
        for case in cases_of(seed):
            fuzzed.counts[case.kind] += 1
            found = watched(case, fuzzed.answered)
            if found is not None and found.alike not in fuzzed.findings:
                fuzzed.findings[found.alike] = seed, case, found
                shown = 0.0
        now = monotonic()
        if now - shown > SHOWN_EVERY:
            shown = now
            show(fuzzed)
        if now > ends:
            break
    return fuzzed


def report(seed: int, case: Case, found: Finding) -> str:
    """A finding, made small."""

    def fails(smaller: Case) -> bool:
        again = watched(smaller, Counter())
        return again is not None and again.alike == found.alike

    small = shrunk(case, fails) if "Hangs" not in found.alike else case
    again = watched(small, Counter()) or found
    return (
        f"seed {seed}, one of {case.kind}: {found.alike}\nagain: make fuzz SEED={seed} ARGS=--one\nmade small:\n\n"
        f"from collections import Counter\n{small.script()}\n\n{again.trace}"
    )


def summary(fuzzed: Fuzzed) -> str:
    lines = [f"{name:>12} {count:,}" for name, count in sorted(fuzzed.counts.items())]
    lines += ["how sessions were answered:"]
    lines += [f"{count:>12,} {name}" for name, count in sorted(fuzzed.answered.items())]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="for how long (60)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed; each next one is one more (1)")
    parser.add_argument("--one", action="store_true", help="only this seed")
    options = parser.parse_args(arguments)
    started = monotonic()
    gc.freeze()  # each session is collected

    told = 0

    def show(fuzzed: Fuzzed) -> None:
        nonlocal told
        seconds = monotonic() - started
        print(f"{seconds:5.0f} s, {fuzzed.cases:,} cases, {len(fuzzed.findings)} findings", file=sys.stderr)
        for seed, _, found in list(fuzzed.findings.values())[told:]:
            print(f"seed {seed}: {found.alike}", file=sys.stderr)
            told += 1

    last = options.seed if options.one else sys.maxsize
    fuzzed = fuzz(iter(range(options.seed, last + 1)), options.seconds, show)
    for seed, case, found in fuzzed.findings.values():
        print(report(seed, case, found))
    print(summary(fuzzed))
    print(
        f"{fuzzed.cases:,} cases of the seeds {options.seed} to {options.seed + fuzzed.seeds - 1} "
        f"in {monotonic() - started:.0f} s: {len(fuzzed.findings) or 'no'} findings"
    )
    return 1 if fuzzed.findings else 0


if __name__ == "__main__":
    sys.exit(main())
