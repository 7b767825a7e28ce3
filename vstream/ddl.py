"""What a statement in the binlog is, and which tables it concerns, read leniently.

With row format a statement is in the binlog only if it is DDL, transaction control or account management. What is not
recognised counts as DDL on everything: emptying too much costs upqueries, emptying too little gives stale answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

_TOKEN = re.compile(
    r"""\s+|--[ \t][^\n]*|\#[^\n]*|/\*(?!!).*?\*/|(?P<open>/\*!\d*)|(?P<close>\*/)
    |(?P<quoted>`(?:[^`]|``)*`)|(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<word>[\w$\u0080-\uffff]+)|(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
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
    "SPATIAL", "INSTANCE", "LIBRARY", "TEMPORARY", "PREPARE",
})  # fmt: skip


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
    """`tables`: `schema.name` of what a DDL concerns, views included, `schema.*` of all that a schema has; None: not
    known, so all.

    `xa`: for XA, the verb and the xid as written; `starts_transaction`: the rows of CREATE TABLE ... SELECT follow.
    `accounts`: it may change who may read what. `schema` False: of a DDL that only empties tables.
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
        return self.text.upper() if self.plain else ""


def classify(query: str, database: str) -> Statement:
    """`database`: the session's default, for names without one."""
    first = str(next(_words(query), ""))
    if first in _ROWS_BY_STATEMENT:  # before the rest is read: it may be megabytes
        return Statement(Kind.ROWS, None)
    if not first or first in _HARMLESS:
        return Statement(Kind.HARMLESS, accounts=first in _ACCOUNTS)
    words = list(_words(query))
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
    if what in ("INDEX", "UNIQUE", "FULLTEXT"):
        if verb == "CREATE":  # nothing of what is held depends on an index that comes
            return Statement(Kind.HARMLESS)
        on = next((n for n, word in enumerate(words) if str(word) == "ON"), None)
        return Statement(Kind.DDL, _names(words, on + 1, database) if on is not None else None)
    if what == "TABLE" and verb == "ALTER":
        return Statement(Kind.DDL, _altered(words, at + 1, database))
    if what in ("TABLE", "TABLES", "VIEW"):
        starts = verb == "CREATE" and [str(w) for w in words[-2:]] == ["START", "TRANSACTION"]
        return Statement(Kind.DDL, _names(words, at + 1, database), starts_transaction=starts)
    return Statement(Kind.DDL, None)


def _object_at(words: Sequence[_Word]) -> int | None:
    """Where the kind of object is named, behind OR REPLACE, ALGORITHM = ..., DEFINER = ... and the like."""
    for at, word in enumerate(words[1:], 1):
        text = str(word)
        if text in ("TABLE", "TABLES", "VIEW", "INDEX", "UNIQUE", "FULLTEXT", "DATABASE", "SCHEMA"):
            return at
        if text in _HARMLESS_OBJECTS or text in _ACCOUNT_OBJECTS:
            return at
    return None


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
    if len(words) != at + 1 or (words[at].plain and not _NAME.fullmatch(words[at].text)):
        return None
    return frozenset({f"{words[at].text}.{ALL}"})


def _names(words: Sequence[_Word], at: int, database: str, one: bool = False) -> frozenset[str] | None:
    """The names that stand from `at`: a, b.c or, for RENAME, a TO b, c TO d. None if what stands there is no name."""
    found = set()
    while at < len(words) and words[at].plain and str(words[at]) in ("IF", "NOT", "EXISTS", "ONLY"):
        at += 1
    while at < len(words):
        name = words[at]
        if name.plain and not _NAME.fullmatch(name.text):
            return None
        at += 1
        if at + 1 < len(words) and words[at].plain and words[at].text == ".":
            found.add(f"{name.text}.{words[at + 1].text}")
            at += 2
        elif database:
            found.add(f"{database}.{name.text}")
        else:
            return None
        if one or at >= len(words) or not (words[at].text == "," or str(words[at]) == "TO") or not words[at].plain:
            break
        at += 1
    return frozenset(found) or None


def _words(query: str) -> Iterator[_Word]:
    """Tokens without comments; what stands in a version comment counts as if it stood outside."""
    for match in _TOKEN.finditer(query):
        kind = match.lastgroup
        if kind in ("word", "mark"):
            yield _Word(match[0], True)
        elif kind == "quoted":
            yield _Word(match[0][1:-1].replace("``", "`"), False)
        elif kind == "text":
            # With ANSI_QUOTES a name may stand in double quotes.
            yield _Word(match[0][1:-1], False)
