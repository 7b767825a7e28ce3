"""The planner's public face: a client's text in, a plan out.

`plan_query` prefers a reader whose answers are derived from maintained arrangements, and falls back to holding the
answers of the text itself (evict mode) with the reason in the plan's notes. `plan_evict` gives the latter at once.
`with_result_columns` makes a plan say what the source announces for the client's own text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.evict.evict import Analysis
from planner.maintain.build import build
from planner.maintain.rewrites import rewrite
from planner.refusals.binary_keys import require_strings
from planner.refusals.bound_before import around
from planner.refusals.by_spelling import goes_by_spelling
from planner.refusals.rules import OF_EXPRESSIONS, RULES
from planner.session.virtual_columns import expressions_of, read_by_reader
from planner.text.clock_literals import with_parameters
from planner.text.parse import ParsedQuery, parameter_number, parse
from planner.text.vindex_hints import hints_of, with_hints
from planner.tree.announced_by import tells_columns
from planner.tree.expressions import Parameters
from planner.tree.logical import NotMaintained
from planner.tree.names import Catalogue, named_tables
from planner.tree.plan import (
    AnswerArrangement,
    AnswerInput,
    Caution,
    KeyPart,
    Mode,
    OutputColumn,
    Parameter,
    QueryPlan,
    Reader,
)
from planner.tree.reasons import because, check_calls, check_tokens, check_tree, refuse
from planner.tree.resolve import Resolver
from planner.tree.resolved import ResolvedQuery
from planner.tree.untyped import (
    MOMENTS,
    SAMPLES,
    TYPED,
    Sent,
    asked_whether_null,
    bounds,
    is_span,
    marked,
    with_sample,
)
from sqltypes.errors import UnsupportedQuery
from sqltypes.expression import ColumnRef
from sqltypes.schema import TEMPORAL_TYPES, ZONE_TABLES, ResultColumn, SchemaSnapshot

ANSWER = "answer"  # the alias of an answer arrangement's columns: c0, c1 ...


class TakesLong(Exception):
    """Planning takes several times as long as the text tells: nothing has been decided."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what is known of its query."""

    plan: QueryPlan
    query: ResolvedQuery


def plan_query(sql: str, database: str, snapshot: SchemaSnapshot, *, brief: bool = False) -> QueryPlan:
    """The plan of a query. `?` are its parameters, `IN (?)` or `IN (?...)` a list, and functions of the clock are, too
    (`planner/text/clock.py`); literals are constants.

    Raises ParseError (with the place), UnknownName, UnsupportedQuery (code of `planner.tree.reasons.REFUSED`) and
    NeedRelations; if it is to be `brief`, TakesLong.
    """
    return planned(sql, database, snapshot, brief=brief).plan


def planned(sql: str, database: str, snapshot: SchemaSnapshot, *, brief: bool = False) -> Planned:
    """As `plan_query`."""
    query = _checked(sql, database, snapshot)
    why = _not_to_maintain(query)
    if not why:
        try:
            return Planned(_maintained(query), query)
        except NotMaintained as reason:
            why = str(reason)
        except UnsupportedQuery as error:
            why = f"{error.code}: {error}"
    return Planned(_evicted(query, why, brief=brief), query)


def plan_evict(
    sql: str,
    database: str,
    snapshot: SchemaSnapshot,
    why: str = "asked for",
    caution: Caution = Caution.NONE,
    *,
    brief: bool = False,
) -> QueryPlan:
    """The plan that holds the query's answers as they are. Raises as `plan_query`."""
    return planned_evict(sql, database, snapshot, why, caution, brief=brief).plan


def planned_evict(
    sql: str, database: str, snapshot: SchemaSnapshot, why: str, caution: Caution, *, brief: bool = False
) -> Planned:
    """As `plan_evict`."""
    query = _checked(sql, database, snapshot)
    return Planned(_evicted(query, why, caution, brief=brief), query)


