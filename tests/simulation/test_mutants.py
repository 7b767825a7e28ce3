"""Each rule of docs/consistency.md switched off is caught by a few schedules; so the simulation does look.

The test of generations is not among them: what it would catch is caught by the DDL record in the ring, and by the end
of all fills at a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from dataflow.arrangement import Arrangement
from dataflow.engine import Engine
from dataflow.fill import Fill, Record
from dataflow.operators.answer import AnswerNode
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import GtidSet
from gtid_tracker.progress import PositionWaits
from gtid_tracker.ring import Ring
from tests.simulation.run import STEPS_PER_SCHEDULE, failure

MOST_SCHEDULES = 120
Patch = Callable[[pytest.MonkeyPatch], None]

bring_forward = Fill.bring_forward
touched = AnswerNode.touched


def ring_not_applied(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ring, "after", lambda self, lower: [])


def ring_applied_from_its_beginning(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ring, "after", lambda self, lower: [record for _, record in self._records.values()])


def too_short_ring_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ring, "admits", lambda self, lower: True)


def doubt_ignored(patch: pytest.MonkeyPatch) -> None:
    def certain(self: Fill, uncertain: Iterable[Record], later: Sequence[Record]) -> int:
        return bring_forward(self, (), later)

    patch.setattr(Fill, "bring_forward", certain)


def no_wait_for_the_position(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PositionWaits, "add", lambda self, needed, position, waiter: False)


def timeout_taken_for_a_resolution(patch: pytest.MonkeyPatch) -> None:
    def tick(self: Engine) -> list[Any]:
        effects: list[Any] = []
        for fill in list(self._waits):
            effects += self._insert(fill)
        return effects

    patch.setattr(Engine, "tick", tick)


def new_columns_do_not_empty_the_ring(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Engine, "install", lambda self, plan: self.graph.install(plan))


def answers_stay_when_an_entry_changes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("dataflow.operators.rows.touch", lambda entry: None)


def answers_are_not_linked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("dataflow.reader.relink", lambda held, deps: None)
    patch.setattr("dataflow.eviction.relink", lambda held, deps: None)


def semijoin_covers_what_was_not_asked(patch: pytest.MonkeyPatch) -> None:
    def unsettled(self: Fill) -> None:
        """Keys that the rows lead to only after they were brought forward count as known to be empty."""
        for params in self.whole.values():
            self.reader.derive(params, self.overlay)

    patch.setattr(Fill, "_settle", unsettled)


def ddl_empties_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Record, "concerns", lambda self, node: False)


def locks_taken_for_all_that_is_owned(patch: pytest.MonkeyPatch) -> None:
    """Whoever is owned while what was read is locked is held for visible, or for later."""

    def exact(server: str, before: GtidSet, owned: GtidSet, executed: GtidSet) -> Bracket:
        return Bracket(server, executed, GtidSet.empty(), executed)

    patch.setattr(Bracket, "exact", exact)


def before_images_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    def after_only(self: Arrangement, table: str, pairs: Any, keys: Any) -> Any:
        return touched(self, table, [(None, after) for _, after in pairs], keys)  # type: ignore[arg-type] # it is one

    patch.setattr(AnswerNode, "touched", after_only)


CAUGHT = (
    ring_not_applied,
    ring_applied_from_its_beginning,
    too_short_ring_accepted,
    doubt_ignored,
    no_wait_for_the_position,
    timeout_taken_for_a_resolution,
    new_columns_do_not_empty_the_ring,
    answers_stay_when_an_entry_changes,
    answers_are_not_linked,
    semijoin_covers_what_was_not_asked,
    ddl_empties_nothing,
    before_images_are_not_looked_at,
    locks_taken_for_all_that_is_owned,
)


@pytest.mark.parametrize("mutant", CAUGHT)
def test_rule_switched_off_is_caught(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    assert any(failure(seed, STEPS_PER_SCHEDULE) for seed in range(1, MOST_SCHEDULES)), "nothing went wrong"
