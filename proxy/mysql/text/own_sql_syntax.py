"""Upwell's own SQL: which texts are commands to the proxy, and what they say.

    CREATE CACHE [IF NOT EXISTS] [name] FROM { SELECT ... | QUERY 'id' }
    DROP CACHE [IF EXISTS] name
    FLUSH CACHE name
    SHOW CACHES [LIKE 'pattern']
    SHOW PROXIED QUERIES [LIKE 'pattern'] [LIMIT n]
    SHOW UPWELL STATUS [LIKE 'pattern']
    SHOW UPWELL SETTINGS [LIKE 'pattern']
    SET UPWELL name = { value | DEFAULT }
    EXPLAIN CREATE CACHE FROM SELECT ...
    EXPLAIN LAST STATEMENT
    SET [SESSION] boost_cached_queries = value

The last one is PlanetScale Boost's, which applications may still send. It does nothing.

A text is a command by its first words, comments aside; no statement of MySQL begins with them but `EXPLAIN last
statement` (a column of a table named `last`), which DESCRIBE says as well. Every other text is left to MySQL.
`proxy/mysql/session/run_command.py` carries them out. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from planner.text.fingerprint import unquote
from planner.text.scan import Token, is_keyword, place, scan
from sqltypes.errors import ParseError

NO_NAMES = ("FROM", "IF", "EXISTS", "NOT", "SELECT", "WITH")  # of caches, but between backquotes
LONGEST_PATTERN = 1000  # letters: each `%` of it is an expression of its own


@dataclass(frozen=True, slots=True)
class CreateCache:
    """`name` "": one is made up. `query`: the id of a query that MySQL has answered, in the place of `sql`."""

    sql: str
    name: str = ""
    if_not_exists: bool = False
    query: str = ""


@dataclass(frozen=True, slots=True)
class DropCache:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class FlushCache:
    name: str


@dataclass(frozen=True, slots=True)
class ShowCaches:
    """`like` None: all."""

    like: str | None = None


@dataclass(frozen=True, slots=True)
class ShowProxiedQueries:
    like: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ShowStatus:
    like: str | None = None


@dataclass(frozen=True, slots=True)
class ShowSettings:
    like: str | None = None


@dataclass(frozen=True, slots=True)
class SetSetting:
    """`value` None: DEFAULT."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ExplainCreateCache:
    """`query`: as of CreateCache."""

    sql: str
    query: str = ""


@dataclass(frozen=True, slots=True)
class ExplainLastStatement:
    pass


@dataclass(frozen=True, slots=True)
class SetBoost:
    """It does nothing."""


Command = (
    CreateCache
    | DropCache
    | FlushCache
    | ShowCaches
    | ShowProxiedQueries
    | ShowStatus
    | ShowSettings
    | SetSetting
    | ExplainCreateCache
    | ExplainLastStatement
    | SetBoost
)

Kind = Literal["string", "bigint", "double"]
"""What a column holds: str, int or float; None is NULL in each."""
Cell = str | int | float | None
Columns = tuple[tuple[str, Kind], ...]


@dataclass(frozen=True, slots=True)
class ResultTable:
    """An answer with rows, as `proxy/mysql/wire/result_set.py` takes it."""

    columns: Columns
    rows: list[tuple[Cell, ...]]


@dataclass(frozen=True, slots=True)
class Done:
    """An answer without. `info` is the OK packet's text, which the mysql client prints below `Query OK`."""

    info: str = ""


@dataclass(frozen=True, slots=True)
class LastStatement:
    """How a session's last statement was answered. `served`: hit, miss, passed or answered (by Upwell itself). `sql`:
    of a read that no cache matched; `locks`: it was a locking one."""

    served: str
    cache: str = ""
    reason: str = ""
    position: str = ""
    sql: str = ""
    locks: bool = False


# Space and comments, but for those that MySQL executes. Possessive: a long run of them is never tried twice.
_GAP = r"(?:\s|/\*(?![!+])(?:[^*]|\*(?!/))*+\*/|\#[^\n]*+(?:\n|\Z)|--(?=[\s\x00-\x1f]|\Z)[^\n]*+(?:\n|\Z))"
_SCOPE = "(?: SESSION | LOCAL | GLOBAL )"
_BOOST = rf"""
    SET {_GAP}++ (?: @@ (?: {_SCOPE} \. )? | {_SCOPE} {_GAP}++ )? boost_cached_queries {_GAP}*+ :?= {_GAP}*+
    (?: \w++ | '\w*+' | "\w*+" ) {_GAP}*+ (?: ;{_GAP}*+ )*+ \Z
"""
_HEAD = rf"""
    {_GAP}*+ (?: {_BOOST} | (?: (?: CREATE | DROP | FLUSH ) {_GAP}++ CACHES? | SET {_GAP}++ UPWELL
    | SHOW {_GAP}++ (?: CACHES? | PROXIED | UPWELL )
    | EXPLAIN {_GAP}++ (?: CREATE {_GAP}++ CACHES? | LAST {_GAP}++ STATEMENT {_GAP}*+ (?: ;{_GAP}*+ )*+ \Z ) )
    (?![\w$.]) )
"""
_FLAGS = re.IGNORECASE | re.VERBOSE
_is_command = re.compile(_HEAD, _FLAGS | re.ASCII).match
_is_boost = re.compile(rf"{_GAP}*+ {_BOOST}", _FLAGS | re.ASCII).match
_may_be_command = re.compile(_HEAD.encode(), _FLAGS).match


