"""Of what kind an expression's value is, as far as sessions matter: whose collation a string has, and what is a
date-time. Told by names alone, without resolving them: a name that means several kinds somewhere in the query is OTHER.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum

from sqlglot import exp

from planner.text.scan import words
from planner.tree.untyped import AsSent
from sqltypes.schema import SqlType, Table

ROUNDS = 10  # aliases of aliases are followed so deep


class Kind(Enum):
    NUMBER = "number"
    TEMPORAL = "temporal"  # DATE, DATETIME, TIMESTAMP
    TIME = "time"
    OWN = "own"  # a string or bytes whose collation is a column's, or written out
    GIVEN = "given"  # a string literal or a parameter
    JSON = "json"
    UNQUOTED = "unquoted"  # a string made of JSON: of utf8mb4_bin, which wins beside a literal's collation
    NULL = "null"
    OTHER = "other"  # a string that MySQL makes, or not known


OF_JSON_KINDS = frozenset({Kind.JSON, Kind.UNQUOTED})
MADE = OF_JSON_KINDS | {Kind.OTHER}
"""What MySQL makes, or what is not known."""


def of_type(type_: SqlType) -> Kind:
    """The kind of a column."""
    if type_.is_numeric:
        return Kind.NUMBER
    if type_.name == "time":
        return Kind.TIME
    if type_.is_temporal:
        return Kind.TEMPORAL
    if type_.name == "json":
        return Kind.JSON
    return Kind.OWN if type_.is_string or type_.is_binary else Kind.OTHER


def combined(kinds: Iterable[Kind]) -> Kind:
    """The kind of a value that is one of these."""
    found = set(kinds) - {Kind.NULL}
    if not found:
        return Kind.NULL
    if found in ({Kind.OWN}, {Kind.OWN, Kind.GIVEN}):
        return Kind.OWN
    return found.pop() if len(found) == 1 and Kind.GIVEN not in found else Kind.OTHER


def classes(names: str) -> tuple[type[exp.Expr], ...]:
    """The parser's classes of these names; not every version has all."""
    return tuple(getattr(exp, name) for name in names.split() if hasattr(exp, name))


NUMERIC = classes("""
    Abs Ceil Floor Round Sign Sqrt Pow Exp Ln Log Length Count CountIf Sum Avg Stddev StddevPop StddevSamp Variance
    VariancePop RowNumber Rank DenseRank Ntile CumeDist PercentRank BitwiseCount
""")
DATE_PARTS = classes("""
    Year Month Day DayOfMonth DayOfWeek DayOfYear Hour Minute Second Quarter Week WeekOfYear Extract DateDiff
    TimestampDiff ToDays
""")
DATES = classes("TsOrDsToDate TsOrDsToTimestamp Date LastDay")
DATE_ARITHMETIC = classes("DateAdd DateSub")
OPERATORS = classes(
    "Mul Div IntDiv Mod Neg BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitwiseLeftShift BitwiseRightShift"
)
TRUTHS = classes("Predicate Connector And Or Xor Not Boolean In Between Is Exists Like Escape RegexpLike")
CASES = classes("Lower Upper")
OF_ITS_STRING = (*CASES, *classes("Left Right Substring Reverse Repeat Trim"))
OF_ITS_VALUE = classes("Min Max AnyValue FirstValue LastValue NthValue Window IgnoreNulls RespectNulls Nullif")
TO_JSON = classes("JSONObject JSONObjectAgg JSONExtract JSONSet JSONKeys JSONRemove JSONArrayAppend")
TO_JSON_BY_NAME = words("""
    json_array json_arrayagg json_insert json_merge_patch json_merge_preserve json_replace
""")
OF_JSON = classes("JSONArrayContains")
UNQUOTED = classes("JSONExtractScalar JSONType")
UNQUOTED_BY_NAME = words("json_unquote json_quote")
OF_BYTES = classes("Hex LowerHex MD5 SHA SHA2 ToBase64 FromBase64 Unhex Crc32")
OF_BYTES_BY_NAME = words("hex unhex md5 sha sha1 sha2 to_base64 from_base64 crc32 bit_length inet6_ntoa bin_to_uuid")
"""Functions of a string's bytes, whatever its collation."""
OF_JSON_BY_NAME = words("json_contains json_contains_path json_depth json_length json_overlaps json_valid")
"""Functions that say a number of JSON."""

