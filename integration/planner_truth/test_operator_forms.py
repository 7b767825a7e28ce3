"""Operators without and with brackets, as MySQL reads them and as the planner does: random texts, MySQL the judge.

Of each text the tree is written out with brackets around every operator. If the planner relies on the tree, MySQL must
give the same for both; and what the planner computes of it must be what MySQL gives for the client's text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from random import Random
from typing import Any

import pymysql
import pytest
from sqlglot import exp

from integration.servers.mysql_server import Server
from planner.api import plan_query
from planner.text.parse import parse
from planner.text.scan import DEFAULT_VERSION, scan
from planner.tree.plan import Mode, QueryPlan
from planner.tree.reasons import misread
from sqltypes.errors import EvaluationError, ParseError, UnsupportedQuery
from sqltypes.expression import ColumnRef, Value
from sqltypes.interpreter import evaluate
from tests.support.schema_text import snapshot_of

DDL = """CREATE TABLE t (
  id INT NOT NULL PRIMARY KEY,
  k INT NOT NULL,
  a INT,
  b INT,
  c INT,
  d DECIMAL(8,2),
  s VARCHAR(9),
  u VARCHAR(9)
);"""
COLUMNS = ("id", "k", "a", "b", "c", "d", "s", "u")
_BINARY = """
    =|<=>|<>|!=|<|<=|>|>=|AND|&&|OR|XOR|+|-|*|/|DIV|%|MOD|&|^|<<|>>|LIKE|NOT LIKE|REGEXP|NOT REGEXP|RLIKE|SOUNDS LIKE
    =|<|AND|OR|LIKE|NOT LIKE|NOT LIKE
"""
BINARY = ["|", "||", *(operator for line in _BINARY.split("\n") for operator in line.strip().split("|") if operator)]
SUFFIXES = ("NULL", "NOT NULL", "TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN", "NOT UNKNOWN")
OPERANDS = ("a", "b", "c", "d", "s", "u", "0", "1", "2", "1.5", "'1'", "'%'", "'a_'", "NULL", "TRUE")
PREFIXES = ("-", "~", "!", "BINARY ")
WRAPPED = (exp.Binary, exp.Unary, exp.In, exp.Between, exp.Cast)


@pytest.fixture
def cursor(mysql: Server, database: str) -> Iterator[Any]:
    connection = pymysql.connect(
        host=mysql.host, port=mysql.port, user=mysql.user, password=mysql.password, database=database, autocommit=True
    )
    random = Random(4)
    with closing(connection), connection.cursor() as made:
        made.execute(DDL)
        numbers = (None, 0, 1, 2, 7)
        texts = (None, "", "0", "1", "12", "a", "ab", "%", "_b")
        rows = [
            (at, 1, *(random.choice(numbers) for _ in range(4)), *(random.choice(texts) for _ in range(2)))
            for at in range(40)
        ]
        made.executemany("INSERT INTO t VALUES (%s,%s,%s,%s,%s,%s,%s,%s)", rows)
        yield made


class Texts:
    """Random expressions as a client may write them, with few brackets."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def expression(self, depth: int = 2) -> str:
        text = self._not() + self.operand(depth)
        for _ in range(self.random.randint(1, 3)):
            choice = self.random.random()
            if choice < 0.12:
                text += f" IS {self.random.choice(SUFFIXES)}"
            elif choice < 0.2:
                text += f" {self._maybe_not()}IN ({self.operand(depth)}, 1)"
            elif choice < 0.28:
                text += f" {self._maybe_not()}BETWEEN {self.operand(depth)} AND {self.operand(depth)}"
            else:
                operator = self.random.choice(BINARY)
                more = self._not() if operator in ("AND", "OR", "XOR") else ""
                text += f" {operator} {more}{self.operand(depth)}"
        return text

    def operand(self, depth: int) -> str:
        if depth and self.random.random() < 0.2:
            return f"({self.expression(depth - 1)})"
        prefix = self.random.choice(PREFIXES) if self.random.random() < 0.08 else ""
        return prefix + self.random.choice(OPERANDS)

    def _not(self) -> str:
        return "NOT " if self.random.random() < 0.15 else ""

    def _maybe_not(self) -> str:
        return self.random.choice(("", "NOT "))


def bracketed(node: exp.Expr) -> exp.Expr:
    """The tree with brackets around each operator."""
    for name, value in list(node.args.items()):
        if isinstance(value, exp.Expr):
            node.set(name, bracketed(value))
        elif isinstance(value, list):
            node.set(name, [bracketed(item) if isinstance(item, exp.Expr) else item for item in value])
    inside = isinstance(node, exp.Like) and isinstance(node.parent, exp.Escape)
    return (
        exp.Paren(this=node) if isinstance(node, WRAPPED) and not isinstance(node, exp.Paren) and not inside else node
    )


