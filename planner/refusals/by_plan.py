"""What of a SELECT depends on MySQL's plan, or on how a constant is written or bound, and so is MySQL's to answer.

`planner/refusals/pinned.py` has what two conditions together make so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import combinations

from sqlglot import exp

from planner.refusals.looked_up import Sides, check_conditions, check_result
from planner.tree.by_index import Asked, differs
from planner.tree.kinds import results_of
from planner.tree.meanings import Meanings
from planner.tree.names import Scope
from planner.tree.provenance import Name, name_of
from planner.tree.reasons import refuse
from sqltypes.arithmetic import DIVISION_SCALE, MAX_DIGITS
from sqltypes.errors import UnknownName
from sqltypes.expression import ColumnRef
from sqltypes.functions import decimal_digits
from sqltypes.schema import NULL, SqlType, Table

ROWS_DIGITS = 14  # of the number of rows of a sum: to add up so many takes MySQL months


def check_merged(meanings: Meanings, sides: Sides) -> None:
    """As `ByPlan.conditions`, of columns that USING or a NATURAL JOIN sets equal."""
    for _, columns in meanings.merged:
        for pair in combinations(map(sides.column, columns), 2):
            if differs(*pair, Asked.EQUAL):
                raise refuse("by_index", columns[0].name)


class ByPlan:
    """Checks one SELECT, whose tables the scope has."""

    def __init__(self, tree: exp.Select, scope: Scope, sides: Sides) -> None:
        self._tree = tree
        self._scope = scope
        self._sides = sides

    def conditions(self) -> None:
        """Raises UnsupportedQuery for a condition that MySQL may answer otherwise by an index than without one."""
        check_conditions(self._tree, self._sides.of, self._sides.note)

    def output(self, value: exp.Expr) -> None:
        """Raises UnsupportedQuery for a BIT that is one of several values: MySQL announces a DECIMAL, of its bytes. And
        for one among which IN, ANY or ALL look another up: where MySQL has made a table of them NULL may be no NULL."""
        for node in value.find_all(exp.Case, exp.If, exp.Coalesce, exp.Greatest, exp.Least, exp.AnyValue):
            if any(self._is_bit(result.unnest()) for result in results_of(node)):
                raise refuse("bit_result", node.sql("mysql")[:60])
        if self._may_show_zeros(value):
            raise refuse("zerofill_result", value.sql("mysql")[:60])
        items = [item.unalias() for item in self._tree.expressions]
        if self._scope.parent is not None:
            at = next(at for at, item in enumerate(items) if item is value)
            check_result(self._tree, at, self._sides.of(value), self._sides.of)
        sought = _sought(self._tree)
        if sought is None:
            return
        if any(map(self._is_bit, value.find_all(exp.Column))):
            raise refuse("bit_looked_up", self._tree.sql("mysql")[:60])
        parts = [part for part, item in zip(_parts(sought), items, strict=False) if item is value]
        type_ = self._type_of(value)
        if any(_equal_by_plan(self._type_of(part, self._scope.parent), type_) for part in parts):
            raise refuse("equal_by_plan", self._tree.sql("mysql")[:60])

    def equal_columns(self) -> None:
        """Raises UnsupportedQuery for a BIT or YEAR that a column of text is to equal: by an index MySQL finds other
        rows than without."""
        for node in self._tree.find_all(exp.EQ, exp.NullSafeEQ):
            if node.find_ancestor(exp.Select) is not self._tree:
                continue
            sides = [side.unnest() for side in (node.this, node.expression)]
            self.equal_types([self._type_of(side) for side in sides], node.sql("mysql")[:60])

    def merged(self, columns: Sequence[ColumnRef], name: str) -> None:
        """Likewise, of columns that USING or a NATURAL JOIN sets equal."""
        self.equal_types([column.type for column in columns], name)

    def equal_types(self, types: Collection[SqlType], text: str) -> None:
        """Likewise, of the types of the columns that are to be equal; and for what `shown_alone` lets be shown only."""
        if any(type_.has_fixed_digits for type_ in types):
            raise refuse("fixed_digits", text)
        if any(type_.has_two_empty for type_ in types):
            raise refuse("equal_by_plan", text)
        if any(type_.name in ("bit", "year") for type_ in types) and any(_family(type_) == "text" for type_ in types):
            raise refuse("equal_by_plan", text)

    def shown_alone(self) -> None:
        """Raises UnsupportedQuery for a FLOAT(m,d) that is more than shown: what MySQL computes from it, and what it is
        equal to, depends on the plan and on how a constant is bound. And for an ENUM that has the member '' and is more
        than shown or ordered by: by an index MySQL finds that member by '', without one also the rows whose value the
        ENUM does not have, and of both it makes one group or two."""
        united = self._tree.find_ancestor(exp.SetOperation) is not None
        free = self._scope.parent is None and not united
        grouped = self._tree.args.get("distinct") is not None or self._tree.args.get("group") is not None
        given = {node.alias.lower(): node.this for node in self._tree.expressions if isinstance(node, exp.Alias)}
        for column in self._tree.find_all(exp.Column):
            if column.find_ancestor(exp.Select) is not self._tree:
                continue
            below = column.parent.parent if isinstance(column.parent, exp.Alias) else column.parent
            meant = given.get(column.name.lower()) if not column.table else None
            types = [self._type_of(column)] + ([self._type_of(meant)] if meant is not None else [])
            shown = free and below is self._tree
            if not shown and any(type_.has_fixed_digits for type_ in types):
                raise refuse("fixed_digits", column.sql("mysql")[:60])
            plain = (shown and not grouped) or isinstance(below, exp.Ordered)
            if not plain and any(type_.has_two_empty for type_ in types):
                raise refuse("equal_by_plan", column.sql("mysql")[:60])
        if grouped and any(type_.has_two_empty for type_ in self._stars()):
            raise refuse("equal_by_plan", self._tree.sql("mysql")[:60])

    def _stars(self) -> list[SqlType]:
        """The types of what stars show."""
        stars = [node for node in self._tree.expressions if node.is_star and isinstance(node, exp.Star | exp.Column)]
        return [column.type for node in stars for column in self._scope.star(node)]

    def long_sums(self) -> None:
        """Raises UnsupportedQuery for a SUM or AVG of numbers so long that the sum may have more than 65 digits: MySQL
        cuts it where the plan puts it into a table of its own. It is the sum's value that is cut, whatever its type, so
        what counts are the digits of the numbers and of how many they can be."""
        for node in self._tree.find_all(exp.Sum, exp.Avg):
            if node.find_ancestor(exp.Select) is self._tree and sum(self._digits(node.this)) + ROWS_DIGITS > MAX_DIGITS:
                raise refuse("sum_by_plan", node.sql("mysql")[:60])

    def _digits(self, node: exp.Expr) -> tuple[int, int]:
        """At most so many digits before and behind the point an exact number has; none where it is no such."""
        node = node.unnest()
        if isinstance(node, exp.Column):
            type_ = self._type_of(node)
            precision, scale = decimal_digits(type_) if type_.is_numeric and not type_.is_approximate else (0, 0)
            return precision - scale, scale
        if isinstance(node, exp.Literal):
            written, _, behind = node.name.partition(".")
            return (0, 0) if node.is_string else (len(written), len(behind))
        if isinstance(node, exp.Subquery):
            return 0, 0
        if isinstance(node, exp.Cast):
            sizes = [int(size.name) for size in node.to.find_all(exp.Literal)] + [0, 0]
            return (sizes[0] - sizes[1], sizes[1]) if node.is_type("decimal") else (20, 0)
        nodes = [node.left, node.right] if isinstance(node, exp.Binary) else results_of(node)
        wholes, scales = zip(*(self._digits(part) for part in nodes), strict=True) if nodes else ((0,), (0,))
        if isinstance(node, exp.Mul):
            return sum(wholes), sum(scales)
        if isinstance(node, exp.Div):
            return wholes[0] + scales[1], scales[0] + DIVISION_SCALE
        return max(wholes) + isinstance(node, exp.Add | exp.Sub), max(scales)

    def concat_of_one_row(
        self, conditions: Sequence[exp.Expr], facts: Collection[Name], inner: Mapping[str, Table | None]
    ) -> None:
        """Raises UnsupportedQuery for a GROUP_CONCAT where constants tell the one row of an outer join's inner side. If
        there is none, MySQL says '' where the constants are written, and NULL where they are bound.

        `facts`: columns of SELECTs around that parameters tell. `inner`: by alias what may be the inner side; None: a
        derived table.
        """
        read = {
            name[0]
            for concat in self._tree.find_all(exp.GroupConcat)
            if concat.find_ancestor(exp.Select) is self._tree
            for column in concat.find_all(exp.Column)
            for name in self._named(column)
        }
        known, before = set(facts), -1
        while read and len(known) > before:
            before = len(known)
            for condition in conditions:
                if isinstance(condition, exp.EQ | exp.NullSafeEQ):
                    known |= self._told(condition.this.unnest(), condition.expression.unnest(), known)
        for alias in inner.keys() & read:
            names, table = {name for source, name in known if source == alias}, inner[alias]
            keys = (table.primary_key, *table.unique_keys) if table is not None else ()
            if any(key and names.issuperset(map(str.lower, key)) for key in keys) or (names and table is None):
                raise refuse("concat_of_one_row", alias)

    def _named(self, node: exp.Expr) -> set[Name]:
        with suppress(UnknownName):
            if isinstance(node, exp.Column):
                return {name_of(self._scope.column(node))}
        return set()

    def _told(self, left: exp.Expr, right: exp.Expr, known: set[Name]) -> set[Name]:
        """Columns of an equality that constants tell, these `known`."""
        if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
            pairs = zip(left.expressions, right.expressions, strict=False)
            return {name for one, other in pairs for name in self._told(one.unnest(), other.unnest(), known)}
        names = self._named(left) | self._named(right)
        constant = any(side.find(exp.Column) is None for side in (left, right))
        return names if constant or names & known else set()

    def _may_show_zeros(self, value: exp.Expr) -> bool:
        """Whether it is a ZEROFILL column that a choice, an aggregate or a window gives, or a YEAR beside a DECIMAL."""
        node = value.unnest()
        parts = [part.unnest() for part in results_of(node)] if isinstance(node, _GIVING) else []
        if isinstance(node, exp.Case | exp.If) and self._is_year_or_decimal(parts):
            return True
        return any(self._type_of(part).zerofill or self._may_show_zeros(part) for part in parts)

    def _is_year_or_decimal(self, parts: Sequence[exp.Expr]) -> bool:
        """Whether a choice has a YEAR, whose 0 MySQL shows as 0000, and what may be a DECIMAL."""
        return any(self._type_of(part).name == "year" for part in parts) and any(map(self._may_be_decimal, parts))

    def _may_be_decimal(self, part: exp.Expr) -> bool:
        if isinstance(part, exp.Column):
            return self._type_of(part).name == "decimal"
        return not isinstance(part, exp.Null | exp.Boolean) and not (
            isinstance(part, exp.Literal) and (part.is_string or part.is_int)
        )

    def _is_bit(self, node: exp.Expr) -> bool:
        return self._type_of(node).name == "bit"

    def _type_of(self, node: exp.Expr, scope: Scope | None = None) -> SqlType:
        """A column's type, in the SELECT's own scope or another; NULL's of what is none."""
        with suppress(UnknownName):
            if isinstance(node, exp.Column):
                return (scope or self._scope).column(node).type
        return NULL


