"""The budgets' file is whole, its names are those of figures, and a figure beyond its budget is told."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from benchmarks import auto_cache, budgets
from benchmarks.budgets import Budget, BudgetsFault, judge, read
from benchmarks.compare.paths import PATHS
from benchmarks.result import Figure, Result
from benchmarks.run import BENCHMARKS, status
from integration.applications import run as applications

KNOWN = read()
ANYTHING = ".+"


# -- names -------------------------------------------------------------------------------------------------------------


def modules(benchmark: str) -> list[ModuleType]:
    """Those whose figures are found by this name."""
    if benchmark in BENCHMARKS:
        return [importlib.import_module(BENCHMARKS[benchmark].__module__)]
    assert benchmark == "applications", f"no benchmark is called {benchmark!r}"
    return [applications]


def patterns(module: ModuleType) -> Iterator[str]:
    """Of each text of the module that may be a figure's name, as regular expressions: what the module's own constants
    do not tell may be anything. Texts that are nothing but that are left out."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.escape(node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = [filled(part, module) for part in node.values]
            if re.search(r"\w", "".join(part for part in parts if part != ANYTHING)):
                yield "".join(parts)


def filled(part: ast.expr, module: ModuleType) -> str:
    if isinstance(part, ast.Constant):
        return re.escape(str(part.value))
    text = ast.fix_missing_locations(ast.Expression(ast.JoinedStr([part], lineno=1, col_offset=0)))
    try:
        return re.escape(str(eval(compile(text, "", "eval"), {**vars(module), "__builtins__": {}})))
    except (NameError, AttributeError):  # a local name, which may be another thing in the module
        return ANYTHING


def test_a_budget_is_that_of_a_figure_which_its_benchmark_measures() -> None:
    paths = {re.escape(f"{path.name}: operations per CPU second to 520124d's") for path in PATHS}
    others = {entry.benchmark for entry in KNOWN.entries} - {"compare", "auto_cache"}
    names = {one: {text for module in modules(one) for text in patterns(module)} for one in others} | {"compare": paths}
    unknown = [
        entry.name
        for entry in KNOWN.entries
        if entry.benchmark in names and not any(re.fullmatch(name, entry.figure) for name in names[entry.benchmark])
    ]
    assert not unknown


def test_names_of_automatic_caching_are_those_of_its_cases_and_ratios() -> None:
    """Both parts of these names are values of the benchmark."""
    cases = re.findall(r'Case\(f?"([^"]+)"', inspect.getsource(auto_cache))
    assert len(cases) == 7
    names = {
        f"{case}: {ratio}".replace("{HOT_ROWS}", str(auto_cache.HOT_ROWS))
        for case in cases
        for ratio in auto_cache.RATIOS
    }
    budgeted = {entry.figure for entry in KNOWN.entries if entry.benchmark == "auto_cache"}
    assert budgeted and budgeted <= names


def test_every_case_of_changes_and_every_application_has_its_goal() -> None:
    goals = {entry.figure: entry.goal for entry in KNOWN.entries if entry.goal is not None}
    changed = [
        goals[f"{path.name}: operations per CPU second to 520124d's"] for path in PATHS if "changes" in path.name
    ]
    assert changed == [1.0] * 10
    for name in ("WordPress", "MediaWiki", "Django", "Redmine"):
        assert goals[f"{name}, anonymous: a page to direct"] == goals[f"{name}, a user: a page to direct"] == 1.05


# -- the file's form ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "either at_most or at_least"),
        ({"at_most": 1, "at_least": 1}, "either at_most or at_least"),
        ({"at_most": 1, "aim": 2}, "there is no aim: there are at_most"),
        ({"at_most": "1"}, "at_most = '1' is no number"),
        ({"at_most": True}, "at_most = True is no number"),
        ({"at_most": 2, "goal": 1}, "why is wanted"),
        ({"at_most": 1, "goal": 1, "why": "so"}, "why is wanted"),
        ({"at_most": 1, "why": "so"}, "beside a goal only"),
        ({"at_most": 1, "goal_compiled": 1}, "beside a goal only"),
        ({"at_most": 1, "goal": 2, "why": "so"}, "the goal is looser"),
        ({"at_least": 2, "goal": 1, "why": "so"}, "the goal is looser"),
        ({"at_least": 1, "goal": 3, "goal_compiled": 2, "why": "so"}, "goal_compiled is looser"),
        ({"at_most": 1, "goal": 1, "why": 2}, "why is a text"),
        (1.5, "a figure is a table of its own"),
    ],
)
def test_an_entry_that_says_something_else_is_refused_by_its_name(fields: Any, said: str) -> None:
    with pytest.raises(BudgetsFault, match=re.escape(said)) as refused:
        budgets.budgets({"miss": {"a miss": fields}})
    assert "miss" in str(refused.value)


