"""A few rounds of the oracle, and the scripts of what it has found before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import integration.oracle.round
from integration.oracle.asker import Asker, asker_beside
from integration.oracle.mutants import FAULTS, Fault, differs, planted
from integration.oracle.run import AUTOMATIC, EVERYTHING, NESTED, oracle
from integration.oracle.script import play, read
from integration.servers.mysql_server import Server
from tests.support.in_steps import everything_in_steps

FINDINGS = sorted((Path(__file__).parent / "findings").glob("*.sql"))
SEED, NESTED_SEED = 3, 11
ROUNDS = 8
KINDS = ("error", "rows", "columns", "warnings", "spelling")
QUICK = (
    "an inner join's ON that speaks of another table is lost",
    "a LEFT JOIN's missing partner is lost",
    "CASE takes its first value always",
    "what a VIRTUAL column is computed with is no need of who reads it",
)


def test_nothing_differs(asker: Asker) -> None:
    result = oracle(asker, SEED, rounds=ROUNDS, kinds=KINDS, focus=EVERYTHING)
    print(result)
    assert not result.found
    counts = result.tally.counts
    assert counts["hits of maintain"] > 10 * ROUNDS and counts["hits of evict"] > 10 * ROUNDS
    assert counts["hits after a change"] > 5 * ROUNDS
    assert counts["warnings passed"] > ROUNDS and counts["warnings shown alike"] > ROUNDS


def test_nothing_differs_of_queries_in_queries(asker: Asker) -> None:
    result = oracle(asker, NESTED_SEED, rounds=1, kinds=KINDS, focus=NESTED)
    print(result)
    assert not result.found
    assert result.tally.counts["hits after a change"] > 10


def test_nothing_differs_of_what_is_done_in_steps(
    mysql: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.mysql.wire.rows.JOINED_AT_ONCE", 1)
    with asker_beside(mysql, f"t{os.getpid()}_steps", tmp_path) as asker:
        everything_in_steps(asker.beside.proxy.app.engine)
        result = oracle(asker, SEED, rounds=4, kinds=KINDS, focus=EVERYTHING)
    print(result)
    assert not result.found
    assert result.tally.counts["hits of maintain"] > 20 and result.tally.counts["hits after a change"] > 10


def test_queries_that_take_mysql_long_are_left_out(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integration.oracle.round, "SLOW", -1.0)
    result = oracle(asker, SEED, rounds=1, kinds=KINDS, focus=EVERYTHING)
    assert result.tally.counts["too slow to be compared"] and not result.tally.counts["asked"]


def test_nothing_differs_that_is_cached_by_itself(mysql: Server, tmp_path: Path) -> None:
    with asker_beside(mysql, f"t{os.getpid()}_automatic", tmp_path, **AUTOMATIC) as asker:
        result = oracle(asker, SEED, rounds=2, kinds=KINDS, focus=EVERYTHING)
    print(result)
    assert not result.found
    counts = result.tally.counts
    assert counts["cached by themselves"] > 2 and counts["hits after a change"] > 2


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_fault_is_found(mysql: Server, name: str) -> None:
    (fault,) = (fault for fault in FAULTS if fault.name == name)
    assert fault.seed
    with planted(fault.plant):
        assert differs(mysql, fault.seed, 0, fault.focus, f"t{os.getpid()}_planted")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_can_be_planted(fault: Fault) -> None:
    """What it changes is still in the code."""
    with planted(fault.plant):
        pass


def test_what_is_found_is_made_small(asker: Asker) -> None:
    """To the few lines that show it, which play again."""
    fault = next(fault for fault in FAULTS if fault.name == "NOT LIKE is read as LIKE")
    with planted(fault.plant):
        result = oracle(asker, fault.seed, rounds=1, kinds=("rows",), focus=fault.focus)
        (script, *_) = result.small
        print(script)
        again = play(asker, script)
    assert [found.kind for found in again.differences][:1] == ["rows"]
    assert "NOT LIKE" in str(script) and len(script.steps) <= 6
    assert not play(asker, script).differences


def test_the_rule_for_dates_with_a_zero_is_needed(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the scripts that are about it differ."""
    monkeypatch.setattr("dataflow.graph.build.with_whole_dates", lambda plan: plan)
    monkeypatch.setattr("dataflow.graph.build.dated_places", lambda plan: ())
    for name in (
        "datetime_extremes_of_expressions",
        "distinct_partial_date",
        "partial_date_as_a_key",
        "partial_dates_in_temporary_tables",
        "year_of_zero_by_the_plan",
    ):
        played = play(asker, read(Path(__file__).parent / "findings" / f"{name}.sql"))
        assert {found.kind for found in played.differences} == {"rows"}, name


def test_what_was_found_before(asker: Asker) -> None:
    wrong = []
    for path in FINDINGS:
        played = play(asker, read(path))
        assert played.served, path
        wrong += [f"{path.name}: {found}" for found in played.differences]
    assert not wrong, "\n".join(wrong)
