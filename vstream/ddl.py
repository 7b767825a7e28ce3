"""What a statement in the binlog is, and which tables it concerns, read leniently.

With row format a statement is in the binlog only if it is DDL, transaction control or account management. What is not
recognised counts as DDL on everything: emptying too much costs upqueries, emptying too little gives stale answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache

ANSI_QUOTES, NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20  # of sql_mode
_VERSION = re.compile(r"/\*!(\d*)")
_STRING, _STRING_AS_IT_IS = r"{0}(?:[^{0}\\]|\\.|{0}{0})*{0}", r"{0}(?:[^{0}]|{0}{0})*{0}"
_XID = re.compile(rb"XA\s+(COMMIT|ROLLBACK|START|END|PREPARE)\s+(.*?)\s*(ONE\s+PHASE)?\s*$", re.IGNORECASE | re.DOTALL)

_NAME = re.compile(r"[\w$\u0080-\uffff]+")
ALL = "*"  # in the place of a table's name

# A function that writes is logged as SELECT f(), whatever called it.
_ROWS_BY_STATEMENT = frozenset({
    "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "DO", "SELECT", "WITH", "HANDLER",
})  # fmt: skip
_HARMLESS = frozenset({
    "ANALYZE", "OPTIMIZE", "CHECK", "CHECKSUM", "GRANT", "REVOKE", "SET", "FLUSH", "INSTALL", "UNINSTALL", "RESET",
    "LOCK", "UNLOCK", "USE", "CHANGE", "KILL", "CACHE", "PURGE", "SHUTDOWN", "RESTART", "BINLOG", "SAVEPOINT",
    "RELEASE",
})  # fmt: skip
_ACCOUNTS = frozenset({"GRANT", "REVOKE", "FLUSH", "SET"})
_ACCOUNT_OBJECTS = frozenset({"USER", "ROLE", "DEFAULT", "PASSWORD"})
_HARMLESS_OBJECTS = frozenset({
    "FUNCTION", "PROCEDURE", "TRIGGER", "EVENT", "SERVER", "TABLESPACE", "LOGFILE", "UNDO", "RESOURCE",
    "INSTANCE", "LIBRARY", "TEMPORARY", "PREPARE",
})  # fmt: skip
_TABLES_OBJECTS = frozenset({
    "TABLE", "TABLES", "VIEW", "INDEX", "UNIQUE", "FULLTEXT", "SPATIAL", "DATABASE", "SCHEMA",
})  # fmt: skip
_CREATE_TABLE = re.compile(r"\s*CREATE\s+TABLE\s", re.IGNORECASE)
_OF_INDEXES = frozenset({
    *(f"{verb} {what}" for verb in ("ADD", "DROP", "RENAME", "ALTER") for what in ("INDEX", "KEY")),
    "ADD UNIQUE", "ADD FULLTEXT", "ADD SPATIAL", "ALGORITHM =", "LOCK =",
})  # fmt: skip
_ALWAYS_RUN = 80000  # what stands in a comment of this version, or an older one, is run by every server followed


class Kind(Enum):
    BEGIN = auto()
    COMMIT = auto()
    ROLLBACK = auto()
    ROLLBACK_TO = auto()
    XA = auto()
    DDL = auto()
    ROWS = auto()  # changes rows without row events
    HARMLESS = auto()


@dataclass(frozen=True, slots=True)
class Statement:
    """`tables`: `schema.name` of each table and view that a DDL concerns, `schema.*` for a whole schema; None: unknown,
    so all.

    `xa`: for XA, the verb and the xid as written; `starts_transaction`: the rows of CREATE TABLE ... SELECT follow.
    `accounts`: it may change rights. `schema` False: a DDL that only empties tables.
    """

    kind: Kind
    tables: frozenset[str] | None = frozenset()
    xa: tuple[str, bytes] | None = None
    starts_transaction: bool = False
    accounts: bool = False
    schema: bool = True


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    plain: bool  # not quoted: may be a keyword

    def __str__(self) -> str:
        """As a keyword. None has other letters than ASCII's, though `upper` makes some of them ASCII."""
        return self.text.upper() if self.plain and self.text.isascii() else ""


def classify(query: str, database: str, mode: int | None = 0) -> Statement:
    """`database`: the session's default, for names without one. `mode`: the bits of its sql_mode; None: not known."""
    doubtful = _is_doubtful(query, mode)
    statement = _classified(query, database, mode or 0)
    if not doubtful or statement.kind not in (Kind.DDL, Kind.HARMLESS):
        return statement
    return replace(statement, kind=Kind.DDL, tables=None, schema=True)


