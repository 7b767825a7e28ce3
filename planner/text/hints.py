"""Optimizer hints: what stands in `/*+ */` right behind a SELECT.

Those for the whole statement stand behind its first SELECT, in brackets or not; where it begins with WITH, behind the
first that stands in none: MySQL passes over those of a query of the WITH that nothing names.

One sets sql_mode for its statement (`hint_of`). With it a query is another one: MySQL answers it under that mode,
whoever asks. It is held in evict mode, for the engine computes as the default mode does. `mode_of` knows it there, and
in one spelling alone.

No hint sets collation_connection, the collation of literals, with which goes their character set. So the name that one
gives the query (`QB_NAME`) tells it: MySQL does nothing by it, and Upwell sets the variable where it sends such a text
itself (`collation_of`). A client's own text with such a name is none for a cache (`MARK`).

Others only say how MySQL is to find the rows (`PLANS`). They are left out of what is parsed. In evict mode they stay in
the text that MySQL is sent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from planner.text.scan import Token, is_keyword, scan, words
from sqltypes.errors import ParseError

SETTABLE = frozenset({
    "ALLOW_INVALID_DATES", "ERROR_FOR_DIVISION_BY_ZERO", "NO_AUTO_VALUE_ON_ZERO", "NO_DIR_IN_CREATE",
    "NO_ENGINE_SUBSTITUTION", "NO_UNSIGNED_SUBTRACTION", "NO_ZERO_DATE", "NO_ZERO_IN_DATE", "ONLY_FULL_GROUP_BY",
    "STRICT_ALL_TABLES", "STRICT_TRANS_TABLES", "TIME_TRUNCATE_FRACTIONAL",
})  # fmt: skip
"""Modes that the hint sets as `SET sql_mode` does: the others change how a text is read, which MySQL has done before it
looks at a hint, or what a CHAR is as rows are compared."""
FULL_GROUP = "ONLY_FULL_GROUP_BY"
FOR_NONE = "NO_ENGINE_SUBSTITUTION"  # where there is none: MySQL 9.7 ignores a hint without modes; this changes no read
PLANS = words("""
    BKA NO_BKA BNL NO_BNL DERIVED_CONDITION_PUSHDOWN NO_DERIVED_CONDITION_PUSHDOWN HASH_JOIN NO_HASH_JOIN MERGE NO_MERGE
    JOIN_FIXED_ORDER JOIN_ORDER JOIN_PREFIX JOIN_SUFFIX GROUP_INDEX NO_GROUP_INDEX INDEX NO_INDEX INDEX_MERGE
    NO_INDEX_MERGE JOIN_INDEX NO_JOIN_INDEX ORDER_INDEX NO_ORDER_INDEX MRR NO_MRR NO_ICP NO_RANGE_OPTIMIZATION SKIP_SCAN
    NO_SKIP_SCAN SEMIJOIN NO_SEMIJOIN SUBQUERY QB_NAME MAX_EXECUTION_TIME RESOURCE_GROUP
""")
"""Hints that change no answer, but how it is found, or whether in time."""
_SIZES = re.compile(
    r"\(\s*(?:sort_buffer_size|join_buffer_size|read_buffer_size|read_rnd_buffer_size|tmp_table_size|max_heap_table_size"
    r"|eq_range_index_dive_limit|range_optimizer_max_mem_size|optimizer_prune_level|optimizer_search_depth"
    r"|max_execution_time)\s*=\s*\d+\s*\)",
    re.IGNORECASE,
)
"""What SET_VAR may set without another answer."""

_SELECT = re.compile(rb"(?:[\s(]|/\*(?![!+])[^*]*+(?:\*(?!/)[^*]*+)*+\*/)*+SELECT\b", re.IGNORECASE)
_WITH = re.compile(rb"(?:\s|/\*(?![!+])[^*]*+(?:\*(?!/)[^*]*+)*+\*/)*+WITH\b", re.IGNORECASE)
_COMMENT = re.compile(rb"\s*/\*")
_PARTS = re.compile(
    rb"""
    '[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+' | "[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*+" | `[^`]*+`
    | (?P<bracket> [()] ) | (?P<select> \bSELECT\b )
    | /\*(?![!+]).*?\*/ | (?P<other> ['"`\#\\] | --(?=\s) | /\*(?!\+) )
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
"""What counts on the way to the SELECT behind a WITH; `other`: where it is not known."""
LONGEST = 1 << 16  # bytes of a text with WITH that is looked at
MARK = "upwell_collation_"
_SETS = re.compile(rf"/\*\+(?: QB_NAME\({MARK}(\w+)\))?(?: SET_VAR\(sql_mode='([A-Z_,]+)'\))? \*/")
_PREPARE = re.compile(r"(?:PREPARE \w+ FROM|SET @upwell_text =) '(.*)'", re.DOTALL)
_COLLATION = re.compile(rf" /\*\+ QB_NAME\({MARK}(\w+)\)")
SETS_MODE = b"SET_VAR(sql_mode="
COLLATIONS = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")
"""Names of those that can be set so."""
_HINT = re.compile(r"\s*([A-Za-z_]+)\s*(\([^()]*\))?")


