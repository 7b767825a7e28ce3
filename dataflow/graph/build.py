"""From a plan to running nodes: the one place where column names become positions.

Rows have three shapes: a base table's row (as wide as the table), an upquery's row (key columns, then the payload laid
out by `planner.fill.upquery_sql.fill_columns`), and the joined row of a reader (each input's columns, one after the
other).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from sys import getsizeof
from typing import Any

from dataflow.entries import WIDE, WIDE_LETTER
from dataflow.graph.answers import Layout, answer_node
from dataflow.graph.spellings import with_one_spelling
from dataflow.graph.whole_dates import dated_places, with_whole_dates
from dataflow.graph.whole_strings import of_whole_strings
from dataflow.held.arrangement import NOWHERE, Arrangement, LinearArrangement, Memory
from dataflow.held.packed import packing
from dataflow.operators.aggregate import (
    EXACT,
    Accumulator,
    AggregateNode,
    GroupProgram,
    accumulators,
    add_value,
    subtract_value,
)
from dataflow.operators.rows import RowsNode
from dataflow.operators.topk import TopKNode
from dataflow.readers.derivation import Grouping, Level, Params, ReaderProgram
from dataflow.readers.ranges import range_of
from dataflow.readers.reader import ReaderNode
from planner.evict.crossings import steady
from planner.fill.prepared_text import fill_text
from planner.fill.upquery_sql import fill_columns, topk_fetch
from planner.tree.plan import (
    Aggregate,
    AggregateArrangement,
    AggregateFunction,
    AnswerArrangement,
    Lookup,
    QueryPlan,
    Reader,
    ReadLimit,
    RowsArrangement,
    TopKArrangement,
    own,
    root_columns,
)
from planner.tree.plan import Arrangement as ArrangementPlan
from sqltypes.collation import sort_key
from sqltypes.compile import Codegen, compile_key, compile_predicate, compile_row, compile_sort_key
from sqltypes.expression import Call, ColumnRef, Expr, Key, Literal, ParamRef, Row
from sqltypes.functions import COMPARISONS
from sqltypes.schema import BIGINT, SqlType, Table
from sqltypes.spellings import shows_as_is
from sqltypes.values import identical

BYTES = SqlType("varbinary")
COMPARED = COMPARISONS | {"in"}  # calls that do not tell equal values apart
TUPLE_BYTES = 56  # an empty tuple and its share of the list or dict that holds it
NUMBER_BYTES = 32  # an int below 2**60 or a float, rounded up by the allocator

# -- arrangements ----------------------------------------------------------------------------------------------------


def arrangement_node(plan: ArrangementPlan, number: int, memory: Memory) -> Arrangement:
    """The running node of an arrangement."""
    match plan:
        case RowsArrangement():
            node: LinearArrangement = _rows_node(plan, number, memory)
        case AggregateArrangement():
            node = _aggregate_node(plan, number, memory)
        case TopKArrangement():
            node = _topk_node(plan, number, memory)
        case AnswerArrangement():
            return answer_node(plan, number, memory, _table_layout)
    node.key_width = len(plan.key)
    if plan.filter is None and len(plan.key) == 1:
        column = plan.table.column(plan.key[0])
        node.key_column = column.position if _compares_as_is(column.type) else None
    node.fill_text = fill_text(plan)
    node.key_of_answer = _key_of_columns([own(name, plan.table) for name in plan.key], range(len(plan.key)))
    return node


def _table_layout(table: Table) -> Layout:
    return {("", column.name.lower()): column.position for column in table.columns}


def _locate(table: Table, key: Sequence[str], filter_: Expr | None) -> Callable[[Row], Key]:
    """The key of a base row that passes the filter, else NOWHERE."""
    columns = [own(name, table) for name in key]
    if filter_ is None:
        return _key_of_columns(columns, [table.column(name).position for name in key])
    code = Codegen()
    layout = _table_layout(table)
    nowhere = code.bind(NOWHERE)
    ref = _row_ref(layout)
    source = f"return {code.key(columns, ref) if columns else '()'} if {code.truth(filter_, ref)} else {nowhere}"
    return code.function("locate", "r", [source])


def _key_of_columns(columns: Sequence[ColumnRef], positions: Sequence[int]) -> Callable[[Row], Key]:
    """The comparison key of some columns. One column that compares as it is needs no Python function at all."""
    if not columns:
        return lambda row: ()
    if all(_compares_as_is(column.type) for column in columns):
        return itemgetter(*positions)
    layout = {
        (str(at), column.name.lower()): position
        for at, (column, position) in enumerate(zip(columns, positions, strict=True))
    }
    named = [ColumnRef(str(at), column.name, column.type, column.nullable) for at, column in enumerate(columns)]
    return compile_key(named, layout)


def _compares_as_is(type_: SqlType) -> bool:
    return type_.is_integer or type_.name in ("decimal", "bit", "date") or type_.is_binary


def _row_ref(layout: Mapping[tuple[str, str], int], row: str = "r") -> Callable[[ColumnRef | ParamRef], str]:
    def ref(node: ColumnRef | ParamRef) -> str:
        if isinstance(node, ParamRef):
            return f"p[{node.index}]"
        return f"{row}[{layout[node.source, node.name.lower()]}]"

    return ref


def _columns_of_row(positions: Sequence[int]) -> Callable[[Row], Row]:
    """Narrows a row to the given positions, always to a tuple."""
    if len(positions) == 1:
        (only,) = positions
        return lambda row: (row[only],)
    return itemgetter(*positions) if positions else lambda row: ()


def _rows_node(plan: RowsArrangement, number: int, memory: Memory) -> RowsNode:
    table = plan.table
    columns = [table.column(name) for name in plan.columns]
    narrow = _columns_of_row([column.position for column in columns])
    exact = not any(column.type.is_approximate for column in columns)
    types = [column.type for column in columns]
    weigh = _weighing(types)
    locate = _locate(table, plan.key, plan.filter)
    return RowsNode(plan, number, memory, locate, narrow, exact, weigh, packing(types, weigh))


def _weighing(types: Sequence[SqlType]) -> Callable[[Row], int]:
    """Estimates a row's bytes, as `entries.row_bytes`: what has one size is counted once, here."""
    fixed = TUPLE_BYTES + 8 * len(types) + NUMBER_BYTES * sum(map(_has_one_size, types))
    varying = [_weight(f"r[{at}]", type_) for at, type_ in enumerate(types) if not _has_one_size(type_)]
    code = Codegen()
    code.names["size"] = getsizeof
    return code.function("weigh", "r", [f"return {' + '.join([str(fixed), *varying])}"])


