"""The rules of snapshots (`dataflow/fills/keeping.py`, `dataflow/fills/restoring.py`) switched off, one at a time."""

from __future__ import annotations

from dataflow.fills.keeping import Keeping
from dataflow.fills.restoring import Restoring
from dataflow.held.arrangement import LinearArrangement
from dataflow.operators.answer import AnswerNode
from tests.simulation.mutant import Mutant, all_of, attribute, edit, nothing

RESTARTS = (
    Mutant(
        "restarts",
        "what has changed since its block was begun is void",
        edit(Keeping, "settle", ("entry.since > since or", "")),
    ),
    Mutant(
        "restarts",
        "what has gone is void",
        edit(
            Keeping,
            "settle",
            ("entry.since > since or entry.owner.entries.get(entry.key) is not entry", "entry.since > since"),
        ),
    ),
    Mutant(
        "restarts",
        "a snapshot is of the position behind its walk",
        all_of(
            edit(
                Keeping,
                "blocks",
                ("for number, reader", "self.at = self._state.ring.position.freeze()\n    for number, reader"),
            ),
            attribute(Keeping, "fix", nothing),
        ),
    ),
    Mutant("restarts", "what an event concerns meanwhile is left out", attribute(Restoring, "note", nothing)),
    Mutant(
        "restarts",
        "an event concerns the keys of its rows, before and after (maintained)",
        edit(LinearArrangement, "note_touched", ("for image in pair if", "for image in pair[1:] if")),
    ),
    Mutant(
        "restarts",
        "an event concerns the keys that its rows tell (held as they came)",
        attribute(AnswerNode, "was_touched", lambda self, entry, seen: False),
    ),
    Mutant(
        "restarts",
        "what was emptied meanwhile stays so",
        edit(Restoring, "_placed", ("or node.generation != self._generations[node]", "")),
    ),
    Mutant(
        "restarts",
        "nothing is inserted beside a large transaction",
        attribute(Restoring, "may_hold", property(lambda self: True)),
    ),
)
