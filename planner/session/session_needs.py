"""On which session variables the answer of a cached query may depend, beside those that change every answer.

A cache is filled in a session whose variables are pinned; a client whose value of a needed variable is another one is
not answered from it. What is here errs on the needing side: a variable is not needed only where that is clear.

* time_zone: something is computed of a TIMESTAMP column, a string may become a date-time (it may carry an offset), or
  a function converts. Of a column that is only shown, compared or sorted less of it counts
  (`planner/session/instants.py`).
* collation_connection: it is that of string literals and parameters, and of strings that MySQL makes. It is not needed
  where those are only shown, or only compared with columns, whose own collations win; such must not decide an order, a
  group, DISTINCT, MIN or MAX.
  Nor is it needed for what becomes JSON, or is compared as such, nor for MATCH, which compares as the columns do.
* character_set_connection, where it is none of Unicode's and literals are ASCII's: a string is converted to it or
  changed in it, or becomes JSON, which no binary string can. It is not needed where all columns of strings are binary
  ones, and no string is shown or computed with: they are compared as the bytes that they are.
* character_set_results, where each string is sent in its own set: a column that is named or starred has one that is
  none of Unicode's, or the text has what converts to one.
* sql_auto_is_null: a column that may have AUTO_INCREMENT IS NULL.
* The modes of sql_mode, each for itself. Those about dates: something becomes a date that is none, and may have zeros
  or be no day of the calendar, or is cast, or computed with. PAD_CHAR_TO_FULL_LENGTH: a CHAR column is named or
  starred, or there may be a temporary table, which may have one. The others: by the words whose meaning they change.
  Whether one of the strict modes is on: bytes become a string of a character set. What ANSI_QUOTES changes is seen in
  the client's own text (`proxy/mysql/state/sql_modes.py`), and what NO_BACKSLASH_ESCAPES does, but in patterns of LIKE
  that are no plain strings. Those by which MySQL computes, and the character set of strings, count for a query that
  computes, or reads a VIRTUAL column; all of them for one that reads a view, whose stored text may be read by them.
  Where a query only joins, groups and adds up, it is the set of strings alone, unless it names a column of a type whose
  values a mode may change as they are stored in a temporary table (`_STEADY`).
* max_allowed_packet, where it is another one than that of the sessions that fill caches, or below 16 MiB: by the words
  for functions that make strings, and where a column of JSON is named.
* The others: by the words for what they change.

`make by-variable` asks MySQL of each function under each variable whether this is all.

Literals and conversions inside of views are looked at as if they stood in the query, and so are the expressions of
VIRTUAL columns (`planner/session/virtual_columns.py`). Where parameters are bound it is made sure that they are of the
types that they are compared with, and that strings for date-times have no offset.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from planner.session.needs import (
    BY_CODES,
    BYTES,
    COLLATION,
    OF_COMPUTED,
    OF_MODE,
    OF_OTHERS,
    PACKET,
    SENT,
    SESSION_NEEDS,
    STRICT,
    STRINGS,
)
from planner.session.virtual_columns import finder_of, named_columns, virtual_needs
from planner.text.hints import SETTABLE
from planner.text.parse import parse
from planner.text.scan import Token, words
from planner.tree.function_table import classes
from planner.tree.names import Catalogue
from planner.tree.plan import QueryPlan
from planner.tree.resolved import ResolvedQuery
from planner.tree.untyped import SAMPLES, with_sample
from sqltypes.schema import INTEGER_TYPES, Column, SchemaSnapshot

_PLAIN = classes("""
    Select From Table TableAlias Column Identifier Star Alias Literal Placeholder Parameter Boolean Null Where And Or
    Paren EQ NEQ NullSafeEQ GT GTE LT LTE In Between Is Not Order Ordered Limit Offset Count Var
""")
_COMBINED = _PLAIN + classes("""
    Join Group Having Distinct Union Subquery Exists With CTE Like Escape Tuple Sum Min Max Avg
