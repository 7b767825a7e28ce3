"""On which session variables the answer of a cached query may depend, beside those that change every answer.

A cache is filled in a session whose variables are pinned; a client whose value of a needed variable is another one is
not answered from it. What is here errs on the needing side: a variable is not needed only where that is clear.

* time_zone: a TIMESTAMP column is named or starred, a string may become a date-time (it may carry an offset), or a
  function converts.
* collation_connection: it is that of string literals and parameters, and of strings that MySQL makes. It is not needed
  where those are only shown, or only compared with columns, whose own collations win; such must not decide an order, a
  group, DISTINCT, MIN or MAX.
  Nor is it needed for what becomes JSON, or is compared as such, nor for MATCH, which compares as the columns do.
* character_set_connection, where it is none of Unicode's and literals are ASCII's: a string is converted to it or
  changed in it, or becomes JSON, which no binary string can. It is not needed where all columns of strings are binary
  ones, and no string is shown or computed with: they are compared as the bytes that they are.
* sql_auto_is_null: a column that may have AUTO_INCREMENT IS NULL.
* The modes of sql_mode, each for itself. Those about dates: something becomes a date that is none, and may have zeros
  or be no day of the calendar, or is cast, or computed with. PAD_CHAR_TO_FULL_LENGTH: a CHAR column is named or
  starred, or there may be a temporary table, which may have one. The others: by the words whose meaning they change.
  What ANSI_QUOTES changes is seen in the client's own text (`proxy/mysql/sql_modes.py`). All of them, and the character
  set of strings, count for a query that computes, or reads a view or a generated column; where it only joins, groups
  and adds up, the set of strings alone, unless it names a column of a type whose values a mode may change as they are
  stored in a temporary table (`_STEADY`).
* The others: by the words for what they change.

Literals and conversions inside of views are looked at as if they stood in the query. That parameters are of the types
that they are compared with, and strings for date-times without an offset, is seen to where they are bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from planner.as_sent import SAMPLES, with_sample
from planner.fingerprint import unquote
from planner.hints import SETTABLE
from planner.names import Catalogue, view_columns
from planner.parse import ParsedQuery, parse
from planner.plan import QueryPlan
from planner.resolve import argument, ordinal
from planner.scan import Token, scan, words
from planner.string_kinds import (
    CASES,
    DATE_ARITHMETIC,
    DATE_PARTS,
    DATES,
    MADE,
    NUMERIC,
    OF_BYTES,
    OF_BYTES_BY_NAME,
    OF_ITS_STRING,
    OF_ITS_VALUE,
    OF_JSON,
    OF_JSON_BY_NAME,
    OF_JSON_KINDS,
    TO_JSON,
    TO_JSON_BY_NAME,
    TRUTHS,
    UNQUOTED,
    UNQUOTED_BY_NAME,
    Kind,
    Kinds,
    classes,
    date_of,
    results_of,
)
from planner.support import misread
from sqltypes.schema import INTEGER_TYPES, SchemaSnapshot, Table
from sqltypes.temporal import parse_datetime

TIME_ZONE, COLLATION, AUTO_IS_NULL = "time_zone", "collation_connection", "sql_auto_is_null"
BY_CODES = "collation_connection.codes"
"""Whether it orders by codes, and is not utf8mb4_bin: beside such a literal MySQL refuses a string that it makes of
JSON, whose collation utf8mb4_bin wins beside each other."""
STRINGS = "character_set_connection.strings"
"""Whether strings that MySQL makes, or converts to character_set_connection, are the same characters in it."""
BYTES = "character_set_connection.bytes"
"""Whether string literals and parameters are binary ones."""
OF_MODE = "sql_mode."
"""Before the name of a mode of sql_mode: each counts as a variable of its own."""
PADDED = f"{OF_MODE}PAD_CHAR_TO_FULL_LENGTH"
DATE_MODES = frozenset(
    OF_MODE + name for name in ("ALLOW_INVALID_DATES", "NO_ZERO_DATE", "NO_ZERO_IN_DATE", "TIME_TRUNCATE_FRACTIONAL")
)
CONVERTED = DATE_MODES | {TIME_ZONE}
"""On which it depends what date-time a string is."""
BY_WORD: dict[str, frozenset[str]] = {
    "group_concat_max_len": words("group_concat"),
    "div_precision_increment": words("/ avg"),
    "cte_max_recursion_depth": words("recursive"),
    "lc_time_names": words("date_format time_format dayname monthname str_to_date"),
    "default_week_format": words("week yearweek"),
    "windowing_use_high_precision": words("over"),
    "block_encryption_mode": words("aes_encrypt aes_decrypt"),
    "default_collation_for_utf8mb4": words("_utf8mb4"),
    STRINGS: words("char nchar character using json"),
    TIME_ZONE: words("from_unixtime unix_timestamp convert_tz"),
    f"{OF_MODE}PIPES_AS_CONCAT": words("||"),
    f"{OF_MODE}HIGH_NOT_PRECEDENCE": words("not"),
    f"{OF_MODE}NO_UNSIGNED_SUBTRACTION": words("-"),
    f"{OF_MODE}REAL_AS_FLOAT": words("real"),
}
SESSION_NEEDS = frozenset({COLLATION, BY_CODES, STRINGS, BYTES, AUTO_IS_NULL, PADDED, *DATE_MODES, *BY_WORD})
"""All variables that can be needed."""
OF_OTHERS = frozenset({STRINGS, BYTES, PADDED, *DATE_MODES, *(name for name in BY_WORD if name.startswith(OF_MODE))})
"""Those that every query needs that computes: a row of the caches' own session is not believed there."""

