"""What of a session decides where values are compared, or one of several is given: whether a string becomes a
date-time, and which collation wins (`planner/session/session_needs.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sqlglot import exp

from planner.session.needs import BY_CODES, COLLATION, CONVERTED, DATE_MODES, ESCAPES, STRINGS, TIME_ZONE
from planner.tree.kinds import MADE, OF_JSON_KINDS, Kind, Kinds, results_of
from planner.tree.meanings import Meanings
from sqltypes.temporal import parse_datetime

_TIME = re.compile(r"-?\d{1,3}:\d\d(?::\d\d(?:\.\d{1,6})?)?", re.ASCII)


class Compared:
    """Notes in `needs` what counts for values that are compared."""

    def __init__(self, meanings: Meanings, kinds: Kinds, needs: set[str]) -> None:
        self._meanings = meanings
        self._kinds = kinds
        self.needs = needs

    def values(self, *nodes: exp.Expr) -> None:
        found = [self._kinds.of(node) for node in nodes]
        kinds = set(found) - {Kind.NULL}
        if (Kind.TEMPORAL in kinds and any(map(_no_date, nodes))) or (Kind.TIME in kinds and any(map(_no_time, nodes))):
            self.needs |= DATE_MODES
        if found.count(Kind.TEMPORAL) > 1 and not self._of_one_type(nodes):
            self.needs |= DATE_MODES  # one becomes what the other is, unless it has a zero in it
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

    def _of_one_type(self, nodes: Sequence[exp.Expr]) -> bool:
        types = [self._meanings.types(node) for node in nodes]
        return all(types) and len(set().union(*types)) == 1

    def nullif(self, node: exp.Expr) -> None:
        self.values(node.this, node.expression)

    def comparison(self, node: exp.Expr) -> None:
        if not self._as_json(node.this, node.expression):
            self._parts(node.this, node.expression)

    def _as_json(self, *nodes: exp.Expr) -> bool:
        """Whether one is JSON, and the other becomes it."""
        kinds = set(map(self._kinds.of, nodes))
        found = Kind.JSON in kinds and kinds <= {*OF_JSON_KINDS, Kind.GIVEN, Kind.OWN, Kind.NULL}
        if found and Kind.GIVEN in kinds:
            self.needs.add(STRINGS)
        return found

    def _parts(self, *nodes: exp.Expr) -> None:
        """Rows are compared by each of their parts."""
        rows = [node.expressions for node in nodes if isinstance(node, exp.Tuple)]
        if len(rows) == len(nodes) and len(set(map(len, rows))) == 1:
            for parts in zip(*rows, strict=True):
                self.values(*parts)
                if len(parts) > 2:
                    self._of_rows(*parts)
        else:
            self.values(*nodes)

    def _of_rows(self, left: exp.Expr, *parts: exp.Expr) -> None:
        """Several rows in a list: a collation is agreed on only where a column stands beside literals."""
        kinds = {self._kinds.of(part) for part in (left, *parts)} - {Kind.NULL}
        plain = isinstance(left, exp.Column) and all(map(self.is_given, parts))
        if not plain and not kinds <= {Kind.NUMBER, Kind.TEMPORAL}:
            self.needs.add(COLLATION)

    def _with_each(self, left: exp.Expr, *others: exp.Expr) -> None:
        """Also where one of several tells a collation or is a number: two literals beside it are compared as such."""
        self.values(left, *others)
        if self._kinds.of(left) not in (Kind.OWN, Kind.NUMBER):
            for other in others:
                self.values(left, other)

    def in_(self, node: exp.Expr) -> None:
        query = node.args.get("query")
        if query is not None:
            self.values(node.this, query)
        elif node.expressions:
            if isinstance(node.this, exp.Tuple):
                self._parts(node.this, *node.expressions)
            else:
                self._with_each(node.this, *node.expressions)
        else:
            self.needs |= {COLLATION, *CONVERTED}

    def between(self, node: exp.Expr) -> None:
        self.values(node.this, node.args["low"], node.args["high"])

    def like(self, node: exp.Expr) -> None:
        if not isinstance(node.expression, exp.Literal | exp.Placeholder):
            self.needs.add(ESCAPES)
        if isinstance(node.expression, exp.Concat) and all(map(self.is_given, node.expression.expressions)):
            given = exp.Literal.string("%")  # what is put together of literals is as one to collations
            return self._as_texts(node.this, given)
        return self._as_texts(node.this, node.expression)

    def is_given(self, node: exp.Expr) -> bool:
        """A literal, or what stands for one."""
        return self._kinds.of(node) in (Kind.GIVEN, Kind.NULL) or isinstance(node, exp.Literal)

    def _as_texts(self, text: exp.Expr, pattern: exp.Expr) -> None:
        if not {self._kinds.of(text), self._kinds.of(pattern)} <= {Kind.OWN, Kind.GIVEN, Kind.NULL}:
            self.needs.add(COLLATION)
        self.values(text, pattern)

    def case(self, node: exp.Expr) -> None:
        if node.this is not None:
            self._with_each(node.this, *(branch.this for branch in node.args["ifs"]))
        self.chosen(node)

    def chosen(self, node: exp.Expr) -> None:
        self.mixed(map(self._kinds.of, results_of(node)))
        self._several(results_of(node))

    def extreme(self, node: exp.Expr) -> None:
        parts = results_of(node)
        self.values(*parts)
        kinds = set(map(self._kinds.of, parts)) - {Kind.NULL}
        if Kind.GIVEN in kinds and Kind.NUMBER in kinds:  # as strings, then
            self.needs.add(COLLATION)
        self.chosen(node)

    def mixed(self, kinds: Iterable[Kind]) -> None:
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
        kinds = {self._kinds.of(node) for node in nodes}
        if Kind.OWN in kinds and Kind.GIVEN in kinds and len(self._kinds.collations(*nodes)) > 1:
            self.needs.add(COLLATION)


def _no_time(node: exp.Expr) -> bool:
    """A literal that is no TIME: beside a TIME it is compared as a string."""
    return isinstance(node, exp.Literal) and node.is_string and _TIME.fullmatch(str(node.this)) is None


def _no_date(node: exp.Expr) -> bool:
    """A literal of which a mode may say whether it is a date: beside one it is read as such."""
    if not isinstance(node, exp.Literal):
        return False
    return not node.is_string or parse_datetime(str(node.this)) is None
