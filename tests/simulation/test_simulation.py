"""The simulation with a small fixed budget; `make sim STEPS=... SEED=...` runs any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.queries import QUERIES, query
from tests.simulation.run import (
    BOTH_EVERY,
    RESTARTS_EVERY,
    SHARDS_EVERY,
    TRIALS_EVERY,
    VIEWS_EVERY,
    campaign,
    failure,
    script_of,
    silent,
)
from tests.simulation.script import Script, Setup, shrunk
from tests.simulation.sql_side import Rows

SCHEDULES = 160
REGRESSIONS = sorted(Path(__file__).with_name("regressions").glob("*.sim"))
# What so few schedules need not bring about; a campaign does.
RARE = {"rows_not_read", "evaluation_failed", "spelling_underflow", "two_rows_of_a_key"}


def test_no_read_is_wrong_under_any_schedule() -> None:
    ran = campaign(1, SCHEDULES)
    assert ran.failed is None
    more = sum(SCHEDULES // every for every in (TRIALS_EVERY, VIEWS_EVERY, SHARDS_EVERY, BOTH_EVERY))
    more += len(range(1, SCHEDULES + 1, RESTARTS_EVERY))
    assert len(ran.schedules) == SCHEDULES + more
    assert ran.counts["held again"] > 20 and ran.counts["touched meanwhile"]
    assert len(ran.graphs) > SCHEDULES
    assert set(silent(ran.counts)) <= RARE, "a rule that no schedule needed"
    assert ran.counts["hits"] > 5000 and ran.counts["hits_ahead"] > 500


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_what_once_went_wrong_does_not(path: Path) -> None:
    script = Script.read(path)
    assert script.why
    assert failure(script) == ""


def test_altered_answers_are_found_out() -> None:
    ran = campaign(1, 40, alter=0.01)
    assert ran.failed is not None


def test_queries_cover_every_kind_of_arrangement() -> None:
    kinds = {type(part).__name__ for name in QUERIES for part in query(name).plan.arrangements}
    assert kinds == {"RowsArrangement", "AggregateArrangement", "TopKArrangement", "AnswerArrangement"}


def test_queries_share_arrangements() -> None:
    """One alone in a query and the same below a join; so an entry is reached on several paths."""
    roots = {query(name).plan.reader.root for name in QUERIES if not query(name).plan.reader.lookups}
    lookups = {lookup.arrangement for name in QUERIES for lookup in query(name).plan.reader.lookups}
    assert roots & lookups


def test_schedule_is_the_same_again_and_its_script_too() -> None:
    script = script_of(5)
    assert script == script_of(5)
    assert Script.parse(script.text()) == script


def test_failing_script_is_shrunk_to_what_matters() -> None:
    rows: Rows = {"a": {0: (0,), 1: (1,)}, "b": {0: (0,)}}
    setup = Setup(rows, True, 1000, (10, 1000), ("rows", "total"))
    script = Script(setup, tuple(("look", number) for number in range(100)))

    def fails(tried: Script) -> bool:
        kept = {action[1] for action in tried.actions}
        return {17, 63} <= kept and "total" in tried.setup.caches and 1 in tried.setup.rows["a"]

    small = shrunk(script, fails)
    assert small.actions == (("look", 17), ("look", 63))
    assert small.setup.caches == ("total",)
    assert small.setup.rows == {"a": {1: (1,)}, "b": {}}
