"""Columns that one condition sets equal to a constant, and that are read as text.

MySQL may put the constant in the column's place: 1.5 for a DECIMAL that is shown as 1.50, the digits of a number for a
BIT, whose text is its bytes. Whether it does depends on how the constant is written or bound, and on whether a prepared
statement was executed before. So the answer for one spelling of the constant is not that for another, which has the
same key.

Columns are told by their names alone: those of one name are taken for one, and a name may be of several kinds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from planner.tree.expressions import split_and
from planner.tree.kinds import DATE_PARTS, NUMERIC, OPERATORS, TO_NUMBER, TRUTHS, results_of
from planner.tree.reasons import refuse
from planner.tree.resolved import ResolvedQuery
from sqltypes.schema import SqlType

NUMBERS = frozenset({"bit", "decimal", "float", "zerofill", "integer"})
ALL = NUMBERS | {"time"}

EQUAL = (exp.EQ, exp.NullSafeEQ, exp.NEQ, exp.In)  # NOT (a <> 1) is a = 1
COMPARED: tuple[type[exp.Expr], ...] = (*EQUAL, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
_CHOOSING: tuple[type[exp.Expr], ...] = (
    *(exp.Case, exp.If, exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif),
    *(exp.Min, exp.Max, exp.AnyValue),
)
_COMPUTED: tuple[type[exp.Expr], ...] = (exp.Add, exp.Sub, *NUMERIC, *OPERATORS)
_READING_TEXT: tuple[type[exp.Expr], ...] = (exp.Like, exp.RegexpLike, exp.Escape, exp.Length)
_READING_VALUES: tuple[type[exp.Expr], ...] = (
    *(exp.Query, exp.Where, exp.Having, exp.Join, exp.Group, exp.Ordered, exp.Alias, exp.Tuple),
    *(exp.Case, exp.If, exp.Trunc),
    *(*_COMPUTED, *DATE_PARTS, *TRUTHS),
)


def check_pinned(query: ResolvedQuery) -> None:
    """Raises UnsupportedQuery where a column that a condition sets equal to a constant is read as text, in a condition
    or below one."""
    names = Names(query)
    pinned: set[str] = set()
    as_text: dict[str, exp.Expr] = {}
    for part in (*conditions(query.trees), *items(query)):
        for column in part.find_all(exp.Column):
            for kind in names.kinds[column.name.lower()]:
                if _is_pinned(column, kind):
                    pinned.add(names.root(column.name))
                if _is_text(column, kind, names):
                    as_text.setdefault(names.root(column.name), part)
    for name in pinned & as_text.keys():
        raise refuse("pinned_as_text", as_text[name].sql("mysql")[:60])


def _kind(type_: SqlType) -> str:
    """What the type is here; "" where its values have the text of any constant that they equal."""
    if type_.name in ("bit", "decimal", "time"):
        return type_.name
    if type_.zerofill:
        return "zerofill"
    return "float" if type_.is_approximate else "integer" if type_.is_integer else ""


class Names:
    """The columns by their names in lower case. `kinds`: of which kinds those of a name may be; `root`: one name for
    all that may have the same value."""

    def __init__(self, query: ResolvedQuery) -> None:
        self.kinds: defaultdict[str, set[str]] = defaultdict(set)
        self._parent: dict[str, str] = {}
        for table in query.tables:
            for column in table.columns:
                self.kinds[column.name.lower()].add(_kind(column.type))
        given = [*query.renamed, *(pair for tree in query.trees for pair in given_names(tree))]
        for name, value in given:
            if value is None:
                self.kinds[name.lower()] |= ALL
        values = [
            (name.lower(), [column.name.lower() for column in value.find_all(exp.Column)], _is_computed(value))
            for name, value in given
            if value is not None
        ]
        while any([self._give(*each) for each in values]):
            pass
        for name, below, _ in values:
            for other in below:
                self._parent[self.root(name)] = self.root(other)
        for tree in query.trees:
            for equal in tree.find_all(exp.EQ, exp.NEQ):
                left, right = equal.this.unnest(), equal.expression.unnest()
                if isinstance(left, exp.Column) and isinstance(right, exp.Column):
                    self._parent[self.root(left.name)] = self.root(right.name)

    def _give(self, name: str, below: Sequence[str], computed: bool) -> bool:
        """Adds the kinds of a value of these columns to those of the name. Whether there were new ones."""
        known, before = self.kinds[name], len(self.kinds[name])
        for column in below:
            known |= self.kinds[column]
        if computed:
            known.add("decimal")
        return len(known) > before

    def root(self, name: str) -> str:
        found = name.lower()
        while (parent := self._parent.get(found, found)) != found:
            found = parent
        return found


def _is_computed(value: exp.Expr) -> bool:
    """Whether the value may be a number that no column is."""
    value = value.unnest()
    if isinstance(value, exp.Literal):
        return not value.is_string
    if isinstance(value, _CHOOSING):
        return any(map(_is_computed, results_of(value)))
    return isinstance(value, _COMPUTED)


def given_names(tree: exp.Expr) -> Iterator[tuple[str, exp.Expr | None]]:
    """Names that the text gives, each with what it stands for; None: something that is not known."""
    for alias in tree.find_all(exp.Alias):
        yield alias.alias, alias.this
    for union in tree.find_all(exp.SetOperation):
        branches = [union.this.unnest(), union.expression.unnest()]
        names = branches[0].named_selects if isinstance(branches[0], exp.Query) else []
        for branch in branches:
            items = branch.selects if isinstance(branch, exp.Query) else []
            yield from zip(names, items if len(items) == len(names) else [None] * len(names), strict=True)
    for table in tree.find_all(exp.TableAlias):
        below = table.parent.this if table.parent is not None else None
        below = below.unnest() if isinstance(below, exp.Expr) else None
        items = below.selects if isinstance(below, exp.Query) else []
        known = len(items) == len(table.columns) and not any(item.is_star for item in items)
        for at, name in enumerate(table.columns):
            yield name.name, items[at].unalias() if known else None


def conditions(trees: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    for tree in trees:
        for node in tree.find_all(exp.Where, exp.Having):
            yield from split_and(node.this)
        for node in tree.find_all(exp.Join):
            yield from split_and(node.args.get("on"))


def items(query: ResolvedQuery) -> Iterator[exp.Expr]:
    """What is selected below the outermost SELECT: a condition may name it."""
    for tree in query.trees:
        for select in tree.find_all(exp.Select):
            if select is not query.tree:
                yield from select.expressions


def _around(node: exp.Expr) -> exp.Expr | None:
    """What stands around an expression, beyond its parentheses and DISTINCT; around a branch of CASE the whole."""
    around = node.parent
    while isinstance(around, exp.Paren | exp.Distinct):
        around = around.parent
    return around.parent if isinstance(around, exp.If) and isinstance(around.parent, exp.Case) else around


def _is_pinned(column: exp.Expr, kind: str) -> bool:
    """Whether it is set equal to something that no row decides, and that may have other text."""
    around = _around(column)
    if kind == "integer":  # only JSON tells TRUE and 1 apart
        return isinstance(around, EQUAL) and around.find(exp.Boolean) is not None
    if not kind:
        return False
    if isinstance(around, exp.Tuple):
        return isinstance(_around(around), EQUAL)
    if isinstance(around, exp.In):
        return around.this.unnest() is column
    if not isinstance(around, EQUAL):
        return False
    return any(side.find(exp.Column) is None for side in (around.this, around.expression))


def _is_text(value: exp.Expr, kind: str, names: Names) -> bool:
    """Whether what is around a value of the kind may read it as text."""
    around = _around(value)
    if kind and _is_json(around):
        return True
    if kind in ("", "integer"):
        return False
    if isinstance(around, exp.Cast):
        return around.args["to"].this.name not in TO_NUMBER
    if isinstance(around, exp.Interval):  # 1.50 MINUTE_SECOND is 1:50
        return "_" in str(around.args.get("unit"))
    if isinstance(around, _CHOOSING) and any(value is part.unnest() for part in results_of(around)):
        if not all(_is_like(part.unnest(), kind, names) for part in results_of(around)):
            return True
        return _is_text(around, kind, names)
    if kind == "zerofill" and isinstance(around, COMPARED):  # MySQL puts a padded text in its place
        beside = [
            item.unalias()
            for part in _operands(around)
            for item in (part.selects if isinstance(part, exp.Query) else [part])
        ]
        others = [part for part in beside if part is not value and not _is_like(part, kind, names)]
        constant = (exp.Placeholder, exp.Literal) if isinstance(around, EQUAL) else exp.Placeholder
        return not all(isinstance(part, constant) for part in others)
    if kind == "time" and isinstance(around, COMPARED):
        return not all(_is_like(part, kind, names) or _is_constant(part) for part in _operands(around))
    return not isinstance(around, _READING_VALUES) or isinstance(around, _READING_TEXT)


def _is_json(node: exp.Expr | None) -> bool:
    if isinstance(node, exp.Cast):
        return bool(node.args["to"].this.name == "JSON")
    name = node.name if isinstance(node, exp.Anonymous) else type(node).__name__
    return name.lower().startswith("json")


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    return (part.unnest() for part in node.iter_expressions())


def _is_constant(node: exp.Expr) -> bool:
    return node.find(exp.Column) is None


def _is_like(node: exp.Expr, kind: str, names: Names) -> bool:
    """Whether it is a time beside a time, or a number beside any other kind."""
    if isinstance(node, exp.Null):
        return True
    if isinstance(node, exp.Column):
        return names.kinds[node.name.lower()] <= ({"time"} if kind == "time" else NUMBERS)
    if kind == "time":
        return False
    if isinstance(node, exp.Literal):
        return not node.is_string
    return isinstance(node, (exp.Boolean, exp.BitString, *_COMPUTED))