""")
_NUMBERS = INTEGER_TYPES - {"year"} | {"decimal", "float", "double"}
_OF_BYTES = _NUMBERS | {"varbinary", "binary", "tinyblob", "blob", "mediumblob", "longblob"}
"""Types of which no value is a string with a character set, nor read from one otherwise than from its bytes."""
_STEADY = _OF_BYTES | {"varchar", "tinytext", "text", "mediumtext", "longtext"}
"""Types of which every value is stored in a temporary table as it is, and shown as it is."""
_UNICODE = ("utf8", "ascii", "binary")
"""Of the names of collations of sets whose strings are the same bytes in UTF-8: how they begin."""
_CONVERTS = words("convert using charset character collate ascii unicode")


def session_needs(plan: QueryPlan, snapshot: SchemaSnapshot) -> frozenset[str]:
    """The variables of `SESSION_NEEDS` on whose value the query's answer may depend.

    Requires: the plan was made with this snapshot.
    """
    return needs_of(plan, ResolvedQuery(parse(plan.sql, snapshot.server_version), Catalogue(snapshot, plan.database)))


def needs_of(plan: QueryPlan, query: ResolvedQuery) -> frozenset[str]:
    """As `session_needs`. `query`: that the plan is of."""
    needs = _needs(query, plan)
    sent = [parameter.index for parameter in plan.parameters if not parameter.type.is_known]
    for sample in SAMPLES if sent else ():
        needs |= _needs(query.with_tree(with_sample(query.tree, sent, sample)), plan)
    if query.parsed.modes is not None:
        needs -= {STRICT, *(OF_MODE + name for name in SETTABLE)}
    return needs - {COLLATION, BY_CODES, STRINGS, BYTES} if query.parsed.collation else needs


def _needs(query: ResolvedQuery, plan: QueryPlan) -> frozenset[str]:
    """As `session_needs`, of a query that sets no mode for itself."""
    if query.misread:
        return SESSION_NEEDS
    tokens = [text.tokens for text in query.texts]
    said = frozenset([parameter.index for parameter in plan.parameters if parameter.type.name == "timestamp"])
    finder = finder_of(query, said)
    for found in tokens:
        finder.words(found)
    for tree in query.trees:
        finder.tree(tree, shown=tree is query.tree)
    if query.computing:
        finder.needs |= virtual_needs(query)
    named = [column for _, column in named_columns([query.tree], plan.tables)]
    if len(tokens) > 1 or any(map(_is_foreign, named)) or any(map(_converts, tokens)):
        finder.needs.add(SENT)
    if any([column.type.name == "json" for column in named]):  # a document's text is a string that MySQL makes
        finder.needs.add(PACKET)
    if len(tokens) > 1:
        return frozenset(finder.needs | OF_OTHERS)
    virtual = any([column.expression for column in named])
    if virtual or not _only(query.tree, _COMBINED):  # MySQL may compute something in a session
        return frozenset(finder.needs | OF_COMPUTED)
    types = frozenset([column.type.name for column in named])
    if not (_only(query.tree, _PLAIN) and len(list(query.tree.find_all(exp.Table))) == 1):
        finder.needs |= {STRINGS, BYTES} if types <= _STEADY else OF_COMPUTED
    if types <= _OF_BYTES and not _shows_strings(query.tree):  # all strings are compared as bytes
        return frozenset(finder.needs - {STRINGS, BYTES})
    strings = any([token.kind == "string" for found in tokens for token in found])
    if strings or not all([parameter.type.is_numeric for parameter in plan.parameters]):
        finder.needs.add(BYTES)
    return frozenset(finder.needs)


def _only(tree: exp.Expr, nodes: tuple[type[exp.Expr], ...]) -> bool:
    return all([isinstance(node, nodes) for node in tree.walk()])


def _is_foreign(column: Column) -> bool:
    """Whether its strings have a character set in which they are other bytes than in UTF-8, as far as is known."""
    return column.type.is_string and not (column.type.collation or "").startswith(_UNICODE)


def _converts(tokens: Sequence[Token]) -> bool:
    """Whether something of the text may be a string of a character set that it names."""
    seen = {token.text.lower() for token in tokens if token.kind != "string"}
    return not seen.isdisjoint(_CONVERTS) or any([text.startswith("_") for text in seen])


def _shows_strings(tree: exp.Expr) -> bool:
    """Whether a literal is shown."""
    items = [item for select in tree.find_all(exp.Select) for item in select.expressions]
    return any(isinstance(item.unalias(), exp.Literal | exp.Placeholder | exp.Parameter) for item in items)