def _classified(query: str, database: str, mode: int) -> Statement:
    first = str(next(_words(query, mode), ""))
    if first in _ROWS_BY_STATEMENT:  # before the rest is read: it may be megabytes
        return Statement(Kind.ROWS, None)
    if not first or first in _HARMLESS:
        return Statement(Kind.HARMLESS, accounts=first in _ACCOUNTS)
    words = list(_words(query, mode))
    second = str(words[1]) if len(words) > 1 else ""
    if first in ("BEGIN", "START"):
        return Statement(Kind.BEGIN)
    if first == "COMMIT":
        return Statement(Kind.COMMIT)
    if first == "ROLLBACK":
        return Statement(Kind.ROLLBACK_TO if any(str(w) == "TO" for w in words) else Kind.ROLLBACK)
    if first == "XA":
        return _xa(query)
    if first in ("CREATE", "ALTER", "DROP", "RENAME"):
        return _definition(first, words, database)
    if first == "TRUNCATE":
        names = _names(words, 2 if second == "TABLE" else 1, database)
        return Statement(Kind.DDL, names, schema=False)
    return Statement(Kind.DDL, None)


def _is_doubtful(query: str, mode: int | None) -> bool:
    """Whether some words may differ from those that MySQL has read: a version comment that not every server runs, a
    quote without an end, quotes of unknown meaning."""
    if "/*!" in query:
        numbers = _VERSION.findall(query)
        if any(len(number) > 6 or int(number or 0) > _ALWAYS_RUN for number in numbers):
            return True
    if mode is None and ('"' in query or "\\" in query):
        return True
    return "\0" in query


def _xa(query: str) -> Statement:
    match = _XID.match(query.encode().strip())
    if match is None:
        return Statement(Kind.DDL, None)
    return Statement(Kind.XA, frozenset(), (match[1].decode().upper(), match[2]))


def _definition(verb: str, words: Sequence[_Word], database: str) -> Statement:
    at = _object_at(words)
    if at is None:
        return Statement(Kind.DDL, None)
    what = str(words[at])
    if what in _ACCOUNT_OBJECTS:
        return Statement(Kind.HARMLESS, accounts=True)
    if what in _HARMLESS_OBJECTS or (what in ("DATABASE", "SCHEMA") and verb != "DROP"):
        return Statement(Kind.HARMLESS)
    if what in ("DATABASE", "SCHEMA"):
        return Statement(Kind.DDL, _of_schema(words, at + 1))
    if what == "SPATIAL" and [str(word) for word in words[at + 1 : at + 2]] != ["INDEX"]:
        return Statement(Kind.DDL, None)  # a reference system, by which distances are measured
    if what in ("INDEX", "UNIQUE", "FULLTEXT", "SPATIAL"):
        # What is held does not depend on an index that comes, but MySQL announces it in the flags of columns.
        on = next((n for n, word in enumerate(words) if str(word) == "ON"), None)
        return Statement(Kind.DDL, _names(words, on + 1, database, one=True) if on is not None else None)
    if what == "TABLE" and verb == "ALTER":
        return Statement(Kind.DDL, _altered(words, at + 1, database))
    if what in ("TABLE", "TABLES", "VIEW"):
        starts = verb == "CREATE" and [str(w) for w in words[-2:]] == ["START", "TRANSACTION"]
        names = _names(words, at + 1, database, one=verb in ("CREATE", "ALTER"))
        return Statement(Kind.DDL, names, starts_transaction=starts)
    return Statement(Kind.DDL, None)


def _object_at(words: Sequence[_Word]) -> int | None:
    """The index of the word that names the kind of object, after OR REPLACE, ALGORITHM = ..., DEFINER = ... and SQL
    SECURITY ...; None if anything else stands before it."""
    at = 1
    while at < len(words):
        text, next_ = str(words[at]), str(words[at + 1]) if at + 1 < len(words) else ""
        if text in _TABLES_OBJECTS or text in _HARMLESS_OBJECTS or text in _ACCOUNT_OBJECTS:
            return at
        if (text, next_) == ("OR", "REPLACE"):
            at += 2
        elif text == "AGGREGATE":
            at += 1
        elif (text, next_) == ("ALGORITHM", "=") or (text, next_) == ("SQL", "SECURITY"):
            at += 3
        elif (text, next_) == ("DEFINER", "="):
            at = _behind_account(words, at + 2)
        else:
            return None
    return None


def _behind_account(words: Sequence[_Word], at: int) -> int:
    """user, user@host, CURRENT_USER, CURRENT_USER()."""
    rest = [word.text if word.plain else "" for word in words[at + 1 : at + 3]]
    return at + (3 if rest[:1] == ["@"] or rest == ["(", ")"] else 1)


def _altered(words: Sequence[_Word], at: int, database: str) -> frozenset[str] | None:
    """ALTER TABLE t ..., RENAME TO u; ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u."""
    found = _names(words, at, database, one=True)
    if found is None:
        return None
    for n, word in enumerate(words[:-1]):
        target: int | None = None
        if str(word) == "RENAME" and str(words[n + 1]) not in ("COLUMN", "INDEX", "KEY"):
            target = n + 2 if str(words[n + 1]) in ("TO", "AS", "=") else n + 1
        elif str(word) == "WITH" and str(words[n + 1]) == "TABLE":
            target = n + 2
        if target is not None:
            more = _names(words, target, database, one=True)
            if more is None:
                return None
            found |= more
    return found


