"""From a plan in evict mode to its running node: what tells that a row concerns an answer, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dataflow.entries import Entry
from dataflow.graph.ways import Found, ordered, ways_of
from dataflow.held.arrangement import Memory
from dataflow.operators.answer import AnswerNode, AnswerWatch, Tells
from dataflow.operators.answer_index import UNSURE, AnswerIndex, Compared, RowWay, Way
from planner.tree.plan import AnswerArrangement, AnswerInput, Cut
from sqltypes.compile import compile_key, compile_predicate, compile_row
from sqltypes.expression import ColumnRef, Row
from sqltypes.implementations import comparison_key
from sqltypes.schema import SqlType, Table

Layout = dict[tuple[str, str], int]  # by alias and name in lower case


def answer_node(
    plan: AnswerArrangement, number: int, memory: Memory, layout_of: Callable[[Table], Layout]
) -> AnswerNode:
    """The running node. `layout_of`: the positions of a table's columns in its rows."""
    tables = {id(input_.table): input_.table for input_ in plan.inputs}  # a UNION may name one a hundred times
    layouts = {number: layout_of(table) for number, table in tables.items()}
    of_inputs = [ways_of(input_) for input_ in plan.inputs]
    watches = tuple(
        _watch(input_, layouts[id(input_.table)], ways) for input_, ways in zip(plan.inputs, of_inputs, strict=True)
    )
    found = {each.way: each for ways in of_inputs for each in ways}

    def indexes() -> dict[Way, AnswerIndex]:
        return {way: AnswerIndex(way, compared[way], ordered_by[way]) for way in found}

    compared = {way: tuple([_compared(ref.type) for ref in each.equal]) for way, each in found.items()}
    ordered_by = {way: None if each.between is None else ordered(each.between.type) for way, each in found.items()}
    return AnswerNode(plan, number, memory, watches, indexes)


def _watch(input_: AnswerInput, layout: Layout, ways: Sequence[Found]) -> AnswerWatch:
    passes = compile_predicate(input_.filter, layout)
    used = compile_row(list(input_.used), layout)
    return AnswerWatch(
        table=input_.table.qualified,
        passes=lambda row: passes(row, ()),
        ways=tuple([_row_way(each, layout) for each in ways]),
        tells=_tells(input_, layout),
        used=lambda row: used(row, ()),
    )


def _tells(input_: AnswerInput, layout: Layout) -> Tells | None:
    """May a row concern the answer of an entry: by its key, and by where it ends?"""
    beyond = None if input_.cut is None else _beyond(input_.cut, layout)
    if input_.tells is None:
        return beyond and (lambda row: _not(beyond(row)))
    tells = compile_predicate(input_.tells, layout)
    if beyond is None:
        return lambda row: lambda entry: tells(row, entry.key)

    def both(row: Row) -> Callable[[Entry], bool]:
        behind = beyond(row)
        return lambda entry: tells(row, entry.key) and not behind(entry)

    return both


def _not(test: Callable[[Entry], bool]) -> Callable[[Entry], bool]:
    return lambda entry: not test(entry)


def _never(entry: Entry) -> bool:
    return False


def _beyond(cut: Cut, layout: Layout) -> Tells | None:
    """Does a row come behind the last one of an answer that has as many as it may have?"""
    order, at = ordered(cut.column.type), layout[cut.column.source, cut.column.name.lower()]
    if order is None:
        return None
    output, descending, count_at = cut.output, cut.descending, cut.count_at

    def beyond(row: Row) -> Callable[[Entry], bool]:
        place = None if row[at] is None else order(row[at])
        if place is None:
            return _never

        def behind(entry: Entry) -> bool:
            rows = entry.content
            count = cut.count if count_at is None else entry.key[count_at]  # type: ignore[index]  # a tuple
            if not rows or not isinstance(count, int) or len(rows) < count:
                return False
            last = rows[-1][output]
            end = None if last is None else order(last)
            return end is not None and bool(place < end if descending else end < place)

        return behind

    return beyond


def _row_way(found: Found, layout: Layout) -> RowWay:
    part_key = compile_key(list(found.equal), layout) if found.equal else None
    return RowWay(
        found.way,
        (lambda row: part_key(row, ())) if part_key is not None else lambda row: (),
        None if found.between is None else _value_of(found.between, layout),
    )


def _value_of(column: ColumnRef, layout: Layout) -> Callable[[Row], Any]:
    """From a row to its place in the order of the column's values."""
    order, at = ordered(column.type), layout[column.source, column.name.lower()]
    assert order is not None

    def value(row: Row) -> Any:
        found = row[at]
        if found is None:
            return None
        place = order(found)
        return UNSURE if place is None else place

    return value


def _compared(type_: SqlType) -> Compared:
    """From a value of the type to what stands for it in a comparison key."""
    by = comparison_key(type_)
    if by is None:
        return lambda value: value
    return lambda value: None if value is None else by(value)
