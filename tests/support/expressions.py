"""Random typed expressions, each as SQL text and as the node that `sqltypes` builds for it, over one table of
awkward values.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from random import Random

from sqltypes.build import cast, column, literal
from sqltypes.errors import UnsupportedQuery
from sqltypes.expression import Expr, Row
from sqltypes.functions import call
from sqltypes.schema import BIGINT, BIGINT_UNSIGNED, DOUBLE, Column, SqlType, Table

AI_CI = "utf8mb4_0900_ai_ci"
MEMBERS = ("zeta", "Alpha", "beta")
COLUMNS: tuple[tuple[str, str, SqlType, bool], ...] = (
    ("id", "INT NOT NULL PRIMARY KEY", SqlType("int"), False),
    ("i", "INT", SqlType("int"), True),
    ("b", "BIGINT NOT NULL", BIGINT, False),
    ("u", "BIGINT UNSIGNED", BIGINT_UNSIGNED, True),
    ("y", "TINYINT UNSIGNED NOT NULL", SqlType("tinyint", unsigned=True), False),
    ("d", "DECIMAL(10,2)", SqlType("decimal", precision=10, scale=2), True),
    ("e", "DECIMAL(20,6) NOT NULL", SqlType("decimal", precision=20, scale=6), False),
    ("f", "DOUBLE", DOUBLE, True),
    ("s", f"VARCHAR(20) COLLATE {AI_CI}", SqlType("varchar", length=20, collation=AI_CI), True),
    (
        "n",
        "VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL",
        SqlType("varchar", length=20, collation="latin1_swedish_ci"),
        False,
    ),
    ("x", "VARCHAR(20) COLLATE utf8mb4_bin", SqlType("varchar", length=20, collation="utf8mb4_bin"), True),
    ("m", f"ENUM('zeta','Alpha','beta') COLLATE {AI_CI}", SqlType("enum", collation=AI_CI, members=MEMBERS), True),
    ("a", "DATE", SqlType("date"), True),
    ("t", "DATETIME NOT NULL", SqlType("datetime", scale=0), False),
    ("w", "DATETIME(3)", SqlType("datetime", scale=3), True),
    ("k", "TIME", SqlType("time", scale=0), True),
    ("v", "VARBINARY(10)", SqlType("varbinary", length=10), True),
)  # fmt: skip
TABLE = Table("d", "awkward", tuple(Column(name, type_, null, at) for at, (name, _, type_, null) in enumerate(COLUMNS)))
LAYOUT = {("r", name): at for at, (name, _, _, _) in enumerate(COLUMNS)}
D = Decimal
SECOND = 1_000_000
ROWS: tuple[Row, ...] = (
    (1, 0, 0, 0, 0, D("0.00"), D("0.000000"), 0.0, "", "", "", "zeta", "2020-01-01", "2020-01-01 00:00:00",
     "2020-01-01 00:00:00.000", 0, b""),
    (2, None, -1, None, 1, None, D("-1.500000"), None, None, "a", None, None, None, "2020-02-29 12:30:00",
     None, None, None),
    (3, 1, 2**63 - 1, 2**64 - 1, 255, D("99999999.99"), D("12345678901234.567891"), 1.5, "abc", "ABC ", "ABC", "Alpha",
     "2020-02-29", "2020-02-29 00:00:00", "2020-02-29 12:30:00.500", 838 * 3600 * SECOND, b"abc"),
    (4, -7, -(2**63), 2**63, 7, D("-0.01"), D("0.000001"), -1e300, "ABC ", "a\u00e9", "abc ", "beta", "1999-12-31",
     "1999-12-31 23:59:59", "1999-12-31 23:59:59.001", -SECOND, b"ABC"),
    (5, 2147483647, 3, 5, 2, D("0.05"), D("2.500000"), 0.1, "\u00c4bc", "\u00e4", "a%c", "beta", "2020-01-01",
     "2020-01-01 00:00:01", "2020-01-01 00:00:01.000", 3661 * SECOND, b"\x00\xff"),
    (6, -2147483648, 10, 3, 3, D("10.00"), D("-99999.999999"), 3.0, "10", "1", "a_c", "zeta", "2021-06-30",
     "2021-06-30 10:00:00", "2021-06-30 10:00:00.250", 59 * SECOND, b"10"),
)  # fmt: skip

LITERALS: dict[str, list[tuple[str, Expr]]] = {
    "int": [(str(value), literal(value)) for value in (0, 1, 2, 3, 7, 10, 255, 1000, 2**31, 2**63 - 1)],
    "decimal": [(text, literal(D(text))) for text in ("0.5", "1.50", "0.01", "10.0", "99.999", "2.500000", "0.000001")],
    "double": [(text, literal(float(text))) for text in ("0e0", "1.5e0", "1e-1", "1e10", "3e0")],
    "string": [(f"'{text}'", literal(text)) for text in ("", "a", "abc", "ABC", "abc ", "b", "\u00e4", "10", "beta")],
    "null": [("NULL", literal(None))],
}
COLUMN_KINDS = {
    "int": "id i b u y",
    "decimal": "d e",
    "double": "f",
    "string": "s n x m",
    "datetime": "a t w",
    "time": "k",
    "binary": "v",
}
DATE_LITERALS = ("2020-01-01", "2020-02-29 12:30:00", "2020-02-29 12:30:00.5", "1999-12-31", "2021-06-30 10:00:00")
NUMERIC = ("int", "decimal", "double")
Typed = tuple[str, Expr]


@dataclass
class Generator:
    """Makes expressions from a source of randomness. `make(kind, depth)` gives (SQL, node); what is refused is tried
    otherwise.
    """

    random: Random
    refused: int = 0

    def any(self, depth: int = 3) -> Typed:
        """An expression of any kind that is not refused."""
        while True:
            try:
                return self.make(self.random.choice(("int", "decimal", "double", "string", "bool", "bool")), depth)
            except UnsupportedQuery:
                self.refused += 1

    def make(self, kind: str, depth: int) -> Typed:
        """An expression of that kind. May raise UnsupportedQuery."""
        if kind == "bool":
            return self._bool(depth)
        if depth <= 0 or self.random.random() < 0.3:
            return self._leaf(kind)
        if kind == "string":
            return self._string(depth)
        return self._number(kind, depth) if kind in NUMERIC else self._leaf(kind)

    def _leaf(self, kind: str) -> Typed:
        choice = self.random.random()
        if choice < 0.05:
            return LITERALS["null"][0]
        if choice < 0.35 and kind in LITERALS:
            return self.random.choice(LITERALS[kind])
        name = self.random.choice(COLUMN_KINDS[kind].split())
        return f"r.{name}", column("r", TABLE, name)

    def _call(self, op: str, template: str, *args: Typed) -> Typed:
        return template.format(*(sql for sql, _ in args)), call(op, [node for _, node in args])

    def _number(self, kind: str, depth: int) -> Typed:
        below = depth - 1
        roll = self.random.randrange(12)
        if roll < 5:
            op = self.random.choice(("+", "-", "*", "/", "div", "%"))
            if kind == "int" and op == "/":
                op = "-"
            other = self.random.choice(NUMERIC[: NUMERIC.index(kind) + 1])
            return self._call(op, f"({{0}} {op} {{1}})", self.make(kind, below), self.make(other, below))
        if roll < 7:
            op = self.random.choice(("neg", "abs", "sign", "floor", "ceil"))
            name = "-" if op == "neg" else op.upper()
            return self._call(op, f"{name}({{0}})", self.make(kind, below))
        if roll == 7:
            target, name = self.random.choice(
                (
                    (BIGINT, "SIGNED"),
                    (BIGINT_UNSIGNED, "UNSIGNED"),
                    (SqlType("decimal", precision=30, scale=3), "DECIMAL(30,3)"),
                    (DOUBLE, "DOUBLE"),
                )
            )
            sql, node = self.make(kind, below)
            return f"CAST({sql} AS {name})", cast(node, target)
        if roll == 8 and kind == "int":
            op = self.random.choice(("length", "char_length"))
            return self._call(op, f"{op.upper()}({{0}})", self.make("string", below))
        return self._choice(kind, depth)

    def _choice(self, kind: str, depth: int) -> Typed:
        below = depth - 1
        first, second = self.make(kind, below), self.make(kind, below)
        op = self.random.choice(("coalesce", "ifnull", "if", "nullif", "case", "greatest", "least"))
        match op:
            case "if":
                return self._call(op, "IF({0}, {1}, {2})", self._bool(below), first, second)
            case "case":
                return self._call(
                    op,
                    "CASE WHEN {0} THEN {1} WHEN {2} THEN {3} ELSE {4} END",
                    self._bool(below), first, self._bool(below), second, self._leaf(kind),
                )  # fmt: skip
        return self._call(op, f"{op.upper()}({{0}}, {{1}})", first, second)

    def _string(self, depth: int) -> Typed:
        below = depth - 1
        roll = self.random.randrange(4)
        if roll == 0:
            return self._call("concat", "CONCAT({0}, {1})", self.make("string", below), self.make("string", below))
        if roll == 1:
            op = self.random.choice(("lower", "upper"))
            return self._call(op, f"{op.upper()}({{0}})", self.make("string", below))
        if roll == 2:
            sql, node = self.make(self.random.choice(("int", "decimal")), below)
            return f"CAST({sql} AS CHAR)", cast(node, SqlType("varchar", collation=AI_CI))
        return self._choice("string", depth)

    def _bool(self, depth: int) -> Typed:
        below = depth - 1
        roll = self.random.randrange(10)
        if depth > 0 and roll < 2:
            op = self.random.choice(("and", "or", "xor"))
            return self._call(op, f"({{0}} {op.upper()} {{1}})", self._bool(below), self._bool(below))
        if depth > 0 and roll == 2:
            return self._call("not", "(NOT {0})", self._bool(below))
        if roll == 3:
            op = self.random.choice(("is_null", "is_true", "is_false"))
            kind = "bool" if op != "is_null" and depth > 0 else self.random.choice(NUMERIC)
            return self._call(op, f"({{0}} {op.upper().replace('_', ' ')})", self.make(kind, below))
        if roll == 4:
            return self._in(below)
        if roll == 5:
            kind = self.random.choice((*NUMERIC, "string"))
            parts = [self.make(kind, below) for _ in range(3)]
            return self._call("between", "({0} BETWEEN {1} AND {2})", *parts)
        if roll == 6:
            pattern = self.random.choice(("%", "a%", "%C", "a_c", "%b%", "A\\_c", "a\\%c", "__c", ""))
            sql, node = self._leaf("string")
            escaped = pattern.replace("\\", "\\\\")
            return f"({sql} LIKE '{escaped}')", call("like", [node, literal(pattern)])
        return self._comparison(below)

    def _comparison(self, depth: int) -> Typed:
        op = self.random.choice(("=", "<=>", "<>", "<", "<=", ">", ">="))
        kind = self.random.choice((*NUMERIC, "string", "datetime", "time"))
        if kind == "datetime" and self.random.random() < 0.5:
            text = self.random.choice(DATE_LITERALS)
            other: Typed = (f"'{text}'", literal(text))
        elif kind in NUMERIC:
            other = self.make(self.random.choice(NUMERIC), depth)
        else:
            other = self.make(kind, depth)
        return self._call(op, f"({{0}} {op} {{1}})", self.make(kind, depth), other)

    def _in(self, depth: int) -> Typed:
        kind = self.random.choice((*NUMERIC, "string"))
        needle = self.make(kind, depth)
        items = [self._leaf(kind) for _ in range(self.random.randrange(1, 4))]
        listed = ", ".join(f"{{{at + 1}}}" for at in range(len(items)))
        return self._call("in", f"({{0}} IN ({listed}))", needle, *items)
