"""The rules of what is done in steps beside changes switched off, one at a time: how a key is linked to many entries
and a read answered (`dataflow/readers/in_steps.py`), how answers are inserted (`dataflow/fills/insertion.py`), and how
subscribers of large answers are told (`dataflow/fills/subscription.py`)."""

from __future__ import annotations

import dataflow.readers.in_steps
from dataflow.fills.insertion import Insertion
from dataflow.fills.state import State
from dataflow.fills.subscription import Subscriptions
from dataflow.fills.waiting_reads import Reads
from dataflow.held.bag import Bag
from dataflow.readers.eviction import Sieve
from dataflow.readers.in_steps import RowsAt
from dataflow.readers.ranges import Range
from proxy.read.misses import Misses
from tests.simulation.mutant import Mutant, edit

STEPS = (
    Mutant(
        "steps",
        "a row that comes is put in its place",
        edit(Bag, "add", ("self._note(row, come=True) if self.orders or self._making else 0", "0")),
    ),
    Mutant(
        "steps",
        "what comes while rows are put in order is put in its place",
        edit(Bag, "put_in_order", ("while waiting:", "while False:")),
    ),
    Mutant(
        "steps",
        "a range has what stands at its end",
        edit(Range, "rows", ("content.between(self.column, *bounds)", "content.between(self.column, *bounds)[1:]")),
    ),
    Mutant(
        "steps",
        "what is still to be inserted is brought forward",
        edit(State, "insertion", ("self._bring_rest(fill, at)", "pass")),
    ),
    Mutant(
        "steps",
        "what is still to be inserted goes with a statement that empties its table",
        edit(State, "_bring_rest", ("self.ring.after(at)", "[]")),
    ),
    Mutant(
        "steps",
        "what is placed and not needed goes",
        edit(Insertion, "steps", ("self._let_go()", "pass")),
    ),
    Mutant(
        "steps",
        "a read that is answered in steps is told one state",
        edit(RowsAt, "steps", ("if not _unchanged(some, since):", "if False:")),
    ),
    Mutant(
        "steps",
        "it is told at which position",
        edit(Reads, "_end_long", ("found.rows, long.position", "found.rows, self._state.ring.position.freeze()")),
    ),
    Mutant(
        "steps",
        "a change of what is linked already is seen",
        edit(dataflow.readers.in_steps, "_is_ours", (" and not linking.changed", "")),
    ),
    Mutant(
        "steps",
        "a change of what is still to be linked is seen",
        edit(dataflow.readers.in_steps, "_linked", ("_unchanged(some, since)", "True")),
    ),
    Mutant(
        "steps",
        "what is made of several keys is told with the position that it was begun at",
        edit(Misses, "_made_together", ("body, position, cache.name", "body, self._host.position.text(), cache.name")),
    ),
    Mutant(
        "steps",
        "a reader that was closed takes up no key",
        edit(Sieve, "hold", ("if not reader.installed:", "if False:")),
        script="a_cache_is_dropped_while_its_keys_are_read",
    ),
    Mutant(
        "steps",
        "an answer is stored if it is the key's still",
        edit(Misses, "_derive_large", (" and held.version == version", "")),
    ),
    Mutant(
        "steps",
        "a subscriber is told of what is the answer still",
        edit(Subscriptions, "_tell", ("held.version != found.version", "False")),
    ),
    Mutant(
        "steps",
        "a subscriber is not told of what was let go meanwhile",
        edit(Subscriptions, "_tell", ("is_held = reader.entries.get(key) is held", "is_held = True")),
        script="subscriber_of_a_key_that_was_let_go",
    ),
)