_OFFSET = re.compile(r"[+-]\d{1,2}:\d\d\s*\Z", re.ASCII)  # of a date-time literal
_TIME = re.compile(r"-?\d{1,3}:\d\d(?::\d\d(?:\.\d{1,6})?)?", re.ASCII)


def session_needs(plan: QueryPlan, snapshot: SchemaSnapshot) -> frozenset[str]:
    """The variables of `SESSION_NEEDS` on whose value the query's answer may depend.

    Requires: the plan was made with this snapshot.
    """
    query = parse(plan.sql, snapshot.server_version)
    needs = _needs(query, plan, snapshot)
    sent = [parameter.index for parameter in plan.parameters if not parameter.type.is_known]
    for sample in SAMPLES if sent else ():
        needs |= _needs(replace(query, tree=with_sample(query.tree, sent, sample)), plan, snapshot)
    return needs if query.modes is None else needs - {OF_MODE + name for name in SETTABLE}


def _needs(query: ParsedQuery, plan: QueryPlan, snapshot: SchemaSnapshot) -> frozenset[str]:
    """As `session_needs`, of a query that sets no mode for itself."""
    views = list(Catalogue(snapshot, plan.database).views(query.tree))
    texts = [query, *(parsed for _, parsed in views)]
    tokens = [scan(text.text) for text in texts]
    if any(misread(text.tree, found) for text, found in zip(texts, tokens, strict=True)):
        return SESSION_NEEDS
    renamed = [pair for view, parsed in views for pair in view_columns(view, parsed.tree)]
    kinds = Kinds(plan.tables, [text.tree for text in texts], renamed)
    zoned = frozenset(
        column.name.lower() for table in plan.tables for column in table.columns if column.type.name == "timestamp"
    )
    padded = frozenset(
        column.name.lower() for table in plan.tables for column in table.columns if column.type.name == "char"
    )
    numbered = frozenset(
        column.name.lower()
        for table in plan.tables
        for column in table.columns
        if column.type.is_numeric and not column.nullable
    )
    finder = _Finder(kinds, zoned, numbered, padded)
    for found in tokens:
        finder.words(found)
    for text in texts:
        finder.tree(text.tree, shown=text is query)
    generated = any(column.generated for table in plan.tables for column in table.columns)
    if len(texts) > 1 or generated or not _only(query.tree, _COMBINED):  # MySQL may compute something in a session
        return frozenset(finder.needs | OF_OTHERS)
    types = _named_types(query.tree, plan.tables)
    if not (_only(query.tree, _PLAIN) and len(list(query.tree.find_all(exp.Table))) == 1):
        finder.needs |= {STRINGS, BYTES} if types <= _STEADY else OF_OTHERS
    if types <= _OF_BYTES and not _shows_strings(query.tree):  # all strings are compared as bytes
        return frozenset(finder.needs - {STRINGS, BYTES})
    strings = any(token.kind == "string" for found in tokens for token in found)
    if strings or not all(parameter.type.is_numeric for parameter in plan.parameters):
        finder.needs.add(BYTES)
    return frozenset(finder.needs)


def _only(tree: exp.Expr, nodes: tuple[type[exp.Expr], ...]) -> bool:
    return all(isinstance(node, nodes) for node in tree.walk())


