"""What a query makes of a TIMESTAMP, as far as the session's time zone counts. Pure.

TIMESTAMPs are held as instants. A session of any zone can be shown them, and can compare them with what its clocks say,
once it is known how these are set (LOCAL). Where instants are compared with each other, MySQL does so now by them, now
by what the clocks say, which is the same unless the clocks are ever set (STEADY). In an order they are instants. What
anything else makes of one is a value of the zone for which it was computed (TIME_ZONE).
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from planner.session.needs import LOCAL, STEADY, TIME_ZONE
from planner.text.parse import parameter_number
from planner.tree.function_table import COMPARISONS
from planner.tree.meanings import Given, Meanings
from planner.tree.resolve import argument
from sqltypes.expression import ColumnRef
from sqltypes.schema import NULL

TIMESTAMP = "timestamp"
COMPUTED = frozenset({TIME_ZONE})
SHOWN = frozenset({LOCAL})
MATCHED = frozenset({STEADY})
NOTHING = frozenset[str]()
_EXTREMES = (exp.Min, exp.Max)


class Instants:
    """The columns of a query that may be TIMESTAMPs. `said`: the numbers of the parameters that are compared with
    one."""

    def __init__(self, meanings: Meanings, said: frozenset[int]) -> None:
        self._meanings = meanings
        self._parameters = said

    def types(self, node: exp.Expr) -> set[str]:
        """The names of the types of the columns that a name means, or of which that is the first or last."""
        return self._types(self._meanings.of(node))

    def _types(self, given: Given) -> set[str]:
        columns: Iterable[ColumnRef | exp.Expr] | None = self._meanings.plain(given)
        if columns is None:
            columns = self._meanings.reached(given, lambda node: [_value(node)])
        return {one.type.name for one in columns if isinstance(one, ColumnRef)} - {NULL.name}

    def needs(self, node: exp.Expr, *, shown: exp.Query | None) -> frozenset[str]:
        """What such a column needs where it stands. `shown`: the query whose items are only shown."""
        around = node.parent
        while isinstance(around, exp.Paren):
            node, around = around, around.parent
        if isinstance(around, _EXTREMES):
            found = self.needs(around, shown=shown)
            return found if found == COMPUTED else found | MATCHED
        if isinstance(around, exp.Alias):
            return self._item(around, shown)
        if isinstance(around, exp.Select) and node.arg_key == "expressions":
            return self._item(node, shown)
        if isinstance(around, exp.Ordered):
            order = around.parent
            return NOTHING if order is not None and isinstance(order.parent, exp.Select) else COMPUTED
        if isinstance(around, exp.Group) or (isinstance(around, exp.Distinct) and isinstance(around.parent, exp.Count)):
            return MATCHED
        if isinstance(around, exp.Count):
            return NOTHING
        if isinstance(around, exp.Is):
            return NOTHING if isinstance(around.expression, exp.Null) else COMPUTED
        return self._compared(node, around)

    def star(self, node: exp.Expr, *, shown: exp.Query | None) -> frozenset[str]:
        """As `needs`, of `*` or `t.*`."""
        if isinstance(node.parent, exp.Column):
            node = node.parent
        select = node.parent
        if TIMESTAMP not in self.types(node):
            return NOTHING
        if not isinstance(select, exp.Select):
            return COMPUTED
        return NOTHING if isinstance(select.parent, exp.Exists) else self._item(node, shown)

    def _item(self, item: exp.Expr, shown: exp.Query | None) -> frozenset[str]:
        """Of a select item that is one."""
        select = item.parent
        if select is not shown or not isinstance(select, exp.Select):
            return COMPUTED
        group = argument(select, "group")
        by_number = group is not None and any(not isinstance(term, exp.Column) for term in group.expressions)
        matched = by_number or argument(select, "distinct") is not None
        return SHOWN | MATCHED if matched else SHOWN

    def _compared(self, node: exp.Expr, around: exp.Expr | None) -> frozenset[str]:
        if isinstance(around, COMPARISONS):
            others = [around.expression if around.this is node else around.this]
        elif isinstance(around, exp.Between) and around.this is node:
            others = [around.args["low"], around.args["high"]]
        elif isinstance(around, exp.In) and around.this is node and not around.args.get("query"):
            others = list(around.expressions)
        else:
            return COMPUTED
        if others and all(self._is_said(other) for other in others):
            return SHOWN
        if others and all(self._is_instant(one) for one in (node, *others)):
            return MATCHED
        return COMPUTED

    def _is_said(self, node: exp.Expr) -> bool:
        """Whether it is a parameter that is turned into an instant."""
        node = node.unnest()
        return isinstance(node, exp.Placeholder) and parameter_number(node) in self._parameters

    def _is_instant(self, node: exp.Expr) -> bool:
        node = node.unnest()
        given = self._meanings.of(node)
        return self._types(given) == {TIMESTAMP} and self._is_plain(given)

    def _is_plain(self, given: Given) -> bool:
        """Whether these are columns all the way down, or the first or last of some."""
        found = self._meanings.reached(given, lambda node: [_value(node)])
        return all(isinstance(one, ColumnRef) or isinstance(_value(one), exp.Column) for one in found)


def _value(node: exp.Expr) -> exp.Expr:
    """What an item gives a value of: of MIN and MAX what they are of."""
    node = node.unnest()
    return _value(node.this) if isinstance(node, _EXTREMES) else node
