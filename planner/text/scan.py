"""The text before the parser: tokens with their positions, version comments, and the one spelling of equal queries.

The scanner follows MySQL's lexical rules in the default SQL mode ("..." is a string, backslash escapes). It decides
nothing about grammar. Positions are offsets into the text that was given; version comments are blanked in place so
that offsets stay true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from sqltypes.errors import ParseError

ServerVersion = tuple[int, int, int]
DEFAULT_VERSION: ServerVersion = (8, 0, 0)
ANY_VERSION: ServerVersion = (99, 99, 99)  # whose server reads every version comment


def words(text: str) -> frozenset[str]:
    """A set of words, written with spaces between them."""
    return frozenset(text.split())


class Token(NamedTuple):
    """`kind`: word, quoted, string, number, hex, bit, param, variable, hint, op (and comment). `text` as written;
    `start`, `end`: its span."""

    kind: str
    text: str
    start: int
    end: int


# Each alternative is possessive where it repeats, and what is not closed matches nowhere: no text is gone over twice.
_TOKEN = re.compile(
    r"""
    \s*+
    (?:
      (?P<comment>\#[^\n]*+|--(?=[\s\x00-\x1f]|$)[^\n]*+|/\*(?![+!])[^*]*+(?:\*(?!/)[^*]*+)*+\*/)
    | (?P<hint>/\*\+[^*]*+(?:\*(?!/)[^*]*+)*+\*/)
    | (?P<hex>[xX]'[0-9a-fA-F]*'|0x[0-9a-fA-F]++(?![\w$]))
    | (?P<bit>[bB]'[01]*'|0b[01]++(?![\w$]))
    | (?P<string>'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'|"[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*+")
    | (?P<quoted>`[^`]*+(?:``[^`]*+)*+`)
    | (?P<number>(?:\d++\.\d*+|\.\d++)(?:[eE][+-]?\d++)?|\d++[eE][+-]?\d++|\d++(?![\w$]))
    | (?P<variable>@@?(?:[\w$.]++|`[^`]*+`|'[^']*+'|"[^"]*+")?)
    | (?P<word>[\w$]++)
    | (?P<param>\?(?:\.\.\.|…)?)
    | (?P<op><=>|->>|<>|!=|<=|>=|:=|\|\||&&|->|<<|>>|/(?!\*[^!])|[-+*%=<>(),.;!~^&|{}:])
    | \Z
    )
    """,
    re.VERBOSE | re.DOTALL,
)

_SPACE = re.compile(r"\s+")

# Reserved words: the only ones that are surely no names, so the only ones whose case may be folded.
KEYWORDS = words(
    """
    ALL AND AS ASC BETWEEN BINARY BY CASE CAST COLLATE CONVERT CROSS DESC DISTINCT DISTINCTROW DIV ELSE END EXCEPT
    EXISTS FALSE FOR FORCE FROM FULL GROUP HAVING HIGH_PRIORITY IF IGNORE IN INDEX INNER INTERSECT INTERVAL INTO
    IS JOIN KEY LATERAL LEFT LIKE LIMIT LOCK MOD NATURAL NOT NULL OFFSET ON OR ORDER OUTER OVER PARTITION
    RECURSIVE REGEXP RIGHT RLIKE SELECT SEPARATOR SHARE SQL_NO_CACHE STRAIGHT_JOIN THEN TRUE UNION UPDATE USE
    USING WHEN WHERE WINDOW WITH XOR
    """
)

_VERSION_COMMENT = re.compile(r"/\*!(\d{5,6})?")


_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def server_version(text: str) -> ServerVersion | None:
    """The version that a server tells of itself; None where that is not three numbers.

    >>> server_version("8.0.36-0ubuntu0.22.04.1")
    (8, 0, 36)
    """
    match = _VERSION.match(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def unwrap_version_comments(sql: str, version: ServerVersion) -> str:
    """`/*!NNNNN text */` keeps its text where the server is at least that version, else becomes blanks. Length is
    unchanged.

    As MySQL's scanner does it: what is read ends at the first `*/` that stands outside of strings, names and other
    comments; what is passed over may have one comment inside. Raises ParseError for a comment that is not closed.

    >>> unwrap_version_comments("SELECT /*!80000 a, */ b /*!99999 , c */", (8, 4, 0))
    'SELECT          a,    b                '
    """
    if "/*!" not in sql:
        return sql
    number = version[0] * 10000 + version[1] * 100 + version[2]
    out: list[str] = []
    position, opened = 0, -1
    while position < len(sql):
        match = _VERSION_COMMENT.match(sql, position)
        if match is not None and int(match[1] or 0) <= number:
            opened, end = position, match.end()
            out.append(" " * (end - position))
        elif match is not None:
            end = _passed_over(sql, match.end())
            out.append(" " * (end - position))
        elif opened >= 0 and sql.startswith("*/", position):
            opened, end = -1, position + 2
            out.append("  ")
        elif (space := _SPACE.match(sql, position)) is not None:
            end = space.end()
            out.append(space[0])
        else:
            token = _TOKEN.match(sql, position)
            end = token.end() if token else position + 1
            if sql.startswith("/*", position) and end == position + 1:
                raise ParseError(f"comment is not closed: {sql[position : position + 30]!r}")
            out.append(sql[position:end])
        position = end
    if opened >= 0:
        raise ParseError(f"comment is not closed: {sql[opened : opened + 30]!r}")
    return "".join(out)


_WARNED_OF = re.compile(r"/\*!(?:\d{5,6}+(?!\s)|(?:[^*/]|\*(?!/)|/(?!\*))*+/\*)")


def is_warned_of(sql: str) -> bool:
    """Whether MySQL warns of a version comment: of one whose text is right behind the number, or that has a comment
    inside; perhaps of others, too."""
    return "/*!" in sql and _WARNED_OF.search(sql) is not None


def _passed_over(sql: str, start: int) -> int:
    """The end of a version comment that is not read."""
    position = start
    while True:
        end, inner = sql.find("*/", position), sql.find("/*", position)
        if end < 0:
            raise ParseError(f"comment is not closed: {sql[start : start + 30]!r}")
        if inner < 0 or end < inner:
            return end + 2
        inner_end = sql.find("*/", inner + 2)
        if inner_end < 0:
            raise ParseError(f"comment is not closed: {sql[inner : inner + 30]!r}")
        position = inner_end + 2


def scan(sql: str) -> list[Token]:
    """All tokens but space and comments. Raises ParseError with the position of what is no token."""
    return without_comments(scan_all(sql))


def without_comments(tokens: Sequence[Token]) -> list[Token]:
    """What `scan` gives, out of what `scan_all` gives."""
    kept = [token for token in tokens if token.kind != "comment"]
    while kept and kept[-1].text == ";":
        kept.pop()
    return kept


def scan_all(sql: str) -> list[Token]:
    """All tokens but space: also comments, as tokens of that kind, and `;` at the end. Raises ParseError."""
    found: list[Token] = []
    for match in iter(_TOKEN.scanner(sql).match, None):  # type: ignore[attr-defined]  # each where the last one ended
        kind = match.lastgroup
        if kind is None:
            return found
        found.append(Token(kind, match[match.lastindex], *match.span(match.lastindex)))
    raise _unread(sql, found[-1].end if found else 0)


def scan_each(sql: str) -> Iterator[Token]:
    """`scan_all`, token by token, without a list of all."""
    end = 0
    for match in iter(_TOKEN.scanner(sql).match, None):  # type: ignore[attr-defined]
        kind = match.lastgroup
        if kind is None:
            return
        start, end = match.span(match.lastindex)
        yield Token(kind, match[match.lastindex], start, end)
    raise _unread(sql, end)


def _unread(sql: str, end: int) -> ParseError:
    """`end`: of what could be read."""
    space = _SPACE.match(sql, end)
    return ParseError(f"cannot read the text {place(sql, space.end() if space else end)}")


def places_of(tokens: Sequence[Token], *wanted: str) -> list[int]:
    """Where one of these words stands, which are written in upper case."""
    return [at for at, token in enumerate(tokens) if token.kind == "word" and token.text.upper() in wanted]


_ROUGHLY = re.compile(
    r"""'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'|"[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*+"|`[^`]*+`|[\w$]++|[^\w\s]""", re.DOTALL
)


def tokens_at_most(sql: str, most: int) -> bool:
    """Whether the text has about so many tokens or fewer, told in no more time than it takes to read so many."""
    return len(sql) <= most * 64 and next(islice(_ROUGHLY.finditer(sql), most, None), None) is None


def preparable(sql: str) -> str:
    """A cache's text as MySQL can prepare it: the list parameter `?...` is not known there.

    >>> preparable("SELECT a FROM t WHERE a IN (?...)")
    'SELECT a FROM t WHERE a IN (?)'
    """
    if "?." not in sql and "?…" not in sql:
        return sql
    for token in reversed(scan(sql)):
        if token.kind == "param":
            sql = f"{sql[: token.start]}?{sql[token.end :]}"
    return sql


def place(sql: str, offset: int) -> str:
    """Where an offset is, for messages: "at line 1, column 8, near 'FRM t'"."""
    line = sql.count("\n", 0, offset) + 1
    column = offset - (sql.rfind("\n", 0, offset) + 1) + 1
    return f"at line {line}, column {column}, near {sql[offset : offset + 40]!r}"


# ----------------------------------------------------------------------------------------------------------------------
# One spelling.

_TIGHT_BEFORE = frozenset({",", ")", ".", ";"})
_TIGHT_AFTER = frozenset({"(", "."})


def spell(pieces: Sequence[tuple[str, bool, bool]]) -> str:
    """Joins (text, is a name or function that may not be parted from "(", was parted from its forerunner) with single
    spaces."""
    out: list[str] = []
    before, before_is_name = "(", False
    for text, is_name, parted in pieces:
        tight = before in _TIGHT_AFTER or text in _TIGHT_BEFORE or (text == "(" and before_is_name and not parted)
        if out and not tight:
            out.append(" ")
        out.append(text)
        before, before_is_name = text, is_name
    return "".join(out)


def folded(token: Token, after_dot: bool) -> str:
    """The token's text with the case of a keyword folded; a name after a dot is a name whatever it is called."""
    if token.kind == "word" and not after_dot:
        upper = token.text.upper()
        if upper in KEYWORDS:
            return upper
    return token.text


def is_keyword(token: Token, *words: str) -> bool:
    """Whether the token is one of these reserved words (upper case)."""
    return token.kind == "word" and token.text.upper() in words


# ----------------------------------------------------------------------------------------------------------------------
# The select list of the outermost SELECT: MySQL names a column without alias by its text, so that text must survive.

MODIFIERS = words(
    """
    ALL DISTINCT DISTINCTROW HIGH_PRIORITY STRAIGHT_JOIN SQL_SMALL_RESULT SQL_BIG_RESULT SQL_BUFFER_RESULT
    SQL_NO_CACHE SQL_CALC_FOUND_ROWS
    """
)
_ENDS_LIST = (
    "FROM",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "WHERE",
    "HAVING",
    "GROUP",
    "ORDER",
    "LIMIT",
    "INTO",
    "FOR",
    "WINDOW",
)


def select_items(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Token ranges [first, end) of the items of the outermost (first) select list; [] where there is none.

    >>> sql = "SELECT a.id, COUNT(*) FROM a"
    >>> [sql[t[s].start:t[e - 1].end] for t in [scan(sql)] for s, e in select_items(t)]
    ['a.id', 'COUNT(*)']
    """
    start = _select_list_start(tokens)
    items: list[tuple[int, int]] = []
    depth, first, index = 0, start, start
    while index < len(tokens):
        token = tokens[index]
        if token.text == "(":
            depth += 1
        elif token.text == ")":
            depth -= 1
            if depth < 0:
                break
        elif depth == 0 and token.text == ",":
            items.append((first, index))
            first = index + 1
        elif depth == 0 and is_keyword(token, *_ENDS_LIST) and tokens[index - 1].text != ".":
            break
        index += 1
    if first < index:
        items.append((first, index))
    return items


def _select_list_start(tokens: Sequence[Token]) -> int:
    depth = 0
    with_clause = bool(tokens) and is_keyword(tokens[0], "WITH")
    for index, token in enumerate(tokens):
        if token.text == "(":
            depth += 1
        elif token.text == ")":
            depth -= 1
        elif is_keyword(token, "SELECT") and (depth == 0 or not with_clause):
            index += 1
            while index < len(tokens) and (tokens[index].kind == "hint" or tokens[index].text.upper() in MODIFIERS):
                index += 1
            return index
    return len(tokens)


def counts_found(tokens: Sequence[Token]) -> Token | None:
    """The SQL_CALC_FOUND_ROWS of the outermost (first) SELECT, which stands in no brackets; None where it has none.

    >>> counts_found(scan("SELECT DISTINCT sql_calc_found_rows a FROM t LIMIT 1")).start
    16
    """
    if not places_of(tokens, "SQL_CALC_FOUND_ROWS"):
        return None
    at = _select_list_start(tokens) - 1
    while tokens and tokens[0].text != "(" and at >= 0 and not is_keyword(tokens[at], "SELECT"):
        if tokens[at].text.upper() == "SQL_CALC_FOUND_ROWS":
            return tokens[at]
        at -= 1
    return None


def is_named(tokens: Sequence[Token], item: tuple[int, int]) -> bool:
    """Whether an item's column name does not depend on its spelling: a column, a star, or an alias with AS."""
    first, end = item
    depth = 0
    for token in tokens[first:end]:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and is_keyword(token, "AS"):
            return True
    kinds = [token.kind if token.text != "*" else "word" for token in tokens[first:end]]
    return all(
        [
            (kind in ("word", "quoted")) if index % 2 == 0 else tokens[first + index].text == "."
            for index, kind in enumerate(kinds)
        ]
    )
