"""Query texts as clients may write them: of the golden plans' and the sample's queries, with other literals, spacing,
case and comments; and fragments that a scanner can get wrong.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from planner.api import plan_query
from planner.text.scan import KEYWORDS, Token, scan
from planner.tree.plan import Parameter, QueryPlan
from sqltypes.errors import UpwellError
from sqltypes.schema import BIGINT
from tests.support.goldens import PLANS, cases, sample_queries, snapshot

STRINGS = (
    "'a'", "''", "'it''s'", '"it\'s"', "'a\\'b'", "'\\\\'", "'\\\\''b'", '"say ""x"""', "'5'", "'/* x */'", "'-- x'",
    "'é ü'", "'%a\\_b\\%'", "'\\n\\0\\Z\\q'", "'`'", "'?'", "'paid'", '"paid"', "'a;b'", "'\n'", "'👍'",
)  # fmt: skip
NUMBERS = (
    "0",
    "1",
    "5",
    "5.0",
    "5.",
    "0.50",
    "1e3",
    "2.5E-2",
    "-1",
    "- 7",
    "-1.50",
    "-2e1",
    "18446744073709551616",
    "00",
)
OTHERS = ("0x1F", "0b101", "x'0a'", "b'01'", "_utf8mb4'a'", "N'a'", ".5", "NULL", "TRUE", "b", "`b 1`", "5a", "?")
SPACES = (" ", " ", " ", "\n", "\t ", "  ")
COMMENTS = ("/* c */", "/**/", "/*traceparent='00-12-01',x=\"1\"*/", "-- it's 5\n", "# `x\n", "/* upwell: skip */")


def golden_plans() -> Iterator[tuple[str, QueryPlan]]:
    """(database, plan) of every query that can be cached."""
    for file in sorted(PLANS.glob("*.sql")):
        database, schema = snapshot(file)
        known = [sql for _, sql in sample_queries()] if file.stem == "lobsters" else [c.sql for c in cases(file)]
        for sql in known:
            try:
                yield database, plan_query(sql, database, schema)
            except UpwellError:
                continue


@dataclass(frozen=True)
class FakePlan:
    """As much of a plan as the matcher reads."""

    sql: str
    database: str
    parameters: tuple[Parameter, ...]


def fake_plan(sql: str, database: str) -> QueryPlan:
    """A cache of any text that can be scanned, planned or not."""
    count = sum(token.kind == "param" for token in scan(sql))
    return cast(QueryPlan, FakePlan(sql, database, tuple(Parameter(index, BIGINT) for index in range(count))))


def literal(rng: random.Random) -> str:
    return rng.choice(rng.choice((STRINGS, NUMBERS, NUMBERS, OTHERS) if rng.random() < 0.3 else (STRINGS, NUMBERS)))


def client_text(rng: random.Random, sql: str) -> str:
    """A text that a client may send for this query: values for its placeholders, its constants now and then others."""
    tidy = rng.random() < 0.5  # most clients always write the same
    kinds = rng.choice((("7", "42", "100"), ("'a'", "'it''s'", "'x'"), ()))
    out: list[str] = []
    before: Token | None = None
    for token in scan(sql):
        if not tidy or before is None or before.end != token.start:
            out.append(_gap(rng, tidy, before, token))
        out.append(_written(rng, token, tidy, kinds, before))
        before = token
    return "".join(out) + rng.choice(("", "", ";", " ", " ; ", "/*x='1'*/"))


def _gap(rng: random.Random, tidy: bool, before: Token | None, token: Token) -> str:
    if before is None:
        return rng.choice(COMMENTS) if rng.random() < 0.05 else ""
    if tidy:
        return " "
    if rng.random() < 0.03:
        return " " + rng.choice(COMMENTS) + " "
    loose = before.kind == "op" or token.kind == "op"
    if before.end == token.start:  # a function's name and its bracket may not be parted
        return " " if loose and rng.random() < 0.1 and "(" not in token.text else ""
    return rng.choice(SPACES)


def _written(rng: random.Random, token: Token, tidy: bool, kinds: Sequence[str], before: Token | None) -> str:
    if token.kind == "param":
        length = rng.choice((1, 1, 2, 3, 15, 16, 17, 80)) if before is not None and before.text == "(" else 1
        return ", ".join(rng.choice(kinds) if kinds else literal(rng) for _ in range(length))
    if token.kind in ("number", "string") and (before is None or before.text != "-") and rng.random() < 0.15:
        return literal(rng)
    if not tidy and token.kind == "word" and token.text.upper() in KEYWORDS and rng.random() < 0.3:
        return rng.choice((token.text.lower(), token.text.title()))
    return token.text


LISTS = (
    "(1, 2, 3)",
    "(" + ",".join(map(str, range(40))) + ")",
    "(" + ", ".join(map(str, range(-10, 90))) + ")",
    "( 1" + " , 7" * 20 + " )",
    "(" + "'a', " * 60 + "'it''s')",
    "(" + '"b",' * 30 + '"")',
    "(" + "0x1F,0x0a," * 12 + "0xABC)",
    "(" + "1.50, 2, " * 20 + "3)",
    "(" + "?, " * 20 + "?)",
    "(" + "1, " * 20 + "'a')",
    "(" + "1, " * 20 + "1e3)",
    "(" + "1, " * 20 + "NULL)",
)
FRAGMENTS = (
    *(f"{word}{items}" for word in (" IN ", " in", "min", " NOT IN\n") for items in LISTS),
    *("'", '"', "`", "/*", "*/", "/*+", "/*!", "--", "-- ", "#", "\n", " ", " ", "-", "+", ".", "..", "@", "@@", "?"),
    *(
        "?...",
        "\\",
        "''",
        "x",
        "e",
        "1e",
        "1.5e",
        "0x",
        "0b",
        "_utf8",
        "N",
        "a",
        "é",
        "\u00a0",
        "٣",
        "(",
        ")",
        ",",
        "=",
    ),
    *(
        "IN (",
        "AS",
        "/* upwell: skip */",
        "/*upwell:5*/",
        ";",
        "$",
        "<",
        ">",
        "*",
        "/",
        "`a`",
        "`a 1`",
        "@'v'",
        "/*c*/",
    ),
    *("/*+ H(1) */", "SELECT ", "FROM t ", "where ", "LIMIT ", "select"),
)
HOLES = (
    "5",
    "6",
    "1.5",
    "7.",
    "1e3",
    "'a'",
    "'b'",
    '"a"',
    "''",
    "'*/'",
    "'`'",
    "0x1F",
    "0b1",
    "/*c*/",
    "/*'d*/",
    "/*+ H */",
)


def variants(rng: random.Random, fragments: Sequence[str | None], count: int) -> list[str]:
    """Texts that differ in their holes (None) only."""
    return [
        "".join(rng.choice(HOLES) if fragment is None else fragment for fragment in fragments) for _ in range(count)
    ]