def _named_types(tree: exp.Expr, tables: Iterable[Table]) -> frozenset[str]:
    """Types of the columns that the query may name."""
    named = {column.name.lower() for column in tree.find_all(exp.Column)}
    joins = list(tree.find_all(exp.Join))
    named |= {name.name.lower() for join in joins for name in join.args.get("using") or ()}
    every = any(_is_star(node) and not isinstance(node.parent, exp.Count) for node in tree.find_all(exp.Star))
    every |= any(join.method == "NATURAL" for join in joins)
    columns = [column for table in tables for column in table.columns]
    return frozenset(column.type.name for column in columns if every or column.name.lower() in named)


def _shows_strings(tree: exp.Expr) -> bool:
    """Whether a literal is shown."""
    items = [item for select in tree.find_all(exp.Select) for item in select.expressions]
    return any(isinstance(item.unalias(), exp.Literal | exp.Placeholder | exp.Parameter) for item in items)


@dataclass
class _Finder:
    """Visits every node of a query. Names in lower case: `zoned`: of TIMESTAMP columns; `numbered`: of columns that may
    have AUTO_INCREMENT; `padded`: of CHAR columns."""

    kinds: Kinds
    zoned: frozenset[str]
    numbered: frozenset[str]
    padded: frozenset[str]
    needs: set[str] = field(default_factory=set)

    def words(self, tokens: Sequence[Token]) -> None:
        seen = {token.text.lower().strip("`") for token in tokens}
        self.needs |= {name for name, found in BY_WORD.items() if not seen.isdisjoint(found)}
        if any(token.kind == "string" and _OFFSET.search(unquote(token.text)) for token in tokens):
            self.needs.add(TIME_ZONE)

    def tree(self, tree: exp.Query, *, shown: bool) -> None:
        """`shown`: what comes out of the tree is only shown."""
        only_shown = tree if shown and argument(tree, "order") is None else None
        for node in tree.walk():
            if isinstance(node, _IN_TEMPORARY_TABLES):
                self.needs.add(PADDED)
            if isinstance(node, exp.SetOperation):
                self._united(node, shown=node is only_shown and not node.args.get("distinct"))
                continue
            for class_, visit in _VISITS:
                if isinstance(node, class_):
                    visit(self, node)
                    break

    # -- names

    def _column(self, node: exp.Expr) -> None:
        if node.name.lower() in self.zoned:
            self.needs.add(TIME_ZONE)
        if node.name.lower() in self.padded:
            self.needs.add(PADDED)

    def _star(self, node: exp.Expr) -> None:
        if isinstance(node.parent, exp.Count):
            return
        if self.zoned:
            self.needs.add(TIME_ZONE)
        if self.padded:
            self.needs.add(PADDED)

    def _join(self, node: exp.Expr) -> None:
        if node.args.get("method") == "NATURAL":
            self.needs |= {COLLATION, PADDED, *CONVERTED}
        for name in node.args.get("using") or ():
            self._decides_named(name.name)
            self._column(name)

    # -- what is compared

    def _compared(self, *nodes: exp.Expr) -> None:
        found = [self.kinds.of(node) for node in nodes]
        kinds = set(found) - {Kind.NULL}
        if (Kind.TEMPORAL in kinds and any(map(_no_date, nodes))) or (Kind.TIME in kinds and any(map(_no_time, nodes))):
            self.needs |= DATE_MODES
        if Kind.NUMBER in kinds and len(found) == 2:
            return  # compared as numbers, whatever the other is
        if Kind.UNQUOTED in kinds and kinds <= {Kind.UNQUOTED, Kind.GIVEN} and len(found) == 2:
            self.needs.add(BY_CODES)
            return
        own = kinds - {Kind.GIVEN}
        dated = own & {Kind.TEMPORAL, Kind.TIME}
        if len(kinds) > 0 and (not own or not own.isdisjoint(MADE) or len(own) > 1):
            self.needs.add(COLLATION)
        if dated and len(own) > 1:
            self.needs |= CONVERTED
        if Kind.TIME in own and any(_no_time(node) for node in nodes):
            self.needs.add(COLLATION)
        if len(nodes) > 2:
            self._several(nodes)

    def _binary(self, node: exp.Expr) -> None:
        self._compared(node.this, node.expression)

    def _comparison(self, node: exp.Expr) -> None:
        if not self._as_json(node.this, node.expression):
            self._compared_parts(node.this, node.expression)

    def _as_json(self, *nodes: exp.Expr) -> bool:
        """Whether one is JSON, and the other becomes it."""
        kinds = set(map(self.kinds.of, nodes))
        found = Kind.JSON in kinds and kinds <= {*OF_JSON_KINDS, Kind.GIVEN, Kind.OWN, Kind.NULL}
        if found and Kind.GIVEN in kinds:
            self.needs.add(STRINGS)
        return found

    def _compared_parts(self, *nodes: exp.Expr) -> None:
        """Rows are compared by each of their parts."""
        rows = [node.expressions for node in nodes if isinstance(node, exp.Tuple)]
        if len(rows) == len(nodes) and len(set(map(len, rows))) == 1:
            for parts in zip(*rows, strict=True):
                self._compared(*parts)
        else:
            self._compared(*nodes)

    def _in(self, node: exp.Expr) -> None:
        query = node.args.get("query")
        if query is not None:
            self._compared(node.this, query)
        elif node.expressions:
            self._compared_parts(node.this, *node.expressions)
        else:
            self.needs |= {COLLATION, *CONVERTED}

    def _between(self, node: exp.Expr) -> None:
        self._compared(node.this, node.args["low"], node.args["high"])

    def _like(self, node: exp.Expr) -> None:
        if isinstance(node.expression, exp.Concat) and all(map(self._is_given, node.expression.expressions)):
            given = exp.Literal.string("%")  # what is put together of literals is as one to collations
            return self._compared_as_texts(node.this, given)
        return self._compared_as_texts(node.this, node.expression)

    def _is_given(self, node: exp.Expr) -> bool:
        """A literal, or what stands for one."""
        return self.kinds.of(node) in (Kind.GIVEN, Kind.NULL) or isinstance(node, exp.Literal)

    def _compared_as_texts(self, text: exp.Expr, pattern: exp.Expr) -> None:
        if not {self.kinds.of(text), self.kinds.of(pattern)} <= {Kind.OWN, Kind.GIVEN, Kind.NULL}:
            self.needs.add(COLLATION)
        self._compared(text, pattern)

    def _case(self, node: exp.Expr) -> None:
        if node.this is not None:
            self._compared(node.this, *(branch.this for branch in node.args["ifs"]))
        self._chosen(node)

    def _chosen(self, node: exp.Expr) -> None:
        self._mixed(map(self.kinds.of, results_of(node)))
        self._several(results_of(node))

    def _extreme(self, node: exp.Expr) -> None:
        self._compared(*results_of(node))
        self._chosen(node)

    def _mixed(self, kinds: Iterable[Kind]) -> None:
        """A value is one of several, or made of them: a TIME among date-times becomes one; a string that MySQL makes
        and a column's have collations that may not go together."""
        found = [kind for kind in kinds if kind is not Kind.NULL]
        if Kind.TIME in found and len(set(found)) > 1:
            self.needs.add(TIME_ZONE)
        if Kind.TIME in found or Kind.TEMPORAL in found:
            self.needs |= DATE_MODES
        if not OF_JSON_KINDS.isdisjoint(found) and len(set(found)) > 1:
            self.needs.add(COLLATION)
        if Kind.OTHER in found and (Kind.OWN in found or found.count(Kind.OTHER) > 1):
            self.needs.add(COLLATION)

    def _several(self, nodes: Sequence[exp.Expr]) -> None:
        """Columns of several collations: none of them wins, so that a literal beside them counts."""
        kinds = {self.kinds.of(node) for node in nodes}
        if Kind.OWN in kinds and Kind.GIVEN in kinds and len(self.kinds.collations(*nodes)) > 1:
            self.needs.add(COLLATION)

    # -- what decides an order or a group

    def _decides(self, node: exp.Expr) -> None:
        if self.kinds.of(node) is Kind.OTHER:
            self.needs.add(COLLATION)

    def _decides_named(self, name: str) -> None:
        if self.kinds.named(name) is Kind.OTHER:
            self.needs.add(COLLATION)

    def _terms(self, node: exp.Expr) -> None:
        """ORDER BY and GROUP BY, anywhere."""
        for term in node.expressions:
            value = term.this if isinstance(term, exp.Ordered) else term
            position = ordinal(value)
            query = node.parent
            if position is None or not isinstance(query, exp.Query):
                self._decides(value)
            else:
                self._decides_item(query, position)

    def _decides_item(self, query: exp.Query, position: int) -> None:
        items = query.expressions if isinstance(query, exp.Select) else []
        if any(_is_star(item) for item in items):
            return self._decides_all(items)
        if 1 <= position <= len(items):
            return self._decides(items[position - 1])
        self.needs.add(COLLATION)

    def _decides_all(self, items: Iterable[exp.Expr]) -> None:
        for item in items:
            if not _is_star(item):
                self._decides(item)

    def _distinct(self, node: exp.Expr) -> None:
        select = node.parent if isinstance(node.parent, exp.Select) else None
        self._decides_all(node.expressions or (select.expressions if select is not None else ()))

    def _window(self, node: exp.Expr) -> None:
        self._decides_all(node.args.get("partition_by") or ())

    def _minmax(self, node: exp.Expr) -> None:
        self._decides(node.this)

    def _united(self, node: exp.SetOperation, *, shown: bool) -> None:
        """UNION and its kind: columns of several kinds become something else. `shown`: no rows are compared."""
        branches = [select.expressions for select in _branches(node)]
        if all(any(_is_star(item) for item in items) for items in branches):
            return
        for column in zip(*branches, strict=False):
            kinds = [Kind.OTHER if _is_star(item) else self.kinds.of(item) for item in column]
            self._mixed(kinds)
            found = set(kinds) - {Kind.NULL}
            if shown:
                continue
            several = Kind.OWN in found and len(self.kinds.collations(*column)) > 1
            if len(found) > 1 or several or found & {Kind.GIVEN, Kind.OTHER}:
                self.needs.add(COLLATION)

    # -- what converts

    def _dated(self, node: exp.Expr | None) -> None:
        """Something becomes a date-time."""
        if node is None:
            return
        kind = self.kinds.of(node)
        text = isinstance(node, exp.Literal)  # `words` has looked at it
        if not text and kind not in (Kind.TEMPORAL, Kind.NUMBER, Kind.NULL):
            self.needs.add(TIME_ZONE)
        if kind not in (Kind.TEMPORAL, Kind.NULL):
            self.needs |= DATE_MODES

    def _date_function(self, node: exp.Expr) -> None:
        for part in (node.this, node.expression):
            if isinstance(part, exp.Expr) and not isinstance(part, exp.Var):
                self._dated(part)

    def _date_arithmetic(self, node: exp.Expr) -> None:
        self._dated(date_of(node))

    def _cast(self, node: exp.Expr) -> None:
        if self.kinds.of(node) in (Kind.TEMPORAL, Kind.TIME):
            self._dated(node.this)
            self.needs |= DATE_MODES

    def _formatted(self, node: exp.Expr) -> None:
        self._dated(node.this)

    def _is(self, node: exp.Expr) -> None:
        if isinstance(node.this, exp.Column) and node.this.name.lower() in self.numbered:
            self.needs.add(AUTO_IS_NULL)  # IS NULL finds the row that was inserted last

    def _harmless(self, node: exp.Expr) -> None:
        """Neither compares strings nor makes date-times of them."""

    def _folded(self, node: exp.Expr) -> None:
        """Which letter is the capital of which, a collation says."""
        self._decides(node)
        if self.kinds.of(node.this) is not Kind.OWN:
            self.needs.add(STRINGS)

    def _trim(self, node: exp.Expr) -> None:
        if node.args.get("expression") is not None:
            self._function(node)

    def _json(self, node: exp.Expr) -> None:
        """Its arguments become JSON, or say a path into it: bytes, whatever their collation."""
        kinds = {self.kinds.of(part) for part in _arguments(node)}
        if kinds & {Kind.GIVEN, Kind.OWN, Kind.OTHER, Kind.UNQUOTED}:
            self.needs.add(STRINGS)
        if kinds & {Kind.TIME, Kind.TEMPORAL}:
            self.needs |= DATE_MODES

    def _of_bytes(self, node: exp.Expr) -> None:
        if not {self.kinds.of(part) for part in node.iter_expressions()} <= {Kind.OWN, Kind.NUMBER, Kind.NULL}:
            self.needs |= {STRINGS, *DATE_MODES}

    def _matched(self, node: exp.Expr) -> None:
        """MATCH: what is searched for becomes a string of the columns' collation."""
        if self._is_given(node.this):
            self.needs.add(STRINGS)
        else:
            self._function(node)

    def _field(self, node: exp.Expr) -> None:
        """FIELD(): all are compared as strings, or all as numbers."""
        kinds = set(map(self.kinds.of, node.expressions)) - {Kind.NULL}
        if kinds <= {Kind.OWN, Kind.GIVEN}:
            self._compared(*node.expressions)
        elif not (Kind.NUMBER in kinds and kinds <= {Kind.NUMBER, Kind.GIVEN}):
            self._function(node)

    def _by_name(self, node: exp.Expr) -> None:
        """A function that the parser has no class for."""
        name = node.name.lower()
        if name in TO_JSON_BY_NAME or name in OF_JSON_BY_NAME or name in UNQUOTED_BY_NAME:
            self._json(node)
        elif name in OF_BYTES_BY_NAME:
            self._of_bytes(node)
        elif name == "field":
            self._field(node)
        else:
            self._function(node)

    def _function(self, node: exp.Expr) -> None:
        """A function that is not known here."""
        for part in node.iter_expressions():
            if isinstance(part, exp.DataType | exp.Var | exp.Identifier):
                continue
            kind = self.kinds.of(part)
            if kind in (Kind.GIVEN, Kind.OWN, *MADE):
                self.needs |= {COLLATION, STRINGS, *CONVERTED}
            elif kind is Kind.TIME:
                self.needs |= CONVERTED
            elif kind is Kind.TEMPORAL:
                self.needs |= DATE_MODES


