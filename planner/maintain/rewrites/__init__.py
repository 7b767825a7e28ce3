"""Rewrites of a block, applied in order by `RULES`: each takes a block and gives one that asks for the same rows.

A rule is a file named as its one public function; its examples are in tests/fixtures/rewrites/<rule>.sql.
"""

from __future__ import annotations

from collections.abc import Callable

from planner.maintain.rewrites.decorrelate_scalar import decorrelate_scalar
from planner.maintain.rewrites.inline_derived import inline_derived
from planner.maintain.rewrites.outer_to_inner import outer_to_inner
from planner.maintain.rewrites.push_down_aggregate import push_down_aggregate
from planner.tree.logical import Block

Rule = Callable[[Block], Block]

RULES: tuple[Rule, ...] = (inline_derived, outer_to_inner, decorrelate_scalar, push_down_aggregate)


def rewrite(block: Block) -> Block:
    """The block after all rules. Raises NotMaintained where a rule finds what no reader can derive."""
    for rule in RULES:
        block = rule(block)
    return block
