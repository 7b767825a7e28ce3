"""Whether an answer that differs from MySQL's is one that MySQL is free to give.

Where ORDER BY leaves ties, or LIMIT cuts within them, each order of the tied rows is right: MySQL is asked for all rows
with the number of their tie. Otherwise it is asked for the same by other plans.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

from sqlglot import ErrorLevel, exp, parse_one
from sqlglot.errors import SqlglotError

from integration.oracle.answers import Answer, difference, same_bytes, same_spellings

Ask = Callable[[str], Answer]
FIRST_SELECT = re.compile(r"\bselect\b(?!\s*/\*\+)", re.IGNORECASE)
SWITCHES = (
    "index_condition_pushdown=off",
    "block_nested_loop=off,hash_join=off",
    "derived_merge=off",
    "semijoin=off",
    "materialization=off",
    "subquery_to_derived=on",
    "index_merge=off,mrr=off",
)
TIE = "upwell_tie"
MOST_TABLES = 6  # whose place at the front is tried


def choice(text: str, wanted: Answer, found: Answer, ask: Ask) -> str:
    """Why MySQL may say so, "" where no reason was found. `ask`: has MySQL answer a text, past all caches."""
    ordered = "order by" in text.lower()
    if not (wanted.errno or found.errno):
        if same_spellings(wanted, found, ordered=ordered):
            return "the last digits of floats"
        if ordered or re.search(r"\blimit\b", text, re.IGNORECASE):
            for ranked in with_ties(text, len(found.definitions)):
                if is_one_of(found, ask(ranked.text), ranked):
                    return "ties"
    for name, way in other_ways(text):
        other = ask(way)
        if other.errno and other.errno != found.errno:
            continue
        if not difference(other, found, ordered=ordered, free=False) or (
            not (other.errno or found.errno) and same_bytes(other, found, ordered=ordered)
        ):
            return name
    return ""


class Ranked:
    """`text` gives all rows, each with the number of its tie behind it. `limit` None: all of them are wanted."""

    def __init__(self, text: str, offset: int, limit: int | None) -> None:
        self.text, self.offset, self.limit = text, offset, limit


def with_ties(text: str, columns: int) -> Iterator[Ranked]:
    """The text without its LIMIT and with the number of the tie that each row belongs to."""
    try:
        tree = parse_one(text, dialect="mysql", error_level=ErrorLevel.RAISE)
    except SqlglotError:
        return
    if not isinstance(tree, exp.Query):
        return
    order, limit, offset = (tree.args.get(name) for name in ("order", "limit", "offset"))
    try:
        cut = None if limit is None else int(limit.expression.name)
        skipped = 0 if offset is None else int(offset.expression.name)
    except (AttributeError, ValueError):
        return
    bare = tree.copy()
    for name in ("order", "limit", "offset"):
        bare.set(name, None)
    if order is None:
        yield Ranked(_outside(bare, columns, ""), skipped, cut)
        return
    if isinstance(bare, exp.Select) and not bare.args.get("distinct"):
        inside = bare.copy()
        keys = ", ".join(_key(key, tree) for key in order.expressions)
        inside.append("expressions", exp.alias_(exp.Literal.number(0), TIE))
        yield Ranked(_sql(inside).replace(f"0 AS {TIE}", f"DENSE_RANK() OVER (ORDER BY {keys}) AS {TIE}"), skipped, cut)
    places = [_place(key, tree) for key in order.expressions]
    if all(places):
        yield Ranked(_outside(bare, columns, ", ".join(places)), skipped, cut)


def _sql(tree: exp.Expr) -> str:
    return tree.sql(dialect="mysql")


def _outside(bare: exp.Query, columns: int, keys: str) -> str:
    names = ", ".join(f"c{number}" for number in range(1, columns + 1))
    tie = f"DENSE_RANK() OVER (ORDER BY {keys})" if keys else "1"
    return f"SELECT t.*, {tie} AS {TIE} FROM ({_sql(bare)}) AS t ({names})"


def _resolved(key: exp.Expr, tree: exp.Query) -> tuple[int, exp.Expr | None]:
    """Number of the column that a key names, from 1, and its expression; 0 where it names none."""
    expression = key.this
    outputs = tree.selects
    if isinstance(expression, exp.Literal) and not expression.is_string:
        number = int(expression.name)
        return (number, outputs[number - 1].unalias()) if 0 < number <= len(outputs) else (0, None)
    for number, output in enumerate(outputs, 1):
        named = isinstance(expression, exp.Column) and not expression.table
        if (named and output.alias_or_name.lower() == expression.name.lower()) or output.unalias() == expression:
            return number, output.unalias()
    return 0, None


def _key(key: exp.Expr, tree: exp.Query) -> str:
    _, expression = _resolved(key, tree)
    return _sql(key.this if expression is None else expression) + (" DESC" if key.args.get("desc") else "")


def _place(key: exp.Expr, tree: exp.Query) -> str:
    if any(isinstance(output, exp.Star) or output.is_star for output in tree.selects):
        return ""
    number, _ = _resolved(key, tree)
    return f"c{number}" + (" DESC" if key.args.get("desc") else "") if number else ""


def is_one_of(found: Answer, all_rows: Answer, ranked: Ranked) -> bool:
    """Whether these rows may stand at these places: each belongs to the tie that has this place."""
    if all_rows.errno or len(all_rows.definitions) != len(found.definitions) + 1:
        return False
    rows = [all_rows.cells(row) for row in all_rows.rows]
    ties: list[int] = []
    left: Counter[tuple[int, tuple[bytes | None, ...]]] = Counter()
    for *cells, number in rows:
        assert number is not None
        ties.append(int(number))
        left[int(number), tuple(cells)] += 1
    ties.sort()
    wanted = ties[ranked.offset :] if ranked.limit is None else ties[ranked.offset : ranked.offset + ranked.limit]
    if len(wanted) != len(found.rows):
        return False
    for tie, row in zip(wanted, found.rows, strict=True):
        left[tie, found.cells(row)] -= 1
    return min(left.values(), default=0) >= 0


def other_ways(text: str) -> Iterator[tuple[str, str]]:
    """The same asked again, and by other plans, each with what it shows."""
    yield "MySQL said something else when asked again", text
    hints = [f"SET_VAR(optimizer_switch = '{switch}')" for switch in SWITCHES]
    hints += [f"{hint}({name})" for name in tables_of(text) for hint in ("JOIN_PREFIX", "NO_INDEX")]
    for hint in (*(f"/*+ {hint} */" for hint in hints), "SQL_BIG_RESULT", "SQL_BUFFER_RESULT"):
        other = FIRST_SELECT.sub(lambda select: f"{select[0]} {hint}", text, count=1)  # noqa: B023 - used at once
        if other != text:
            yield "MySQL chose so by another plan", other


def tables_of(text: str) -> list[str]:
    try:
        tree = parse_one(text, dialect="mysql", error_level=ErrorLevel.RAISE)
    except SqlglotError:
        return []
    names = [table.alias_or_name for table in tree.find_all(exp.Table)]
    return [name for name in dict.fromkeys(names) if re.fullmatch(r"\w+", name)][:MOST_TABLES]