def hint_of(modes: frozenset[str] | None, collation: str = "") -> str:
    """What stands behind SELECT to set these modes, of which those that are not SETTABLE are left out, and the
    collation; None and "" where it sets none.

    >>> hint_of(frozenset({"STRICT_ALL_TABLES", "ANSI_QUOTES"}))
    " /*+ SET_VAR(sql_mode='STRICT_ALL_TABLES') */"
    >>> hint_of(None, "utf8mb4_bin")
    ' /*+ QB_NAME(upwell_collation_utf8mb4_bin) */'
    """
    named = f" QB_NAME({MARK}{collation})" if collation else ""
    if modes is not None:
        names = ",".join(sorted(modes & SETTABLE)) or FOR_NONE
        named += f" SET_VAR(sql_mode='{names}')"
    return f" /*+{named} */" if named else ""


def with_hint(text: bytes, hint: bytes) -> bytes | None:
    """The text with the hint; None where it has no place for it: it begins otherwise than with SELECT or WITH, or has a
    comment or hint behind the SELECT."""
    at = _place(text)
    if at is None or _COMMENT.match(text, at) is not None:
        return None
    return text[:at] + hint + text[at:]


def _place(text: bytes) -> int | None:
    """Where the SELECT ends behind which hints for the whole statement stand."""
    found = _SELECT.match(text)
    if found is not None:
        return found.end()
    begins = _WITH.match(text)
    if begins is None or len(text) > LONGEST:
        return None
    depth = 0
    for part in _PARTS.finditer(text, begins.end()):
        if part["other"]:
            return None
        if part["bracket"]:
            depth += 1 if part["bracket"] == b"(" else -1
        elif part["select"] and depth == 0:
            return part.end()
    return None


def collation_of(sql: str) -> str:
    """The collation that a text tells by its name, also where it is prepared; "" where it tells none.

    >>> collation_of("SELECT /*+ QB_NAME(upwell_collation_utf8mb4_bin) */ 'a' AS a FROM t")
    'utf8mb4_bin'
    """
    if MARK not in sql:
        return ""
    prepares = _PREPARE.fullmatch(sql)
    text = sql if prepares is None else re.sub(r"\\(.)", r"\1", prepares[1], flags=re.DOTALL)
    raw = text.encode("utf-8", "surrogatepass")
    at = _place(raw)
    found = None if at is None else _COLLATION.match(raw[at:].decode("utf-8", "surrogatepass"))
    return found[1] if found is not None and COLLATIONS.fullmatch(found[1]) else ""


def without_mode(sql: str) -> tuple[str, frozenset[str] | None, str] | None:
    """The text without the hint that sets its modes or its collation, and these; None where it has none."""
    tokens = scan(sql)
    modes, collation = mode_of(tokens), collation_of(sql)
    if modes is None and not collation:
        return None
    hint = tokens[_first(tokens) + 1]
    return sql[: hint.start].rstrip() + sql[hint.end :], modes, collation


def with_whole_groups(sql: str) -> str | None:
    """A text that sets modes without ONLY_FULL_GROUP_BY, with that; None for others."""
    if SETS_MODE.decode() not in sql:
        return None
    try:
        found = without_mode(sql)
    except ParseError:
        return None
    if found is None or found[1] is None or FULL_GROUP in found[1]:
        return None
    given = with_hint(found[0].encode(), hint_of(found[1] | {FULL_GROUP}).encode())
    return None if given is None else given.decode()


def mode_of(tokens: Sequence[Token]) -> frozenset[str] | None:
    """The modes that the text sets for itself; None where it sets none."""
    at = _first(tokens) + 1
    found = _SETS.fullmatch(tokens[at].text) if at < len(tokens) else None
    modes = frozenset(found[2].split(",")) if found is not None and found[2] is not None else None
    return modes if modes is not None and modes <= SETTABLE else None


def _first(tokens: Sequence[Token]) -> int:
    """The SELECT behind which hints for the whole statement stand; the number of tokens where there is none."""
    depth, begins = 0, bool(tokens) and is_keyword(tokens[0], "WITH")
    for at, token in enumerate(tokens):
        if is_keyword(token, "SELECT") and (depth == 0 or not begins):
            return at
        depth += (token.text == "(") - (token.text == ")")
        if not begins and token.text != "(":
            break
    return len(tokens)


def without_hints(text: str, tokens: Sequence[Token]) -> str:
    """The text with spaces in place of the hints that are understood."""
    for at, token in enumerate(tokens):
        if token.kind != "hint" or at == 0 or not is_keyword(tokens[at - 1], "SELECT"):
            continue
        if (at == _first(tokens) + 1 and mode_of(tokens) is not None) or _only_plans(token.text):
            text = text[: token.start] + " " * (token.end - token.start) + text[token.end :]
    return text


def _only_plans(hint: str) -> bool:
    """Whether it says nothing but how rows are to be found."""
    at, inside = 0, hint[3:-2].rstrip()
    while at < len(inside):
        found = _HINT.match(inside, at)
        if found is None:
            return False
        sizes = found[1].upper() == "SET_VAR" and _SIZES.fullmatch(found[2] or "") is not None
        if found[1].upper() not in PLANS and not sizes:
            return False
        at = found.end()
    return True
