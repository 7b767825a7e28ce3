"""Which statements of a script count: SELECTs, and of these the ones that say the same while the rows are the same.

A SELECT is *deterministic* unless it

* asks the clock or chance: NOW(), CURRENT_TIMESTAMP, CURDATE(), UTC_TIMESTAMP(), RAND(), UUID() and their kind;
* locks: FOR UPDATE, FOR SHARE, LOCK IN SHARE MODE;
* asks for what is the session's or the server's: @variables, DATABASE(), VERSION(), USER(), LAST_INSERT_ID(),
  FOUND_ROWS(), GET_LOCK() and their kind, tables of information_schema;
* reads no table.

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


def _bare(sql: str) -> str:
    return _QUOTED.sub(lambda found: "" if found[0].startswith("/*") else "``", sql)
