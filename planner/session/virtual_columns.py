"""VIRTUAL generated columns: what their expressions make a query depend on.

MySQL computes such a column in the session that reads it, by that session's time zone, locale and modes. The row image
of the change stream has the column as the session that wrote the row computed it, and so has an index. So a column
whose expression depends on a session variable is `by_reader`:

* A query that reads it needs that variable (`planner/session/session_needs.py`).
* Its value in a row image says nothing: a query that reads it is held in evict mode, and no condition on it counts.
* A query that reads it is refused where an index has it: MySQL's plan decides whose value is found.

The expression of a column that depends on nothing gives every session the same value: it is a column like others.

Of some expressions MySQL keeps a setting with the opened table (DAYNAME, MONTHNAME, a division): there its own answers
depend on which session has opened the table, and a held one is as right as the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from sqlglot import exp

from planner.session.instants import Instants
from planner.session.needs import (
    AS_READ,
    BY_CODES,
    BYTES,
    COLLATION,
    ESCAPES,
    LOCAL,
    PACKET,
    SENT,
    SESSION_NEEDS,
    STEADY,
    STRINGS,
    TIME_ZONE,
)
from planner.session.needs_finder import Finder
from planner.text.parse import ParsedQuery, parse
from planner.text.scan import ServerVersion
from planner.tree.names import Catalogue, is_star
from planner.tree.reasons import misread, refuse
from planner.tree.resolved import ResolvedQuery
from planner.tree.sql_text import quoted_name
from sqltypes.errors import ParseError, UnknownName, UnsupportedQuery
from sqltypes.schema import Column, SchemaSnapshot, Table

UTF8MB4 = "default_collation_for_utf8mb4"
WRITTEN = frozenset({COLLATION, BY_CODES, STRINGS, BYTES, SENT, UTF8MB4, PACKET, "default_week_format"}) | (
    AS_READ - {ESCAPES}
)
"""What MySQL writes into an expression, as it was in the session that made the table: the character set of each
literal, the mode of WEEK(). Where utf8mb4 has another collation MySQL fails, or not, by who has opened the table. And
PACKET: a row that is looked at has no string as long as that (`proxy/mysql/state/session_variables.py`,
LEAST_PACKET)."""


def finder_of(query: ResolvedQuery, said: frozenset[int] = frozenset()) -> Finder:
    """Looks at the query's expressions. `said`: as of `Instants`."""
    return Finder(query.meanings, query.kinds, Instants(query.meanings, said))


def named_columns(trees: Iterable[exp.Query], tables: Iterable[Table]) -> list[tuple[Table, Column]]:
    """The columns that the queries may name, by name alone: in an expression, in USING, by a star or NATURAL JOIN."""
    named: set[str] = set()
    every = False
    for tree in trees:
        named |= {column.name.lower() for column in tree.find_all(exp.Column)}
        joins = list(tree.find_all(exp.Join))
        named |= {name.name.lower() for join in joins for name in join.args.get("using") or ()}
        every |= any([is_star(node) and not isinstance(node.parent, exp.Count) for node in tree.find_all(exp.Star)])
        every |= any([join.method == "NATURAL" for join in joins])
    pairs = [(table, column) for table in tables for column in table.columns]
    return [(table, column) for table, column in pairs if every or column.name.lower() in named]


def virtual_needs(query: ResolvedQuery) -> frozenset[str]:
    """The variables that count for the virtual columns which the query may name."""
    named = [(table, column) for table, column in named_columns(query.trees, query.computing) if column.expression]
    found = [_needs(table, query.catalogue.snapshot.server_version)[column.name.lower()] for table, column in named]
    return frozenset({UTF8MB4, PACKET} if found else ()).union(*found)


def read_by_reader(query: ResolvedQuery) -> Mapping[Table, frozenset[str]]:
    """For each table the columns, in lower case, that the queries may name and whose values the reader's session
    computes. Raises UnsupportedQuery where an index has such a value."""
    found: dict[Table, set[str]] = {}
    version = query.catalogue.snapshot.server_version
    for table in query.tables:
        _check_functional(query.trees, table, version)
    for table in query.computing:
        needs = _needs(table, version)
        for _, column in named_columns(query.trees, [table]):
            name = column.name.lower()
            if column.expression and needs[name]:
                if any(name in map(str.lower, index) for index in table.indexes):
                    raise refuse("virtual_index", column.name)
                found.setdefault(table, set()).add(name)
    return {table: frozenset(names) for table, names in found.items()}


