"""JSON_TABLE as the parser is given it: a LATERAL derived table that reads what it reads, with columns of its types.

    JSON_TABLE(o.tags, '$[*]' COLUMNS (n FOR ORDINALITY, tag VARCHAR(20) PATH '$', NESTED '$.b' COLUMNS (x INT PATH
    '$')))

    LATERAL (SELECT CAST(NULL AS UNSIGNED) AS n, CAST(NULL AS CHAR(20)) AS tag, CAST(NULL AS SIGNED) AS x
             WHERE JSON_EXTRACT(o.tags, '$') IS NOT NULL)

Answers of such queries are held as MySQL gives them. So what counts is which columns it reads, that it may fail for
what is no JSON, and of which type its own columns are, where others are compared with them. What a string becomes as
DATE, TIME, DATETIME or TIMESTAMP depends on the session's time zone, for it may have an offset, and on the modes about
dates, as what FROM_UNIXTIME gives does that stands in the place of such a column; what becomes of a CHAR depends on the
modes that any query of this kind needs. Columns of other character sets are not supported. Nor is ERROR ON EMPTY or ON
ERROR: whether the row that raises it is looked at MySQL's plan decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.text.scan import Token

_DATES = ("DATE", "TIME", "DATETIME", "YEAR")
_TYPES = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "INTEGER", "BIGINT"), "SIGNED"),
    **dict.fromkeys(("BOOL", "BOOLEAN"), "SIGNED"),
    **dict.fromkeys(("DECIMAL", "DEC", "NUMERIC"), "DECIMAL"),
    **dict.fromkeys(("DOUBLE", "REAL"), "DOUBLE"),
    **dict.fromkeys(("CHAR", "VARCHAR", "TEXT", "MEDIUMTEXT", "LONGTEXT"), "CHAR"),
    **{name: name for name in (*_DATES, "JSON")},
    "TIMESTAMP": "DATETIME",
}
_WITH_DIGITS = ("DECIMAL", "CHAR", "DATETIME", "TIME")


class _Unknown(Exception):
    """What is not read here."""


def is_json_table(tokens: Sequence[Token], at: int) -> bool:
    return _is(tokens[at], "JSON_TABLE") and at + 1 < len(tokens) and tokens[at + 1].text == "("


def lateral(tokens: Sequence[Token], at: int) -> dict[int, str]:
    """What stands in the place of the tokens of the JSON_TABLE at that place; nothing where it is not read."""
    comma = _end_of_argument(tokens, at + 2)
    try:
        if tokens[comma].text != ",":
            return {}
        _require_string(tokens[comma + 1])
        columns, end = _columns(tokens, comma + 2)
        if tokens[end].text != ")":
            return {}
    except (_Unknown, IndexError):
        return {}
    selected = ", ".join(f"CAST({_null(type_)} AS {type_}) AS {name}" for name, type_ in columns)
    found = dict.fromkeys(range(comma, end), "")
    found[at], found[at + 1] = "LATERAL", f"(SELECT {selected} WHERE JSON_EXTRACT("
    found[comma] = ", '$') IS NOT NULL"
    return found


def _null(type_: str) -> str:
    """Of which the session's time zone is needed, where a string becomes this."""
    return "FROM_UNIXTIME(NULL)" if type_.startswith(_DATES) else "NULL"


def _end_of_argument(tokens: Sequence[Token], at: int) -> int:
    """Where the comma or the bracket behind the first argument stands."""
    depth = 0
    while at < len(tokens) and (depth or tokens[at].text not in (",", ")")):
        depth += (tokens[at].text == "(") - (tokens[at].text == ")")
        at += 1
    return at


def _columns(tokens: Sequence[Token], at: int) -> tuple[list[tuple[str, str]], int]:
    """Names and types of COLUMNS (...), and what stands behind."""
    if not _is(tokens[at], "COLUMNS") or tokens[at + 1].text != "(":
        raise _Unknown
    found: list[tuple[str, str]] = []
    at += 2
    while True:
        if _is(tokens[at], "NESTED"):
            at += 2 if _is(tokens[at + 1], "PATH") else 1
            _require_string(tokens[at])
            nested, at = _columns(tokens, at + 1)
            found += nested
        else:
            type_, end = _column(tokens, at + 1)
            found.append((tokens[at].text, type_))
            at = end
        if tokens[at].text == ")":
            return found, at + 1
        if tokens[at].text != ",":
            raise _Unknown
        at += 1


def _column(tokens: Sequence[Token], at: int) -> tuple[str, int]:
    """The type of a column, and what stands behind it."""
    if _is(tokens[at], "FOR") and _is(tokens[at + 1], "ORDINALITY"):
        return "UNSIGNED", at + 2
    name = tokens[at].text.upper() if tokens[at].kind == "word" else ""
    type_ = _TYPES.get(name)
    if type_ is None:
        raise _Unknown
    at += 1
    if tokens[at].text == "(":
        end = _end_of_brackets(tokens, at)
        digits = "".join(token.text for token in tokens[at:end])
        type_ += digits if type_ in _WITH_DIGITS else ""
        at = end
    if _is(tokens[at], "UNSIGNED"):
        type_, at = ("UNSIGNED" if type_ == "SIGNED" else type_), at + 1
    if _is(tokens[at], "COLLATE"):
        raise _Unknown
    at += 1 if _is(tokens[at], "EXISTS") else 0
    if not _is(tokens[at], "PATH"):
        raise _Unknown
    _require_string(tokens[at + 1])
    return type_, _behind_defaults(tokens, at + 2)


def _behind_defaults(tokens: Sequence[Token], at: int) -> int:
    """NULL ON EMPTY, DEFAULT '...' ON ERROR and the like."""
    while tokens[at].text not in (",", ")"):
        if _is(tokens[at], "DEFAULT"):
            _require_string(tokens[at + 1])
            at += 2
        elif _is(tokens[at], "NULL"):
            at += 1
        else:
            raise _Unknown
        if not (_is(tokens[at], "ON") and (_is(tokens[at + 1], "EMPTY") or _is(tokens[at + 1], "ERROR"))):
            raise _Unknown
        at += 2
    return at


def _end_of_brackets(tokens: Sequence[Token], at: int) -> int:
    while tokens[at].text != ")":
        at += 1
    return at + 1


def _is(token: Token, word: str) -> bool:
    return token.kind == "word" and token.text.upper() == word


def _require_string(token: Token) -> None:
    if token.kind != "string":
        raise _Unknown
