"""What each figure may be, and where the project wants it: `budgets.toml`, and the judging of figures by it."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.result import Figure, Result, text

FILE = Path(__file__).with_name("budgets.toml")
NUMBERS = "at_most", "at_least", "goal", "goal_compiled"


class BudgetsFault(ValueError):
    """The file is not as it shall be. The message names the entry and what would be accepted."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Of one figure. Exactly one of `at_most` and `at_least` is given, in the figure's own unit.

    `goal`: where the project wants the figure, and `goal_compiled` where its hot paths are compiled. `why`: the reason
    for a budget that is looser than its goal, "" for others.
    """

    benchmark: str
    figure: str
    at_most: float | None = None
    at_least: float | None = None
    goal: float | None = None
    goal_compiled: float | None = None
    why: str = ""

    @property
    def name(self) -> str:
        return f"{self.benchmark}: {self.figure}"

    @property
    def bound(self) -> float:
        if self.at_most is not None:
            return self.at_most
        assert self.at_least is not None
        return self.at_least

    def kept(self, value: float) -> bool:
        return self.reaches(value, self.bound)

    def reached(self, value: float) -> bool:
        """Whether the figure is where the project wants it; true where no goal is given."""
        return self.goal is None or self.reaches(value, self.goal)

    def reaches(self, value: float, bound: float) -> bool:
        return value <= bound if self.at_most is not None else value >= bound

    def wording(self, bound: float) -> str:
        return f"at {'most' if self.at_most is not None else 'least'} {bound:g}"


@dataclass(frozen=True, slots=True)
class Budgets:
    """`entries` in the file's order."""

    entries: Sequence[Budget]

    def of(self, benchmark: str, figure: str) -> Budget | None:
        return next((one for one in self.entries if (one.benchmark, one.figure) == (benchmark, figure)), None)


def read(path: Path = FILE) -> Budgets:
    """Raises BudgetsFault."""
    try:
        return budgets(tomllib.loads(path.read_text()))
    except tomllib.TOMLDecodeError as error:
        raise BudgetsFault(f"{path.name}: {error}") from None


def budgets(tables: dict[str, Any]) -> Budgets:
    """Of the file's tables. Raises BudgetsFault."""
    entries = []
    for benchmark, figures in tables.items():
        for figure, fields in figures.items():
            if not isinstance(fields, dict):
                raise BudgetsFault(f'[{benchmark}] {figure}: a figure is a table of its own, [{benchmark}."{figure}"]')
            entries.append(entry(benchmark, figure, fields))
    return Budgets(entries)


def entry(benchmark: str, figure: str, fields: dict[str, Any]) -> Budget:
    """Raises BudgetsFault."""

    def fault(what: str) -> BudgetsFault:
        return BudgetsFault(f'[{benchmark}."{figure}"]: {what}')

    unknown = set(fields) - {*NUMBERS, "why"}
    if unknown:
        raise fault(f"there is no {', '.join(sorted(unknown))}: there are {', '.join(NUMBERS)} and why")
    for name in NUMBERS:
        if type(fields.get(name, 0)) not in (int, float):
            raise fault(f"{name} = {fields[name]!r} is no number")
    if not isinstance(fields.get("why", ""), str):
        raise fault("why is a text")
    if ("at_most" in fields) == ("at_least" in fields):
        raise fault("either at_most or at_least is wanted, and not both")
    budget = Budget(benchmark, figure, **fields)
    if budget.goal is None:
        if budget.goal_compiled is not None or budget.why:
            raise fault("goal_compiled and why are wanted beside a goal only")
    elif not budget.reaches(budget.goal, budget.bound):
        raise fault("the goal is looser than the budget")
    elif (budget.goal != budget.bound) != bool(budget.why):
        raise fault("why is wanted where the budget is looser than its goal, and nowhere else")
    elif budget.goal_compiled is not None and not budget.reaches(budget.goal_compiled, budget.goal):
        raise fault("goal_compiled is looser than the goal")
    return budget


# -- judging -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judged:
    """Figures beside their budgets. `unmeasured`: budgets without a figure in this run."""

    broken: Sequence[tuple[Budget, float]]
    short: Sequence[tuple[Budget, float]]
    unmeasured: Sequence[Budget]

    def missed(self, ran: Collection[str]) -> list[Budget]:
        """Those without a figure whose benchmark came to its end."""
        return [budget for budget in self.unmeasured if budget.benchmark in ran]

    def lines(self, ran: Collection[str] = ()) -> list[str]:
        """For the end of a report. `ran`: benchmarks that came to their end, so that they miss a figure."""
        lines = [
            f"broken: {budget.name}: {text(value)}, {budget.wording(budget.bound)}" for budget, value in self.broken
        ]
        lines += [
            f"not yet where it is wanted: {budget.name}: {text(value)}, {budget.wording(budget.goal)}"
            for budget, value in self.short
            if budget.goal is not None
        ]
        lines += [f"not measured, though its benchmark ran: {budget.name}" for budget in self.missed(ran)]
        others: dict[str, int] = {}
        for budget in self.unmeasured:
            if budget.benchmark not in ran:
                others[budget.benchmark] = others.get(budget.benchmark, 0) + 1
        if others:
            lines.append("not measured: " + ", ".join(f"{name} ({count})" for name, count in others.items()))
        return lines or ["every figure that has a budget or a goal keeps it"]


def judge(known: Budgets, results: Iterable[Result]) -> Judged:
    """The results' figures by the file's entries; a figure that is measured twice counts each time."""
    broken, short, seen = [], [], set()
    for result in results:
        for figure in result.figures:
            budget = known.of(result.name, figure.name)
            if budget is None:
                continue
            seen.add(budget)
            if not budget.kept(figure.value):
                broken.append((budget, figure.value))
            if not budget.reached(figure.value):
                short.append((budget, figure.value))
    return Judged(broken, short, [budget for budget in known.entries if budget not in seen])


def verdict(budget: Budget | None, figure: Figure) -> str:
    """What is printed behind a figure, "" where it has no budget."""
    if budget is None:
        return ""
    words = [budget.wording(budget.bound), "met" if budget.kept(figure.value) else "NOT MET"]
    if budget.goal is not None and budget.goal != budget.bound:
        words.append(f"(wanted: {budget.wording(budget.goal)})")
    return "  ".join(words)
