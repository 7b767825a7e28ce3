"""From the parser's scalar expressions to typed ones.

sqlglot's nodes are mapped by class; types are MySQL's, as `sqltypes.build` knows them. A parameter takes the type of
what it is compared with. What is not reproduced exactly raises UnsupportedQuery or NotMaintained; callers answer with
the evict mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from sqlglot import exp

from planner.text.parse import parameter_number
from planner.tree.existence import COUNT, counted, equal_to, is_conjunct, row_of
from planner.tree.logical import AGGREGATE, SCALAR, Block, NotMaintained
from planner.tree.names import Scope
from planner.tree.plan import Aggregate, AggregateFunction
from planner.tree.reasons import because, misread_node, refuse
from planner.tree.untyped import AsSent, Sent
from sqltypes import build
from sqltypes.conditions import whens
from sqltypes.expression import ColumnRef, Expr, Literal, ParamRef
from sqltypes.functions import aggregate_type, call, sum_is_cut
from sqltypes.schema import BIGINT_UNSIGNED, LITERAL, NULL, SqlType


@dataclass
class Parameters:
    """What is known of the query's parameters: `types`, for messages the columns they are compared with, and which are
    `operands` of arithmetic. `sent`: of those whose type no column tells."""

    lists: tuple[bool, ...]
    types: dict[int, SqlType] = field(default_factory=dict)
    columns: dict[int, str] = field(default_factory=dict)
    operands: set[int] = field(default_factory=set)
    sent: dict[int, Sent] = field(default_factory=dict)

    def type(self, index: int) -> SqlType:
        """NULL where it is not known."""
        return self.types.get(index, NULL)

    def as_sent(self, index: int, sent: Sent) -> None:
        """No column tells the parameter's type."""
        self.types[index], self.sent[index] = LITERAL, sent

    def compared(self, index: int, with_: Expr) -> ParamRef:
        """The parameter, compared with this expression. Its first comparison decides its type."""
        if isinstance(with_, ColumnRef):
            self.columns.setdefault(index, with_.name)
        return ParamRef(index, self.types.setdefault(index, with_.type))

    def limit(self, index: int) -> ParamRef:
        return ParamRef(index, self.types.setdefault(index, BIGINT_UNSIGNED))


@dataclass
class Collected:
    """What a SELECT's expressions need computed before them: aggregates and scalar subqueries, each once."""

    aggregates: dict[str, Aggregate] = field(default_factory=dict)
    scalars: dict[str, Block] = field(default_factory=dict)


def _kind_of(type_: SqlType) -> str | None:
    """What MySQL compares a value of this type as, roughly; None: as the others."""
    if type_.is_numeric:
        return "number"
    if type_.is_string or type_.is_binary:
        return "string"
    return type_.name if type_.is_known else None


SubqueryResolver = Callable[[exp.Query, Scope], Block]

_BINARY: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "and",
    exp.Or: "or",
    exp.Xor: "xor",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.Like: "like",
}
PATTERN = SqlType("varchar", collation="utf8mb4_0900_bin")  # every spelling is another pattern
_COMPARISONS = frozenset({"=", "<=>", "<>", "<", "<=", ">", ">=", "like"})
_OF_ROWS = _COMPARISONS - {"like"}
_AGGREGATES: dict[type[exp.Expr], AggregateFunction] = {
    exp.Count: AggregateFunction.COUNT,
    exp.Sum: AggregateFunction.SUM,
    exp.Avg: AggregateFunction.AVG,
    exp.Min: AggregateFunction.MIN,
    exp.Max: AggregateFunction.MAX,
}


def _refuse_zero(left: Expr, right: Expr) -> None:
    """In an index that has -0.0, too, MySQL does not find all of 0 if it reads it from behind. Raises NotMaintained."""
    for column, other in ((left, right), (right, left)):
        real = isinstance(column, ColumnRef) and column.type.is_approximate
        if real and isinstance(other, Literal) and other.value == 0:
            raise NotMaintained(because("expression", f"{column.type.name.upper()} is compared with 0"))


