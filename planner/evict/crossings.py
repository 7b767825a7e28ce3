"""Where the answer of a query in evict mode becomes another as a parameter grows: at values of the columns that are
compared with it.

An answer depends on a parameter of `c <= ?` by nothing but which rows have that true. So it is the same for all values
from the one that it was asked with up to the next `c` among the rows that matter, whatever else the query does with
them. With several such parameters it is the same while each stays below its own. MySQL tells that next `c` with the
answer, in the same snapshot; each change that may make it another one empties the answer, as it reads `c`.

A parameter counts if it is compared with columns of base tables by <, <=, >, >= or BETWEEN alone, in WHERE or ON, and
these are date-times, or whole numbers (seconds of UNIX); and only where an index, or a small table, makes it cheap to
ask. All of the analysis must be believed (`Caution`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from planner.evict.occurrence import Occurrence
from planner.text.parse import parameter_number
from planner.tree.plan import Crossing, KeyPart, Reader
from planner.tree.sql_text import condition_sql, from_table, quoted_name
from sqltypes.expression import Call, ColumnRef, Expr, ParamRef, walk
from sqltypes.schema import SqlType

_ORDER = frozenset({"<", "<=", ">", ">="})
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
FEW = 10_000  # rows of a table that are read in no time
_MOMENTS = frozenset({"datetime", "timestamp"})


@dataclass(frozen=True, slots=True)
class _Compared:
    """The column of an occurrence. `above`: rows of exactly the parameter's value have been passed already."""

    column: ColumnRef
    above: bool


@dataclass
class Crossed:
    """What is found of a query's parameters, SELECT by SELECT."""

    _found: dict[int, list[_Compared]] = field(default_factory=dict)
    _otherwise: set[int] = field(default_factory=set)

    def note(self, select: exp.Select, conditions: Sequence[Expr]) -> None:
        """`conditions`: those of its WHERE and ON that have a typed form."""
        found: dict[int, list[_Compared]] = {}
        otherwise: set[int] = set()
        for condition in conditions:
            _walk(condition, found, otherwise)
        here = {parameter_number(node) for node in select.find_all(exp.Placeholder) if _is_of(node, select)}
        self._otherwise |= (here | found.keys()) - {at for at, several in found.items() if len(several) == 1}
        self._otherwise |= otherwise
        for at, several in found.items():
            self._found.setdefault(at, []).extend(several)

    def crossings(self, occurrences: Mapping[str, Occurrence], types: Sequence[SqlType]) -> Iterator[Crossing]:
        """`types`: of the parameters."""
        for at, several in sorted(self._found.items()):
            if at in self._otherwise or not all(_is_alike(each.column.type, types[at]) for each in several):
                continue
            known = all(each.column.source in occurrences for each in several)
            if known and all(_is_cheap(each, occurrences[each.column.source]) for each in several):
                for each in several:
                    yield Crossing(at, _next(at, each, occurrences[each.column.source]))


def steady(reader: Reader, key: Sequence[KeyPart]) -> dict[int, Call]:
    """Of a query that is maintained the parameters that are only compared with columns, in a condition on the joined
    rows, and those comparisons. While these say the same of each row, the answer is the same."""
    found: dict[int, list[_Compared]] = {}
    otherwise: set[int] = {key[at].parameter for at in reader.root_key}
    comparisons: dict[int, Call] = {}
    if reader.filter is not None:
        _walk(reader.filter, found, otherwise)
        for expr in walk(reader.filter):
            if isinstance(expr, Call) and expr.op in _ORDER:
                comparisons.update((arg.index, expr) for arg in expr.args if isinstance(arg, ParamRef))
    if reader.limit is not None:
        bounds = (reader.limit.count, reader.limit.offset)
        otherwise |= {bound.index for bound in bounds if isinstance(bound, ParamRef)}
    others = [
        *(expr for lookup in reader.lookups for expr in (*lookup.key, *(lookup.direct or ()), lookup.on)),
        *(*reader.group, reader.having, *(aggregate.argument for aggregate in reader.aggregates)),
        *(column.expr for column in reader.output),
        *(term.expr for term in reader.order),
    ]
    for other in others:
        if other is not None:
            otherwise |= {node.index for node in walk(other) if isinstance(node, ParamRef)}
    return {at: comparisons[at] for at, several in found.items() if len(several) == 1 and at not in otherwise}


def _is_of(node: exp.Expr, select: exp.Select) -> bool:
    return node.find_ancestor(exp.Select) is select


def _walk(expr: Expr, found: dict[int, list[_Compared]], otherwise: set[int]) -> None:
    if isinstance(expr, ParamRef):
        otherwise.add(expr.index)
    elif isinstance(expr, Call):
        match expr.op, expr.args:
            case op, (ColumnRef() as column, ParamRef() as parameter) if op in _ORDER:
                found.setdefault(parameter.index, []).append(_Compared(column, op in ("<=", ">")))
            case op, (ParamRef() as parameter, ColumnRef() as column) if op in _ORDER:
                found.setdefault(parameter.index, []).append(_Compared(column, _TURNED[op] in ("<=", ">")))
            case _, args:
                for arg in args:
                    _walk(arg, found, otherwise)


def _is_alike(column: SqlType, parameter: SqlType) -> bool:
    if column.name != parameter.name:
        return False
    return column.name in _MOMENTS or (column.is_integer and column.name != "year")


def _is_cheap(compared: _Compared, occurrence: Occurrence) -> bool:
    """Whether MySQL need not read all of a large table for it."""
    table = occurrence.table
    leading = {name.lower() for index in table.indexes for name in index[:1]}
    asked = {compared.column.name.lower(), *map(str.lower, occurrence.keys.values())}
    return table.rows_estimate <= FEW or not leading.isdisjoint(asked)


def _next(at: int, compared: _Compared, occurrence: Occurrence) -> str:
    """The SELECT of the next value, with fields of `str.format` for the key's values."""
    name = quoted_name(occurrence.table.column(compared.column.name).name)
    conditions = [f"{_escaped(name)} {'>' if compared.above else '>='} {{{at}}}"]
    conditions += [f"{_escaped(quoted_name(key))} IN ({{{number}}})" for number, key in occurrence.keys.items()]
    conditions += [f"({_escaped(condition_sql(one))})" for one in occurrence.filter]
    table, where = _escaped(from_table(occurrence.table)), " AND ".join(conditions)
    return f"SELECT MIN({_escaped(name)}) FROM {table} WHERE {where}"


def _escaped(sql: str) -> str:
    return sql.replace("{", "{{").replace("}", "}}")
