"""A plan for people: EXPLAIN's text, and its graph to be drawn, by Graphviz or by others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.fill.upquery_sql import FOUND_ROWS, fill_template
from planner.tree.plan import (
    Aggregate,
    AggregateArrangement,
    AggregateFunction,
    AnswerArrangement,
    AnswerInput,
    Arrangement,
    KeyPart,
    OrderTerm,
    QueryPlan,
    Reader,
    RowsArrangement,
    TopKArrangement,
)
from planner.tree.sql_text import expr_sql, plain_column
from sqltypes.expression import Expr
from sqltypes.schema import SqlType


def explain(plan: QueryPlan) -> str:
    """The graph, the keys, the modes, the SQL of every upquery, and the reasons for it all."""
    lines = [f"query: {plan.sql}", f"mode: {plan.mode.value}"]
    lines += [f"parameter {parameter.index + 1}: {_parameter(parameter)}" for parameter in plan.parameters]
    lines += _reader(plan.reader, plan.key)
    for number, arrangement in enumerate(plan.arrangements, 1):
        lines += _arrangement(number, arrangement)
    lines += [f"note: {note}" for note in plan.notes]
    return "\n".join(lines) + "\n"


def _parameter(parameter: object) -> str:
    type_, is_list, column = (getattr(parameter, name) for name in ("type", "list", "column"))
    return " ".join(filter(None, ["list of" if is_list else "", type_text(type_), f"as {column}" if column else ""]))


def type_text(type_: SqlType) -> str:
    """A type as MySQL writes it, in lower case."""
    size = ""
    if type_.precision is not None:
        size = f"({type_.precision},{type_.scale or 0})"
    elif type_.length is not None:
        size = f"({type_.length})"
    elif type_.scale:
        size = f"({type_.scale})"
    return type_.name + size + (" unsigned" if type_.unsigned else "")


# -- the reader -------------------------------------------------------------------------------------------------------


def _reader(reader: Reader, key: Sequence[KeyPart]) -> list[str]:
    parts = [part.name + (" IN" if part.list else " <=>" if part.null_safe else "") for part in key]
    root = ", ".join(parts[at] for at in reader.root_key)
    lines = [f"reader by ({', '.join(parts)})", f"  {reader.alias} = {arrangement_text(reader.root)}[{root}]"]
    for lookup in reader.lookups:
        word = "left join" if lookup.outer else "join"
        values = ", ".join(map(text, lookup.key))
        lines.append(f"  {word} {lookup.alias} = {arrangement_text(lookup.arrangement)}[{values}]")
        if lookup.on is not None:
            lines.append(f"    on {text(lookup.on)}")
        if lookup.direct is not None:
            lines.append(f"    key known from parameters: [{', '.join(map(text, lookup.direct))}]")
    if reader.filter is not None:
        lines.append(f"  filter {text(reader.filter)}")
    if reader.aggregated:
        told = "" if len(reader.group_by) == len(reader.group) else f", told apart by {_places(reader.group_by)}"
        lines.append(f"  aggregate {_aggregates(reader.aggregates)} by ({', '.join(map(text, reader.group))}){told}")
    if reader.having is not None:
        lines.append(f"  having {text(reader.having)}")
    lines += [f"  {line}" for line in _outputs(reader)]
    return lines


def _outputs(reader: Reader) -> Iterable[str]:
    if reader.output:
        shown = [f"{text(column.expr)} AS {column.name}: {type_text(column.type)}" for column in reader.output]
        yield ("output" if reader.distinct is None else "distinct") + " " + ", ".join(shown)
        if reader.distinct is not None and len(reader.distinct) < len(shown):
            yield f"told apart by {_places(reader.distinct)}"
    if reader.order:
        yield f"order {_order(reader.order)}"
    if reader.limit is not None:
        yield f"limit {_number(reader.limit.count)} offset {_number(reader.limit.offset)}"


def _places(positions: Iterable[int]) -> str:
    """Counted from 1, as in GROUP BY 1."""
    return ", ".join(str(at + 1) for at in positions)


def text(expr: Expr) -> str:
    """An expression with its aliases; parameters by their number."""
    return expr_sql(expr, plain_column, lambda ref: f"?{ref.index + 1}")


def _number(value: object) -> str:
    index = getattr(value, "index", None)
    return f"?{index + 1}" if isinstance(index, int) else str(value)


def _order(order: Iterable[OrderTerm]) -> str:
    return ", ".join(text(term.expr) + (" DESC" if term.descending else "") for term in order)


def _aggregates(aggregates: Iterable[Aggregate]) -> str:
    out = []
    for aggregate in aggregates:
        if aggregate.function is AggregateFunction.COUNT_STAR or aggregate.argument is None:
            out.append("COUNT(*)")
        else:
            out.append(f"{aggregate.name} = {aggregate.function.name}({text(aggregate.argument)})")
    return ", ".join(out)


# -- arrangements -----------------------------------------------------------------------------------------------------


def arrangement_text(arrangement: Arrangement) -> str:
    """One line: what is held, by which key."""
    match arrangement:
        case RowsArrangement():
            return f"rows {arrangement.table.name}({', '.join(arrangement.key)})"
        case AggregateArrangement():
            return f"groups {arrangement.table.name}({', '.join(arrangement.key)})"
        case TopKArrangement():
            return f"top {arrangement.limit} {arrangement.table.name}({', '.join(arrangement.key)})"
        case AnswerArrangement():
            return "answers"


def _arrangement(number: int, arrangement: Arrangement) -> list[str]:
    lines = [f"arrangement {number}: {arrangement_text(arrangement)}"]
    if isinstance(arrangement, AnswerArrangement):
        behind = f"; {FOUND_ROWS}" if arrangement.counts else ""
        lines += [*map(_input, arrangement.inputs), f"  upquery: {fill_template(arrangement)}{behind}"]
        fields = [f"?{number + 1}" for number in range(len(arrangement.key_types))]
        return [*lines, *(f"  holds up to: {crossing.sql.format(*fields)}" for crossing in arrangement.crossings)]
    if isinstance(arrangement, AggregateArrangement):
        rest = [name for name in arrangement.group if name not in arrangement.key]
        lines.append(f"  keeps {', '.join(filter(None, [*rest, _aggregates(arrangement.aggregates), 'COUNT(*)']))}")
    else:
        lines.append(f"  keeps {', '.join(arrangement.columns)}")
    if isinstance(arrangement, TopKArrangement):
        lines.append(f"  order {_order(arrangement.order)}")
    if arrangement.filter is not None:
        lines.append(f"  filter {text(arrangement.filter)}")
    return [*lines, f"  upquery: {fill_template(arrangement)}"]


def _input(input_: AnswerInput) -> str:
    keys = [name or "any" for name in input_.key_columns]
    conditions = [text(expr) for expr in (input_.filter, input_.tells) if expr is not None]
    passes = f" if {' and '.join(conditions)}" if conditions else ""
    used = ", ".join(map(text, input_.used)) or "nothing but its existence"
    return f"  a change of {input_.table.name} evicts ({', '.join(keys)}){passes}; reads {used}"


# -- the graph --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Node:
    """`kind`: table, arrangement, answers, reader."""

    id: str
    kind: str
    label: str


@dataclass(frozen=True, slots=True)
class Edge:
    """From one node's id to another's. `whole`: no rows go along it; a change of the table empties answers."""

    source: str
    target: str
    label: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class PlanGraph:
    """Base tables, arrangements, and the reader, the last one."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def graph(plan: QueryPlan) -> PlanGraph:
    """The plan, to be drawn."""
    nodes = [Node(table.qualified, "table", table.qualified) for table in plan.tables]
    edges = []
    number = {arrangement: f"a{at}" for at, arrangement in enumerate(plan.arrangements)}
    for arrangement, id_ in number.items():
        whole = isinstance(arrangement, AnswerArrangement)
        nodes.append(Node(id_, "answers" if whole else "arrangement", arrangement_text(arrangement)))
        tables = (
            dict.fromkeys(input_.table for input_ in arrangement.inputs)
            if isinstance(arrangement, AnswerArrangement)
            else [arrangement.table]
        )
        edges += [Edge(table.qualified, id_, whole=whole) for table in tables]
    reader = plan.reader
    nodes.append(Node("reader", "reader", f"reader({', '.join(part.name for part in plan.key)})"))
    edges.append(Edge(number[reader.root], "reader", reader.alias))
    edges += [
        Edge(number[lookup.arrangement], "reader", lookup.alias + (" (left)" if lookup.outer else ""))
        for lookup in reader.lookups
    ]
    return PlanGraph(tuple(nodes), tuple(edges))


def dot(plan: QueryPlan) -> str:
    """The graph in Graphviz's language."""
    lines = ["digraph plan {", "  rankdir=LR;", '  node [shape=box, fontname="monospace"];']
    drawn = graph(plan)
    names = {node.id: _quoted(node.id) if node.kind == "table" else node.id for node in drawn.nodes}
    for node in drawn.nodes:
        label = f"label={_quoted(node.label)}"
        shape = {"table": "shape=cylinder", "reader": f"shape=ellipse, {label}"}.get(node.kind, label)
        lines.append(f"  {names[node.id]} [{shape}];")
    for edge in drawn.edges:
        style = (
            f"style={'dashed' if edge.whole else 'solid'}"
            if edge.target != "reader"
            else f"label={_quoted(edge.label)}"
        )
        lines.append(f"  {names[edge.source]} -> {names[edge.target]} [{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(label: str) -> str:
    return '"' + label.replace("\\", "\\\\").replace('"', '\\"') + '"'
