"""Of what kind an expression's value is, as far as sessions matter: whose collation a string has, and what is a
date-time. A name that means several kinds is OTHER.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from sqlglot import exp

from planner.text.scan import words
from planner.tree.meanings import Given, Meanings
from planner.tree.provenance import Name, name_of
from planner.tree.untyped import AsSent
from sqltypes.expression import ColumnRef
from sqltypes.schema import SqlType


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
_CASTS = {
    **dict.fromkeys(TO_NUMBER, Kind.NUMBER),
    **dict.fromkeys(words("DATE DATETIME DATETIME2 TIMESTAMP TIMESTAMPTZ TIMESTAMPLTZ"), Kind.TEMPORAL),
    **dict.fromkeys(words("BINARY VARBINARY"), Kind.OWN),
    **{"JSON": Kind.JSON, "TIME": Kind.TIME},
}


def of_cast(target: exp.Expr | None) -> Kind:
    """The kind of what CAST makes. `target`: the type that it names."""
    return _CASTS.get(target.this.name, Kind.OTHER) if isinstance(target, exp.DataType) else Kind.OTHER


class Kinds:
    """The kinds of a query's expressions."""

    def __init__(self, meanings: Meanings) -> None:
        self._meanings = meanings
        self._known: dict[Name, Kind] = {}

    def column(self, node: exp.Expr) -> Kind:
        """The kind of a column, or of what a name in USING means."""
        return self._one_of(self._meanings.of(node))

    def _one_of(self, given: Given) -> Kind:
        kinds = {self._meant(one) for one in given}
        return kinds.pop() if len(kinds) == 1 else Kind.OTHER

    def _meant(self, given: ColumnRef | exp.Expr) -> Kind:
        if not isinstance(given, ColumnRef):
            return _column(self.of(given))
        if (name := name_of(given)) not in self._known:
            below = self._meanings.below(given)
            self._known[name] = of_type(given.type) if below is None else self._one_of(below)
        return self._known[name]

    def collations(self, *nodes: exp.Expr) -> set[str]:
        """Of all columns that are named anywhere below these: if they are several, none of them may win."""
        found: set[str] = set()
        for one in self._meanings.reached(nodes):
            if not isinstance(one, ColumnRef):
                found |= {collate.expression.name for collate in one.find_all(exp.Collate)}
            elif self._meanings.below(one) is None and of_type(one.type) is Kind.OWN:
                found.add(one.type.collation or "binary")
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
    ((exp.Column, exp.Identifier), Kinds.column),
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
    (exp.Cast, lambda kinds, node: of_cast(node.args["to"])),
    ((exp.Case, exp.If, exp.Coalesce, exp.Greatest, exp.Least), Kinds._any_of),
    (exp.Concat, Kinds._concat),
    (OF_ITS_STRING, Kinds._string),
    (OF_ITS_VALUE, Kinds._value),
    ((exp.Subquery, exp.Select), Kinds._subquery),
)
