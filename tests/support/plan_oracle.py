"""Answers a plan slowly: runs its upqueries, joins and computes row by row with the plain evaluator.

Shares nothing with the engine but the plan, so a plan that means another query than the client's shows here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

from planner.fill.upquery_sql import answer_sql, fill_sql
from planner.tree.plan import (
    Aggregate,
    AggregateArrangement,
    AggregateFunction,
    AnswerArrangement,
    Lookup,
    QueryPlan,
    ReadLimit,
    RowsArrangement,
    TopKArrangement,
    root_columns,
)
from sqltypes.expression import ColumnRef, Expr, ParamRef, Row, Value
from sqltypes.implementations import comparison_key
from sqltypes.interpreter import evaluate

RunSql = Callable[[str], list[Row]]
Joined = dict[tuple[str, str], Value]  # (alias, column in lower case)
Filling = RowsArrangement | AggregateArrangement | TopKArrangement


class PlanOracle:
    """One plan against one source of rows. `run`: rows of a SELECT in canonical values."""

    def __init__(self, plan: QueryPlan, run: RunSql) -> None:
        self._plan = plan
        self._run = run
        self.fetched: list[list[Row]] = [[] for _ in plan.reader.lookups]  # rows of the fills of each lookup

    def answer(self, params: Sequence[Value]) -> list[Row]:
        """The rows for one key (no list parameters)."""
        reader = self._plan.reader
        root = reader.root
        values = tuple(params[self._plan.key[at].parameter] for at in reader.root_key)
        if isinstance(root, AnswerArrangement):
            return self._run(answer_sql(root, values).sql)
        null_safe = [self._plan.key[at].null_safe for at in reader.root_key]
        found = any(value is not None or safe for value, safe in zip(values, null_safe, strict=True)) or not values
        rows = [self._named(reader.alias, root, row) for row in self._fill(root, values)] if found else []
        for index, lookup in enumerate(reader.lookups):
            rows = [pair for row in rows for pair in self._partners(index, lookup, row, params)]
        rows = [row for row in rows if _true(reader.filter, row, params)]
        if reader.aggregated:
            rows = self._grouped(rows, params)
        rows = [row for row in rows if _true(reader.having, row, params)]
        return self._shown(rows, params)

    def _fill(self, arrangement: Filling, key: tuple[Value, ...]) -> list[Row]:
        return [_upwards(arrangement, row[len(key) :]) for row in self._run(fill_sql(arrangement, [key]))]

    @staticmethod
    def _named(alias: str, arrangement: Filling, row: Row) -> Joined:
        return {(alias, name.lower()): value for name, value in zip(root_columns(arrangement), row, strict=True)}

    def _partners(self, index: int, lookup: Lookup, row: Joined, params: Sequence[Value]) -> Iterable[Joined]:
        key = tuple(_value(expr, row, params) for expr in lookup.key)
        fill = [] if None in key else self._run(fill_sql(lookup.arrangement, [key]))
        self.fetched[index] += fill
        partners = [_upwards(lookup.arrangement, found[len(key) :]) for found in fill]
        joined = [row | self._named(lookup.alias, lookup.arrangement, partner) for partner in partners]
        joined = [pair for pair in joined if _true(lookup.on, pair, params)]
        if lookup.outer and not joined:
            nulls = {(lookup.alias, name.lower()): None for name in root_columns(lookup.arrangement)}
            return [row | nulls]
        return joined

    def _grouped(self, rows: list[Joined], params: Sequence[Value]) -> list[Joined]:
        reader = self._plan.reader
        groups: dict[tuple[Any, ...], list[Joined]] = {} if reader.group else {(): []}
        for row in rows:
            key = tuple(_key(expr, _value(expr, row, params)) for expr in reader.group)
            groups.setdefault(key, []).append(row)
        out = []
        for members in groups.values():
            group: Joined = {
                ("group", f"g{at}"): _value(expr, members[0], params) for at, expr in enumerate(reader.group)
            }
            for aggregate in reader.aggregates:
                values = [_value(aggregate.argument, row, params) if aggregate.argument else 1 for row in members]
                group["agg", aggregate.name] = _aggregate(aggregate, values)
            out.append(group)
        return out

    def _shown(self, rows: list[Joined], params: Sequence[Value]) -> list[Row]:
        reader = self._plan.reader

        def compare(left: Joined, right: Joined) -> int:
            for term in reader.order:
                a, b = (_key(term.expr, _value(term.expr, row, params)) for row in (left, right))
                if a != b:
                    less = a is None or (b is not None and a < b)
                    return -1 if less != term.descending else 1
            return 0

        rows = sorted(rows, key=cmp_to_key(compare))
        shown = [tuple(_value(column.expr, row, params) for column in reader.output) for row in rows]
        if reader.distinct is not None:
            keyed = {
                tuple(_key(column.expr, value) for column, value in zip(reader.output, row, strict=True)): row
                for row in reversed(shown)
            }
            shown = [row for row in shown if any(row is kept for kept in keyed.values())]
        return _cut(shown, reader.limit, params)


def _upwards(arrangement: Filling, row: Row) -> Row:
    """A fill's row, key columns cut off, as the arrangement gives it upwards."""
    if not isinstance(arrangement, AggregateArrangement):
        return row[: len(arrangement.columns)]
    at = len(arrangement.group)
    out = list(row[:at])
    for aggregate in arrangement.aggregates:
        if aggregate.function is AggregateFunction.AVG:
            out.append(_average(aggregate, row[at], row[at + 1]))
            at += 1
        else:
            out.append(row[at])
        at += 1
    spelled = len(arrangement.spelled)
    return (*out, row[at], *row[len(row) - spelled :])


def _average(aggregate: Aggregate, total: Any, count: Any) -> Value:
    if not count:
        return None
    quotient: Decimal = Decimal(total) / count
    return quotient.quantize(Decimal(1).scaleb(-(aggregate.type.scale or 0)))


def _aggregate(aggregate: Aggregate, values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    match aggregate.function:
        case AggregateFunction.COUNT_STAR:
            return len(values)
        case AggregateFunction.COUNT:
            return len(known)
    if not known:
        return None
    argument = aggregate.argument
    assert argument is not None
    match aggregate.function:
        case AggregateFunction.SUM:
            return sum(known[1:], start=known[0])
        case AggregateFunction.AVG:
            return _average(aggregate, sum(known[1:], start=known[0]), len(known))
        case AggregateFunction.MIN:
            return min(known, key=lambda value: _key(argument, value))
    return max(known, key=lambda value: _key(argument, value))


def _cut(rows: list[Row], limit: ReadLimit | None, params: Sequence[Value]) -> list[Row]:
    if limit is None:
        return rows
    count = params[limit.count.index] if isinstance(limit.count, ParamRef) else limit.count
    offset = params[limit.offset.index] if isinstance(limit.offset, ParamRef) else limit.offset
    assert isinstance(offset, int)
    return rows[offset:] if count is None else rows[offset : offset + int(str(count))]


def _value(expr: Expr, row: Joined, params: Sequence[Value]) -> Value:
    def column(ref: ColumnRef) -> Value:
        return row[ref.source, ref.name.lower()]

    return evaluate(expr, column, params)


def _true(condition: Expr | None, row: Joined, params: Sequence[Value]) -> bool:
    return condition is None or _value(condition, row, params) not in (None, 0)


def _key(expr: Expr, value: Value) -> Any:
    by = comparison_key(expr.type, ordered=True)
    return value if value is None or by is None else by(value)
