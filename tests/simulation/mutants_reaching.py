"""The rules of answers that stand for other keys (`dataflow/operators/standing.py`) switched off, one at a time."""

from __future__ import annotations

import dataflow.operators.standing
from dataflow.operators.answer import AnswerNode
from tests.simulation.mutant import Mutant, all_of, edit

REACHING = (
    Mutant(
        "reaching",
        "an answer reaches to the next row and no further",
        edit(dataflow.operators.standing, "_within", (" and (end is None or _less(value, end))", "")),
    ),
    Mutant(
        "reaching",
        "it reaches to greater values only",
        edit(dataflow.operators.standing, "_within", ("_less(first, value) and ", "")),
    ),
    Mutant(
        "reaching",
        "it stands for keys that have the other parts in common",
        all_of(
            edit(AnswerNode, "_rest", ("for at in self._others", "for at in ()")),
            edit(dataflow.operators.standing.Reach, "has", ("else own == value", "else True")),
        ),
    ),
)
