"""CONVERT_TZ reads MySQL's tables of time zones: an answer with it is a hole after each change of theirs."""

from __future__ import annotations

from planner.session.virtual_columns import expressions_of
from planner.tree.plan import AnswerInput
from planner.tree.resolved import ResolvedQuery
from sqltypes.schema import ZONE_TABLES

_CONVERTS = "convert_tz"


def zone_inputs(query: ResolvedQuery, parts: int) -> tuple[AnswerInput, ...]:
    """What a query with CONVERT_TZ reads beside its tables: in its own text, a view's or a VIRTUAL column's. `parts`:
    of its key."""
    texts = (*query.texts, *expressions_of(query))
    if not any(token.text.lower() == _CONVERTS for text in texts for token in text.tokens):
        return ()
    return tuple(AnswerInput(table, (None,) * parts, None, ()) for table in ZONE_TABLES)