def _arguments(node: exp.Expr) -> Iterator[exp.Expr]:
    """Of a function; each of a pair of key and value for itself."""
    for part in node.iter_expressions():
        if isinstance(part, exp.JSONKeyValue):
            yield from part.iter_expressions()
        else:
            yield part


def _no_time(node: exp.Expr) -> bool:
    """A literal that is no TIME: beside a TIME it is compared as a string."""
    return isinstance(node, exp.Literal) and node.is_string and _TIME.fullmatch(str(node.this)) is None


def _no_date(node: exp.Expr) -> bool:
    """A literal of which a mode may say whether it is a date: beside one it is read as such."""
    if not isinstance(node, exp.Literal):
        return False
    return not node.is_string or parse_datetime(str(node.this)) is None


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _branches(node: exp.Expr) -> Iterator[exp.Select]:
    if isinstance(node, exp.SetOperation):
        yield from _branches(node.this)
        yield from _branches(node.expression)
    elif isinstance(node, exp.Subquery | exp.Paren):
        yield from _branches(node.this)
    elif isinstance(node, exp.Select):
        yield node


Visit = Callable[[_Finder, exp.Expr], None]
_IN_TEMPORARY_TABLES = (
    exp.SetOperation, exp.Distinct, exp.Group, exp.Order, exp.Subquery, exp.With, exp.Window, exp.AggFunc,
)  # fmt: skip
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
_COMPARISONS = classes("EQ NEQ NullSafeEQ NullSafeNEQ GT GTE LT LTE")
_HARMLESS = classes("And Or Xor Not GroupConcat Exists Escape Collate")

