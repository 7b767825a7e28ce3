"""Columns that a condition sets equal to a constant, and another condition reads as text.

MySQL may put the constant in the column's place: 1.5 for a DECIMAL that is shown as 1.50, the digits of a number for a
BIT, whose text is its bytes. Whether it does depends on how the constant is written or bound, and on whether a prepared
statement was executed before. So what is told of one spelling is nothing that another has.

Told by names alone: a name that means columns of several kinds is each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from sqlglot import exp

from planner.expressions import split_and
from planner.string_kinds import DATE_PARTS, NUMERIC, OPERATORS, TO_NUMBER, TRUTHS, results_of
from planner.support import refuse
from sqltypes.schema import SqlType, Table

ROUNDS = 10  # aliases of aliases are followed so deep
NUMBERS = frozenset({"bit", "decimal", "float", "zerofill", "integer"})
ANY = NUMBERS | {"time", ""}

_CHOOSING = (
    *(exp.Case, exp.If, exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif),
    *(exp.Min, exp.Max, exp.AnyValue),
)
_READING_TEXT: tuple[type[exp.Expr], ...] = (exp.Like, exp.RegexpLike, exp.Escape, exp.Length)
_READING_VALUES: tuple[type[exp.Expr], ...] = (
    *(exp.Query, exp.Where, exp.Having, exp.Join, exp.Add, exp.Sub, exp.Case, exp.If, exp.Tuple),
    *(*NUMERIC, *DATE_PARTS, *OPERATORS, *TRUTHS),
)
_EQUAL = (exp.EQ, exp.NullSafeEQ, exp.In)


def check_pinned(trees: Iterable[exp.Expr], tables: Iterable[Table]) -> None:
    """Raises UnsupportedQuery where that happens. `trees`: the query and its views."""
    trees = list(trees)
    kinds = _kinds(trees, tables)
    pinned: set[str] = set()
    as_text: dict[str, exp.Expr] = {}
    for condition in (part for tree in trees for part in _conditions(tree)):
        for column in condition.find_all(exp.Column):
            for kind in kinds[column.name.lower()]:
                if _is_pinned(column, kind):
                    pinned.add(kind)
                if kind and _is_text(column, kind, kinds):
                    as_text[kind] = condition
    for kind in pinned & as_text.keys():
        raise refuse("pinned_as_text", as_text[kind].sql("mysql")[:60])


def _kind(type_: SqlType) -> str:
    """Of a type whose constants have several spellings; "" of any other."""
    if type_.name in ("bit", "decimal", "time"):
        return type_.name
    if type_.zerofill:
        return "zerofill"
    return "float" if type_.is_approximate else "integer" if type_.is_integer else ""


def _kinds(trees: Iterable[exp.Expr], tables: Iterable[Table]) -> defaultdict[str, set[str]]:
    """What the columns of each name may be, with those of derived tables and views."""
    kinds: defaultdict[str, set[str]] = defaultdict(set)
    for table in tables:
        for column in table.columns:
            kinds[column.name.lower()].add(_kind(column.type))
    named: list[exp.Alias] = []
    for tree in trees:
        named += tree.find_all(exp.Alias)
        for table_alias in tree.find_all(exp.TableAlias):
            for name in table_alias.columns:
                kinds[name.name.lower()] |= ANY
    for _ in range(ROUNDS):
        before = sum(map(len, kinds.values()))
        for alias in named:
            kinds[alias.alias.lower()].update(*(kinds[column.name.lower()] for column in alias.find_all(exp.Column)))
        if before == sum(map(len, kinds.values())):
            break
    return kinds


def _conditions(tree: exp.Expr) -> Iterator[exp.Expr]:
    for node in tree.find_all(exp.Where, exp.Having):
        yield from split_and(node.this)
    for node in tree.find_all(exp.Join):
        yield from split_and(node.args.get("on"))


def _around(node: exp.Expr) -> exp.Expr | None:
    """What stands around an expression, beyond its parentheses."""
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    return around


def _is_pinned(column: exp.Expr, kind: str) -> bool:
    """Whether it is set equal to something that no row decides, and has other text."""
    around = _around(column)
    if kind == "integer":
        return isinstance(around, _EQUAL) and around.find(exp.Boolean) is not None
    if isinstance(around, exp.Tuple):
        return isinstance(_around(around), _EQUAL)
    if isinstance(around, exp.In):
        return around.this.unnest() is column
    if not isinstance(around, _EQUAL):
        return False
    return any(side.find(exp.Column) is None for side in (around.this, around.expression))


def _is_text(value: exp.Expr, kind: str, kinds: defaultdict[str, set[str]]) -> bool:
    """Whether what is around a value of the kind may read it as text."""
    around = _around(value)
    if kind == "integer":  # its digits are the same; only JSON tells TRUE and 1 apart
        return _is_json(around)
    if isinstance(around, exp.Cast):
        return around.args["to"].this.name not in TO_NUMBER
    if isinstance(around, _CHOOSING) and any(value is part.unnest() for part in results_of(around)):
        alike = {kind} if kind == "time" else NUMBERS
        if not all(_is_of(part.unnest(), alike, kinds) for part in results_of(around)):
            return True
        return _is_text(around, kind, kinds)
    return not isinstance(around, _READING_VALUES) or isinstance(around, _READING_TEXT)


def _is_json(node: exp.Expr | None) -> bool:
    if isinstance(node, exp.Cast):
        return bool(node.args["to"].this.name == "JSON")
    name = node.name if isinstance(node, exp.Anonymous) else type(node).__name__
    return name.lower().startswith("json")


def _is_of(node: exp.Expr, alike: frozenset[str] | set[str], kinds: defaultdict[str, set[str]]) -> bool:
    if isinstance(node, exp.Column):
        return kinds[node.name.lower()] <= alike
    if isinstance(node, exp.Literal):
        return not node.is_string and "time" not in alike
    return isinstance(node, exp.Null) or ("time" not in alike and isinstance(node, exp.Neg | exp.Boolean))
