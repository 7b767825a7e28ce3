"""Whether all that a query may be asked can be held from its beginning."""

from __future__ import annotations

from planner.fill.all_keys import why_not_listed
from planner.tree.plan import AnswerArrangement, QueryPlan

SMALL_TABLE = 10_000  # rows: a whole table of fewer may be held for a query without key parameters


def is_small(plan: QueryPlan) -> bool:
    """Whether every answer comes from one table, and that is a small one. It is held whole by the first fill, or its
    keys can be listed."""
    root = plan.reader.root
    if isinstance(root, AnswerArrangement) or plan.reader.lookups or root.table.rows_estimate >= SMALL_TABLE:
        return False
    return not root.key or not why_not_listed(plan)
