"""The text as the parser is given it: what it does not know, and what has a plainer form that means the same.

 MySQL's                                 | the parser's
-----------------------------------------+---------------------------------------------------------------------------
 SELECT SQL_CALC_FOUND_ROWS DISTINCT a   | SELECT DISTINCT a: modifiers that change no row
 TABLE t ORDER BY a LIMIT 3              | SELECT * FROM t ORDER BY a LIMIT 3
 ROW(a, b) = ROW(1, 2)                   | (a, b) = (1, 2)
 VALUES ROW(1, 2), ROW(3, 4)             | SELECT 1 AS column_0, 2 AS column_1 UNION ALL SELECT 3, 4
 JSON_TABLE(a, '$' COLUMNS (...))        | LATERAL (SELECT ...): see `json_table.py`

TABLE and VALUES are reserved words: where no point is before one, it is that statement, or the function VALUES(). What
MySQL is sent stays as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.text.json_table import is_json_table, lateral
from planner.text.scan import MODIFIERS, Token, is_keyword, places_of, words

PLAIN = words("SQL_SMALL_RESULT SQL_BIG_RESULT SQL_BUFFER_RESULT SQL_NO_CACHE HIGH_PRIORITY")
"""Modifiers of a SELECT that change no row."""
Replacement = tuple[int, str]  # a token, and what stands in its place


def replacements(tokens: Sequence[Token], counts: Token | None) -> list[Replacement]:
    """What is replaced, in the order of the tokens. `counts`: as `counts_found`; no other SELECT may."""
    found: dict[int, str] = {at: "" for at, token in enumerate(tokens) if token is counts}
    for at in places_of(tokens, "SELECT", "TABLE", "VALUES", "JSON_TABLE", "ROW"):
        token = tokens[at]
        if at and tokens[at - 1].text == ".":
            continue
        if is_keyword(token, "SELECT"):
            found.update((behind, "") for behind in _modifiers(tokens, at + 1))
        elif is_keyword(token, "TABLE"):
            found[at] = "SELECT * FROM"
        elif is_values(tokens, at):
            found[at] = ""
            found.update(_rows(tokens, at + 1))
        elif is_json_table(tokens, at):
            found.update(lateral(tokens, at))
        elif is_keyword(token, "ROW") and _is_opening(tokens, at + 1):
            found.setdefault(at, "")
    return sorted(found.items())


def is_values(tokens: Sequence[Token], at: int) -> bool:
    """Whether VALUES ROW(...) stands there."""
    rows = at + 2 < len(tokens) and is_keyword(tokens[at], "VALUES") and is_keyword(tokens[at + 1], "ROW")
    return rows and tokens[at + 2].text == "("


def _modifiers(tokens: Sequence[Token], at: int) -> Iterator[int]:
    while at < len(tokens) and (tokens[at].kind == "hint" or tokens[at].text.upper() in MODIFIERS):
        if tokens[at].text.upper() in PLAIN:
            yield at
        at += 1


def _is_opening(tokens: Sequence[Token], at: int) -> bool:
    return at < len(tokens) and tokens[at].text == "("


def _rows(tokens: Sequence[Token], at: int) -> Iterator[Replacement]:
    """ROW(...), ROW(...) from there on, as SELECTs of a UNION ALL whose first one names the columns."""
    first = True
    while at + 1 < len(tokens) and is_keyword(tokens[at], "ROW") and tokens[at + 1].text == "(":
        yield at, ""
        yield at + 1, "SELECT "
        depth, column, at = 0, 0, at + 2
        while at < len(tokens) and (depth or tokens[at].text != ")"):
            depth += (tokens[at].text == "(") - (tokens[at].text == ")")
            if not depth and tokens[at].text == ",":
                if first:
                    yield at, f" AS column_{column},"
                column += 1
            at += 1
        if at < len(tokens):
            yield at, f" AS column_{column}" if first else ""
        first = False
        if (
            at + 1 < len(tokens)
            and tokens[at + 1].text == ","
            and at + 2 < len(tokens)
            and is_keyword(tokens[at + 2], "ROW")
        ):
            yield at + 1, " UNION ALL "
            at += 2
        else:
            return
