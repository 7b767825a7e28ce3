"""The rules of what is done in steps beside changes switched off, one at a time: how a key is linked to many entries
(`dataflow/large_answers.py`), and how subscribers of large answers are told (`dataflow/subscription.py`)."""

from __future__ import annotations

import dataflow.large_answers
from dataflow.subscription import Subscriptions
from tests.simulation.mutant import Mutant, edit

STEPS = (
    Mutant(
        "steps",
        "a change of what is linked already is seen",
        edit(dataflow.large_answers, "_is_ours", (" and not linking.changed", "")),
    ),
    Mutant(
        "steps",
        "a change of what is still to be linked is seen",
        edit(dataflow.large_answers, "_linked", ("_unchanged(some, since)", "True")),
    ),
    Mutant(
        "steps",
        "a subscriber is told of what is the answer still",
        edit(Subscriptions, "_tell", ("held.bodies is not found.bodies", "False")),
    ),
    Mutant(
        "steps",
        "a subscriber is not told of what was let go meanwhile",
        edit(Subscriptions, "_tell", ("is_held = reader.entries.get(key) is held", "is_held = True")),
        script="subscriber_of_a_key_that_was_let_go",
    ),
)