def _of_schema(words: Sequence[_Word], at: int) -> frozenset[str] | None:
    """DROP DATABASE [IF EXISTS] d."""
    if [str(word) for word in words[at : at + 2]] == ["IF", "EXISTS"]:
        at += 2
    if len(words) != at + 1 or not _is_name(words[at]):
        return None
    return frozenset({f"{words[at].text}.{ALL}"})


def _names(words: Sequence[_Word], at: int, database: str, one: bool = False) -> frozenset[str] | None:
    """The names that stand from `at`: a, b.c or, for RENAME, a TO b, c TO d. `one`: of the first, whatever follows.
    None if what stands there is no name, or anything else stands behind the last."""
    found = set()
    ahead = [str(word) for word in words[at : at + 3]]
    if ahead[:2] == ["IF", "EXISTS"]:
        at += 2
    elif ahead == ["IF", "NOT", "EXISTS"]:
        at += 3
    while at < len(words):
        name, table = words[at], words[at + 2] if at + 2 < len(words) and _is_mark(words[at + 1], ".") else None
        if not _is_name(name) or not (table is None or _is_name(table)):
            return None
        if table is not None:
            found.add(f"{name.text}.{table.text}")
        elif database:
            found.add(f"{database}.{name.text}")
        else:
            return None
        at += 1 if table is None else 3
        if one:
            return frozenset(found) if at >= len(words) or _may_follow(words[at]) else None
        if at >= len(words) or not (_is_mark(words[at], ",") or str(words[at]) == "TO"):
            break
        at += 1
    rest = [str(word) for word in words[at:]]
    return frozenset(found) or None if rest in ([], [";"], ["RESTRICT"], ["CASCADE"]) else None


def _is_mark(word: _Word, mark: str) -> bool:
    return word.plain and word.text == mark


def _is_name(word: _Word) -> bool:
    return bool(word.text) and (not word.plain or _NAME.fullmatch(word.text) is not None)


def _may_follow(word: _Word) -> bool:
    """Whether a name may have ended before it."""
    return word.plain and (word.text in ("(", ",", ";") or _NAME.fullmatch(word.text) is not None)


@cache
def _token(mode: int) -> re.Pattern[str]:
    """What stands behind a quote without an end is marks: no names."""
    string = _STRING_AS_IT_IS if mode & NO_BACKSLASH_ESCAPES else _STRING
    quoted, texts = [_STRING_AS_IT_IS.format("`")], [string.format("'")]
    if mode & ANSI_QUOTES:
        quoted.append(_STRING_AS_IT_IS.format('"'))
    else:
        texts.append(string.format('"'))
    return re.compile(
        rf"""[ \t\n\v\f\r]+|--(?=[\x00-\x20\x7f]|\Z)[^\n]*|\#[^\n]*|/\*(?!!).*?\*/|/\*!\d*|\*/
        |(?P<quoted>{"|".join(quoted)})|(?P<text>{"|".join(texts)})
        |(?P<word>[\w$\u0080-\uffff]+)|(?P<mark>.)""",
        re.VERBOSE | re.DOTALL,
    )


def _words(query: str, mode: int) -> Iterator[_Word]:
    """Tokens without comments; what stands in a version comment counts as if it stood outside."""
    for match in _token(mode & (ANSI_QUOTES | NO_BACKSLASH_ESCAPES)).finditer(query):
        kind, found = match.lastgroup, match[0]
        if kind in ("word", "mark"):
            yield _Word(found, True)
        elif kind == "quoted":
            yield _Word(found[1:-1].replace(found[0] * 2, found[0]), False)
        elif kind == "text":
            yield _Word("", False)


def keeps_rows(query: str) -> bool:
    """Whether a DDL statement surely leaves the rows and columns of all tables as they are: a table is made, or indexes
    come and go. False where that is not certain."""
    if _CREATE_TABLE.match(query):
        return True
    if any(mark in query for mark in ("\\", '"', "/*!")):
        return False  # what a quote means is not told here
    words = list(_words(query, 0))
    verb, at = str(words[0]) if words else "", _object_at(words)
    what = str(words[at]) if at is not None else ""
    if verb in ("CREATE", "DROP"):
        return what in ("INDEX", "UNIQUE", "FULLTEXT") or [str(word) for word in words[1:3]] == ["SPATIAL", "INDEX"]
    if verb != "ALTER" or what != "TABLE" or at is None:
        return False
    behind = at + (4 if len(words) > at + 2 and _is_mark(words[at + 2], ".") else 2)
    return all(" ".join(map(str, part[:2])) in _OF_INDEXES for part in _parts(words[behind:]))


def _parts(words: Sequence[_Word]) -> Iterator[list[_Word]]:
    """What stands between commas outside of brackets."""
    part: list[_Word] = []
    depth = 0
    for word in words:
        depth += _is_mark(word, "(") - _is_mark(word, ")")
        if _is_mark(word, ",") and not depth:
            yield part
            part = []
        elif not _is_mark(word, ";"):
            part.append(word)
    yield part