class Judge:
    """Asks MySQL, the parser and the planner about one text after the other."""

    def __init__(self, cursor: Any) -> None:
        self.cursor = cursor
        self.schema = snapshot_of(DDL, "d")
        cursor.execute("SELECT * FROM t ORDER BY id")
        self.rows = cursor.fetchall()
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []

    def values(self, text: str) -> list[Any] | str:
        try:
            self.cursor.execute(f"SELECT {text} FROM t ORDER BY id")
        except pymysql.err.MySQLError as error:
            return f"error {error.args[0]}"
        return [value for (value,) in self.cursor.fetchall()]

    def ask(self, text: str) -> None:
        wanted = self.values(text)
        if isinstance(wanted, str):
            self.seen[wanted] += 1
            return
        sql = f"SELECT {text} AS x FROM t WHERE k = ? ORDER BY id"
        try:
            tree = parse(sql, DEFAULT_VERSION).tree
        except ParseError:
            self.seen["not parsed"] += 1
            return
        doubt = misread(tree, scan(sql))
        self.seen["doubted" if doubt else "relied on"] += 1
        spelled = bracketed(tree.expressions[0].this).sql("mysql")
        if not doubt and self.values(spelled) != wanted:
            self.wrong.append(f"{text} is read as {spelled}")
        self.planned(text, sql, wanted)

    def planned(self, text: str, sql: str, wanted: list[Any]) -> None:
        try:
            plan = plan_query(sql, "d", self.schema)
        except UnsupportedQuery:
            self.seen["refused"] += 1
            return
        if plan.mode is not Mode.MAINTAIN:
            self.seen["evict"] += 1
            return
        for row, theirs in zip(self.rows, wanted, strict=True):
            try:
                mine = computed(plan, row)
            except EvaluationError:
                self.seen["not computed"] += 1
                continue
            self.seen["computed"] += 1
            if mine != theirs:
                self.wrong.append(f"{text} of {row}: {mine!r}, MySQL {theirs!r}")
                return


def computed(plan: QueryPlan, row: tuple[Any, ...]) -> Value:
    def value(column: ColumnRef) -> Value:
        return row[COLUMNS.index(column.name)]  # type: ignore[no-any-return]  # as MySQL gave it

    return evaluate(plan.reader.output[0].expr, value, (1,))


@pytest.mark.parametrize("seed", range(3))
def test_a_tree_that_is_relied_on_means_what_mysql_reads(cursor: Any, seed: int) -> None:
    texts, judge = Texts(Random(seed)), Judge(cursor)
    for _ in range(1200):
        judge.ask(texts.expression())
    print(judge.seen)
    assert not judge.wrong, f"seed {seed}: {len(judge.wrong)}\n" + "\n".join(judge.wrong[:30])
    assert judge.seen["computed"] > 3000 and judge.seen["relied on"] > 300, judge.seen


FORMS = """
    a LIKE '1%' | a NOT LIKE '1%' | s LIKE u | s NOT LIKE u | s NOT LIKE 'a%' | s LIKE 'a#%' ESCAPE '#'
    s NOT LIKE 'a#%' ESCAPE '#' | NOT s LIKE 'a%' | NOT s NOT LIKE 'a%' | s LIKE NULL | s NOT LIKE NULL | NULL LIKE s
    NULL NOT LIKE s | s NOT LIKE '' | s REGEXP 'a' | s NOT REGEXP 'a' | s NOT RLIKE 'a' | s SOUNDS LIKE u
    a IN (1, 2) | a NOT IN (1, 2) | a NOT IN (1, NULL) | NOT a IN (1) | a BETWEEN 1 AND 2 | a NOT BETWEEN 1 AND 2
    a NOT BETWEEN b AND c | NOT a BETWEEN 1 AND 2 | a IS NULL | a IS NOT NULL | a IS UNKNOWN | a IS NOT UNKNOWN
    a IS TRUE | a IS NOT TRUE | a IS FALSE | a IS NOT FALSE | ISNULL(a) | NOT ISNULL(a) | a <=> b | NOT a <=> b
    a = b | a <> b | a != b | NOT a = b | a XOR b | NOT (a XOR b) | NOT a | NOT NOT a | a AND NOT b | a OR NOT b
    IF(a, b, c) | IF(NOT a, b, c) | IFNULL(a, b) | NULLIF(a, b) | CASE a WHEN b THEN 1 WHEN 2 THEN 3 END
    CASE WHEN NOT a THEN b ELSE c END | CASE WHEN s NOT LIKE 'a%' THEN 1 END | COALESCE(NULL, a, b) | a DIV b | a MOD b
    MOD(a + 1, b - 1) | a / b | -a | - -a | -(a + b) | a - -b | a - (b - c) | a / (b / c) | ABS(-a) | SIGN(a)
    GREATEST(a, b) | LEAST(a, b, c) | CONCAT(s, u) | CONCAT(s, NULL) | LENGTH(s) | CHAR_LENGTH(s) | LOWER(s) | UPPER(s)
    FLOOR(d) | CEIL(d) | CAST(a AS SIGNED) | CAST(a AS UNSIGNED) | CAST(d AS DECIMAL(5,1)) | CAST(a AS CHAR)
    (SELECT 1) | (a, b) = (1, 2) | (a, b) IN ((1, 2)) | a = ANY (SELECT 1) | a <> ALL (SELECT 1) | EXISTS (SELECT 1)
    NOT EXISTS (SELECT 1) | a NOT IN (SELECT 1) | s COLLATE utf8mb4_bin = u | BINARY s = u | 'a' 'b' LIKE s
"""


def test_every_form_alone_negated_and_in_a_condition(cursor: Any) -> None:
    judge = Judge(cursor)
    for form in (part.strip() for line in FORMS.strip().splitlines() for part in line.split("|") if part.strip()):
        for text in (
            form,
            f"NOT ({form})",
            f"({form}) IS NULL",
            f"CASE WHEN {form} THEN 1 ELSE 2 END",
            f"{form} AND a",
        ):
            judge.ask(text)
    assert not judge.wrong, "\n".join(judge.wrong)
    assert judge.seen["computed"] > 8000, judge.seen
