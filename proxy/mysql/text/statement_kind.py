"""What kind of statement a text is, where MySQL answers it: what the session must think of it afterwards.

Told from the tokens, without a parser, and never too harmless: what is not recognised is OTHER, and a name before a
bracket that is no function of MySQL's own counts as a call of something unknown. Nothing here raises.

It reads texts as MySQL does in the default lexical mode. In a session whose sql_mode has NO_BACKSLASH_ESCAPES or
ANSI_QUOTES, or whose character_set_client has bytes of ASCII inside of characters (gbk, sjis, big5 ...), it must not be
relied on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from planner.text.calls import READS, unknown_call, word
from planner.text.scan import ANY_VERSION, DEFAULT_VERSION, ServerVersion, Token, scan, unwrap_version_comments
from proxy.mysql.text.statement_set import Scope, Setting, settings_of, split
from sqltypes.errors import ParseError


class Kind(Enum):
    READ = "read"  # SELECT, TABLE, VALUES, WITH: no locks, no INTO, no user variable assigned
    LOCKING_READ = "locking read"
    WRITE = "write"  # INSERT, UPDATE, DELETE, REPLACE, LOAD DATA
    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"  # also ROLLBACK TO and RELEASE SAVEPOINT
    SET = "set"
    USE = "use"
    HARMLESS = "harmless"  # SHOW, DESCRIBE, EXPLAIN: reads no rows, but perhaps those of MySQL's dictionary
    LOCK_TABLES = "lock tables"  # also FLUSH TABLES ... WITH READ LOCK, FOR EXPORT
    UNLOCK_TABLES = "unlock tables"
    DDL = "ddl"  # everything that commits what is open: also GRANT, ANALYZE TABLE, CREATE USER
    TEMPORARY = "temporary"  # CREATE or DROP TEMPORARY TABLE
    CALL = "call"
    PREPARE = "prepare"
    EXECUTE = "execute"
    DEALLOCATE = "deallocate"
    KILL = "kill"
    OTHER = "other"  # anything may have happened
    SEVERAL = "several"  # more than one statement: see `parts`

    # Enum's own hashes the name, in Python, at each look-up; members are compared by identity.
    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Statement:
    """`calls_unknown`: it may call what writes, locks, waits or changes the session. `tables`: it may read or change
    rows of tables, those of MySQL's dictionary too, and so open a snapshot. `assigns`: it may assign user variables.
    `of_last`: it asks about the statement before it (warnings, row counts). `of_found`: about FOUND_ROWS() alone;
    `keeps_found`: behind it FOUND_ROWS() tells of the statement before.

    `options`: of BEGIN "consistent snapshot", "read only", "read write"; of COMMIT and ROLLBACK "chain", "release"; of
    SAVEPOINT "rollback", "release"; of XA COMMIT "one phase". `settings`: of SET; None where it is not understood.
    `parts`: of SEVERAL, in order; () where they cannot be told.
    """

    kind: Kind
    calls_unknown: bool = False
    tables: bool = False
    assigns: bool = False
    of_last: bool = False
    options: frozenset[str] = frozenset()
    settings: tuple[Setting, ...] | None = ()
    parts: tuple[Statement, ...] = ()
    of_found: bool = False
    keeps_found: bool = False


ONE_PHASE = "one phase"
ANYTHING = Statement(Kind.OTHER, calls_unknown=True, tables=True, assigns=True, of_last=True, settings=None)


def classify(sql: str, version: ServerVersion | None = None) -> Statement:
    """The kind of a text. `version`: the server's, for version comments and its own functions; None: what some servers
    only would read makes it OTHER, what only some have of their own may be anything."""
    if version is not None or "/*!" not in sql:
        return _classified(sql, version or ANY_VERSION)
    one, two = (_classified(sql, known) for known in (DEFAULT_VERSION, ANY_VERSION))
    return one if one == two else ANYTHING


def _classified(sql: str, version: ServerVersion) -> Statement:
    try:
        tokens = scan(unwrap_version_comments(sql, version))
    except ParseError:
        return ANYTHING
    parts = [part for part in split(tokens, ";") if part]
    if any([token.text == ";" for part in parts for token in part]) or (len(parts) > 1 and _has_body(parts[0])):
        return replace(ANYTHING, kind=Kind.SEVERAL)
    if len(parts) > 1:
        statements = tuple(_one(part, version) for part in parts)
        if _MARKED.search(sql) is not None and any(map(_sets_marks, statements[:-1])):
            return replace(ANYTHING, kind=Kind.SEVERAL)  # what is behind it may be read otherwise
        return Statement(
            Kind.SEVERAL,
            any(statement.calls_unknown for statement in statements),
            any(statement.tables for statement in statements),
            any(statement.assigns for statement in statements),
            any(statement.of_last for statement in statements),
            settings=None,
            parts=statements,
            of_found=any(each.of_found for each in statements)
            and all(each.of_found or not each.of_last for each in statements),
            keeps_found=all(statement.keeps_found for statement in statements),
        )
    return _one(parts[0], version) if parts else Statement(Kind.HARMLESS)


_MARKED = re.compile(r'["\\\x80-\U0010ffff]')
"""What has a meaning by sql_mode and by the character set of texts."""


def _sets_marks(statement: Statement) -> bool:
    """Whether it may set by what MySQL reads these."""
    set_ = statement.settings
    return set_ is None or any(one.name == "sql_mode" or one.name.startswith(("names", "char")) for one in set_)


def _has_body(tokens: Sequence[Token]) -> bool:
    """Whether semicolons may be part of the statement."""
    routines = ("PROCEDURE", "FUNCTION", "TRIGGER", "EVENT")
    return word(tokens, 0) in ("CREATE", "ALTER") and any(_has(tokens, name) for name in routines)


def _one(tokens: Sequence[Token], version: ServerVersion) -> Statement:
    first = 0
    while first < len(tokens) and tokens[first].text == "(":
        first += 1
    verb = word(tokens, first)
    if first and verb not in READS:
        return ANYTHING
    made = _KINDS.get(verb)
    if made is None:
        one_phase = verb == "XA" and word(tokens, 1) == "COMMIT" and _has(tokens, "ONE", "PHASE")
        return replace(ANYTHING, keeps_found=verb in _KEEP_FOUND, options=frozenset({ONE_PHASE} if one_phase else ()))
    statement = made(tokens)
    asked = _asked_of_last(tokens)
    calls = statement.calls_unknown or (_may_call(statement, tokens) and unknown_call(tokens, version) is not None)
    return replace(
        statement,
        calls_unknown=calls,
        assigns=statement.assigns or (statement.kind is not Kind.SET and ":=" in [token.text for token in tokens]),
        of_last=statement.of_last or bool(asked),
        of_found=asked == {FOUND_ROWS} and not statement.of_last,
        keeps_found=statement.settings is not None and _keeps_found(verb, tokens),
    )


def _has(tokens: Sequence[Token], *words: str) -> bool:
    """Whether these words stand somewhere in a row; a name behind a point is no word."""
    first, rest = words[0], words[1:]
    for start, token in enumerate(tokens):
        if (
            token.kind == "word"
            and token.text.upper() == first
            and (start == 0 or tokens[start - 1].text != ".")
            and all(word(tokens, start + at) == wanted for at, wanted in enumerate(rest, 1))
        ):
            return True
    return False


def _words(tokens: Sequence[Token]) -> str:
    return " ".join(token.text.upper() for token in tokens)


# -- reads and writes --------------------------------------------------------------------------------------------------


def _read(tokens: Sequence[Token]) -> Statement:
    from_ = [index for index in range(len(tokens)) if word(tokens, index) == "FROM"]
    tables = any(word(tokens, index + 1) != "DUAL" for index in from_) or _has(tokens, "TABLE")
    if _has(tokens, "INTO") or any(token.text == ":=" for token in tokens):
        return Statement(Kind.OTHER, tables=tables, assigns=True)
    if _has(tokens, "FOR", "UPDATE") or _has(tokens, "FOR", "SHARE") or _has(tokens, "LOCK", "IN"):
        return Statement(Kind.LOCKING_READ, tables=tables)
    return Statement(Kind.READ, tables=tables)


def _with(tokens: Sequence[Token]) -> Statement:
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and word(tokens, index) in ("UPDATE", "DELETE") and word(tokens, index - 1) != "FOR":
            return _write(tokens)
    return _read(tokens)


def _write(tokens: Sequence[Token]) -> Statement:
    return Statement(Kind.WRITE, tables=True)


def _load(tokens: Sequence[Token]) -> Statement:
    return Statement(Kind.DDL if word(tokens, 1) == "INDEX" else Kind.WRITE, tables=True, assigns=True)


# -- transactions ------------------------------------------------------------------------------------------------------


def _begin(tokens: Sequence[Token]) -> Statement:
    return Statement(Kind.BEGIN) if _words(tokens) in ("BEGIN", "BEGIN WORK") else ANYTHING


READS_ONLY = "read only"
_BEGIN_OPTIONS = {
    "WITH CONSISTENT SNAPSHOT": "consistent snapshot",
    "READ ONLY": READS_ONLY,
    "READ WRITE": "read write",
}


def _start(tokens: Sequence[Token]) -> Statement:
    if word(tokens, 1) != "TRANSACTION":
        return ANYTHING
    asked = [_words(part) for part in split(tokens[2:], ",")]
    if asked == [""]:
        return Statement(Kind.BEGIN)
    if not all(option in _BEGIN_OPTIONS for option in asked):
        return ANYTHING
    return Statement(Kind.BEGIN, options=frozenset(_BEGIN_OPTIONS[option] for option in asked))


def _commit(tokens: Sequence[Token]) -> Statement:
    return _ended(Kind.COMMIT, tokens[1:])


def _rollback(tokens: Sequence[Token]) -> Statement:
    rest = tokens[2:] if word(tokens, 1) == "WORK" else tokens[1:]
    if word(rest, 0) == "TO":
        return Statement(Kind.SAVEPOINT, options=frozenset({"rollback"}))
    return _ended(Kind.ROLLBACK, tokens[1:])


_ENDINGS = {
    f"{work}{chain}{release}".strip(): frozenset(
        name for name, text in (("chain", chain), ("release", release)) if text and "NO " not in text
    )
    for work in ("", "WORK")
    for chain in ("", " AND CHAIN", " AND NO CHAIN")
    for release in ("", " RELEASE", " NO RELEASE")
}


def _ended(kind: Kind, rest: Sequence[Token]) -> Statement:
    options = _ENDINGS.get(_words(rest))
    return ANYTHING if options is None else Statement(kind, options=options)


def _savepoint(tokens: Sequence[Token]) -> Statement:
    return Statement(Kind.SAVEPOINT)


def _release(tokens: Sequence[Token]) -> Statement:
    return Statement(Kind.SAVEPOINT, options=frozenset({"release"})) if word(tokens, 1) == "SAVEPOINT" else ANYTHING


# -- the session -------------------------------------------------------------------------------------------------------


def _set(tokens: Sequence[Token]) -> Statement:
    settings = settings_of(tokens[1:])
    if settings is None:
        return replace(ANYTHING, kind=Kind.SET)
    assigns = any(setting.scope is Scope.USER or ":=" in setting.value for setting in settings)
    return Statement(Kind.SET, tables=_has(tokens, "SELECT"), assigns=assigns, settings=settings)


def _lock(tokens: Sequence[Token]) -> Statement:
    return Statement(Kind.LOCK_TABLES, tables=True) if word(tokens, 1) in ("TABLE", "TABLES") else ANYTHING


def _unlock(tokens: Sequence[Token]) -> Statement:
    return Statement(Kind.UNLOCK_TABLES) if word(tokens, 1) in ("TABLE", "TABLES") else ANYTHING


def _flush(tokens: Sequence[Token]) -> Statement:
    at = 2 if word(tokens, 1) in ("LOCAL", "NO_WRITE_TO_BINLOG") else 1
    named = word(tokens, at) in ("TABLE", "TABLES") and word(tokens, at + 1) != "WITH"
    if named and (_has(tokens, "READ", "LOCK") or _has(tokens, "FOR", "EXPORT")):
        return Statement(Kind.LOCK_TABLES, tables=True)
    harmless = _words(tokens[at:]) in ("STATUS", "LOGS") or (len(tokens) == at + 2 and word(tokens, at + 1) == "LOGS")
    return _ddl(tokens) if named or harmless else ANYTHING


def _do(tokens: Sequence[Token]) -> Statement:
    """DO reads as SELECT does, and gives no rows."""
    read = _read(tokens)
    return replace(read, kind=Kind.HARMLESS) if read.kind is Kind.READ else read


def _show(tokens: Sequence[Token]) -> Statement:
    of_last = any(_has(tokens, name) for name in ("WARNINGS", "ERRORS"))
    return Statement(Kind.HARMLESS, tables=word(tokens, 1) not in _NO_DICTIONARY, of_last=of_last)


# What SHOW tells without reading the tables of MySQL's dictionary, which are in InnoDB.
_NO_DICTIONARY = frozenset({
    "WARNINGS", "ERRORS", "COUNT", "STATUS", "VARIABLES", "GLOBAL", "SESSION", "LOCAL", "GRANTS", "CREATE",
    "PROCESSLIST", "ENGINES", "ENGINE", "PLUGINS", "PROFILES", "PROFILE", "BINARY",
})  # fmt: skip


_EXPLAINED = ("SELECT", "WITH", "TABLE", "VALUES", "INSERT", "UPDATE", "DELETE", "REPLACE")


def _explain(tokens: Sequence[Token]) -> Statement:
    """EXPLAIN, DESCRIBE, DESC: with ANALYZE the statement is executed."""
    at = next((at for at in range(1, len(tokens)) if word(tokens, at) in _EXPLAINED), len(tokens))
    if _has(tokens[:at], "INTO"):
        return replace(ANYTHING, calls_unknown=False)
    if _has(tokens[:at], "ANALYZE"):
        while at > 1 and tokens[at - 1].text == "(":
            at -= 1
        return _one(tokens[at:], DEFAULT_VERSION) if at < len(tokens) else ANYTHING  # `_one` sees to all its calls
    return Statement(Kind.HARMLESS, tables=True)  # rows that are found by a unique key are read all the same


def _harmless(tokens: Sequence[Token]) -> Statement:
    return Statement(Kind.HARMLESS)


# -- definitions -------------------------------------------------------------------------------------------------------


def _ddl(tokens: Sequence[Token]) -> Statement:
    return Statement(Kind.DDL, tables=True)


def _may_call(statement: Statement, tokens: Sequence[Token]) -> bool:
    """Whether it may call stored functions. Of definitions only the SELECT of a new table does: other expressions in
    them are stored (views, routines), or may name none (defaults, checks, partitions, schedules)."""
    of_query = word(tokens, 1) == "TABLE" and (_has(tokens, "SELECT") or _has(tokens, "ROW"))
    return statement.kind is not Kind.DDL or of_query


def _create_or_drop(tokens: Sequence[Token]) -> Statement:
    if word(tokens, 1) == "TEMPORARY":
        return Statement(Kind.TEMPORARY, tables=True)
    if word(tokens, 0) == "DROP" and word(tokens, 1) == "PREPARE":
        return Statement(Kind.DEALLOCATE)
    return _ddl(tokens)


# -- what runs other statements ----------------------------------------------------------------------------------------


def _runs(kind: Kind) -> Callable[[Sequence[Token]], Statement]:
    return lambda tokens: replace(ANYTHING, kind=kind)


def _is(kind: Kind) -> Callable[[Sequence[Token]], Statement]:
    return lambda tokens: Statement(kind)


_KINDS: dict[str, Callable[[Sequence[Token]], Statement]] = {
    "SELECT": _read,
    "TABLE": _read,
    "VALUES": _read,
    "WITH": _with,
    **dict.fromkeys(("INSERT", "UPDATE", "DELETE", "REPLACE"), _write),
    "LOAD": _load,
    "BEGIN": _begin,
    "START": _start,
    "COMMIT": _commit,
    "ROLLBACK": _rollback,
    "SAVEPOINT": _savepoint,
    "RELEASE": _release,
    "SET": _set,
    "USE": _is(Kind.USE),
    "SHOW": _show,
    **dict.fromkeys(("EXPLAIN", "DESCRIBE", "DESC"), _explain),
    "HELP": _harmless,
    "DO": _do,
    "LOCK": _lock,
    "FLUSH": _flush,
    "UNLOCK": _unlock,
    **dict.fromkeys(("CREATE", "DROP"), _create_or_drop),
    **dict.fromkeys(
        ("ALTER", "RENAME", "TRUNCATE", "ANALYZE", "OPTIMIZE", "REPAIR", "CHECK", "CACHE", "GRANT", "REVOKE"), _ddl
    ),
    **dict.fromkeys(("INSTALL", "UNINSTALL", "IMPORT"), _ddl),
    "CALL": _runs(Kind.CALL),
    "PREPARE": _is(Kind.PREPARE),
    "EXECUTE": _runs(Kind.EXECUTE),
    "DEALLOCATE": _is(Kind.DEALLOCATE),
    "KILL": _is(Kind.KILL),
}


# -- the statement before ----------------------------------------------------------------------------------------------


FOUND_ROWS = "found_rows"
_LAST_FUNCTIONS = frozenset({FOUND_ROWS, "row_count"})
_LAST_VARIABLES = frozenset({"warning_count", "error_count"})


def _asked_of_last(tokens: Sequence[Token]) -> set[str]:
    """The functions and variables by which it asks."""
    functions = {token.text.lower().strip("`") for token in tokens if token.kind in ("word", "quoted")}
    variables = {
        name.strip("`")
        for at, token in enumerate(tokens)
        if token.text.startswith("@@")
        for part in tokens[at : at + 3]  # a name with spaces or backquotes around its point is up to three tokens
        for name in part.text.lower().removeprefix("@@").split(".")
    }
    return functions & _LAST_FUNCTIONS | variables & _LAST_VARIABLES


# Measured at MySQL 9.7: what leaves alone how many rows FOUND_ROWS() tells of.
_KEEP_FOUND = frozenset({
    "SET", "USE", "PREPARE", "DEALLOCATE", "BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "LOCK",
    "UNLOCK", "FLUSH", "HELP", "KILL", "CREATE", "DROP", "ALTER", "RENAME", "TRUNCATE", "ANALYZE", "CHECK", "OPTIMIZE",
    "REPAIR", "GRANT", "REVOKE", "XA", "HANDLER", "GET", "SIGNAL",
})  # fmt: skip
_SHOWN_WITHOUT_COUNT = frozenset({"WARNINGS", "ERRORS", "CREATE", "GRANTS", "PROCESSLIST"})


def _keeps_found(verb: str, tokens: Sequence[Token]) -> bool:
    if verb == "SHOW":
        return word(tokens, 2 if word(tokens, 1) == "FULL" else 1) in _SHOWN_WITHOUT_COUNT
    if verb in ("EXPLAIN", "DESCRIBE", "DESC"):
        return any(_has(tokens[1:], name) for name in _EXPLAINED) and not _has(tokens, "ANALYZE")
    if verb in ("INSERT", "REPLACE", "DELETE"):
        if verb == "DELETE" and word(tokens, 1) not in ("FROM", "LOW_PRIORITY", "QUICK", "IGNORE"):
            return False  # of several tables
        return not any(_has(tokens, name) for name in ("SELECT", "TABLE", "WITH", "JOIN", "USING"))
    return verb in _KEEP_FOUND
