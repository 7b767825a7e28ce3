"""Held answers of one query in evict mode beside SQLite's, after each of many changes: what was not emptied is right.

The rows of all keys that are held are looked at after each change, so a rule that tells too little is found at once.
Answers that stand for other keys are looked at for these, too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from dataflow.graph.build import arrangement_node
from dataflow.held.arrangement import Memory
from dataflow.messages import Pair
from dataflow.operators.answer import AnswerNode
from dataflow.operators.answer_index import AnswerEntry
from dataflow.operators.standing import reach
from planner.tree.plan import AnswerArrangement
from sqltypes.expression import Row
from tests.simulation.queries import ORDERED, REACHING, TELLING, Parameters, Query, bound, query
from tests.simulation.sql_side import DATABASE, INT, State
from tests.simulation.thresholds import Thresholds

CHANGES = 60
KEYS = 12
VALUES = (0, 1, 2, 3, None)
WIDTHS = {"a": 5, "b": 3}


def wrong(seed: int) -> str:
    """What a held answer is, and should be, in the trial of that seed; "" where all are right."""
    rng = random.Random(seed)
    names = sorted({**TELLING, **REACHING})
    asked = query(names[seed % len(names)])
    thresholds, state = Thresholds(bags=seed % 3), State()
    try:
        return _wrong(asked, rng, state)
    finally:
        thresholds.close()
        state.close()


def _wrong(asked: Query, rng: random.Random, state: State) -> str:
    root = asked.plan.reader.root
    assert isinstance(root, AnswerArrangement)
    node = arrangement_node(root, 1, Memory())
    assert isinstance(node, AnswerNode)
    if rng.random() < 0.5:
        node.ask_reaches()
    for _ in range(CHANGES):
        for _ in range(rng.randint(0, KEYS)):
            _hold(node, asked, asked.parameters(rng), state)
        table = rng.choice(("a", "b"))
        pairs = [_change(rng, table, state) for _ in range(rng.choice((1, 1, 2)))]
        node.apply(f"{DATABASE}.{table}", pairs, node.entries)
        node.check_invariants()
        for key, entry in node.entries.items():
            assert isinstance(entry, AnswerEntry)
            for parameters in (key, *_reached(entry, rng)):
                truth = asked.truth(state, parameters)  # type: ignore[arg-type]  # a key is the parameters
                if not _same(asked, entry.content, truth):
                    return f"{asked.name} {parameters}: held {entry.content}, it is {truth} after {pairs}"
    return ""


def _hold(node: AnswerNode, asked: Query, key: Parameters, state: State) -> None:
    if key in node.entries:
        return
    entry = node.load(key, asked.truth(state, key))
    assert isinstance(entry, AnswerEntry)
    if node.crossings and None not in key:
        told = [state.query(bound_fields(each.sql, key), [INT])[0][0] for each in node.crossings]
        entry.reach_to(reach(node.crossings, key, told))
    node.insert(entry)


def bound_fields(sql: str, key: Parameters) -> str:
    return sql.format(*[bound("?", (value,)) for value in key])


def _reached(entry: AnswerEntry, rng: random.Random) -> list[Parameters]:
    """Other keys for which it stands."""
    if entry.reach is None:
        return []
    others = [tuple(rng.choice(VALUES) if at in entry.reach.ends else own for at, own in enumerate(entry.reach.values))]
    return [other for other in others if entry.reach.has(other)]


def _change(rng: random.Random, table: str, state: State) -> Pair:
    number = rng.randrange(1, 9)
    before = state.rows[table].get(number)
    after: Row | None = (number, *(rng.choice(VALUES) for _ in range(WIDTHS[table] - 1)))
    if before is not None and rng.random() < 0.3:
        after = None
    elif before is not None and rng.random() < 0.6:
        at = rng.randrange(1, WIDTHS[table])
        after = tuple(rng.choice(VALUES) if place == at else value for place, value in enumerate(before))
    state.apply(table, [(before, after)])
    return before, after


def _same(asked: Query, held: Sequence[Row], truth: Sequence[Row]) -> bool:
    return list(held) == list(truth) if asked.name in ORDERED else Counter(held) == Counter(truth)
