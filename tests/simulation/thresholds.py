"""From how many rows on something is done otherwise: in a simulation, which has few rows, from very few."""

from __future__ import annotations

from dataflow.held import bag, intervals
from dataflow.operators import answer_index, rows
from dataflow.readers import ranges
from planner.fill import upquery_sql

NOW = 1 << 30  # rows that are put in order at once


class Thresholds:
    """Those of modules, until `close`."""

    def __init__(self, bags: int) -> None:
        """`bags`: as in `Setup`."""
        self._top_k = upquery_sql.TOPK_SLACK, upquery_sql.TOPK_SPARE
        self._intervals = answer_index.FEW_INTERVALS, intervals.BLOCK
        self._bags = rows.LARGE, ranges.WORTH, ranges.SHORT, bag.AT_ONCE
        # Nothing beyond the limit is fetched: with few rows, too, some are not held.
        upquery_sql.TOPK_SLACK, upquery_sql.TOPK_SPARE = 1000, 0
        answer_index.FEW_INTERVALS, intervals.BLOCK = 1, 2
        if bags:
            rows.LARGE, ranges.WORTH, ranges.SHORT, bag.AT_ONCE = 0, 1, NOW if bags == 1 else 0, 1

    def close(self) -> None:
        upquery_sql.TOPK_SLACK, upquery_sql.TOPK_SPARE = self._top_k
        rows.LARGE, ranges.WORTH, ranges.SHORT, bag.AT_ONCE = self._bags
        answer_index.FEW_INTERVALS, intervals.BLOCK = self._intervals
