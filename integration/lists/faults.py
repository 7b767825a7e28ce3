"""Faults of lists, planted one at a time: the judge must find each (`integration/lists/test_random_lists.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import proxy.cache.key_binder
import proxy.read.lookups
from dataflow.readers.reader import ReaderNode
from proxy.cache.key_binder import KeyBinder
from tests.simulation.mutant import Patch, all_of, attribute, edit


@dataclass(frozen=True)
class Fault:
    """`kinds`: what it shows as; `seed`: of the first world that is tried."""

    name: str
    plant: Patch
    kinds: frozenset[str]
    seed: int


def no_order(*_: object) -> dict[int, Any]:
    return {}


ROWS, ORDER = frozenset({"rows"}), frozenset({"order"})
FAULTS = (
    Fault(
        "lists are answered in their own order",
        attribute(proxy.cache.key_binder, "in_reading_order", no_order),
        ORDER, 9,
    ),
    Fault(
        "what a list names twice is answered twice",
        all_of(
            edit(KeyBinder, "_expand", ("keys.setdefault(self._key_of(candidate), candidate)",
                                        "keys.setdefault((self._key_of(candidate), len(keys)), candidate)"),
                 ("list(keys.items())", "[(key, params) for (key, _), params in keys.items()]")),
            edit(KeyBinder, "_list_keys", ("if len(set(values)) == len(values)", "if True")),
            edit(KeyBinder, "_convert", ("else dict.fromkeys(value))", "else value)"),
                 ("sorted(set(value), reverse", "sorted(value, reverse")),
        ),
        ROWS,
        1,
    ),
    Fault(
        "LIMIT is applied to each value of a list",
        edit(ReaderNode, "answer", ("joined += self.program.passing_in_order(found.rows, params)",
                                    "joined += self.program.finish(found.rows, params)"),
             ("return self.program.finish_passed(joined, keys[0][1])", "return joined")),
        ROWS | {"order of keys"},
        4,
    ),
    Fault(
        "a NULL in a list finds rows",
        edit(KeyBinder, "_expand", ("if not any(candidate[index] is None for index in self._not_null):", "if True:")),
        ROWS,
        14,
    ),
    Fault(
        "a value that is not held has the rows of another",
        edit(
            proxy.read.lookups,
            "_complete",
            (
                "                return False",
                "                rows[at] = max(filter(None, rows), default=b'')\n"
                "                if not rows[at]:\n"
                "                    return False\n"
                "                continue",
            ),
        ),
        ROWS,
        1,
    ),
    Fault(
        "two lists are taken in pairs",
        all_of(
            edit(KeyBinder, "_expand", ("product(*(choice", "zip(*(choice")),
            edit(KeyBinder, "_product_keys", ("return list(product(*parts))", "return list(zip(*parts))")),
        ),
        ROWS,
        3,
    ),
)  # fmt: skip