def with_result_columns(plan: QueryPlan, columns: Sequence[ResultColumn]) -> QueryPlan:
    """The plan with the columns that the source announces for the client's text. Raises UnsupportedQuery for a column
    whose values nobody but the source can tell.

    Requires: in maintain mode as many columns as the plan has.
    """
    reader = plan.reader
    if isinstance(reader.root, AnswerArrangement):
        for column in columns:
            if column.type.name == "bit" and not column.table:
                raise refuse("bit_result", column.name)
    if isinstance(reader.root, AnswerArrangement):
        output = tuple(
            OutputColumn(
                column.name, ColumnRef(ANSWER, f"c{at}", column.type, column.nullable), column.type, column.nullable
            )
            for at, column in enumerate(columns)
        )
        return replace(plan, reader=replace(reader, root=replace(reader.root, columns=tuple(columns)), output=output))
    assert len(columns) == len(reader.output), (columns, reader.output)
    output = tuple(
        replace(mine, name=theirs.name, nullable=theirs.nullable)
        for mine, theirs in zip(reader.output, columns, strict=True)
    )
    return replace(plan, reader=replace(reader, output=output))


def _not_to_maintain(query: ResolvedQuery) -> str:
    """Why it is not tried to maintain the query; "" where it is."""
    parsed = query.parsed
    if parsed.modes is not None:
        return because("sql_mode")
    if parsed.collation:
        return because("collation")
    if parsed.counts:
        return because("found_rows")
    if parsed.rows:
        return because("values")
    if query.misread:
        return because("text", query.misread)
    if goes_by_spelling(query.tree, query.tables):
        return because("by_spelling")
    virtual = read_by_reader(query)
    return because("virtual", ", ".join(sorted(frozenset().union(*virtual.values())))) if virtual else ""


def _maintained(query: ResolvedQuery) -> QueryPlan:
    """Raises NotMaintained, UnsupportedQuery."""
    parsed = query.parsed
    parameters = Parameters(parsed.lists)
    block = rewrite(Resolver(query.catalogue, parameters, parsed.item_names).query(query.tree))
    built = build(block, parameters)
    return QueryPlan(
        parsed.normalised,
        query.catalogue.database,
        _parameters(query, parameters),
        built.key.parts,
        built.reader,
        Mode.MAINTAIN,
        query.tables,
        tuple(built.notes),
        parsed.asked,
    )


def _checked(sql: str, database: str, snapshot: SchemaSnapshot) -> ResolvedQuery:
    parsed = parse(with_parameters(sql), snapshot.server_version)
    _check_text(parsed, snapshot)
    catalogue = Catalogue(snapshot, database)
    catalogue.require(parsed.tree)
    query = ResolvedQuery(parsed, catalogue)
    for _, view in query.views:
        _check_text(view, snapshot)
        if view.counts:
            raise refuse("session_state", "SQL_CALC_FOUND_ROWS")
    if not query.tables:
        raise refuse("no_table")
    _check_meaning(query)
    _hinted(query, parsed.text)
    return query


def _hinted(query: ResolvedQuery, text: str) -> str:
    """The query's text, or its template, as the source is asked. Raises UnsupportedQuery where a hint has no place."""
    if not (hints := hints_of(query.tables)):
        return text
    named = sum(table.name.lower() in hints for tree in query.trees for table in named_tables(tree))
    if (hinted := with_hints(text, hints, named)) is None:
        raise refuse("by_lookup")
    return hinted


def _check_text(query: ParsedQuery, snapshot: SchemaSnapshot) -> None:
    check_tokens(query.tokens)
    check_tree(query.tree, query.text)
    if query.counts and not isinstance(query.tree, exp.Select):
        raise refuse("session_state", "SQL_CALC_FOUND_ROWS")
    check_calls(query.tokens, snapshot.server_version)


def _check_meaning(query: ResolvedQuery) -> None:
    """Raises UnsupportedQuery where an answer may depend on more than the rows, once the names are known."""
    for rule in RULES:
        rule(query)
    for parsed in expressions_of(query):
        _check_text(parsed, query.catalogue.snapshot)
        expression = ResolvedQuery(parsed, query.catalogue)
        for rule in OF_EXPRESSIONS:
            rule(expression)


def _parameters(query: ResolvedQuery, parameters: Parameters) -> tuple[Parameter, ...]:
    """Raises UnsupportedQuery where a parameter's type is not known, or does not tell what MySQL makes of it."""
    out, tells = [], tells_columns(query.tree)
    for index, is_list in enumerate(query.parsed.lists):
        type_ = parameters.type(index)
        if type_.name == "null":
            raise refuse("parameter_type", f"parameter {index + 1}")
        column = parameters.columns.get(index, "")
        operand, sent = index in parameters.operands, parameters.sent.get(index, TYPED)
        out.append(Parameter(index, type_, is_list, column, operand, sent, index in tells))
    require_strings(query, {parameter.index for parameter in out if parameter.type.is_binary})
    return tuple(out)


