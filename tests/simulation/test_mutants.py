"""Each rule of docs/consistency.md switched off is caught; so the simulation does look. `make mutants` prints how soon.

The rules in `RARE` take more schedules than a run on every change should make: the command tries them.
"""

from __future__ import annotations

import pytest

from tests.simulation.mutant import Mutant
from tests.simulation.mutants import MUTANTS, RARE, catch


@pytest.mark.parametrize(
    "mutant", [mutant for mutant in MUTANTS if mutant.rule not in RARE], ids=lambda mutant: mutant.rule
)
def test_rule_switched_off_is_caught(mutant: Mutant) -> None:
    assert catch(mutant).error, "nothing went wrong"


def test_rules_have_names_of_their_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.rule for mutant in MUTANTS} >= RARE


@pytest.mark.parametrize(
    "mutant", [mutant for mutant in MUTANTS if mutant.rule in RARE], ids=lambda mutant: mutant.rule
)
def test_rare_rule_can_be_switched_off(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it takes away is still where it was."""
    mutant.switch_off(monkeypatch)
