"""The planner's public face: a client's text in, a plan out.

`plan_query` prefers a reader whose answers are derived from maintained arrangements, and falls back to holding the
answers of the text itself (evict mode) with the reason in the plan's notes. `plan_evict` gives the latter at once.
`with_result_columns` makes a plan say what the source announces for the client's own text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from sqlglot import exp

from planner.evict.evict import Analysis
from planner.maintain.build import build
from planner.maintain.rewrites import rewrite
from planner.refusals.binary_keys import require_strings
from planner.refusals.bound_before import around
from planner.refusals.by_spelling import goes_by_spelling
from planner.refusals.current_date import check_current_date
from planner.refusals.distinct_order import check_distinct_order
from planner.refusals.padding import check_padding
from planner.refusals.pinned import check_pinned
from planner.refusals.put_in_place import check_put_in_place
from planner.session.virtual_columns import expressions_of, read_by_reader
from planner.session.zone_tables import zone_inputs
from planner.text.clock_literals import with_parameters
from planner.text.hints import FULL_GROUP
from planner.text.parse import ParsedQuery, parameter_number, parse
from planner.text.scan import scan
from planner.text.vindex_hints import hints_of, with_hints
from planner.tree.announced_by import tells_columns
from planner.tree.expressions import Parameters
from planner.tree.kinds import Kinds
from planner.tree.logical import NotMaintained
from planner.tree.names import Catalogue, named_tables, view_columns
from planner.tree.plan import (
    AnswerArrangement,
    Caution,
    KeyPart,
    Mode,
    OutputColumn,
    Parameter,
    QueryPlan,
    Reader,
)
from planner.tree.reasons import because, check_calls, check_timestamps, check_tokens, check_tree, misread, refuse
from planner.tree.resolve import Resolver
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
from sqltypes.schema import TEMPORAL_TYPES, ResultColumn, SchemaSnapshot, Table

ANSWER = "answer"  # the alias of an answer arrangement's columns: c0, c1 ...


class TakesLong(Exception):
    """Planning takes several times as long as the text tells: nothing has been decided."""


def plan_query(sql: str, database: str, snapshot: SchemaSnapshot, *, brief: bool = False) -> QueryPlan:
    """The plan of a query. `?` are its parameters, `IN (?)` or `IN (?...)` a list, and functions of the clock are, too
    (`planner/text/clock.py`); literals are constants.

    Raises ParseError (with the place), UnknownName, UnsupportedQuery (code of `planner.tree.reasons.REFUSED`) and
    NeedRelations; if it is to be `brief`, TakesLong.
    """
    query, catalogue = _checked(sql, database, snapshot)
    evicted = partial(_evicted, query, catalogue, brief=brief)
    if query.modes is not None:
        return evicted(because("sql_mode"))
    if query.collation:
        return evicted(because("collation"))
    if query.counts:
        return evicted(because("found_rows"))
    if query.rows:
        return evicted(because("values"))
    doubt = _misread(query, catalogue)
    if doubt:
        return evicted(because("text", doubt))
    if goes_by_spelling(query.tree, _tables(query, catalogue)):
        return evicted(because("by_spelling"))
    virtual = _virtual(query, catalogue)
    if virtual:
        return evicted(because("virtual", ", ".join(sorted(frozenset().union(*virtual.values())))))
    parameters = Parameters(query.lists)
    try:
        block = rewrite(Resolver(catalogue, parameters, query.item_names).query(query.tree))
        built = build(block, parameters)
    except NotMaintained as reason:
        return evicted(str(reason))
    except UnsupportedQuery as error:
        return evicted(f"{error.code}: {error}")
    return QueryPlan(
        query.normalised,
        database,
        _parameters(query, parameters, catalogue),
        built.key.parts,
        built.reader,
        Mode.MAINTAIN,
        _tables(query, catalogue),
        tuple(built.notes),
        query.asked,
    )


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
    query, catalogue = _checked(sql, database, snapshot)
    return _evicted(query, catalogue, why, caution, brief=brief)


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


def _checked(sql: str, database: str, snapshot: SchemaSnapshot) -> tuple[ParsedQuery, Catalogue]:
    query = parse(with_parameters(sql), snapshot.server_version)
    _check_text(query, snapshot)
    catalogue = Catalogue(snapshot, database)
    catalogue.require(query.tree)
    for _, view in catalogue.views(query.tree):
        _check_text(view, snapshot)
        if view.counts:
            raise refuse("session_state", "SQL_CALC_FOUND_ROWS")
    if not _tables(query, catalogue):
        raise refuse("no_table")
    _check_meaning(query, catalogue)
    _hinted(query, query.text, catalogue)
    return query, catalogue


def _hinted(query: ParsedQuery, text: str, catalogue: Catalogue) -> str:
    """The query's text, or its template, as the source is asked. Raises UnsupportedQuery where a hint has no place."""
    if not (hints := hints_of(_tables(query, catalogue))):
        return text
    trees = [query.tree, *(view.tree for _, view in catalogue.views(query.tree))]
    named = sum(table.name.lower() in hints for tree in trees for table in named_tables(tree))
    if (hinted := with_hints(text, hints, named)) is None:
        raise refuse("by_lookup")
    return hinted


