"""The SELECT that lists all keys of a plan's reader that have rows, each with about how many its fill brings."""

from __future__ import annotations

from planner.fill.upquery_sql import topk_fetch
from planner.tree.plan import AggregateArrangement, AnswerArrangement, QueryPlan, TopKArrangement
from planner.tree.sql_text import condition_sql, from_table, quoted_name

NO_KEYS_OF_EVICT = "its answers are MySQL's own (evict mode), and which parameters they are asked for is not known"
OTHER_PARAMETERS = "its parameters are not all columns of one table that are compared by = or IN"


def why_not_listed(plan: QueryPlan) -> str:
    """Why the keys cannot be listed; "" if they can."""
    if isinstance(plan.reader.root, AnswerArrangement):
        return NO_KEYS_OF_EVICT
    parameters = [plan.key[at].parameter for at in plan.reader.root_key]
    if len(plan.reader.root_key) != len(plan.key) or sorted(parameters) != list(range(len(plan.parameters))):
        return OTHER_PARAMETERS
    return ""


def listing_sql(plan: QueryPlan) -> str:
    """Its columns: the root's key, in order, as stored; then the number of rows, at least 1. Equal keys come once, in
    one of their spellings. Requires: `why_not_listed` gives no reason."""
    root = plan.reader.root
    assert not isinstance(root, AnswerArrangement)
    names = [quoted_name(name) for name in root.key]
    columns = [
        f"CAST({name} AS DOUBLE)" if root.table.column(column).type.name == "float" else name
        for name, column in zip(names, root.key, strict=True)
    ]
    conditions = []
    if root.filter is not None:
        conditions.append(condition_sql(root.filter))
    for at, name in zip(plan.reader.root_key, names, strict=True):
        if not plan.key[at].null_safe:
            conditions.append(f"{name} IS NOT NULL")
    text = f"SELECT {', '.join([*columns, f'{_rows(root)} AS `rows`'])} FROM {from_table(root.table)}"
    if conditions:
        text += f" WHERE {' AND '.join(conditions)}"
    if names:
        listed = ", ".join(names)
        text += f" GROUP BY {listed} ORDER BY {listed}"
    return text


def _rows(root: object) -> str:
    if isinstance(root, AggregateArrangement):
        within = [name for name in root.group if name not in root.key]
        if not within:
            return "1" if root.key else "COUNT(*)"
        return f"GREATEST(COUNT(DISTINCT {', '.join(map(quoted_name, within))}), 1)"
    if isinstance(root, TopKArrangement):
        return f"LEAST(COUNT(*), {topk_fetch(root)})"
    return "COUNT(*)"