def _has_one_size(type_: SqlType) -> bool:
    return type_.is_integer or type_.is_approximate or type_.name in ("bit", "time")


def _is_text(type_: SqlType) -> bool:
    return type_.is_string or type_.name == "json"


def _weight(value: str, type_: SqlType) -> str:
    if not _is_text(type_):
        return f"size({value})"
    plain = f"{value} is None or {value}.isascii()"  # as `entries.value_bytes`
    return f"(size({value}) if {plain} else {WIDE} + {WIDE_LETTER} * len({value}))"


def _aggregate_node(plan: AggregateArrangement, number: int, memory: Memory) -> AggregateNode:
    table = plan.table
    layout = _table_layout(table)
    group = [own(name, table) for name in plan.group]
    positions = [column.position for column in (table.column(name) for name in plan.group)]
    by = [at for at, column in enumerate(group) if column.name.lower() in plan.told_by]
    items = accumulators(plan.aggregates, [_order_of(aggregate) for aggregate in plan.aggregates])
    exact = not any(expr.type.is_approximate for expr in (*group, *map(_argument, plan.aggregates)))
    folding = _Folding(plan.aggregates, items, layout, exact=exact)
    program = GroupProgram(
        locate=_locate(table, plan.key, plan.filter),
        group_key=_group_key([group[at] for at in by], [positions[at] for at in by]),
        group_values=_columns_of_row(positions),
        arguments=compile_row([_argument(aggregate) for aggregate in plan.aggregates], layout),
        add=folding.add,
        subtract=folding.subtract,
        replace=folding.replace,
        accumulators=items,
        group_width=len(group),
        answer_group_key=_group_key([group[at] for at in by], by),
        spelled=tuple(plan.group.index(name) for name in plan.spelled),
        of_one_row=table.is_unique_in(plan.group),
        dated=dated_places(plan),
        shown=itemgetter(*positions) if positions else lambda row: (),
        exact=exact,
    )
    return AggregateNode(plan, number, memory, program)