def _check_text(query: ParsedQuery, snapshot: SchemaSnapshot) -> None:
    tokens = scan(query.text)
    check_tokens(tokens)
    check_tree(query.tree, query.text)
    if query.counts and not isinstance(query.tree, exp.Select):
        raise refuse("session_state", "SQL_CALC_FOUND_ROWS")
    check_calls(tokens, snapshot.server_version)


def _check_meaning(query: ParsedQuery, catalogue: Catalogue) -> None:
    """Raises UnsupportedQuery where an answer may depend on more than the rows, once the names are known."""
    pairs = list(catalogue.views(query.tree))
    views = [view.tree for _, view in pairs]
    check_timestamps([query.tree, *views])
    check_current_date(query.tree, catalogue)
    if query.modes is not None and FULL_GROUP not in query.modes:
        check_distinct_order(query.tree, catalogue)
    tables = _tables(query, catalogue)
    for expression in expressions_of([query.tree, *views], tables, catalogue.snapshot.server_version):
        _check_text(expression, catalogue.snapshot)
        check_timestamps([expression.tree])
        check_current_date(expression.tree, catalogue)
    renamed = [pair for view, parsed in pairs for pair in view_columns(view, parsed.tree)]
    for check in (check_pinned, check_put_in_place, check_padding):
        check(query.tree, views, renamed, tables)


def _virtual(query: ParsedQuery, catalogue: Catalogue) -> Mapping[Table, frozenset[str]]:
    """As `read_by_reader`, of the query and its views."""
    trees = [query.tree, *(view.tree for _, view in catalogue.views(query.tree))]
    return read_by_reader(trees, _tables(query, catalogue), catalogue.snapshot.server_version)


def _misread(query: ParsedQuery, catalogue: Catalogue) -> str:
    """What of the query or of its views the tree may not mean as MySQL does, "" where it can be relied on."""
    texts = [query, *(view for _, view in catalogue.views(query.tree))]
    return next(filter(None, (misread(text.tree, scan(text.text)) for text in texts)), "")


def _tables(query: ParsedQuery, catalogue: Catalogue) -> tuple[Table, ...]:
    """All base tables that the query reads, those below views included; each checked."""
    return tuple(dict.fromkeys(catalogue.base_tables(query.tree)))


def _parameters(query: ParsedQuery, parameters: Parameters, catalogue: Catalogue) -> tuple[Parameter, ...]:
    """Raises UnsupportedQuery where a parameter's type is not known, or does not tell what MySQL makes of it."""
    out, tells = [], tells_columns(query.tree)
    for index, is_list in enumerate(query.lists):
        type_ = parameters.type(index)
        if type_.name == "null":
            raise refuse("parameter_type", f"parameter {index + 1}")
        column = parameters.columns.get(index, "")
        operand, sent = index in parameters.operands, parameters.sent.get(index, TYPED)
        out.append(Parameter(index, type_, is_list, column, operand, sent, index in tells))
    binary = {parameter.index for parameter in out if parameter.type.is_binary}
    trees = [query.tree, *(view.tree for _, view in catalogue.views(query.tree))]
    require_strings(trees, binary, _tables(query, catalogue))
    return tuple(out)