def may_be_command(query: bytes) -> bool:
    """Whether the text of a COM_QUERY in an ASCII-like character set is one of ours, so that it is worth decoding."""
    return _may_be_command(query) is not None


def recognise(sql: str) -> Command | None:
    """The command that the text is; None: it is MySQL's to answer. Raises ParseError for one of ours that is not
    complete or has more behind it, with what would be accepted."""
    if _is_command(sql) is None:
        return None
    if _is_boost(sql) is not None:
        return SetBoost()
    words = _Words(sql)
    for head, usage, read in _GRAMMAR:
        if words.take(*head):
            words.usage = usage
            return read(words)
    raise words.unknown()


class _Words:
    """The tokens of a command, taken one after the other."""

    def __init__(self, sql: str) -> None:
        self.usage = ""
        self._sql = sql
        self._tokens = scan(sql)
        self._at = 0

    def take(self, *expected: str) -> bool:
        """Whether these words come next; then they are taken."""
        tokens = self._tokens[self._at : self._at + len(expected)]
        if [token.text.upper() for token in tokens if token.kind == "word"] != list(expected):
            return False
        self._at += len(expected)
        return True

    def must(self, *expected: str) -> None:
        if not self.take(*expected):
            raise self.error(" ".join(expected))

    def next(self, kind: str) -> Token | None:
        """The next token, if it is of this kind; then it is taken."""
        if self._at < len(self._tokens) and self._tokens[self._at].kind == kind:
            self._at += 1
            return self._tokens[self._at - 1]
        return None

    def name(self) -> str:
        """A name, plain or between backquotes; "" where none comes. What may stand behind it is none."""
        quoted = self.next("quoted")
        if quoted is not None:
            return quoted.text[1:-1].replace("``", "`")
        if self._at < len(self._tokens) and not is_keyword(self._tokens[self._at], *NO_NAMES):
            plain = self.next("word")
            return plain.text if plain is not None else ""
        return ""

    def like(self) -> str | None:
        """The pattern of a LIKE, if one comes."""
        if not self.take("LIKE"):
            return None
        pattern = self.next("string")
        if pattern is None or len(pattern.text) > LONGEST_PATTERN:
            at = self._at - (pattern is not None)
            raise self.error(f"a pattern in quotes of up to {LONGEST_PATTERN} letters", at)
        return unquote(pattern.text)

    def limit(self) -> int | None:
        """The number of a LIMIT, if one comes."""
        if not self.take("LIMIT"):
            return None
        number = self.next("number")
        if number is None or not number.text.isdecimal():
            raise self.error("a whole number", self._at - (number is not None))
        return int(number.text)

    def assigned(self) -> str:
        """What stands behind `=`, up to the end; without its quotes where it is one string."""
        if self.next_text("=") is None and self.next_text(":=") is None:
            raise self.error("=")
        if self._at == len(self._tokens):
            raise self.error("a value")
        first, last = self._tokens[self._at], self._tokens[-1]
        return unquote(first.text) if first is last and first.kind == "string" else self._sql[first.start : last.end]

    def next_text(self, text: str) -> Token | None:
        """The next token, if it is this one; then it is taken."""
        if self._at < len(self._tokens) and self._tokens[self._at].text == text:
            return self.next(self._tokens[self._at].kind)
        return None

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise self.error("the end of the statement")

    def select(self) -> str:
        """All that is left, the SELECT of a cache. The planner says what is wrong with it."""
        if self._at == len(self._tokens):
            raise self.error("a SELECT")
        return self._sql[self._tokens[self._at].start : self._tokens[-1].end]

    def error(self, expected: str, at: int | None = None) -> ParseError:
        at = self._at if at is None else at
        offset = self._tokens[at].start if at < len(self._tokens) else len(self._sql.rstrip())
        where = place(self._sql, offset) if at < len(self._tokens) else "at the end"
        return ParseError(f"{expected} is expected {where}; accepted is: {self.usage}")

    def unknown(self) -> ParseError:
        """The error of a text that begins as no command does: what could stand in the place where it differs."""
        spoken = [token.text.upper() for token in self._tokens]
        alike = max(_common(head, spoken) for head, _, _ in _GRAMMAR)
        heads = [(head, usage) for head, usage, _ in _GRAMMAR if _common(head, spoken) == alike]
        self.usage = ", or ".join(usage for _, usage in heads)
        return self.error(" or ".join(dict.fromkeys(head[alike] for head, _ in heads)), alike)


