"""The rules by which it is told which answers a change concerns (evict mode), switched off, one at a time."""

from __future__ import annotations

import dataflow.graph.answers
import dataflow.graph.ways
import dataflow.operators.answer
import dataflow.operators.answer_index
from dataflow.held.intervals import Intervals
from dataflow.operators.answer_index import AnswerIndex
from tests.simulation.mutant import Mutant, edit
from tests.simulation.telling import wrong

TELLING = (
    Mutant(
        "telling",
        "an interval is entered",
        edit(AnswerIndex, "enter", ("there.add(*self._known_ends(entry), entry)", "pass")),
        trial=wrong,
    ),
    Mutant(
        "telling",
        "its ends belong to it",
        edit(Intervals, "having", ("bisect_right(block.lows, value)", "bisect_left(block.lows, value)")),
        trial=wrong,
    ),
    Mutant(
        "telling",
        "a block knows its greatest end",
        edit(Intervals, "_add", ("if high is None or (block.most is not None and block.most < high):", "if False:")),
        trial=wrong,
    ),
    Mutant(
        "telling",
        "a row is below what is above it",
        edit(dataflow.graph.ways, "_end", ("op in _AT_LEAST", "op in _AT_MOST")),
        trial=wrong,
    ),
    Mutant(
        "telling",
        "each branch of OR is looked for",
        edit(
            dataflow.graph.answers,
            "ways_of",
            ("for branch in _branches(condition)]", "for branch in _branches(condition)[:1]]"),
        ),
        trial=wrong,
    ),
    Mutant(
        "telling",
        "an answer that stands for other keys is open",
        edit(
            AnswerIndex, "_ends", ("at is None or (entry.reach is not None and at in entry.reach.ends)", "at is None")
        ),
        trial=wrong,
    ),
    Mutant(
        "telling",
        "it is not tried with its own key",
        edit(dataflow.operators.answer, "_concerns", ("entry.reach is not None", "False")),
        trial=wrong,
    ),
    Mutant(
        "telling",
        "the before image is tried",
        edit(dataflow.operators.answer, "_concerns", ("for test in tests", "for test in tests[-1:]")),
        trial=wrong,
    ),
    Mutant(
        "telling",
        "an answer with less rows than LIMIT has no end",
        edit(dataflow.graph.answers, "_beyond", (" or len(rows) < count", "")),
        trial=wrong,
    ),
    Mutant(
        "telling",
        "what ties with the last row concerns it",
        edit(
            dataflow.graph.answers,
            "_beyond",
            ("place < end if", "place <= end if"),
            ("else end < place", "else end <= place"),
        ),
        trial=wrong,
    ),
    Mutant(
        "telling",
        "a descending answer ends below",
        edit(dataflow.graph.answers, "_beyond", ("if descending else", "if False else")),
        trial=wrong,
    ),
)
