"""CONVERT_TZ reads MySQL's tables of time zones: an answer with it is a hole after each change of theirs."""

from __future__ import annotations

from planner.session.virtual_columns import expressions_of
from planner.text.parse import ParsedQuery
from planner.text.scan import scan
from planner.tree.names import Catalogue
from planner.tree.plan import AnswerInput
from sqltypes.schema import ZONE_TABLES

_CONVERTS = "convert_tz"


def zone_inputs(query: ParsedQuery, catalogue: Catalogue, parts: int) -> tuple[AnswerInput, ...]:
    """What a query with CONVERT_TZ reads beside its tables: in its own text, a view's or a VIRTUAL column's. `parts`:
    of its key."""
    written = [query, *(view for _, view in catalogue.views(query.tree))]
    trees, tables = [each.tree for each in written], tuple(catalogue.base_tables(query.tree))
    written += expressions_of(trees, tables, catalogue.snapshot.server_version)
    texts = [each.text for each in written]
    if not any(_CONVERTS in text.lower() and _converts(text) for text in texts):
        return ()
    return tuple(AnswerInput(table, (None,) * parts, None, ()) for table in ZONE_TABLES)


def _converts(text: str) -> bool:
    return any(token.text.lower() == _CONVERTS for token in scan(text))
