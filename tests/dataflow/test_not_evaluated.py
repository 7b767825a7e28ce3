"""A change that cannot be evaluated takes the keys with it that it concerns, and no others."""

from __future__ import annotations

import pytest

from dataflow.messages import TableChanges, Transaction
from gtid_tracker.gtid import Gtid
from sqltypes.errors import EvaluationError
from tests.support.engine_rig import OLD, ROWS, Rig


def test_a_change_that_cannot_be_evaluated_empties_the_keys_that_it_concerns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Rig(ROWS)
    for key in (1, 2, 3):
        made.fill_from({1: (1, 1, 1), 2: (2, 2, 1), 3: (3, 3, 1)}, key)
        assert made.hit(key) is not None
    node = made.readers[0].nodes[0]
    change = node.change  # type: ignore[attr-defined]

    def fails(entries: object, before: object, after: object, *given: object) -> None:
        if after == (1, 2, 1):
            raise EvaluationError("planted")
        change(entries, before, after, *given)

    monkeypatch.setattr(node, "change", fails)
    made.engine.on_stream(
        Transaction(Gtid(OLD, 2), [TableChanges("test.t", [((1, 1, 1), (1, 2, 1)), ((3, 3, 1), (3, 3, 5))])])
    )
    assert [made.held(key) for key in (1, 2, 3)] == [None, None, [(3, 5)]]
    assert made.engine.memory.counters["evaluation_failed"] == 2
    made.engine.check_invariants()