def test_an_entry_is_found_by_benchmark_and_figure() -> None:
    known = budgets.budgets(
        {
            "miss": {"a miss": {"at_most": 2, "goal": 1, "goal_compiled": 0.5, "why": "so"}},
            "hit": {"a miss": {"at_least": 3}},
        }
    )
    assert known.of("miss", "a miss") == Budget("miss", "a miss", 2, None, 1, 0.5, "so")
    assert known.of("hit", "a miss") == Budget("hit", "a miss", at_least=3)
    assert known.of("hit", "another") is None


# -- judging -----------------------------------------------------------------------------------------------------------

FILE = budgets.budgets(
    {
        "miss": {"a miss": {"at_most": 2, "goal": 1, "why": "so"}, "another": {"at_most": 1}},
        "hits": {"a hit": {"at_least": 3}, "texts": {"at_least": 0.5}},
    }
)


def told(*figures: Figure) -> list[str]:
    return judge(FILE, [Result("miss", list(figures))]).lines({"miss"})


def test_a_figure_is_within_its_budget_at_the_bound_and_not_beyond() -> None:
    most, least = Budget("a", "b", at_most=1.1), Budget("a", "b", at_least=65)
    assert most.kept(1.1) and not most.kept(1.11)
    assert least.kept(65) and not least.kept(64.9)


def test_a_broken_budget_is_told_with_what_was_measured() -> None:
    judged = judge(FILE, [Result("miss", [Figure("a miss", 2.5), Figure("another", 0.9)])])
    assert [budget.name for budget, _ in judged.broken] == ["miss: a miss"]
    assert judged.lines({"miss"}) == [
        "broken: miss: a miss: 2.5, at most 2",
        "not yet where it is wanted: miss: a miss: 2.5, at most 1",
        "not measured: hits (2)",
    ]


def test_a_figure_within_its_budget_may_not_be_at_its_goal_yet() -> None:
    assert told(Figure("a miss", 1.5), Figure("another", 1.0))[0] == (
        "not yet where it is wanted: miss: a miss: 1.5, at most 1"
    )
    assert told(Figure("a miss", 1.0), Figure("another", 1.0)) == ["not measured: hits (2)"]


def test_a_figure_that_its_benchmark_did_not_measure_is_told_by_name() -> None:
    assert told(Figure("a miss", 1.0), Figure("of no budget", 9.0)) == [
        "not measured, though its benchmark ran: miss: another",
        "not measured: hits (2)",
    ]


def test_one_of_two_measurements_breaks_a_budget() -> None:
    results = [Result("hits", [Figure("a hit", value)]) for value in (3.5, 2.5)]
    judged = judge(FILE, results)
    assert [value for _, value in judged.broken] == [2.5]


def test_the_status_tells_a_broken_budget_from_a_benchmark_that_failed_and_not_from_a_goal() -> None:
    results = ([Figure("a miss", 2.5), Figure("another", 1)], [Figure("a miss", 1.5), Figure("another", 1)])
    broken, short, missing = (judge(FILE, [Result("miss", figures)]) for figures in (*results, [Figure("a miss", 1)]))
    assert [status(failed, short, {"miss"}) for failed in (0, 1)] == [0, 1]
    assert [status(failed, broken, {"miss"}) for failed in (0, 1)] == [2, 1]
    assert [status(failed, missing, {"miss"}) for failed in (0, 1)] == [2, 1]


def test_all_that_is_kept_and_measured_is_one_line() -> None:
    everything = [
        Result("miss", [Figure("a miss", 1), Figure("another", 1)]),
        Result("hits", [Figure("a hit", 3), Figure("texts", 1)]),
    ]
    assert judge(FILE, everything).lines(BENCHMARKS) == ["every figure that has a budget or a goal keeps it"]


def test_a_figure_is_printed_with_its_budget_and_where_it_is_wanted() -> None:
    budget = FILE.of("miss", "a miss")
    assert budgets.verdict(budget, Figure("a miss", 2)) == "at most 2  met  (wanted: at most 1)"
    assert budgets.verdict(FILE.of("hits", "a hit"), Figure("a hit", 2)) == "at least 3  NOT MET"
    assert budgets.verdict(None, Figure("a hit", 2)) == ""