class Expressions:
    """Converts the expressions of one SELECT.

    `collected` None: aggregates and subqueries are not allowed here (WHERE takes subqueries but no aggregates:
    `aggregates` False).
    """

    def __init__(
        self,
        scope: Scope,
        parameters: Parameters,
        collected: Collected | None = None,
        subquery: SubqueryResolver | None = None,
        *,
        aggregates: bool = True,
        alias: Callable[[exp.Column], Expr | None] | None = None,
    ) -> None:
        self._scope = scope
        self._parameters = parameters
        self._collected = collected
        self._subquery = subquery
        self._aggregates = aggregates
        self._alias = alias

    def convert(self, node: exp.Expr) -> Expr:
        """The typed expression. Raises UnknownName, UnsupportedQuery, NotMaintained."""
        doubt = misread_node(node)
        if doubt:
            raise NotMaintained(because("text", doubt))
        op = _BINARY.get(type(node))
        if op is not None:
            return self._binary(op, node)
        if type(node) in _AGGREGATES:
            return self._aggregate(node)
        handler = _HANDLERS.get(type(node))
        if handler is None:
            return self._function(node)
        return handler(self, node)

    def conjuncts(self, node: exp.Expr | None) -> tuple[Expr, ...]:
        """The condition as the conditions that must all hold."""
        return tuple([self.convert(part) for part in split_and(node)])

    # -- leaves

    def _column(self, node: exp.Expr) -> Expr:
        assert isinstance(node, exp.Column)
        if self._alias is not None:
            found = self._alias(node)
            if found is not None:
                return found
        return self._scope.column(node)

    def _literal(self, node: exp.Expr) -> Expr:
        text = str(node.this)
        if node.is_string:
            return build.literal(text)
        if "e" in text.lower():
            return build.literal(float(text))
        return build.literal(Decimal(text) if "." in text else int(text))

    def _as_sent(self, node: exp.Expr) -> Expr:
        raise refuse("parameter_type", f"parameter {parameter_number(node) + 1}")

    def _placeholder(self, node: exp.Expr) -> Expr:
        assert isinstance(node, exp.Placeholder)
        index = parameter_number(node)
        known = self._parameters.types.get(index)
        if known is None:
            raise refuse("parameter_type", f"parameter {index + 1}")
        return ParamRef(index, known)

    # -- operators

    def _binary(self, op: str, node: exp.Expr) -> Expr:
        left, right = node.this, node.expression
        if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
            return self._rows(op, left.expressions, right.expressions)
        if op == "like":
            self._require_string_pattern(left, right)
        elif op in ("+", "-", "*"):
            self._require_number(left, right)
        if op in _COMPARISONS or op in ("+", "-", "*"):
            a, b = self._pair(left, right)
        else:
            a, b = self.convert(left), self.convert(right)
        if op in ("=", "<=>"):
            _refuse_zero(a, b)
        found = call(op, (a, b))
        return call("not", (found,)) if node.args.get("negate") else found

    def _rows(self, op: str, left: Sequence[exp.Expr], right: Sequence[exp.Expr]) -> Expr:
        """(a, b) < (x, y) is a < x OR a = x AND b < y: MySQL compares rows part by part, each as it stands. So a
        literal beside a TIME does not become one: '9:59:59' is behind '10:00:00', as text."""
        if len(left) != len(right) or op not in _OF_ROWS:
            raise NotMaintained(because("expression", "a comparison of rows"))
        for part in (*left, *right):
            if isinstance(part.unnest(), exp.Column) and not _compares_alike_in_rows(self.convert(part).type):
                raise NotMaintained(because("expression", "a comparison of rows"))
        pairs = [self._pair(one, other) for one, other in zip(left, right, strict=True)]
        for pair in pairs:
            _refuse_zero(*pair)
        if op in ("=", "<=>"):
            return call("and", [call(op, pair) for pair in pairs])
        if op == "<>":
            return call("or", [call(op, pair) for pair in pairs])
        found = call(op, pairs[-1])
        for pair in reversed(pairs[:-1]):
            found = call("or", (call(op[0], pair), call("and", (call("=", pair), found))))
        return found

    def _require_string_pattern(self, left: exp.Expr, right: exp.Expr) -> None:
        """A pattern is text, whatever it is held against: beside a number `1.0` is not `1`."""
        for pattern, other in ((right, left), (left, right)):
            if isinstance(pattern, exp.Placeholder) and not isinstance(other, exp.Placeholder):
                type_ = self.convert(other).type
                if not (type_.is_string or type_.is_binary):
                    self._parameters.compared(parameter_number(pattern), Literal(None, PATTERN))
                    raise NotMaintained(because("expression", f"LIKE beside {type_.name.upper()}"))

    def _require_number(self, left: exp.Expr, right: exp.Expr) -> None:
        """A parameter takes the type of what it is added to; beside a string or bytes it would be a number of any
        kind."""
        for one, other in ((right, left), (left, right)):
            if isinstance(one, exp.Placeholder):
                if not self.convert(other).type.is_numeric:
                    raise refuse("parameter_type", f"parameter {parameter_number(one) + 1}")
                self._parameters.operands.add(parameter_number(one))

    def _pair(self, left: exp.Expr, right: exp.Expr) -> tuple[Expr, Expr]:
        """Both operands; a parameter takes the other's type."""
        if isinstance(left, exp.Placeholder) and not isinstance(right, exp.Placeholder):
            b = self.convert(right)
            return self._parameters.compared(parameter_number(left), b), b
        a = self.convert(left)
        return a, self._compared(right, a)

    def _compared(self, node: exp.Expr, with_: Expr) -> Expr:
        if isinstance(node, exp.Placeholder):
            return self._parameters.compared(parameter_number(node), with_)
        return self.convert(node)

    def _in(self, node: exp.Expr) -> Expr:
        if node.args.get("query"):
            return self._in_query(node)
        if node.args.get("unnest"):
            raise NotMaintained(because("subquery", "IN (SELECT ...)"))
        needle = self.convert(node.this)
        return call("in", (needle, *(self._compared(item, needle) for item in node.expressions)))

    def _between(self, node: exp.Expr) -> Expr:
        value = self.convert(node.this)
        low, high = (self._compared(node.args[name], value) for name in ("low", "high"))
        return call("between", (value, low, high))

    def _is(self, node: exp.Expr) -> Expr:
        value = self.convert(node.this)
        if isinstance(node.expression, exp.Null):
            zero_date = isinstance(value, ColumnRef) and self._scope.null_finds_zero_date(value)
            if zero_date and not _is_not_null(node):
                raise NotMaintained(because("expression", "IS NULL finds the zero dates of a NOT NULL column"))
            return call("is_null", (value,))
        if isinstance(node.expression, exp.Boolean):
            return call("is_true" if node.expression.this else "is_false", (value,))
        raise NotMaintained(because("expression", node.sql("mysql")))

    def _case(self, node: exp.Expr) -> Expr:
        branches = node.args["ifs"]
        if node.this is None:
            conditions = [self.convert(branch.this) for branch in branches]
        else:
            subject = self.convert(node.this)
            self._check_compared_alike([branch.this for branch in branches], subject)
            conditions = [*whens(subject, [self._compared(branch.this, subject) for branch in branches])]
        args: list[Expr] = []
        for condition, branch in zip(conditions, branches, strict=True):
            args += [condition, self.convert(branch.args["true"])]
        default = node.args.get("default")
        args.append(build.literal(None) if default is None else self.convert(default))
        return call("case", tuple(args))

    def _check_compared_alike(self, values: Sequence[exp.Expr], subject: Expr) -> None:
        """Raises UnsupportedQuery where CASE compares a parameter and values of several kinds: MySQL gives it theirs,
        and compares 'a' with a string as numbers where a number is among them."""
        others = [self.convert(value) for value in values if not isinstance(value, exp.Placeholder)]
        if len(others) < len(values) and len({_kind_of(value.type) for value in (subject, *others)} - {None}) > 1:
            raise refuse("parameter_type", "a parameter of a CASE that compares values of several kinds")

    def _if(self, node: exp.Expr) -> Expr:
        otherwise = node.args.get("false")
        last = build.literal(None) if otherwise is None else self.convert(otherwise)
        return call("case", (self.convert(node.this), self.convert(node.args["true"]), last))

    def _cast(self, node: exp.Expr) -> Expr:
        return build.cast(self.convert(node.this), cast_type(node.args["to"]))

    def _function(self, node: exp.Expr) -> Expr:
        found = function_call(node)
        if found is None:
            raise NotMaintained(because("expression", node.sql("mysql")))
        name, args = found
        return call(name, tuple(self.convert(arg) for arg in args))

    # -- what is computed before

    def _aggregate(self, node: exp.Expr) -> Expr:
        if self._collected is None or not self._aggregates:
            raise NotMaintained(because("aggregate_function", node.sql("mysql")))
        function = _AGGREGATES[type(node)]
        argument = node.this
        if isinstance(argument, exp.Distinct) or node.expressions:
            raise NotMaintained(because("distinct_aggregate", node.sql("mysql")))
        if isinstance(argument, exp.Star):
            aggregate = COUNT
        else:
            inner = Expressions(self._scope, self._parameters, self._collected, self._subquery, aggregates=False)
            value = inner.convert(argument)
            if function in (AggregateFunction.SUM, AggregateFunction.AVG):
                _check_sum(value, node)
            type_, _ = aggregate_type(function.value, value.type)
            known_values = [known for known in self._collected.aggregates.values() if known.argument is not None]
            aggregate = Aggregate(function, value, type_, f"a{len(known_values)}")
        for known in self._collected.aggregates.values():
            if (known.function, known.argument) == (aggregate.function, aggregate.argument):
                return aggregate_ref(known)
        self._collected.aggregates[aggregate.name] = aggregate
        return aggregate_ref(aggregate)

    def _scalar(self, node: exp.Expr) -> Expr:
        block = self._resolved(node.this)
        if len(block.outputs) != 1:
            raise NotMaintained(because("subquery", "a scalar subquery has one column"))
        return self._value_of(block, nullable=True)

    def _resolved(self, node: exp.Expr) -> Block:
        """The block of a subquery."""
        if self._collected is None or self._subquery is None or not isinstance(node, exp.Query):
            raise NotMaintained(because("subquery", node.sql("mysql")[:60]))
        return self._subquery(node, self._scope)

    def _value_of(self, block: Block, *, nullable: bool) -> Expr:
        """The one value of a subquery, which a rewrite puts in place."""
        assert self._collected is not None
        name = f"s{len(self._collected.scalars)}"
        self._collected.scalars[name] = block
        return ColumnRef(SCALAR, name, block.outputs[0].expr.type, nullable)

    def _exists(self, node: exp.Expr) -> Expr:
        return self._is_some(self._resolved(node.this))

    def _in_query(self, node: exp.Expr) -> Expr:
        inner = self._resolved(node.args["query"])
        needles = [self.convert(part) for part in row_of(node.this)]
        return self._is_some(equal_to(inner, needles, null_is_false=is_conjunct(node)))

    def _is_some(self, inner: Block) -> Expr:
        """Whether the subquery has a row: never NULL."""
        return call(">", (self._value_of(counted(inner), nullable=False), build.literal(0)))

    def _no_subquery(self, node: exp.Expr) -> Expr:
        raise NotMaintained(because("subquery", type(node).__name__.upper()))