def _group_key(columns: Sequence[ColumnRef], positions: Sequence[int]) -> Callable[[Row], Key]:
    types = [column.type for column in columns]
    return of_whole_strings(_key_of_columns(columns, positions), types, _columns_of_row(positions))


class _Folding:
    """What rows do to a group's state, as functions of the state and of rows. False from them: an extreme may be gone.

    `add`, `subtract`: one comes or goes. `replace`: one becomes another; None where that changes nothing. `exact`: what
    is equal looks the same.
    """

    def __init__(
        self, aggregates: Sequence[Aggregate], items: Sequence[Accumulator], layout: Layout, *, exact: bool
    ) -> None:
        self._folds = list(zip(aggregates, items, strict=True))
        self._layout = layout
        self.add = self._alone("+")
        self.subtract = self._alone("-")
        self.replace = self._replacing(exact)

    def _alone(self, sign: str) -> Callable[..., Any]:
        code = Codegen()
        lines = []
        for aggregate, item in self._folds:
            if aggregate.argument is not None:
                lines.append(f"v = {code.expression(aggregate.argument, _row_ref(self._layout))}")
            lines.append(_fold(code, aggregate, item, "v", sign))
        return code.function("fold", "s, r", [*lines, "return True"])

    def _replacing(self, exact: bool) -> Callable[..., Any]:
        code = Codegen()
        folds = [(aggregate, item) for aggregate, item in self._folds if aggregate.argument is not None]
        lines, gone, come = [], [], []
        for at, (aggregate, item) in enumerate(folds):
            for row in "ba":
                lines.append(f"{row}{at} = {code.expression(_argument(aggregate), _row_ref(self._layout, row))}")
            gone.append(_fold(code, aggregate, item, f"b{at}", "-"))
            come.append(_fold(code, aggregate, item, f"a{at}", "+"))
        numbers = range(len(folds))
        same = " and ".join(f"b{at} == a{at}" for at in numbers) or "True"
        if not exact:
            before, after = ("".join(f"{row}{at}, " for at in numbers) for row in "ba")
            same = f"{code.bind(identical)}(({before}), ({after}))"
        return code.function("replace", "s, b, a", [*lines, f"if {same}: return None", *gone, *come, "return True"])


def _fold(code: Codegen, aggregate: Aggregate, item: Accumulator, value: str, sign: str) -> str:
    """What a value that comes or goes does to its slots of a state. MIN and MAX are not compiled."""
    slot = item.slot
    if aggregate.argument is None:
        return f"s[{slot}] {sign}= 1"
    if aggregate.function is AggregateFunction.COUNT:
        return f"if {value} is not None: s[{slot}] {sign}= 1"
    plain, exact = (add_value, EXACT.add) if sign == "+" else (subtract_value, EXACT.subtract)
    if aggregate.function in (AggregateFunction.SUM, AggregateFunction.AVG):
        decimal = f"{code.bind(exact)}({code.bind(Decimal)}(s[{slot}]), {value})"
        total = f"s[{slot}] {sign} {value}" if item.integral else decimal
        return f"if {value} is not None: s[{slot}] = {total}; s[{slot + 1}] {sign}= 1"
    return f"if {code.bind(plain)}(s, {code.bind(item)}, {value}) is False: return False"


def _argument(aggregate: Aggregate) -> Expr:
    return aggregate.argument if aggregate.argument is not None else Literal(1, BIGINT)


def _order_of(aggregate: Aggregate) -> Callable[[Any], Any] | None:
    """What MIN and MAX compare strings by."""
    if aggregate.function not in (AggregateFunction.MIN, AggregateFunction.MAX) or not aggregate.type.is_string:
        return None
    return sort_key(aggregate.type.collation)


def _topk_node(plan: TopKArrangement, number: int, memory: Memory) -> TopKNode:
    table = plan.table
    terms = [(term.expr, term.descending) for term in plan.order]
    terms += [(own(name, table), False) for name in table.primary_key]
    by_table = compile_sort_key(terms, _table_layout(table))
    payload = fill_columns(plan)[len(plan.key) :]
    by_answer = compile_sort_key(terms, {("", name.lower()): at for at, (name, _) in enumerate(payload)})
    positions = [table.column(name).position for name in plan.columns]
    return TopKNode(
        plan,
        number,
        memory,
        locate=_locate(table, plan.key, plan.filter),
        narrow=_columns_of_row(positions),
        sort_key=lambda row: by_table(row, ()),
        answer_sort_key=lambda row: by_answer(row, ()),
        fetched=topk_fetch(plan),
        width=len(plan.columns),
    )


