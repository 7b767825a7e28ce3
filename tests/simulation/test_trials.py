"""Caches earn their trust in the simulation: a planted fault is found before a client gets what it computes, and what
clients are given afterwards is right. That nothing right loses its trust is in every schedule of `make sim`."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

import dataflow.held.arrangement
import dataflow.operators.aggregate
import dataflow.operators.rows
import dataflow.operators.topk
import tests.simulation.checks
from dataflow.operators.aggregate import AggregateNode
from dataflow.operators.answer import AnswerNode
from dataflow.operators.rows import RowsNode
from dataflow.operators.topk import TopKNode
from dataflow.readers.derivation import ReaderProgram
from planner.tree.plan import AggregateArrangement, AnswerArrangement, RowsArrangement, TopKArrangement
from proxy.cache.trust import Trust
from proxy.checking.ddl_excuses import Suspicions
from tests.simulation.checks import Wrong
from tests.simulation.mutant import Patch, all_of, attribute, edit, nothing
from tests.simulation.mutants import after_images_only
from tests.simulation.queries import QUERIES, query
from tests.simulation.script import Setup
from tests.simulation.trials import Trials, TrialSchedule, ViewSchedule

SEEDS = range(1, 200)
STEPS = 250
TOUCHING = (dataflow.held.arrangement, dataflow.operators.aggregate, dataflow.operators.rows, dataflow.operators.topk)
FAULTS: dict[str, tuple[type, Patch]] = {  # each with the arrangements that have it
    "a row that comes is lost": (
        RowsArrangement,
        edit(RowsNode, "change", ("self._put(entries, new, None, self._narrow(after))", "pass")),
    ),
    "a row that goes stays": (
        RowsArrangement,
        edit(RowsNode, "change", ("self._put(entries, old, self._narrow(before), None)", "pass")),
    ),
    "groups do not change": (AggregateArrangement, attribute(AggregateNode, "change", nothing)),
    "a row that leaves a group is counted": (AggregateArrangement, attribute(AggregateNode, "_subtract", nothing)),
    "the first rows do not change": (TopKArrangement, attribute(TopKNode, "change", nothing)),
    "what is left of the filter passes all": (
        RowsArrangement,
        attribute(ReaderProgram, "passing", lambda self, rows, params: rows),
    ),
    "an answer is kept though its entry has changed": (
        RowsArrangement,
        all_of(*(attribute(module, "touch", nothing) for module in TOUCHING)),
    ),
    "a change empties no answer": (
        AnswerArrangement,
        attribute(AnswerNode, "_images", staticmethod(lambda watch, pairs: [])),
    ),
    "rows that go empty no answer": (
        AnswerArrangement,
        attribute(AnswerNode, "_images", staticmethod(after_images_only)),
    ),
    "a change that passes the filter empties no answer": (
        AnswerArrangement,
        edit(AnswerNode, "_images", ("if after is not None and watch.passes(after)", "if after is None")),
    ),
}


def setup_with(kind: type, schedule: TrialSchedule, seed: int) -> Setup:
    """The schedule's, but all caches have such an arrangement."""
    names = [name for name in QUERIES if any(isinstance(part, kind) for part in query(name).plan.arrangements)]
    return replace(schedule.setup, caches=tuple(random.Random(seed).sample(names, min(4, len(names)))))


def is_found(
    fault: str, schedules: type[TrialSchedule], simulations: type[Trials], monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Plants it. `Trials` raises where a client is given what is wrong."""
    kind, plant = FAULTS[fault]
    plant(monkeypatch)
    monkeypatch.setattr(Trials, "planted", True)
    monkeypatch.setattr(tests.simulation.checks, "NEVER", ())
    for seed in SEEDS:
        schedule = schedules(seed)
        simulation = simulations(setup_with(kind, schedule, seed))
        simulation.check_every = 1 << 30  # what is planted may break invariants
        try:
            schedule.run(simulation, STEPS)
        finally:
            simulation.close()
        if simulation.counts["alarms"]:
            return True
    return False


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_is_found_before_a_client_is_given_what_it_computes(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_found(fault, TrialSchedule, Trials, monkeypatch)


LISTS = ("top_of_list", "top_as_asked")
LIST_RULES: dict[str, Patch] = {
    "behind any change of its tables a list is compared again": edit(
        Trust, "on_change", ("self.lists.clear()", "pass")
    ),
    "a list that changes while it is compared is not known": edit(Trust, "agreed", ("began != self.changed or ", "")),
}


def known_lists(monkeypatch: pytest.MonkeyPatch, schedules: int) -> Counter[str]:
    """Runs lists whose changes are lost. `Trials` raises where a client is given what is wrong."""
    FAULTS["the first rows do not change"][1](monkeypatch)
    monkeypatch.setattr(Trials, "planted", True)
    monkeypatch.setattr(tests.simulation.checks, "NEVER", ())
    counts: Counter[str] = Counter()
    for seed in range(1, schedules + 1):
        schedule = TrialSchedule(seed)
        simulation = Trials(replace(schedule.setup, caches=LISTS))
        simulation.check_every = 1 << 30  # as above
        try:
            schedule.run(simulation, STEPS)
        finally:
            simulation.close()
        counts += simulation.counts
    return counts


def test_lists_that_are_known_to_be_equal_are_so(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = known_lists(monkeypatch, 20)
    assert counts["known lists"] and counts["alarms"], counts


@pytest.mark.parametrize("rule", LIST_RULES)
def test_without_a_rule_a_list_is_given_that_was_not_compared(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    LIST_RULES[rule](monkeypatch)
    with pytest.raises(Wrong):
        known_lists(monkeypatch, len(SEEDS))


def test_a_replaced_view_explains_what_differs_until_the_stream_brings_it() -> None:
    """`Trials` raises where a right cache loses its trust."""
    counts: Counter[str] = Counter()
    for seed in range(1, 13):
        schedule = ViewSchedule(seed)
        simulation = Trials(schedule.setup)
        try:
            schedule.run(simulation, 400)
        finally:
            simulation.close()
        counts += simulation.counts
    assert counts["views"] and counts["explained"] and not counts["faults"]


def test_without_the_explanation_a_replaced_view_costs_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Suspicions, "explain", lambda self, server, names, asked_for, ended: ended(True))
    for seed in SEEDS:
        schedule = ViewSchedule(seed)
        simulation = Trials(schedule.setup)
        try:
            schedule.run(simulation, STEPS)
        except Wrong:
            return
        finally:
            simulation.close()
    pytest.fail("nothing lost its trust")


def test_trials_compare() -> None:
    """Fills and held answers, with an outcome, on schedules that all have."""
    counts: Counter[str] = Counter()
    for seed in range(4, 24, 4):
        schedule = TrialSchedule(seed)
        simulation = Trials(schedule.setup)
        try:
            schedule.run(simulation, 400)
        finally:
            simulation.close()
        counts += simulation.counts
    assert counts["fill agrees"] and counts["equal when compared"] and counts["unknown when compared"]
    assert not counts["alarms"]
