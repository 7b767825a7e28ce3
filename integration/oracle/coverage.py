"""What of the language was asked: functions by name, nodes of the parser's grammar, templates; and what never was."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache

import sqlglot
from sqlglot import exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import SqlglotError

from planner.text.scan import words
from planner.tree.reasons import DETERMINISTIC

_OPERATORS = (
    "EQUALITY",
    "COMPARISON",
    "BITWISE",
    "TERM",
    "FACTOR",
    "CONJUNCTION",
    "DISJUNCTION",
    "SUBQUERY_PREDICATES",
)
# Of other databases' grammars, or made by no text that MySQL takes.
NOT_MYSQLS = words(
    """
    Distance Glob ArrayContainsAll Overlaps Collate PropertyEQ DPipe NullSafeNEQ Operator IgnoreNulls RespectNulls
    AnonymousAggFunc Convert DistanceNd
    """
)
STRUCTURE = words(
    """
    Select From Join Where Group Having Order Ordered Limit Offset Distinct Union Intersect Except Subquery CTE With
    Window WindowSpec Lateral TableAlias Alias Column Table Identifier Star Literal Null Boolean HexString BitString
    National Introducer Interval Case If Cast Between In Exists Any All Like RegexpLike Is Not Neg BitwiseNot Paren
    Tuple Collate JSONExtract JSONExtractScalar Placeholder Values IndexTableHint Rollup MatchAgainst JSONArrayContains
    SoundsLike Escape Xor NullSafeEQ Add Sub Mul Div IntDiv Mod Hint Row Ntile Lag Lead FirstValue LastValue NthValue
    GroupConcat Extract Trim DateAdd DateSub TimestampAdd Anonymous WindowAlias
    """
)
_NOT_PARSED = (SqlglotError, TypeError, ValueError, AttributeError)  # of a wrong number of arguments, too
_CALLED = re.compile(r"\b([a-z_][a-z_0-9]*)\s*\(", re.IGNORECASE)


@cache
def grammar() -> frozenset[str]:
    """Names of the node classes that MySQL's part of the grammar makes of a SELECT."""
    names = {name for name in STRUCTURE if hasattr(exp, name)}
    for table in _OPERATORS:
        names |= {made.__name__ for made in getattr(MySQL.Parser, table).values()}
    for function in DETERMINISTIC:
        for count in range(5):
            text = f"SELECT {function}({', '.join('abcd'[:count])})"
            try:
                tree = sqlglot.parse_one(text, dialect="mysql")
            except _NOT_PARSED:
                continue
            names |= {type(node).__name__ for node in tree.walk() if isinstance(node, exp.Func)}
    return frozenset(names - NOT_MYSQLS)


def nodes_of(texts: Iterable[str]) -> Counter[str]:
    """The classes of nodes that the parser makes of these, with the arguments that are set."""
    found: Counter[str] = Counter()
    for text in texts:
        try:
            tree = sqlglot.parse_one(text, dialect="mysql")
        except _NOT_PARSED:
            continue
        found.update({type(node).__name__ for node in tree.walk()})
        found.update(
            {f"{type(node).__name__}.{name}" for node in tree.walk() for name, value in node.args.items() if value}
        )
    return found


def functions_of(texts: Iterable[str]) -> Counter[str]:
    return Counter(name.lower() for text in texts for name in set(_CALLED.findall(text)))


def never(texts: Iterable[str], templates: Iterable[str], used: Mapping[str, Counter[str]]) -> list[str]:
    """Lines that name what was not reached."""
    known = list(texts)
    functions, nodes = functions_of(known), nodes_of(known)
    unasked = [template for template in templates if template not in used]
    unanswered = [name for name, how in used.items() if set(how) <= {"error"}]
    unhit = [name for name, how in used.items() if name not in unanswered and not how["hit"]]
    return [
        _line("functions that no cached text had", sorted(DETERMINISTIC - set(functions))),
        _line("nodes of the grammar that no cached text had", sorted(grammar() - set(nodes))),
        _line("templates that no cached text had", sorted(unasked)),
        _line("only ever MySQL's error", sorted(unanswered)),
        _line("cached, never a hit", sorted(unhit)),
    ]


def _line(what: str, names: list[str]) -> str:
    return f"{what}: {len(names)}" + (f"\n    {', '.join(names)}" if names else "")