# -- readers ---------------------------------------------------------------------------------------------------------


def reader_node(plan: QueryPlan, tag: int, nodes: Mapping[ArrangementPlan, Arrangement], memory: Memory) -> ReaderNode:
    """The running reader of a plan over its arrangements' nodes."""
    given, plan = plan, with_one_spelling(with_whole_dates(plan))
    reader = plan.reader
    layout: Layout = {}
    width = _extend(layout, 0, reader.alias, root_columns(reader.root))
    levels = []
    for lookup in reader.lookups:
        by = _LevelKey(lookup, layout)
        width = _extend(layout, width, lookup.alias, root_columns(lookup.arrangement))
        levels.append(_level(lookup, nodes[lookup.arrangement], by, layout))
    exact = _read_as_they_are(plan)
    key_params = [ParamRef(part.parameter, BYTES if part.parameter in exact else part.type) for part in plan.key]
    evict = isinstance(reader.root, AnswerArrangement)
    root_params = [key_params[at] for at in reader.root_key]
    root_types = _root_key_types(reader.root)
    root_key = _params_key(
        [ParamRef(param.index, type_) for param, type_ in zip(root_params, root_types, strict=True)], exact=evict
    )
    grouping = _grouping(plan, layout) if reader.aggregated else None
    shown = _group_layout(plan) if reader.aggregated else layout
    program = ReaderProgram(
        root=nodes[reader.root],
        root_key=root_key,
        root_values=_params_row([param.index for param in root_params]),
        levels=tuple(levels),
        filter=_predicate(reader.filter, layout),
        range=range_of(reader.filter, reader.alias, layout) if isinstance(reader.root, RowsArrangement) else None,
        grouping=grouping,
        having=_predicate(reader.having, shown),
        project=None if evict else compile_row([column.expr for column in reader.output], shown),
        distinct=None if evict else _distinct(reader),
        order=compile_sort_key([(term.expr, term.descending) for term in reader.order], shown)
        if reader.order and not evict
        else None,
        limit=_limit(reader.limit) if reader.limit is not None and not evict else None,
        limit_from_params=not evict and _limit_from_params(reader.limit),
        compared={at: compile_predicate(expr, layout) for at, expr in steady(reader, plan.key).items()},
        reading=compile_sort_key([(term.expr, term.descending) for term in reader.reading], layout)
        if reader.reading
        else None,
    )
    return ReaderNode(given, tag, program, _params_key(key_params, exact=evict), memory)


def _read_as_they_are(plan: QueryPlan) -> set[int]:
    """Parameters of which equal values may give different answers: 'a' = 'a ' in most collations, but not by LIKE."""
    reader = plan.reader
    found: set[int] = set()

    def visit(expr: Expr, compared: bool) -> None:
        if isinstance(expr, ParamRef) and not compared:
            found.add(expr.index)
        elif isinstance(expr, Call):
            for arg in expr.args:
                visit(arg, expr.op in COMPARED)

    for expr in (reader.filter, reader.having, *(lookup.on for lookup in reader.lookups)):
        if expr is not None:
            visit(expr, compared=False)
    for expr in (*reader.group, *(column.expr for column in reader.output), *(term.expr for term in reader.order)):
        visit(expr, compared=False)
    for aggregate in reader.aggregates:
        visit(_argument(aggregate), compared=False)
    for lookup in reader.lookups:
        for expr in lookup.key:
            visit(expr, compared=True)
    return found


def _extend(layout: Layout, width: int, alias: str, columns: Sequence[str]) -> int:
    for at, name in enumerate(columns):
        layout[alias, name.lower()] = width + at
    return width + len(columns)


def _root_key_types(root: ArrangementPlan) -> tuple[SqlType, ...]:
    if isinstance(root, AnswerArrangement):
        return root.key_types
    return tuple(root.table.column(name).type for name in root.key)


