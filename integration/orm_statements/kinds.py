"""Which statements of a script count: SELECTs, and of these the ones that say the same while the rows are the same.

A SELECT is *deterministic* unless it

* asks the clock or chance: NOW(), CURRENT_TIMESTAMP, CURDATE(), UTC_TIMESTAMP(), RAND(), UUID() and their kind;
* locks: FOR UPDATE, FOR SHARE, LOCK IN SHARE MODE;
* asks for what is the session's or the server's: @variables, DATABASE(), VERSION(), USER(), LAST_INSERT_ID(),
  FOUND_ROWS(), GET_LOCK() and their kind, tables of information_schema;
* reads no table;
* reads a table that its own transaction has written, and so sees what is not committed (`Written`).

What stands between quotes, and comments, is not looked at.
"""

from __future__ import annotations

import re

_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`[^`]*`|/\*.*?\*/", re.DOTALL)
_SELECT = re.compile(r"[\s(]*(?:SELECT|WITH|TABLE|VALUES)\b", re.IGNORECASE)
_CLOCK = re.compile(
    r"\b(?:NOW|SYSDATE|CURDATE|CURTIME|UTC_DATE|UTC_TIME|UTC_TIMESTAMP|RAND|UUID|UNIX_TIMESTAMP)\s*\("
    r"|\b(?:CURRENT_(?:TIMESTAMP|DATE|TIME)|LOCALTIME(?:STAMP)?)\b",
    re.IGNORECASE,
)
_LOCKS = re.compile(r"\bFOR\s+(?:UPDATE|SHARE)\b|\bLOCK\s+IN\s+SHARE\s+MODE\b", re.IGNORECASE)
_SESSION = re.compile(
    r"@|\b(?:DATABASE|SCHEMA|VERSION|USER|CURRENT_USER|SESSION_USER|LAST_INSERT_ID|FOUND_ROWS|ROW_COUNT|CONNECTION_ID"
    r"|GET_LOCK|RELEASE_LOCK|SLEEP)\s*\(|\binformation_schema\b",
    re.IGNORECASE,
)
_AUTOCOMMIT = re.compile(r"\s*SET\s+(?:SESSION\s+)?autocommit\s*=\s*(\d)", re.IGNORECASE)
_BEGINS = re.compile(r"\s*(?:BEGIN|START\s+TRANSACTION)\b", re.IGNORECASE)
_ENDS = re.compile(r"\s*(?:COMMIT|ROLLBACK)\b(?!\s+TO\b)", re.IGNORECASE)
_WRITES = re.compile(
    r"\s*(?:INSERT\s+(?:IGNORE\s+)?INTO|REPLACE\s+INTO|UPDATE|DELETE\s+FROM)\s+(?:`?\w+`?\.)?`?(\w+)", re.IGNORECASE
)
_STRING = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"", re.DOTALL)
_NAME = re.compile(r"\w+")
_FROM = re.compile(r"\bFROM\b", re.IGNORECASE)


def is_select(sql: str) -> bool:
    return _SELECT.match(_bare(sql)) is not None


def why_not_deterministic(sql: str) -> str:
    """ "" for a SELECT that is."""
    bare = _bare(sql)
    if _LOCKS.search(bare):
        return "locks"
    if _SESSION.search(bare) or "information_schema" in sql.lower():
        return "of the session"
    if not _FROM.search(bare):
        return "no table"
    return "the clock, or chance" if _CLOCK.search(bare) else ""


class Written:
    """The tables that the open transaction of one session has written, by its statements."""

    def __init__(self) -> None:
        self._autocommit = True
        self._begun = False
        self._tables: set[str] = set()

    def note(self, sql: str) -> None:
        switched = _AUTOCOMMIT.match(sql)
        if switched is not None:
            self._autocommit = switched[1] == "1"
        begins = _BEGINS.match(sql) is not None
        if begins or _ENDS.match(sql) or (switched is not None and self._autocommit):
            self._tables.clear()
            self._begun = begins
        elif (self._begun or not self._autocommit) and (found := _WRITES.match(sql)) is not None:
            self._tables.add(found[1].lower())

    def are_read_by(self, sql: str) -> bool:
        return not self._tables.isdisjoint(_NAME.findall(_STRING.sub("", sql).lower()))


def _bare(sql: str) -> str:
    return _QUOTED.sub(lambda found: "" if found[0].startswith("/*") else "``", sql)
