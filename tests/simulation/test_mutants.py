"""Each rule of docs/consistency.md switched off is caught; so the simulation looks. `make mutants` prints how soon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.catch import catch, remember, remembered
from tests.simulation.mutant import Mutant
from tests.simulation.mutants import MUTANTS

SEEDS = remembered()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_rule_switched_off_is_caught(mutant: Mutant) -> None:
    assert catch(mutant, known=SEEDS.get(mutant.name)).error, "nothing went wrong"


def test_rules_have_names_of_their_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_a_seed_that_shows_nothing_any_more_is_followed_by_the_search() -> None:
    """As after a change of the simulation."""
    soon = [mutant for mutant in MUTANTS if 1 < SEEDS.get(mutant.name, 0) < 10]
    mutant, found = next((one, found) for one in soon if (found := catch(one)).schedules > 1)
    assert found.error
    again = catch(mutant, known=1)
    assert (again.seed, again.schedules) == (found.seed, found.schedules + 1)
    assert catch(mutant, known=found.seed).schedules == 1


def test_seeds_are_kept_by_name(tmp_path: Path) -> None:
    path = tmp_path / "caught.txt"
    assert remembered(path) == {}
    remember({MUTANTS[1].name: 7, MUTANTS[0].name: 12345678, "of a rule that is no more": 3}, path)
    assert remembered(path) == {MUTANTS[0].name: 12345678, MUTANTS[1].name: 7}