def _params_key(params: Sequence[ParamRef], exact: bool) -> Callable[[Params], Key]:
    """The comparison key of some parameters; `exact`: their values as they are (evict mode)."""
    indexes = [param.index for param in params]
    if exact:
        return _params_row(indexes)
    if not params:
        return lambda p: ()
    if all(_compares_as_is(param.type) for param in params):
        return itemgetter(*indexes)
    by = compile_key(list(params), {})
    return lambda p: by((), p)


def _params_row(indexes: Sequence[int]) -> Callable[[Params], Row]:
    return _columns_of_row(indexes)


class _LevelKey:
    """What finds a level's rows by those of the levels before, whose columns `layout` has."""

    def __init__(self, lookup: Lookup, layout: Layout) -> None:
        self.key = _key_or_none(lookup.key, layout)
        self.values = compile_row(list(lookup.key), layout)


def _level(lookup: Lookup, node: Arrangement, by: _LevelKey, after: Layout) -> Level:
    """`after`: the columns of the level, too."""
    direct = lookup.direct
    return Level(
        node=node,
        key=by.key,
        key_values=by.values,
        outer=lookup.outer,
        on=_predicate(lookup.on, after),
        nulls=(None,) * len(root_columns(lookup.arrangement)),
        direct=compile_row(list(direct), {}) if direct is not None else None,
        direct_key=_key_or_none(direct, {}) if direct is not None else None,
    )


def _key_or_none(exprs: Sequence[Expr], layout: Layout) -> Callable[[Row, Params], Key]:
    """The comparison key; None as a whole where one part is NULL, for `=` finds nothing then."""
    by = compile_key(list(exprs), layout)
    if len(exprs) == 1:
        return by

    def all_or_none(row: Row, params: Params) -> Key:
        key = by(row, params)
        assert isinstance(key, tuple)
        return None if None in key else key

    return all_or_none


def _predicate(expr: Expr | None, layout: Layout) -> Callable[[Row, Params], bool] | None:
    return compile_predicate(expr, layout) if expr is not None else None


def _grouping(plan: QueryPlan, layout: Layout) -> Grouping:
    reader = plan.reader
    group = list(reader.group)
    values = compile_row(group, layout)
    by = [group[at] for at in reader.group_by]
    key = compile_key(by, layout) if by else lambda row, params: ()
    return Grouping(
        key=of_whole_strings(key, [expr.type for expr in by], compile_row(by, layout)),
        values=values,
        arguments=compile_row([_argument(aggregate) for aggregate in reader.aggregates], layout),
        accumulators=accumulators(reader.aggregates, [_order_of(aggregate) for aggregate in reader.aggregates]),
        exact=len(by) == len(group) and all(shows_as_is(expr.type) for expr in group),
        implicit=not group,
    )


def _group_layout(plan: QueryPlan) -> Layout:
    """Of a row (group values, aggregates): sources "group" (g0, g1 ...) and "agg" (names)."""
    reader = plan.reader
    layout: Layout = {}
    width = _extend(layout, 0, "group", [f"g{at}" for at in range(len(reader.group))])
    _extend(layout, width, "agg", [aggregate.name for aggregate in reader.aggregates])
    return layout


def _distinct(reader: Reader) -> Callable[[Row], Key] | None:
    if reader.distinct is None:
        return None
    columns = [(at, reader.output[at]) for at in reader.distinct]
    layout = {("", f"o{at}"): at for at in reader.distinct}
    by = compile_key([ColumnRef("", f"o{at}", column.type, column.nullable) for at, column in columns], layout)
    types, values = [column.type for _, column in columns], _columns_of_row(reader.distinct)
    return of_whole_strings(lambda row: by(row, ()), types, values)


def _limit(limit: ReadLimit) -> Callable[[Params], tuple[int | None, int]]:
    def bounds(params: Params) -> tuple[int | None, int]:
        count = params[limit.count.index] if isinstance(limit.count, ParamRef) else limit.count
        offset = params[limit.offset.index] if isinstance(limit.offset, ParamRef) else limit.offset
        assert count is None or isinstance(count, int)
        assert isinstance(offset, int)
        return count, offset

    return bounds


def _limit_from_params(limit: ReadLimit | None) -> bool:
    return limit is not None and (isinstance(limit.count, ParamRef) or isinstance(limit.offset, ParamRef))
