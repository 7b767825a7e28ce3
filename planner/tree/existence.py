"""EXISTS and IN (SELECT ...) as a count of the subquery's rows that is more than 0.

    EXISTS (SELECT 1 FROM votes v WHERE v.article_id = a.id)
    (SELECT COUNT(*) FROM votes v WHERE v.article_id = a.id) > 0

EXISTS is never NULL, so the count may stand wherever it stands. `x IN (SELECT y ...)` is EXISTS with `y = x`, and NULL
where that is false and a NULL was compared. Directly below WHERE both drop the row; elsewhere no side may be NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from planner.tree.logical import AGGREGATE, SCALAR, Block, NotMaintained, Output, has_parameter, hashes_alike
from planner.tree.plan import Aggregate, AggregateFunction, ReadLimit
from planner.tree.reasons import because
from sqltypes.expression import ColumnRef, Expr
from sqltypes.functions import call
from sqltypes.schema import BIGINT

COUNT_STAR = "count(*)"  # the name of COUNT(*), which every group has
COUNT = Aggregate(AggregateFunction.COUNT_STAR, None, BIGINT, COUNT_STAR)
COUNTED = ColumnRef(AGGREGATE, COUNT_STAR, BIGINT, False)


def counted(inner: Block) -> Block:
    """The block that counts the rows of a plain SELECT. Raises NotMaintained for another."""
    unread = [*[output.expr for output in inner.outputs], *[term.expr for term in inner.order]]
    plain = not (inner.grouped or inner.scalars or has_parameter(unread))
    if not plain or not takes_some(inner.limit):
        raise NotMaintained(because("subquery", "EXISTS or IN of another than a plain SELECT"))
    return replace(
        inner,
        grouped=True,
        aggregates=(COUNT,),
        outputs=(Output(COUNT_STAR, COUNTED),),
        distinct=False,
        order=(),
        limit=None,
    )


def takes_some(limit: ReadLimit | None) -> bool:
    """Whether a LIMIT leaves a row wherever there is one."""
    return limit is None or (isinstance(limit.count, int) and limit.count > 0 and limit.offset == 0)


def equal_to(inner: Block, needles: Sequence[Expr], *, null_is_false: bool) -> Block:
    """The rows of the subquery that equal the needles, one for each of its columns. Raises NotMaintained where `=` of
    the two is no lookup, or IN may be NULL and that is not the same as false."""
    if inner.limit is not None or len(needles) != len(inner.outputs):
        raise NotMaintained(because("subquery", "IN (SELECT ...)"))
    equal: list[Expr] = []
    for needle, output in zip(needles, inner.outputs, strict=True):
        own = output.expr
        if not (_is_column(needle) and _is_column(own) and hashes_alike(own.type, needle.type)):
            raise NotMaintained(because("subquery", "IN (SELECT ...) compares other than columns of one type"))
        if (needle.nullable or own.nullable) and not null_is_false:
            raise NotMaintained(because("subquery", "[NOT] IN (SELECT ...) of what may be NULL"))
        equal.append(call("=", (own, needle)))
    return replace(inner, where=(*inner.where, *equal))


def _is_column(expr: Expr) -> bool:
    return isinstance(expr, ColumnRef) and expr.source not in (AGGREGATE, SCALAR)


def row_of(node: exp.Expr) -> list[exp.Expr]:
    """The parts of `(a, b)`, or the one value."""
    inner = node.unnest()
    return list(inner.expressions) if isinstance(inner, exp.Tuple) else [node]


def is_conjunct(node: exp.Expr) -> bool:
    """Whether it is one of the conditions of WHERE that must all hold."""
    around = node.parent
    while isinstance(around, exp.And | exp.Paren):
        around = around.parent
    return isinstance(around, exp.Where)