def _common(head: tuple[str, ...], spoken: list[str]) -> int:
    """With how many words of a command's head a text begins."""
    return next((at for at, word in enumerate(head) if spoken[at : at + 1] != [word]), len(head))


def _create(words: _Words) -> CreateCache:
    if_not_exists = words.take("IF", "NOT", "EXISTS")
    name = words.name()
    words.must("FROM")
    if not words.take("QUERY"):
        return CreateCache(words.select(), name, if_not_exists)
    id_ = words.next("string") or words.next("word")
    if id_ is None:
        raise words.error("the id of a query")
    words.end()
    return CreateCache("", name, if_not_exists, unquote(id_.text) if id_.kind == "string" else id_.text)


def _drop(words: _Words) -> Command:
    if_exists = words.take("IF", "EXISTS")
    return DropCache(_only_name(words), if_exists)


def _flush(words: _Words) -> Command:
    return FlushCache(_only_name(words))


def _only_name(words: _Words) -> str:
    name = words.name()
    if not name:
        raise words.error("the name of a cache")
    words.end()
    return name


def _set(words: _Words) -> Command:
    name = words.name()
    while name and words.next_text("-") is not None:
        name += "-" + words.name()
    if not name:
        raise words.error("the name of a setting")
    value = words.assigned()
    return SetSetting(name, None if value.upper() == "DEFAULT" else value)


def _show_caches(words: _Words) -> Command:
    like = words.like()
    words.end()
    return ShowCaches(like)


def _show_proxied(words: _Words) -> Command:
    like = words.like()
    limit = words.limit()
    words.end()
    return ShowProxiedQueries(like, limit)


def _show_status(words: _Words) -> Command:
    like = words.like()
    words.end()
    return ShowStatus(like)


def _show_settings(words: _Words) -> Command:
    like = words.like()
    words.end()
    return ShowSettings(like)


def _explain_create(words: _Words) -> Command:
    create = _create(words)
    return ExplainCreateCache(create.sql, create.query)


def _explain_last(words: _Words) -> Command:
    words.end()
    return ExplainLastStatement()


_GRAMMAR: tuple[tuple[tuple[str, ...], str, Callable[[_Words], Command]], ...] = (
    (("CREATE", "CACHE"), "CREATE CACHE [IF NOT EXISTS] [name] FROM SELECT ... or FROM QUERY 'id'", _create),
    (("DROP", "CACHE"), "DROP CACHE [IF EXISTS] name", _drop),
    (("FLUSH", "CACHE"), "FLUSH CACHE name", _flush),
    (("SHOW", "CACHES"), "SHOW CACHES [LIKE 'pattern']", _show_caches),
    (("SHOW", "PROXIED", "QUERIES"), "SHOW PROXIED QUERIES [LIKE 'pattern'] [LIMIT n]", _show_proxied),
    (("SHOW", "UPWELL", "STATUS"), "SHOW UPWELL STATUS [LIKE 'pattern']", _show_status),
    (("SHOW", "UPWELL", "SETTINGS"), "SHOW UPWELL SETTINGS [LIKE 'pattern']", _show_settings),
    (("SET", "UPWELL"), "SET UPWELL name = value or DEFAULT", _set),
    (("EXPLAIN", "CREATE", "CACHE"), "EXPLAIN CREATE CACHE FROM SELECT ...", _explain_create),
    (("EXPLAIN", "LAST", "STATEMENT"), "EXPLAIN LAST STATEMENT", _explain_last),
)


def like(pattern: str) -> Callable[[str], bool]:
    """Whether a text is LIKE the pattern: `%` any characters, `_` one, a backslash before either for itself; case does
    not matter.

    The pattern is looked for piece by piece: one expression with several `.*` may take for ever.
    """
    pieces = [""]
    escaped = False
    for character in pattern:
        if escaped or character not in "%\\":
            pieces[-1] += "." if character == "_" and not escaped else re.escape(character)
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            pieces.append("")
    if escaped:
        pieces[-1] += re.escape("\\")
    found = [re.compile(piece, re.IGNORECASE | re.DOTALL) for piece in pieces]
    last = re.compile(f"(?:{pieces[-1]})\\Z", re.IGNORECASE | re.DOTALL)

    def matches(text: str) -> bool:
        if len(found) == 1:
            return found[0].fullmatch(text) is not None
        first = found[0].match(text)
        at = first.end() if first is not None else None
        for piece in found[1:-1]:
            if at is None:
                return False
            inner = piece.search(text, at)
            at = inner.end() if inner is not None else None
        return at is not None and last.search(text, at) is not None

    return matches
