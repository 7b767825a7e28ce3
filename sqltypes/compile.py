"""Expressions as Python functions: source text is generated and executed once per plan.

`Codegen` is the collector of one generated module: constants and functions are bound to names in its namespace. The
generated code never evaluates an operand twice, tests for NULL only where an operand may be NULL, and skips work that
the collation or type does not need.

The convenient entry points are `compile_row`, `compile_predicate`, `compile_key` and `compile_sort_key`: functions
f(row, params=()) over one flat tuple whose positions are given by `layout`: {(source, column name in lower case):
position}. For rows of a base table the source is "".

Compiled functions may raise EvaluationError, though only where the interpreter does too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqltypes.errors import EvaluationError
from sqltypes.expression import Call, ColumnRef, Expr, Key, Literal, ParamRef, Row
from sqltypes.generated import code_of
from sqltypes.implementations import comparison_key, implementation
from sqltypes.ordering import order_key

Ref = Callable[[ColumnRef | ParamRef], str]
Layout = Mapping[tuple[str, str], int]
OPERATORS = {"=": "==", "<>": "!=", "<=>": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
NEGATED = {"=": "!=", "<>": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
PLAIN = (int, float, str)


class Codegen:
    """Generates source for one namespace.

    `expression`, `truth`, `falsity` and `key` return source text of one Python expression for use in the body of a
    function made by `function`; temporaries are assigned by walrus, so the text must not stand in a default argument or
    class body.
    """

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._bound: dict[int, str] = {}
        self._temporaries = 0

    def bind(self, value: Any) -> str:
        """The name of a constant or function in the generated code; the same object has the same name."""
        name = self._bound.get(id(value))
        if name is None:
            name = f"c{len(self.names)}"
            self._bound[id(value)] = name
            self.names[name] = value  # keeps the object alive, so its id is not given again
        return name

    def temporary(self) -> str:
        """A fresh local name."""
        self._temporaries += 1
        return f"t{self._temporaries}"

    def function(self, name: str, args: str, body_lines: list[str]) -> Callable[..., Any]:
        """The function `def name(args): body`."""
        body = "".join(f"    {line}\n" for line in body_lines)
        source = f"def {name}({args}):\n{body}"
        exec(code_of(source, f"<compiled {name}>"), self.names)
        made = self.names.pop(name)
        made.source = source
        return made  # type: ignore[no-any-return]

    # ---------------------------------------------------------------------------------------------------------- values

    def expression(self, expr: Expr, ref: Ref) -> str:
        """Source of the value: canonical for the type, None for NULL."""
        if isinstance(expr, Literal):
            return self.constant(expr.value)
        if not isinstance(expr, Call):
            return ref(expr)
        special = _SPECIAL.get(expr.op)
        if special is not None:
            return special(self, expr, ref)
        if expr.op in OPERATORS:
            return self._comparison(expr, ref)
        return self._strict(expr, ref)

    def constant(self, value: Any) -> str:
        """Source of a constant."""
        if value is None or (
            isinstance(value, PLAIN) and value == value and value not in (float("inf"), float("-inf"))
        ):
            return repr(value) if not isinstance(value, int | float) or value >= 0 else f"({value!r})"
        return self.bind(value)

    def _strict(self, expr: Call, ref: Ref) -> str:
        if any(isinstance(arg, Literal) and arg.value is None for arg in expr.args):
            return "None"
        function = implementation(expr)
        if all(isinstance(arg, Literal) for arg in expr.args):
            try:
                return self.constant(function(*(arg.value for arg in expr.args if isinstance(arg, Literal))))
            except EvaluationError:
                pass  # it shall fail where it is evaluated, if it ever is
        name = self.bind(function)
        tests, values = self.operands(expr.args, ref)
        return _guarded(tests, f"{name}({', '.join(values)})")

    def operands(self, args: Sequence[Expr], ref: Ref) -> tuple[list[str], list[str]]:
        """(tests that are true where an argument is NULL, sources of the values to be used after the tests)."""
        tests, values = [], []
        for arg in args:
            source = self.expression(arg, ref)
            if arg.nullable:
                name = self.temporary()
                tests.append(f"({name} := {source}) is None")
                source = name
            values.append(source)
        return tests, values

    def _comparison(self, expr: Call, ref: Ref) -> str:
        if expr.op == "<=>":
            return f"(1 if {self._null_safe(expr, ref)} else 0)"
        tests, test = self._compared(expr, OPERATORS[expr.op], ref)
        return _guarded(tests, f"(1 if {test} else 0)")

    def _compared(self, expr: Call, operator: str, ref: Ref) -> tuple[list[str], str]:
        tests, values = self.operands(expr.args, ref)
        ordered = operator not in ("==", "!=")
        left, right = (self._comparable(arg, value, ordered) for arg, value in zip(expr.args, values, strict=True))
        return tests, f"{left} {operator} {right}"

    def _comparable(self, expr: Expr, source: str, ordered: bool) -> str:
        key = comparison_key(expr.type, ordered)
        if key is None:
            return source
        if isinstance(expr, Literal) and expr.value is not None:
            return self._constant_key(key, expr.value)
        return f"{self.bind(key)}({source})"

    def _constant_key(self, key: Callable[[Any], Any], value: Any) -> str:
        try:
            return self.constant(key(value))
        except EvaluationError:  # it shall fail where it is compared, if it ever is
            return f"{self.bind(key)}({self.constant(value)})"

    def _null_safe(self, expr: Call, ref: Ref) -> str:
        left, right = (self.key_part(arg, ref) for arg in expr.args)
        return f"{left} == {right}"

    # ----------------------------------------------------------------------------------------------------------- tests

    def truth(self, expr: Expr, ref: Ref) -> str:
        """Source of a test that is truthy iff the expression is TRUE: neither FALSE nor NULL."""
        if isinstance(expr, Call):
            match expr.op:
                case "and" | "or":
                    return "(" + f" {expr.op} ".join(self.truth(arg, ref) for arg in expr.args) + ")"
                case "not" | "is_false":
                    return self.falsity(expr.args[0], ref)
                case "is_true":
                    return self.truth(expr.args[0], ref)
                case "is_null":
                    return self._is_null(expr.args[0], ref)
                case "<=>":
                    return self._null_safe(expr, ref)
                case op if op in OPERATORS:
                    return self._test(expr, OPERATORS[op], ref)
        return self.expression(expr, ref)

    def _is_null(self, expr: Expr, ref: Ref) -> str:
        if not expr.nullable:
            return "False"
        source = self.expression(expr, ref)
        # A call of constants is one itself, of which Python says that it is never None.
        return f"({self.temporary()} := {source}) is None" if isinstance(expr, Call) else f"{source} is None"

    def falsity(self, expr: Expr, ref: Ref) -> str:
        """Source of a test that is truthy iff the expression is FALSE: neither TRUE nor NULL."""
        if isinstance(expr, Call):
            match expr.op:
                case "and" | "or":
                    other = "or" if expr.op == "and" else "and"
                    return "(" + f" {other} ".join(self.falsity(arg, ref) for arg in expr.args) + ")"
                case "not":
                    return self.truth(expr.args[0], ref)
                case "is_null" | "is_true" | "is_false" | "<=>":
                    return f"(not {self.truth(expr, ref)})"
                case op if op in NEGATED:
                    return self._test(expr, NEGATED[op], ref)
        source = self.expression(expr, ref)
        if not expr.nullable:
            return f"(not {source})"
        name = self.temporary()
        return f"(({name} := {source}) is not None and not {name})"

    def _test(self, expr: Call, operator: str, ref: Ref) -> str:
        if operator == "==" and self._plainly_equal(expr):
            left, right = (self.expression(arg, ref) for arg in expr.args)
            return f"{left} == {right}"
        tests, test = self._compared(expr, operator, ref)
        found = " and ".join([*(f"{null.removesuffix(' is None')} is not None" for null in tests), test])
        return f"({found})" if tests else test

    def _plainly_equal(self, expr: Call) -> bool:
        """Values compared as they are, at most one of which may be None: None equals nothing else."""
        nullable = [arg for arg in expr.args if arg.nullable]
        return len(nullable) < 2 and comparison_key(expr.args[0].type) is None

    # ------------------------------------------------------------------------------------------------------------ keys

    def key(self, exprs: Sequence[Expr], ref: Ref) -> str:
        """Source of the canonical comparison key: a scalar for one part, a tuple for several (and for none)."""
        parts = [self.key_part(expr, ref) for expr in exprs]
        return parts[0] if len(parts) == 1 else "(" + "".join(f"{part}, " for part in parts) + ")"

    def key_part(self, expr: Expr, ref: Ref) -> str:
        """Source of one part of a key; None for NULL."""
        key = comparison_key(expr.type)
        if key is None or (isinstance(expr, Literal) and expr.value is None):
            return self.expression(expr, ref)
        if isinstance(expr, Literal):
            return self._constant_key(key, expr.value)
        tests, (value,) = self.operands([expr], ref)
        return _guarded(tests, f"{self.bind(key)}({value})")

    # -------------------------------------------------------------------------------------------- operators with NULLs

    def logic(self, expr: Call, ref: Ref) -> str:
        """AND, OR: FALSE (TRUE) decides at once, NULL is remembered."""
        decides, other = (self.falsity, "0") if expr.op == "and" else (self.truth, "1")
        opposite = "1" if expr.op == "and" else "0"
        nullable = [arg for arg in expr.args if arg.nullable]
        if not nullable:
            return f"({other} if {' or '.join(decides(arg, ref) for arg in expr.args)} else {opposite})"
        flags, tests = [], []
        for arg in expr.args:
            if not arg.nullable:
                tests.append(decides(arg, ref))
                continue
            name = self.temporary()
            flags.append(f"{name} is None")
            assigned = f"({name} := {self.expression(arg, ref)})"
            tests.append(f"({assigned} is not None and not {name})" if expr.op == "and" else assigned)
        return f"({other} if {' or '.join(tests)} else None if {' or '.join(flags)} else {opposite})"

    def exclusive(self, expr: Call, ref: Ref) -> str:
        """XOR."""
        tests, (left, right) = self.operands(expr.args, ref)
        return _guarded(tests, f"(1 if (not {left}) != (not {right}) else 0)")

    def negation(self, expr: Call, ref: Ref) -> str:
        """NOT."""
        tests, (value,) = self.operands(expr.args, ref)
        return _guarded(tests, f"(0 if {value} else 1)")

    def test(self, expr: Call, ref: Ref) -> str:
        """IS NULL, IS TRUE, IS FALSE."""
        return f"(1 if {self.truth(expr, ref)} else 0)"

    def case(self, expr: Call, ref: Ref) -> str:
        """CASE: the first condition that is TRUE."""
        parts = [
            f"{self.expression(value, ref)} if {self.truth(condition, ref)} else "
            for condition, value in zip(expr.args[:-1:2], expr.args[1:-1:2], strict=True)
        ]
        return f"({''.join(parts)}{self.expression(expr.args[-1], ref)})"

    def coalesce(self, expr: Call, ref: Ref) -> str:
        """COALESCE: the first that is not NULL."""
        parts: list[str] = []
        for arg in expr.args:
            source = self.expression(arg, ref)
            if not arg.nullable:
                return f"({''.join(parts)}{source})"
            name = self.temporary()
            parts.append(f"{name} if ({name} := {source}) is not None else ")
        return f"({''.join(parts)}None)"

    def membership(self, expr: Call, ref: Ref) -> str:
        """IN: literals are one set; with any other item, comparison one by one through a tuple of keys."""
        needle, items = expr.args[0], expr.args[1:]
        tests, (value,) = self.operands([needle], ref)
        value = self._comparable(needle, value, False)
        absent = "0"
        if all(isinstance(item, Literal) for item in items):
            key = comparison_key(needle.type) or (lambda held: held)
            held = [item.value for item in items if isinstance(item, Literal)]
            absent = "None" if None in held else "0"
            choices = self.bind(frozenset(key(item) for item in held if item is not None))
        elif any(item.nullable for item in items):
            name = self.temporary()
            listed = f"({name} := {self._tuple(items, ref)})"
            found = f"(1 if {value} in {listed} else None if None in {name} else 0)"
            return _guarded(tests, found)
        else:
            choices = self._tuple(items, ref)
        return _guarded(tests, f"(1 if {value} in {choices} else {absent})")

    def _tuple(self, items: Sequence[Expr], ref: Ref) -> str:
        return "(" + "".join(f"{self.key_part(item, ref)}, " for item in items) + ")"


def _guarded(tests: list[str], value: str) -> str:
    return f"(None if {' or '.join(tests)} else {value})" if tests else value


_SPECIAL: dict[str, Callable[[Codegen, Call, Ref], str]] = {
    "and": Codegen.logic,
    "or": Codegen.logic,
    "xor": Codegen.exclusive,
    "not": Codegen.negation,
    "is_null": Codegen.test,
    "is_true": Codegen.test,
    "is_false": Codegen.test,
    "case": Codegen.case,
    "coalesce": Codegen.coalesce,
    "in": Codegen.membership,
}

# -------------------------------------------------------------------------------------------------------- entry points


def by_layout(layout: Layout) -> Ref:
    """References into one flat tuple named `r` and the parameters' tuple named `p`."""

    def ref(node: ColumnRef | ParamRef) -> str:
        if isinstance(node, ParamRef):
            return f"p[{node.index}]"
        return f"r[{layout[node.source, node.name.lower()]}]"

    return ref


