"""The text of a fill, prepared once for an arrangement: what is left for each upquery is to put the keys in.

Building the SELECT anew costs more than MySQL takes to answer a primary-key lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.fill.upquery_sql import Filling, KeyValues, fill_sql, text_with_condition
from planner.tree.plan import AnswerArrangement, Arrangement, TopKArrangement
from planner.tree.sql_text import quoted_name
from sqltypes.schema import SqlType
from sqltypes.values import sql_literal

FillText = Callable[[Sequence[KeyValues]], str]
MARK = "\0"  # stands where the key's condition goes; it occurs in no SQL text


def fill_text(arrangement: Arrangement) -> FillText:
    """As `upquery_sql.fill_sql` for this arrangement. Requires: no answer arrangement is filled by it."""
    assert not isinstance(arrangement, AnswerArrangement)
    if isinstance(arrangement, TopKArrangement) or len(arrangement.key) != 1:
        return _unprepared(arrangement)
    (name,) = arrangement.key
    type_ = arrangement.table.column(name).type
    before, after = text_with_condition(arrangement, MARK).split(MARK)
    return _prepared(arrangement, f"{before}{quoted_name(name)}", after, type_)


def _unprepared(arrangement: Filling) -> FillText:
    return lambda keys: fill_sql(arrangement, keys)


def _prepared(arrangement: Filling, before: str, after: str, type_: SqlType) -> FillText:
    literal: Callable[[object], str] = str if type_.is_integer else lambda value: sql_literal(value, type_)

    def text(keys: Sequence[KeyValues]) -> str:
        if len(keys) == 1:
            value = keys[0][0]
            return fill_sql(arrangement, keys) if value is None else f"{before} = {literal(value)}{after}"
        if any(key[0] is None for key in keys):
            return fill_sql(arrangement, keys)
        return f"{before} IN ({', '.join([literal(key[0]) for key in keys])}){after}"

    return text
