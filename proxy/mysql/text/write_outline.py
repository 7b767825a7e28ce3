"""Long writes, shortened to what their kind is told from: of literals, and of rows that are alike, one is left.

Each step is one regular expression over the text, in time in proportion to it.
"""

from __future__ import annotations

import re

LONGEST_WRITE = 1 << 15  # bytes: a longer one is not looked at
_WRITES = re.compile(rb"[\s(]*(?:insert|replace|update|delete)\b", re.IGNORECASE)
_LITERAL = rb"""
    (?: (?: 0x[0-9a-fA-F]++ | -?[0-9]++ (?:\.[0-9]*+)? | null | default | true | false ) (?![\w$.\x80-\xff])
    | ' [^'\\]*+ (?: (?:\\.|'') [^'\\]*+ )*+ '
    | " [^"\\]*+ (?: (?:\\.|"") [^"\\]*+ )*+ "
    )
"""
# What is not in the group is a list of literals. Names, comments and strings that are not closed stay as they are.
_LITERALS = re.compile(
    rb"""
    ( `[^`]*+`
    | /\*(?!!) [^*]*+ (?: \*(?!/) [^*]*+ )*+ (?: \*/ | \Z )
    | \#[^\n]*+ | --(?=[\s\x00-\x1f])[^\n]*+
    | ' [^'\\]*+ (?: (?:\\.|'') [^'\\]*+ )*+ \\?\Z
    | " [^"\\]*+ (?: (?:\\.|"") [^"\\]*+ )*+ \\?\Z
    )
    | (?<![\w$@.\x80-\xff]) %(literal)s (?: \s*+ , \s*+ %(literal)s )*+
    """
    % {b"literal": _LITERAL},
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ROWS = re.compile(rb"(\((?:[^()]++|\([^()]*+\))*+\))(?:\s*+,\s*+\1)++")


def is_write(text: bytes) -> bool:
    return _WRITES.match(text) is not None


def write_outline(text: bytes) -> bytes:
    """What all long writes have in common that differ in values and in the number of rows."""
    outline = b"".join([b"?" if part is None else part for part in _LITERALS.split(text)])
    return _ROWS.sub(rb"\1", outline)