def _analysed(query: ResolvedQuery, caution: Caution) -> Analysis:
    return Analysis(query, Parameters(query.parsed.lists), caution, read_by_reader(query))


def _analysed_as_sent(query: ResolvedQuery, caution: Caution, untyped: Sequence[int]) -> Analysis:
    """Of a query with parameters whose type no column tells (`planner/tree/untyped.py`)."""
    marks = query.with_tree(marked(query.tree, untyped))
    _check_meaning(marks)
    for sample in SAMPLES:
        _check_sample(query, untyped, sample)
    dated = True
    for sample in MOMENTS:
        try:
            _check_sample(query, untyped, sample)
        except UnsupportedQuery:
            dated = False
    found = _analysed(marks, caution)
    spans = {parameter_number(node) for node in query.tree.find_all(exp.Placeholder) if is_span(node)}
    tells, nulls = tells_columns(query.tree), asked_whether_null(query.tree)
    collation = query.parsed.collation
    foreign = bool(collation) and not collation.startswith("utf8mb4_")
    for at in untyped:
        sent = Sent(
            tuple(found.sides.beside[at]),
            at in bounds(marks.tree),
            dated,
            around(marks.tree, at, marks.kinds, tells=at in tells),
            query.parsed.lists[at],
            at in spans,
            at in tells,
            at in nulls,
            foreign,
        )
        found.parameters.as_sent(at, sent)
    return found


def _check_sample(query: ResolvedQuery, untyped: Sequence[int], sample: Callable[[], exp.Expr]) -> None:
    """Raises UnsupportedQuery where the query is none to be cached with such literals."""
    tried = query.with_tree(with_sample(query.tree, untyped, sample))
    check_tree(tried.tree, query.parsed.text)
    _check_meaning(tried)


def _zone_inputs(query: ResolvedQuery, parts: int) -> tuple[AnswerInput, ...]:
    """What a query with CONVERT_TZ reads beside its tables, in its own text, a view's or a VIRTUAL column's: MySQL's
    tables of time zones. `parts`: of its key."""
    texts = (*query.texts, *expressions_of(query))
    if not any([token.text.lower() == "convert_tz" for text in texts for token in text.tokens]):
        return ()
    return tuple([AnswerInput(table, (None,) * parts, None, ()) for table in ZONE_TABLES])


def _evicted(query: ResolvedQuery, why: str, caution: Caution = Caution.NONE, *, brief: bool) -> QueryPlan:
    parsed, database = query.parsed, query.catalogue.database
    if parsed.modes is not None or parsed.collation:  # conditions are computed here as in the caches' own sessions
        caution = max(caution, Caution.KEYS)
    caution = Caution.TABLES if query.misread else caution
    analysis = _analysed(query, caution)
    known = analysis.parameters.type
    tells = tells_columns(query.tree)  # of an operand, too, it is the literal that tells the digits of the result
    untyped = [at for at in range(len(parsed.lists)) if not known(at).is_known or at in tells]
    if untyped:
        if brief:
            raise TakesLong  # the query is checked once more with each kind of literal
        analysis = _analysed_as_sent(query, caution, untyped)
    if why == because("first_rows"):  # an ORDER BY tells no rows apart
        analysis.read_in_some_order()
    described = _parameters(query, analysis.parameters)
    if goes_by_spelling(query.tree, query.tables):
        described = tuple(replace(each, plain=each.type.is_string) for each in described)
    if parsed.modes is not None and any(parameter.type.name in TEMPORAL_TYPES for parameter in described):
        analysis.caution = Caution.TABLES  # a mode may say which date a text is
    key = range(len(described))
    inputs = (*analysis.inputs(key), *_zone_inputs(query, len(key)))
    types = tuple(parameter.type for parameter in described)
    root = AnswerArrangement(
        _hinted(query, parsed.template),
        database,
        types,
        tuple(parameter.list for parameter in described),
        inputs,
        why=why,
        counts=parsed.counts,
        crossings=() if parsed.counts or any(parsed.lists) else analysis.crossings(types),
    )
    parts = tuple(
        KeyPart(
            parameter.column or f"parameter {parameter.index + 1}",
            parameter.type,
            parameter.index,
            False,
            parameter.list,
        )
        for parameter in described
    )
    return QueryPlan(
        parsed.normalised,
        database,
        described,
        parts,
        Reader(ANSWER, root, tuple(key)),
        Mode.EVICT,
        query.tables,
        (f"not maintained: {why}",),
        parsed.asked,
    )
