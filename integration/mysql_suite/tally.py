"""What a campaign has counted and found."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path

SHOWN = 25  # reasons
LETTERS = 200  # of an example
BEFORE = 12  # statements of a script that are shown with a finding


@dataclass(frozen=True)
class Finding:
    """`kind`: rows, order, columns, error, ended, hangs, unhandled. `before`: what the script sent, the last of it."""

    test: str
    kind: str
    served: str
    text: str
    what: str
    after: str = ""
    before: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.kind} in {self.test}, {self.served}" + (f", after {self.after}" if self.after else "")]
        lines += [f"    {line}" for line in self.before]
        lines += [f"  {self.text}", *(f"  {line}" for line in self.what.splitlines())]
        return "\n".join(lines)


@dataclass
class Tally:
    counts: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    choices: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)  # of a choice
    findings: list[Finding] = field(default_factory=list)
    tests: int = 0
    test: str = ""  # that is being played
    keep: Path | None = None
    history: deque[str] = field(default_factory=lambda: deque(maxlen=BEFORE))  # what the script has sent at last
    told: set[tuple[str, str, str]] = field(default_factory=set)

    def found(self, finding: Finding) -> None:
        """Prints it, once for each text of a test."""
        key = (finding.test, finding.kind, finding.text)
        if key in self.told:
            return
        self.told.add(key)
        self.findings.append(finding)
        print(f"{finding}\n", flush=True)
        if self.keep is not None:
            self.keep.mkdir(parents=True, exist_ok=True)
            name = f"{finding.test.replace('/', '-')}_{len(self.findings)}.txt"
            (self.keep / name).write_text(f"{finding}\n")

    def chose(self, why: str, text: str) -> None:
        """A difference that is MySQL's choice."""
        self.choices[why] += 1
        self.examples.setdefault(why, f"{self.test}: {' '.join(text.split())[:LETTERS]}")

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self.counts.most_common())
        lines = [counts]
        for title, reasons in (
            ("MySQL's choice", self.choices),
            ("not cached", self.refused),
            ("passed through", self.passed),
        ):
            lines += [f"{title}:", *(f"  {count:>7,}  {reason}" for reason, count in reasons.most_common(SHOWN))]
        lines += [f"for example, {why}, in {example}" for why, example in self.examples.items()]
        lines.append(
            f"{self.tests} tests, {self.counts['compared']:,} answers compared, {self.counts['hit']:,} hits, "
            f"{len(self.findings) or 'no'} differences"
        )
        return "\n".join(lines)
