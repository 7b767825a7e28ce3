"""The outcomes of a driver's suite, test by test, and where two runs disagree. Knows no database and no driver."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
KIND_OF_ELEMENT = {"failure": FAILED, "error": FAILED, "skipped": SKIPPED}
KIND_OF_ACTION = {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}
# What `go test` writes about a test itself, in all of its output.
GO_FRAME = ("=== ", "--- ")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`said`: the last line of what the test said about it, where it said something."""

    kind: str
    said: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.said}" if self.said else self.kind


Outcomes = Mapping[str, Outcome]
NOT_RUN = Outcome("not run")


@dataclass(frozen=True, slots=True)
class Difference:
    test: str
    directly: Outcome
    through: Outcome

    def __str__(self) -> str:
        return f"{self.test}\n    directly: {self.directly}\n    through Upwell: {self.through}"


def read_junit(text: str) -> dict[str, Outcome]:
    """The outcomes in a report of `pytest --junit-xml`, by class and test. Of several for one test the worst counts."""
    found: dict[str, Outcome] = {}
    for case in ElementTree.fromstring(text).iter("testcase"):
        name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
        for outcome in (*map(_of_element, case), Outcome(PASSED)):
            if name not in found or _badness(outcome) > _badness(found[name]):
                found[name] = outcome
    return found


def _of_element(element: ElementTree.Element) -> Outcome:
    kind = KIND_OF_ELEMENT.get(element.tag, PASSED)  # <system-out> and its like say nothing
    return Outcome(kind, "" if kind == PASSED else last_line(element.get("message") or ""))


def _badness(outcome: Outcome) -> int:
    return (PASSED, SKIPPED, FAILED).index(outcome.kind)


def read_go(lines: Iterable[str]) -> dict[str, Outcome]:
    """The outcomes in the lines of `go test -json`, by test and subtest. What no test ended itself (a panic of another
    one ends all) is missing."""
    found: dict[str, Outcome] = {}
    printed: dict[str, list[str]] = {}
    for line in lines:
        event: dict[str, Any] = json.loads(line)
        test = event.get("Test")
        if test is None:
            continue
        if event["Action"] == "output" and not event["Output"].lstrip().startswith(GO_FRAME):
            printed.setdefault(test, []).append(event["Output"])
        kind = KIND_OF_ACTION.get(event["Action"])
        if kind is not None:
            found[test] = Outcome(kind, "" if kind == PASSED else last_line("".join(printed.get(test, []))))
    return found


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def differences(directly: Outcomes, through: Outcomes) -> list[Difference]:
    """Tests that pass, fail or are skipped in one run, and not in the other. What they say about it may differ."""
    pairs = ((test, directly.get(test, NOT_RUN), through.get(test, NOT_RUN)) for test in sorted({*directly, *through}))
    return [Difference(*pair) for pair in pairs if pair[1].kind != pair[2].kind]


def count(outcomes: Outcomes, kind: str) -> int:
    return sum(outcome.kind == kind for outcome in outcomes.values())