# The first that fits counts.
_VISITS: tuple[tuple[type[exp.Expr] | tuple[type[exp.Expr], ...], Visit], ...] = (
    (exp.Star, _Finder._star),
    (exp.Column, _Finder._column),
    (exp.Join, _Finder._join),
    (_COMPARISONS, _Finder._comparison),
    (exp.Nullif, _Finder._binary),
    (exp.In, _Finder._in),
    (exp.Between, _Finder._between),
    (exp.Like, _Finder._like),
    (exp.Is, _Finder._is),
    (exp.Case, _Finder._case),
    ((exp.If, exp.Coalesce, exp.Concat), _Finder._chosen),
    ((exp.Greatest, exp.Least), _Finder._extreme),
    ((exp.Order, exp.Group), _Finder._terms),
    (exp.Distinct, _Finder._distinct),
    (exp.Window, _Finder._window),
    ((exp.Min, exp.Max), _Finder._minmax),
    (exp.Trim, _Finder._trim),
    (CASES, _Finder._folded),
    (classes("TimeToStr"), _Finder._formatted),
    ((*DATES, *DATE_PARTS), _Finder._date_function),
    ((*DATE_ARITHMETIC, exp.Add, exp.Sub), _Finder._date_arithmetic),
    (exp.Cast, _Finder._cast),
    ((*NUMERIC, *OF_ITS_STRING, *OF_ITS_VALUE, *_HARMLESS), _Finder._harmless),
    ((*TO_JSON, *OF_JSON), _Finder._json),
    (UNQUOTED, _Finder._json),
    (OF_BYTES, _Finder._of_bytes),
    (exp.MatchAgainst, _Finder._matched),
    (exp.Anonymous, _Finder._by_name),
    ((exp.Func, *TRUTHS), _Finder._function),
)