def compile_row(exprs: Sequence[Expr], layout: Layout) -> Callable[..., Row]:
    """f(row, params=()) -> the values of the expressions, as a tuple."""
    code = Codegen()
    ref = by_layout(layout)
    parts = "".join(f"{code.expression(expr, ref)}, " for expr in exprs)
    return code.function("row", "r, p=()", [f"return ({parts})"])


def compile_predicate(expr: Expr | None, layout: Layout) -> Callable[..., bool]:
    """f(row, params=()) -> whether the condition is TRUE (truthy or falsy, not always a bool); None is always TRUE."""
    code = Codegen()
    test = "True" if expr is None else code.truth(expr, by_layout(layout))
    return code.function("predicate", "r, p=()", [f"return {test}"])


def compile_key(exprs: Sequence[Expr], layout: Layout) -> Callable[..., Key]:
    """f(row, params=()) -> the canonical comparison key: a scalar for one expression, a tuple for several."""
    code = Codegen()
    return code.function("key", "r, p=()", [f"return {code.key(exprs, by_layout(layout))}"])


def compile_sort_key(terms: Sequence[tuple[Expr, bool]], layout: Layout) -> Callable[..., Any]:
    """f(row, params=()) -> a key for list.sort that orders as ORDER BY with these (expression, descending) terms.

    Keys of one function compare with each other only. NULLs come first ascending, last descending.
    """
    code = Codegen()
    ref = by_layout(layout)
    parts = []
    for expr, descending in terms:
        apply = order_key(expr.type, expr.nullable, descending)
        source = code.expression(expr, ref)
        parts.append(source if apply is None else f"{code.bind(apply)}({source})")
    body = parts[0] if len(parts) == 1 else "(" + "".join(f"{part}, " for part in parts) + ")"
    return code.function("sort_key", "r, p=()", [f"return {body}"])