TO_NUMBER = words("""
    TINYINT SMALLINT MEDIUMINT INT BIGINT UTINYINT USMALLINT UMEDIUMINT UINT UBIGINT FLOAT DOUBLE DECIMAL UDECIMAL
    UDOUBLE YEAR
""")
_TO_TEMPORAL = frozenset({"DATE", "DATETIME", "DATETIME2", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ"})
_TO_BYTES = frozenset({"BINARY", "VARBINARY"})


class Kinds:
    """The kinds of a query's expressions. `trees`: all its SELECTs, those of views included. `renamed`: columns of
    views, by name, and what they stand for."""

    def __init__(
        self, tables: Sequence[Table], trees: Iterable[exp.Query], renamed: Iterable[tuple[str, exp.Expr | None]]
    ) -> None:
        columns: dict[str, set[Kind]] = {}
        self._collations: dict[str, set[str]] = {}
        for table in tables:
            for column in table.columns:
                columns.setdefault(column.name.lower(), set()).add(of_type(column.type))
                if of_type(column.type) is Kind.OWN:
                    self._collations.setdefault(column.name.lower(), set()).add(column.type.collation or "binary")
        trees = list(trees)
        self._qualified = _of_qualifiers(tables, trees)
        aliased: list[tuple[str, exp.Expr | None]] = [(name.lower(), node) for name, node in renamed]
        for tree in trees:
            aliased += [(node.alias.lower(), node.this) for node in tree.find_all(exp.Alias)]
            aliased += [(name.name.lower(), None) for node in tree.find_all(exp.TableAlias) for name in node.columns]
        self._names: Mapping[str, frozenset[Kind]] = {name: frozenset(kinds) for name, kinds in columns.items()}
        base = self._names
        for _ in range(ROUNDS):
            for name, node in aliased:
                self._collations.setdefault(name, set()).update(() if node is None else self.collations(node))
            names = {name: set(kinds) for name, kinds in base.items()}
            for name, node in aliased:
                names.setdefault(name, set()).add(Kind.OTHER if node is None else _column(self.of(node)))
            before, self._names = self._names, {name: frozenset(kinds) for name, kinds in names.items()}
            if before == self._names:
                return
        self._names = {**base, **{name: frozenset({Kind.OTHER}) for name, _ in aliased}}

    def named(self, name: str) -> Kind:
        """The kind of a column by its name alone."""
        found = self._names.get(name.lower(), frozenset())
        return next(iter(found)) if len(found) == 1 else Kind.OTHER

    def column(self, node: exp.Expr) -> Kind:
        """The kind of a column; by its name alone where what stands before it may be several tables."""
        table = self._qualified.get(node.text("table").lower())
        found = table.by_name.get(node.name.lower()) if table is not None else None
        return self.named(node.name) if found is None else of_type(found.type)

    def collations(self, *nodes: exp.Expr) -> set[str]:
        """Of all columns that are named anywhere below these: if they are several, none of them may win."""
        found = {collate.expression.name for node in nodes for collate in node.find_all(exp.Collate)}
        for node in nodes:
            for column in node.find_all(exp.Column):
                found |= self._collations.get(column.name.lower(), set())
        return found

    def of(self, node: exp.Expr) -> Kind:
        for class_, handler in _HANDLERS:
            if isinstance(node, class_):
                return handler(self, node)
        return Kind.OTHER

    def _literal(self, node: exp.Expr) -> Kind:
        assert isinstance(node, exp.Literal)
        return Kind.GIVEN if node.is_string else Kind.NUMBER

    def _sum(self, node: exp.Expr) -> Kind:
        base = date_of(node)
        if base is None:
            return Kind.NUMBER
        return Kind.TEMPORAL if self.of(base) is Kind.TEMPORAL else Kind.OTHER

    def _cast(self, node: exp.Expr) -> Kind:
        target = node.args["to"].this.name
        if target in TO_NUMBER:
            return Kind.NUMBER
        if target in _TO_TEMPORAL:
            return Kind.TEMPORAL
        if target == "JSON":
            return Kind.JSON
        if target == "TIME":
            return Kind.TIME
        return Kind.OWN if target in _TO_BYTES else Kind.OTHER

    def _any_of(self, node: exp.Expr) -> Kind:
        return self._one_collation(node, combined(map(self.of, results_of(node))))

    def _concat(self, node: exp.Expr) -> Kind:
        found = {self.of(part) for part in node.expressions} - {Kind.NULL, Kind.GIVEN}
        return self._one_collation(node, Kind.OWN if found == {Kind.OWN} else Kind.OTHER)

    def _one_collation(self, node: exp.Expr, kind: Kind) -> Kind:
        return Kind.OTHER if kind is Kind.OWN and len(self.collations(node)) > 1 else kind

    def _string(self, node: exp.Expr) -> Kind:
        return Kind.OWN if self.of(node.this) is Kind.OWN else Kind.OTHER

    def _value(self, node: exp.Expr) -> Kind:
        return _column(self.of(node.this))

    def _named_function(self, node: exp.Expr) -> Kind:
        """Of a function that the parser has no class for."""
        name = node.name.lower()
        if name in TO_JSON_BY_NAME:
            return Kind.JSON
        if name in UNQUOTED_BY_NAME:
            return Kind.UNQUOTED
        return Kind.NUMBER if name in OF_JSON_BY_NAME or name == "field" else Kind.OTHER

    def _subquery(self, node: exp.Expr) -> Kind:
        items = node.this.expressions if isinstance(node.this, exp.Select) else node.expressions
        return _column(self.of(items[0])) if len(items) == 1 else Kind.OTHER


def _of_qualifiers(tables: Sequence[Table], trees: Iterable[exp.Query]) -> Mapping[str, Table | None]:
    """The tables by what stands before a column of theirs, in lower case; None where that may be several."""
    named = [table.name.lower() for table in tables]
    by_name = {name: table for name, table in zip(named, tables, strict=True) if named.count(name) == 1}
    found: dict[str, Table | None] = {}
    sources: list[tuple[str, Table | None]] = []
    for tree in trees:
        ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        for node in tree.find_all(exp.Table):
            name = node.name.lower()
            sources.append((node.alias_or_name.lower(), None if name in ctes else by_name.get(name)))
        of_others = (node for node in tree.find_all(exp.TableAlias) if not isinstance(node.parent, exp.Table))
        sources += [(node.name.lower(), None) for node in of_others]
    for name, table in sources:
        found[name] = table if found.get(name, table) is table else None
    return found


def _column(kind: Kind) -> Kind:
    """What a literal is, once it is a column of something."""
    return Kind.OTHER if kind is Kind.GIVEN else kind


def operands(node: exp.Expr) -> list[exp.Expr]:
    """The first argument and the further ones."""
    return [part for part in (node.this, *node.expressions) if isinstance(part, exp.Expr)]


def results_of(node: exp.Expr) -> list[exp.Expr]:
    """The expressions of which a conditional one gives one, or any other is made."""
    if isinstance(node, exp.Case):
        found = [branch.args["true"] for branch in node.args["ifs"]] + [node.args.get("default")]
    elif isinstance(node, exp.If):
        found = [node.args.get("true"), node.args.get("false")]
    else:
        return operands(node)
    return [part for part in found if isinstance(part, exp.Expr)]


def date_of(node: exp.Expr) -> exp.Expr | None:
    """What an interval is added to or taken from; None where there is no interval."""
    if isinstance(node, DATE_ARITHMETIC):
        return node.this if isinstance(node.this, exp.Expr) else None
    for one, other in ((node.this, node.expression), (node.expression, node.this)):
        if isinstance(other, exp.Interval):
            return one if isinstance(one, exp.Expr) else None
    return None


def always(kind: Kind) -> Callable[[Kinds, exp.Expr], Kind]:
    return lambda kinds, node: kind


_HANDLERS: tuple[tuple[type[exp.Expr] | tuple[type[exp.Expr], ...], Callable[[Kinds, exp.Expr], Kind]], ...] = (
    (exp.Column, Kinds.column),
    (exp.Literal, Kinds._literal),
    (AsSent, always(Kind.OTHER)),
    (exp.Placeholder, always(Kind.GIVEN)),
    (exp.Null, always(Kind.NULL)),
    ((exp.Paren, exp.Alias, exp.Ordered), lambda kinds, node: kinds.of(node.this)),
    ((exp.HexString, exp.BitString, exp.Collate), always(Kind.OWN)),
    ((*NUMERIC, *DATE_PARTS, *OPERATORS, *TRUTHS, *OF_JSON, exp.MatchAgainst), always(Kind.NUMBER)),
    (TO_JSON, always(Kind.JSON)),
    (UNQUOTED, always(Kind.UNQUOTED)),
    (exp.Anonymous, Kinds._named_function),
    (DATES, always(Kind.TEMPORAL)),
    ((exp.Add, exp.Sub, *DATE_ARITHMETIC), Kinds._sum),
    (exp.Cast, Kinds._cast),
    ((exp.Case, exp.If, exp.Coalesce, exp.Greatest, exp.Least), Kinds._any_of),
    (exp.Concat, Kinds._concat),
    (OF_ITS_STRING, Kinds._string),
    (OF_ITS_VALUE, Kinds._value),
    ((exp.Subquery, exp.Select), Kinds._subquery),
)