def told_by_rows(table: Table, version: ServerVersion = (8, 0, 0)) -> tuple[Column, ...]:
    """The columns whose values are in a row image, in table order: all but those that the reader's session computes."""
    needs = _needs(table, version)
    return tuple(column for column in table.columns if not needs.get(column.name.lower()))


def expressions_of(query: ResolvedQuery) -> list[ParsedQuery]:
    """The expressions of the virtual columns that the query may name, and of those that these name, each as a query
    of its table. Raises ParseError, UnsupportedQuery."""
    found: list[ParsedQuery] = []
    for table in query.computing:
        waiting = [column for _, column in named_columns(query.trees, [table]) if column.expression]
        seen: set[str] = set()
        while waiting:
            column = waiting.pop()
            if column.name in seen:
                continue
            seen.add(column.name)
            parsed = parse(_as_query(column.expression, table), query.catalogue.snapshot.server_version)
            found.append(parsed)
            waiting += [each for _, each in named_columns([parsed.tree], [table]) if each.expression]
    return found


@lru_cache(maxsize=256)
def _needs(table: Table, version: ServerVersion) -> Mapping[str, frozenset[str]]:
    """The needs of each virtual column, by its name in lower case."""
    found: dict[str, frozenset[str]] = {}
    for column in table.columns:  # an expression names generated columns that stand before it
        if column.expression:
            found[column.name.lower()] = _needs_of(column.expression, table, version, found)
    return found


def _needs_of(
    expression: str, table: Table, version: ServerVersion, known: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """`known`: those of the columns that it may name."""
    try:
        query = parse(_as_query(expression, table), version)
        snapshot = SchemaSnapshot({(table.schema, table.name): table}, version)
        finder = finder_of(ResolvedQuery(query, Catalogue(snapshot, table.schema)))
    except (ParseError, UnsupportedQuery, UnknownName):
        return SESSION_NEEDS
    if misread(query.tree, query.tokens):
        return SESSION_NEEDS
    finder.words(query.tokens)
    finder.tree(query.tree, shown=True)
    named = named_columns([query.tree], [table])
    if not finder.needs.isdisjoint({LOCAL, STEADY}):
        finder.needs.add(TIME_ZONE)  # of an instant the column has what the clocks say
    others = [known.get(column.name.lower(), SESSION_NEEDS) for _, column in named if column.expression]
    return frozenset(finder.needs - WRITTEN).union(*others)


def _check_functional(trees: Sequence[exp.Query], table: Table, version: ServerVersion) -> None:
    """Raises UnsupportedQuery where MySQL may read an expression of the queries from an index, and the reader's session
    may compute another value."""
    for expression in table.functional:
        if not _needs_of(expression, table, version, _needs(table, version)):
            continue
        query = parse(_as_query(expression, table), version)
        parts = {column.name.lower() for column in query.tree.find_all(exp.Column)}
        compares = query.tree.find(exp.Predicate) is not None
        if any(parts <= _computed_from(tree, compares) for tree in trees):
            raise refuse("virtual_index", expression)


def _computed_from(tree: exp.Query, compares: bool) -> set[str]:
    """The columns, in lower case, of which the query computes something; also those that it only compares, if that is
    what is asked for."""
    return {
        column.name.lower()
        for column in tree.find_all(exp.Column)
        if compares or not isinstance(_around(column), exp.Predicate | exp.Connector | exp.Ordered | exp.Select)
    }


def _around(column: exp.Column) -> exp.Expr | None:
    """What a column stands in, brackets apart."""
    node = column.parent
    while isinstance(node, exp.Paren | exp.Where | exp.Alias):
        node = node.parent
    return node


def _as_query(expression: str, table: Table) -> str:
    return f"SELECT {expression} FROM {quoted_name(table.schema)}.{quoted_name(table.name)}"
