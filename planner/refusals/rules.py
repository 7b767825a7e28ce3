"""The rules that refuse a query once its names are known. Each raises UnsupportedQuery where an answer may depend on
more than the rows. What depends on MySQL's plan alone is checked where a query is analysed for evict mode
(`planner/refusals/by_plan.py`)."""

from __future__ import annotations

from collections.abc import Callable

from planner.refusals.current_date import check_current_date
from planner.refusals.distinct_order import check_distinct_order
from planner.refusals.padding import check_padding
from planner.refusals.pinned import check_pinned
from planner.refusals.put_in_place import check_put_in_place
from planner.tree.reasons import check_timestamps
from planner.tree.resolved import ResolvedQuery

Rule = Callable[[ResolvedQuery], None]


def _timestamps(query: ResolvedQuery) -> None:
    check_timestamps(query.trees)


OF_EXPRESSIONS: tuple[Rule, ...] = (_timestamps, check_current_date)
"""Those that hold of the expressions of VIRTUAL columns, too."""
RULES: tuple[Rule, ...] = (*OF_EXPRESSIONS, check_distinct_order, check_pinned, check_put_in_place, check_padding)