def _compares_alike_in_rows(type_: SqlType) -> bool:
    """Whether MySQL compares a column of the type with a literal in a row as it does alone."""
    plain = type_.is_numeric or type_.is_string or type_.name in ("date", "datetime", "timestamp")
    return plain and not type_.members and type_.name not in ("year", "bit")


def _is_not_null(node: exp.Expr) -> bool:
    """Whether it is `x IS NOT NULL`, and is no part of what MySQL may turn into its opposite."""
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    if not isinstance(around, exp.Not):
        return False
    around = around.parent
    while isinstance(around, (exp.Paren, exp.And, exp.Or)):
        around = around.parent
    return isinstance(around, (exp.Where, exp.Join, exp.Having, exp.Select, exp.Alias))


def _check_sum(value: Expr, node: exp.Expr) -> None:
    """Raises NotMaintained where a sum of such values is not the exact one."""
    if value.type.is_approximate:
        raise NotMaintained(because("approximate_sum", node.sql("mysql")))
    if value.type.is_numeric and sum_is_cut(value.type):
        raise NotMaintained(because("long_sum", node.sql("mysql")))


Handler = Callable[[Expressions, exp.Expr], Expr]

_HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.Column: Expressions._column,
    exp.Literal: Expressions._literal,
    exp.Placeholder: Expressions._placeholder,
    AsSent: Expressions._as_sent,
    exp.Boolean: lambda self, node: build.literal(1 if node.this else 0),
    exp.Null: lambda self, node: build.literal(None),
    exp.Paren: lambda self, node: self.convert(node.this),
    exp.Not: lambda self, node: call("not", (self.convert(node.this),)),
    exp.Neg: lambda self, node: call("neg", (self.convert(node.this),)),
    exp.In: Expressions._in,
    exp.Between: Expressions._between,
    exp.Is: Expressions._is,
    exp.Case: Expressions._case,
    exp.If: Expressions._if,
    exp.Cast: Expressions._cast,
    exp.Subquery: Expressions._scalar,
    exp.Exists: Expressions._exists,
    exp.Any: Expressions._no_subquery,
    exp.All: Expressions._no_subquery,
}