# What gives a value of a column as it is.
_GIVING = (
    *(exp.Case, exp.If, exp.Nullif, exp.Min, exp.Max, exp.AnyValue, exp.Window),
    *(exp.FirstValue, exp.LastValue, exp.NthValue, exp.Lag, exp.Lead),
)


def _sought(tree: exp.Expr) -> exp.Expr | None:
    """What an IN, ANY or ALL looks up among the query's rows."""
    node = tree.parent
    while isinstance(node, exp.Subquery | exp.SetOperation):
        node = node.parent
    if isinstance(node, exp.In):
        found: exp.Expr = node.this
        return found
    if isinstance(node, exp.Any | exp.All) and isinstance(node.parent, exp.Binary):
        binary = node.parent
        other: exp.Expr = binary.expression if binary.this is node else binary.this
        return other
    return None


def _parts(value: exp.Expr) -> list[exp.Expr]:
    value = value.unnest()
    return [part.unnest() for part in value.expressions] if isinstance(value, exp.Tuple) else [value]


def _family(type_: SqlType) -> str:
    """ "" where it is not known."""
    if type_ == NULL:
        return ""
    if type_.is_numeric:
        return "number"
    return "moment" if type_.name in ("date", "datetime", "timestamp", "time") else "text"


def _equal_by_plan(sought: SqlType, found: SqlType) -> bool:
    """Whether MySQL compares the two in one way where it makes a table of the rows found, or uses their index, and in
    another where it does not: an ENUM by its number or as a text, for one."""
    names = {sought.name, found.name}
    if names & {"enum", "set"} and (sought.is_binary or found.is_binary):
        return True
    return bool(names & {"enum", "set", "bit", "year", "time"}) and _family(sought) != _family(found)
