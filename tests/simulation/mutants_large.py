"""The rules of large transactions (`dataflow/changes/large_change.py`) switched off, one at a time."""

from __future__ import annotations

from typing import Any

import dataflow.entries
import dataflow.held.arrangement
import dataflow.operators.aggregate
import dataflow.operators.answer
import dataflow.operators.rows
import dataflow.operators.topk
from dataflow.changes.large_change import LargeChange
from dataflow.engine import Engine
from dataflow.fills.inserting import Inserting
from dataflow.fills.state import State
from dataflow.held.arrangement import Arrangement, LinearArrangement
from dataflow.operators.answer import AnswerNode
from dataflow.operators.topk import TopKNode
from tests.simulation.mutant import Mutant, all_of, attribute, edit, nothing

# Where `touch` is called.
TOUCHING = (
    dataflow.entries,
    dataflow.held.arrangement,
    dataflow.operators.aggregate,
    dataflow.operators.answer,
    dataflow.operators.rows,
    dataflow.operators.topk,
)

draft = LinearArrangement._draft


def the_entry_itself(self: LinearArrangement, entry: Any, edit: Any, beside: Any) -> Any:
    """No copy: what is done to the draft is done to what is held."""
    made = draft(self, entry, edit, beside)
    if edit is not None:
        entry.content[edit[0]] = edit[1]
    made.content = entry.content
    return made


LARGE_CHANGES = (
    Mutant(
        "large",
        "half of a transaction is shown to nobody (contents)",
        edit(LargeChange, "_draft_contents", ("node.change_all(hits, beside)", "node.change_all(hits)")),
    ),
    Mutant(
        "large",
        "a draft is a copy",
        all_of(
            attribute(LinearArrangement, "_draft", the_entry_itself),
            edit(LinearArrangement, "publish", ("if get(entry.key) is not entry:", "if True:")),
        ),
    ),
    Mutant("large", "a draft of the first rows is a copy", edit(TopKNode, "copied", (".copy()", ""))),
    Mutant("large", "what is drafted takes effect", attribute(LinearArrangement, "publish", nothing)),
    Mutant(
        "large", "an edit takes effect", edit(LinearArrangement, "publish", ("entry.content[place] = item", "pass"))
    ),
    Mutant(
        "large",
        "what comes behind an edit has it",
        edit(LinearArrangement, "_draft", ("content[place] = item", "pass"), ("draft.content = item", "pass")),
    ),
    Mutant(
        "large",
        "what is published is new to those who read it",
        edit(LinearArrangement, "publish", ("touch_all(changed)", "pass")),
    ),
    Mutant(
        "large",
        "an entry that went meanwhile does not come back",
        edit(LinearArrangement, "publish", ("if get(entry.key) is not entry:", "if False:")),
    ),
    Mutant(
        "large",
        "a draft that could not be computed is a hole",
        edit(LinearArrangement, "publish", ("self.discard(entry)", "pass")),
    ),
    Mutant(
        "large",
        "what is to be changed in place is changed",
        edit(LargeChange, "publish", ("node.change_all(hits)", "pass")),
    ),
    Mutant("large", "an answer that it concerns becomes a hole", attribute(AnswerNode, "let_go_of", nothing)),
    Mutant("large", "what it concerns too much of is emptied", edit(LargeChange, "publish", ("node.let_go()", "pass"))),
    Mutant(
        "large",
        "nothing that it concerns is inserted while it is under way",
        all_of(
            edit(
                Inserting,
                "add",
                ("if self._state.under_way is not None and self._state.delays", "if False and self._state.delays"),
            ),
            edit(Inserting, "insert_due", ("0 if self._state.under_way is not None else ", "")),
            edit(Inserting, "go_on", ("self.begun and self._state.under_way is None", "self.begun")),
        ),
    ),
    Mutant(
        "large",
        "a cache that comes meanwhile holds no rows that lack it",
        edit(State, "advance", ("large is not None and large.outdated", "False")),
    ),
    Mutant(
        "large",
        "what was read before it is not inserted after it",
        edit(
            State,
            "_publish",
            ('return Ddl(event.gtid, "a transaction of many rows", tables, schema=False)', "return None"),
        ),
    ),
    Mutant("large", "what stands ahead of it goes, or has it", attribute(Arrangement, "drop_ahead", nothing)),
    Mutant(
        "large",
        "ahead stands only what has it",
        edit(
            State,
            "may_stand_ahead",
            ("return self.under_way is None or self.under_way.event.gtid in fill.bracket.lower", "return True"),
        ),
        script="ahead_of_a_lost_large_transaction",
    ),
    Mutant(
        "large", "lost history ends it", edit(Engine, "on_stream", ("self.state.abandon()\n        return", "return"))
    ),
    Mutant(
        "large",
        "answers that share an entry are stale, however many they are",
        all_of(*(edit(module, "touch", ("reader.let_go()", "pass")) for module in TOUCHING)),
    ),
)