# ---------------------------------------------------------------------------------------------------------------------

_FUNCTION_NAMES: dict[type[exp.Expr], str] = {
    exp.Coalesce: "coalesce",
    exp.Nullif: "nullif",
    exp.Abs: "abs",
    exp.Sign: "sign",
    exp.Floor: "floor",
    exp.Ceil: "ceil",
    exp.Greatest: "greatest",
    exp.Least: "least",
    exp.Lower: "lower",
    exp.Upper: "upper",
    exp.Concat: "concat",
}


def function_call(node: exp.Expr) -> tuple[str, list[exp.Expr]] | None:
    """MySQL's name and the arguments in order, or None where the node is not known to mean just that."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower(), list(node.expressions)
    if isinstance(node, exp.Length):
        return ("length" if node.args.get("binary") else "char_length"), [node.this]
    name = _FUNCTION_NAMES.get(type(node))
    if name is None or node.args.get("decimals") or node.args.get("to"):
        return None
    if name == "concat":
        return name, list(node.expressions)
    if name == "nullif":
        return name, [node.this, node.expression]
    return name, [part for part in (node.this, *node.expressions) if part is not None]


_CAST_TYPES = {
    exp.DType.BIGINT: SqlType("bigint"),
    exp.DType.UBIGINT: SqlType("bigint", unsigned=True),
    exp.DType.DOUBLE: SqlType("double"),
    exp.DType.DATE: SqlType("date"),
}


def cast_type(node: exp.Expr) -> SqlType:
    """The type of a CAST, from sqlglot's. Raises NotMaintained for those that are not known."""
    assert isinstance(node, exp.DataType)
    kind = node.this
    numbers = [int(str(part.this.this)) for part in node.expressions]
    if kind in _CAST_TYPES and not numbers:
        return _CAST_TYPES[kind]
    if kind == exp.DType.DECIMAL:
        return SqlType("decimal", precision=(numbers or [10])[0], scale=(*numbers, 0, 0)[1])
    if kind == exp.DType.DATETIME:
        return SqlType("datetime", scale=(numbers or [0])[0])
    if kind == exp.DType.CHAR and not node.args.get("kind"):
        return SqlType("varchar", length=numbers[0] if numbers else None, collation=build.CONNECTION_COLLATION)
    raise NotMaintained(because("expression", "CAST"))


def split_and(node: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a conjunction, brackets removed."""
    if node is None:
        return []
    if isinstance(node, exp.Paren):
        return split_and(node.this)
    if isinstance(node, exp.And):
        return [*split_and(node.this), *split_and(node.expression)]
    return [node]


def aggregate_ref(aggregate: Aggregate) -> ColumnRef:
    """An aggregate's result, above the grouping."""
    counts = aggregate.function in (AggregateFunction.COUNT, AggregateFunction.COUNT_STAR)
    return ColumnRef(AGGREGATE, aggregate.name, aggregate.type, not counts)