def _analysed(query: ParsedQuery, catalogue: Catalogue, caution: Caution) -> Analysis:
    virtual = _virtual(query, catalogue)
    found = Analysis(catalogue, Parameters(query.lists), caution, _tables(query, catalogue), virtual)
    found.query(query.tree)
    return found


def _analysed_as_sent(query: ParsedQuery, catalogue: Catalogue, caution: Caution, untyped: Sequence[int]) -> Analysis:
    """Of a query with parameters whose type no column tells (`planner/tree/untyped.py`)."""
    marks = replace(query, tree=marked(query.tree, untyped))
    _check_meaning(marks, catalogue)
    for sample in SAMPLES:
        _check_sample(query, catalogue, untyped, sample)
    dated = True
    for sample in MOMENTS:
        try:
            _check_sample(query, catalogue, untyped, sample)
        except UnsupportedQuery:
            dated = False
    found = _analysed(marks, catalogue, caution)
    pairs = list(catalogue.views(query.tree))
    renamed = [pair for view, parsed in pairs for pair in view_columns(view, parsed.tree)]
    kinds = Kinds(_tables(query, catalogue), [marks.tree, *(view.tree for _, view in pairs)], renamed)
    spans = {parameter_number(node) for node in query.tree.find_all(exp.Placeholder) if is_span(node)}
    tells, nulls = tells_columns(query.tree), asked_whether_null(query.tree)
    foreign = bool(query.collation) and not query.collation.startswith("utf8mb4_")
    for at in untyped:
        sent = Sent(
            tuple(found.sides.beside[at]),
            at in bounds(marks.tree),
            dated,
            around(marks.tree, at, kinds, tells=at in tells),
            query.lists[at],
            at in spans,
            at in tells,
            at in nulls,
            foreign,
        )
        found.parameters.as_sent(at, sent)
    return found


def _check_sample(
    query: ParsedQuery, catalogue: Catalogue, untyped: Sequence[int], sample: Callable[[], exp.Expr]
) -> None:
    """Raises UnsupportedQuery where the query is none to be cached with such literals."""
    tried = replace(query, tree=with_sample(query.tree, untyped, sample))
    check_tree(tried.tree, query.text)
    _check_meaning(tried, catalogue)


def _evicted(
    query: ParsedQuery, catalogue: Catalogue, why: str, caution: Caution = Caution.NONE, *, brief: bool
) -> QueryPlan:
    if query.modes is not None or query.collation:  # conditions are computed here as in the caches' own sessions
        caution = max(caution, Caution.KEYS)
    caution = Caution.TABLES if _misread(query, catalogue) else caution
    analysis = _analysed(query, catalogue, caution)
    known = analysis.parameters.type
    tells = tells_columns(query.tree)  # of an operand, too, it is the literal that tells the digits of the result
    untyped = [at for at in range(len(query.lists)) if not known(at).is_known or at in tells]
    if untyped:
        if brief:
            raise TakesLong  # the query is checked once more with each kind of literal
        analysis = _analysed_as_sent(query, catalogue, caution, untyped)
    if why == because("first_rows"):  # an ORDER BY tells no rows apart
        analysis.read_in_some_order()
    described = _parameters(query, analysis.parameters, catalogue)
    if goes_by_spelling(query.tree, _tables(query, catalogue)):
        described = tuple(replace(each, plain=each.type.is_string) for each in described)
    if query.modes is not None and any(parameter.type.name in TEMPORAL_TYPES for parameter in described):
        analysis.caution = Caution.TABLES  # a mode may say which date a text is
    key = range(len(described))
    inputs = (*analysis.inputs(key), *zone_inputs(query, catalogue, len(key)))
    types = tuple(parameter.type for parameter in described)
    root = AnswerArrangement(
        _hinted(query, query.template, catalogue),
        catalogue.database,
        types,
        tuple(parameter.list for parameter in described),
        inputs,
        why=why,
        counts=query.counts,
        crossings=() if query.counts or any(query.lists) else analysis.crossings(types),
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
        query.normalised,
        catalogue.database,
        described,
        parts,
        Reader(ANSWER, root, tuple(key)),
        Mode.EVICT,
        _tables(query, catalogue),
        (f"not maintained: {why}",),
        query.asked,
    )
