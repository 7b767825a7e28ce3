"""The session variables that change answers: their names, their values where caches are filled, how a session is asked
for them, and the session trackers that tell of their changes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from external_upquery.login import PINNED
from external_upquery.mysql.other_session import Settings
from planner.session.needs import BY_CODES, BYTES, LOCAL, OF_MODE, PACKET, SESSION_NEEDS, STEADY, STRINGS
from proxy.mysql.state.sql_modes import JUDGED, NO_MATTER, TAIL, modes_of, value_of
from proxy.mysql.wire.packets import Malformed
from sqltypes.ordering import SORTED

ALWAYS = (
    "sql_mode",
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "max_join_size",
    "use_secondary_engine",
    "sql_buffer_result",
    "optimizer_switch",
    "max_sort_length",
)
"""Variables that may change any answer, or how its columns are announced, or make MySQL refuse any query. Of sql_mode
here only what is not judged mode by mode."""
SOMETIMES = (
    "time_zone",
    "collation_connection",
    "group_concat_max_len",
    "div_precision_increment",
    "cte_max_recursion_depth",
    "lc_time_names",
    "default_week_format",
    "windowing_use_high_precision",
    "block_encryption_mode",
    "default_collation_for_utf8mb4",
    "sql_auto_is_null",
)
"""Variables that change the answers of some queries: `planner/session/session_needs.py`."""
OF_QUERIES = (
    STRINGS,
    BYTES,
    LOCAL,
    STEADY,
    PACKET,
    *sorted(name for name in SESSION_NEEDS if name.startswith(OF_MODE)),
)
"""As those, of one variable each: a mode of sql_mode, or a part of what it changes."""
MODES = tuple(sorted(name for name in SESSION_NEEDS if name.startswith(OF_MODE)))
"""As those, of sql_mode."""
ROW_LIMIT = "sql_select_limit"
"""The variable that counts for answers of more rows."""
TRACKS = (
    "session_track_gtids",
    "session_track_schema",
    "session_track_state_change",
    "session_track_system_variables",
    "session_track_transaction_info",
)
AUTOCOMMIT = "autocommit"
LOG_BIN = "sql_log_bin"
TIMESTAMP = "timestamp"  # a session that has set it has a clock of its own
READ_ONLY = "transaction_read_only"
QUESTIONED = (
    "auto_increment_increment", "character_set_server", "collation_server", "default_storage_engine",
    "foreign_key_checks",
)  # fmt: skip
"""Variables that change no answer, and of which clients ask (`proxy/mysql/reads/questions.py`). Each takes MySQL 2 us
at each login."""
CONSTANT = (
    "license", "lower_case_file_system", "lower_case_table_names", "socket", "system_time_zone", "version",
    "version_comment",
)  # fmt: skip
"""Likewise, of the server, which cannot be set while it runs."""
OTHERS = "questioned"
"""The name under which a session has the values of both, as they were when MySQL was asked."""
ZONE_AS_SET = "time_zone as set"
"""That of its time zone as it was set, which may be the name of one that has the clocks of UTC."""
TRACKED = (
    *ALWAYS, *SOMETIMES, ROW_LIMIT, "autocommit", "transaction_isolation", READ_ONLY, "completion_type",
    "wait_timeout", "max_execution_time", LOG_BIN, TIMESTAMP, *QUESTIONED, *TRACKS,
)  # fmt: skip
ASKED = (
    *ALWAYS, *SOMETIMES, ROW_LIMIT, "transaction_isolation", READ_ONLY, "completion_type", "wait_timeout",
    "max_allowed_packet", "max_execution_time", OTHERS, LOG_BIN, AUTOCOMMIT, TIMESTAMP, *TRACKS,
)  # fmt: skip
ANSWERED = frozenset({
    *SOMETIMES, "sql_mode", "character_set_client", "character_set_connection", "character_set_results",
    "max_join_size", "sql_buffer_result", ROW_LIMIT, "transaction_isolation", READ_ONLY, "completion_type",
    "wait_timeout", "max_allowed_packet", "max_execution_time", LOG_BIN,
}) - {"default_collation_for_utf8mb4"}  # fmt: skip
"""Those of ASKED of which clients may be told the value, because that itself is asked for."""
OF_THE_SERVER = "of the server"
OWN_CLOCK = "own"
KNOWN = "known"
"""Of LOCAL, STEADY and PACKET, where they are so (`VariableValues.note_zone`, `note_packet`)."""
LEAST_PACKET = 16 << 20
"""Bytes. A row that a cache holds has 2 MiB at most: no string that is computed of it here has more than this."""
# How a value is asked for where not by its name: what older servers do not know; what fills have of the server.
_ASKED_BY = {
    "use_secondary_engine": "COALESCE(/*!80013 @@session.use_secondary_engine, */ 'ON')",
    "optimizer_switch": f"IF(@@session.optimizer_switch = @@global.optimizer_switch, '{OF_THE_SERVER}', 'another')",
    # It is the clock's where it is not set: init_connect may have, of which no tracker tells.
    TIMESTAMP: f"IF(ABS(UNIX_TIMESTAMP(SYSDATE(6)) - @@session.timestamp) < 2, '', '{OWN_CLOCK}')",
    OTHERS: "SHA2(CONCAT_WS(' ', "
    + ", ".join([*(f"@@session.{name}" for name in QUESTIONED), *(f"@@global.{name}" for name in CONSTANT)])
    + "), 256)",
    "default_collation_for_utf8mb4": "COLLATION(_utf8mb4'')",  # the variable is to go
    "max_sort_length": "IF(@@session.max_sort_length = @@global.max_sort_length"
    f" AND @@session.max_sort_length >= {SORTED}, '{OF_THE_SERVER}', 'another')",
}


def question(*expressions: str) -> str:
    """The text that asks MySQL for these values, in one row. As binary strings they have the bytes of UTF-8, whatever
    the session's character set of results is; and sql_select_limit = 0 would leave no row of a text without LIMIT."""
    return "SELECT " + ", ".join(f"CAST({each} AS BINARY)" for each in expressions) + " LIMIT 1"


IDENTITY = ("CURRENT_USER()", "CURRENT_ROLE()", "DATABASE()")
APART = ("sql_mode", "character_set_results", "session_track_system_variables")
"""Variables that may be NULL, or long: of a session whose max_allowed_packet is 1024, MySQL joins no longer texts."""
TOGETHER = tuple(name for name in ASKED if name not in APART)
"""The others are asked for as one text: each column has a definition that is longer than its value."""
BETWEEN = "|"  # which none of them has


def _expression(name: str) -> str:
    return _ASKED_BY.get(name, f"@@session.{name}")


ASK = question(
    *IDENTITY, *map(_expression, APART), f"CONCAT_WS('{BETWEEN}', {', '.join(map(_expression, TOGETHER))})"
).replace("SELECT ", "SELECT CURRENT_USER(), ", 1)
"""Tells all of them, and by the definition of its first column how strings are announced to the session."""
ASK_COLUMNS = 1 + len(IDENTITY) + len(APART) + 1
_TOLD = {name: at for at, name in enumerate((*APART, *TOGETHER))}
_IN_ORDER = tuple(_TOLD[name] for name in ASKED)


def asked_values(row: Sequence[str | None]) -> tuple[str | None, ...]:
    """The answer to ASK as a value for each of `CURRENT_USER()`, IDENTITY and ASKED. Raises Malformed."""
    first = 1 + len(IDENTITY)
    together = (row[-1] or "").split(BETWEEN)
    if len(together) != len(TOGETHER):
        raise Malformed(f"{len(together)} values were told together, expected {len(TOGETHER)}")
    told = (*row[first:-1], *together)
    return (*row[:first], *(told[at] for at in _IN_ORDER))


PINNED_VALUES = {name: value.strip("'") for name, value in PINNED.items()} | {
    "character_set_client": "utf8mb4",
    "character_set_connection": "utf8mb4",
    "character_set_results": "utf8mb4",
    "collation_connection": "utf8mb4_0900_ai_ci",
    "default_collation_for_utf8mb4": "utf8mb4_0900_ai_ci",
    "use_secondary_engine": "ON",
    "sql_buffer_result": "0",
    "optimizer_switch": OF_THE_SERVER,
    "max_sort_length": OF_THE_SERVER,
    LOCAL: KNOWN,
    STEADY: KNOWN,
    PACKET: KNOWN,
}
PINNED_VALUES |= {name: value_of(name, PINNED_VALUES) for name in OF_QUERIES}
ASCII, BMP = "ascii", "utf8mb3"
OF_BMP = ("utf8mb3", "utf8")  # as older servers call it
UNICODE = frozenset({"utf8mb4", *OF_BMP})
BINARY = "binary"
LIKE_ASCII = frozenset({
    "armscii8", "big5", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "cp932", "eucjpms", "euckr",
    "gb18030", "gb2312", "gbk", "geostd8", "greek", "hebrew", "hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2",
    "latin5", "latin7", "macce", "macroman", "tis620", "ujis", ASCII,
})  # fmt: skip
"""Character sets in which a text of bytes below 128 is ASCII's."""
ENDS_IN_ASCII = frozenset({"big5", "cp932", "gb18030", "gbk", "sjis"})
"""Those of MySQL's in which a byte below 128 may be the last one of a character, also a backslash."""
UTC = frozenset({"+00:00", "-00:00"})
RAW = frozenset({BINARY, ""})
"""Values of character_set_results (NULL is told as "") with which each column is sent in its own character set."""
SAME = {"on": "1", "off": "0"}

_NAME = re.compile(r"\w+")


def track_statement(asked: Mapping[str, str]) -> str:
    """What switches on the trackers that we need, and those that the client has asked for."""
    return "SET SESSION " + ", ".join(f"{name}='{value}'" for name, value in switched_on(asked).items())


def switched_on(asked: Mapping[str, str]) -> dict[str, str]:
    """The values of session_track_... by which we and the client are told what either wants."""
    watched = asked.get("session_track_system_variables", "")
    names = dict.fromkeys((*TRACKED, *_NAME.findall(watched)))
    return {
        "session_track_gtids": "ALL_GTIDS" if asked.get("session_track_gtids") == "ALL_GTIDS" else "OWN_GTID",
        "session_track_schema": "ON",
        "session_track_state_change": "ON",
        "session_track_system_variables": "*" if watched == "*" else ",".join(names),
        "session_track_transaction_info": "CHARACTERISTICS",
    }


def tail_of(client: str) -> bytes:
    """The mark of texts in this character set that MySQL may read otherwise; b"" where it is known to have none."""
    known = client in UNICODE or client == BINARY or client in LIKE_ASCII - ENDS_IN_ASCII
    return b"" if known else TAIL


def untracked(values: Mapping[str, str]) -> list[str]:
    """The session trackers by which MySQL does not tell what must be known. `values`: of all variables
    in ASKED."""
    off = [name for name, switched in _SWITCHED_ON.items() if values.get(name, "") not in switched]
    if not _watches_all(values.get("session_track_system_variables", "")):
        off.append("session_track_system_variables")
    return off


_SWITCHED_ON = {name: {value, SAME.get(value.lower())} for name, value in switched_on({}).items()}
_SWITCHED_ON["session_track_gtids"].add("ALL_GTIDS")
del _SWITCHED_ON["session_track_system_variables"]


@lru_cache(16)
def _watches_all(watched: str) -> bool:
    return watched == "*" or set(TRACKED).issubset(_NAME.findall(watched))


def same(name: str, value: str) -> bool:
    """Whether a session's value gives the answers that caches are filled with, to texts that it does not misread."""
    pinned = PINNED_VALUES[name]
    if name == "sql_mode":
        return _others(value) == _others(pinned)
    if name == "use_secondary_engine":
        return value.upper() != "FORCED"
    if name == "time_zone":
        return value.lower() in UTC
    if name in ("character_set_client", "character_set_connection"):
        return value in UNICODE or value in LIKE_ASCII or value == BINARY  # of what they have, the bytes mean the same
    if name == "character_set_results":
        return value in UNICODE or value in LIKE_ASCII or value in RAW  # as are the bytes of answers
    if name == STRINGS:
        return value == "utf8mb4"
    if name == BYTES:
        return value != BINARY
    if name == BY_CODES:
        return value == "utf8mb4_bin" or not value.endswith(("_bin", BINARY))
    value, pinned = value.lower(), pinned.lower()
    return SAME.get(value, value) == SAME.get(pinned, pinned)


_TOLD_OF = {
    **dict.fromkeys(("optimizer_switch", "max_sort_length"), "this session has changed {name}"),
    LOCAL: "how the clocks of the time zone {value!r} are set is not known, or not yet",
    PACKET: "a string may have {value} bytes in this session (max_allowed_packet): not as where caches are filled, or"
    " fewer than 16 MiB",
    STEADY: "the clocks of this session's time zone are set now and then: {value!r}",
}


OWN_CONNECTION = frozenset({
    *TRACKS, AUTOCOMMIT, LOG_BIN, TIMESTAMP, READ_ONLY, "transaction_isolation", "completion_type", "wait_timeout",
    "interactive_timeout", "max_allowed_packet", "max_execution_time", "lock_wait_timeout", "net_read_timeout",
    "net_write_timeout", "net_buffer_length", "resultset_metadata", "gtid_next", "gtid_next_list", "insert_id",
    "last_insert_id", "identity", "pseudo_thread_id", "rand_seed1", "rand_seed2", "profiling", "statement_id",
    "debug_sync", "immediate_server_version", "original_server_version", "original_commit_timestamp",
    "binlog_format", "character_set_database", "collation_database", "external_user", "proxy_user", "error_count",
    "warning_count",
})  # fmt: skip
"""Variables by which no answer changes, and a connection of our own is to have its own, or can have no other."""
NEEDED = (
    "time_zone", "sql_mode", "character_set_client", "character_set_results", "collation_connection",
    "group_concat_max_len", "div_precision_increment", "cte_max_recursion_depth", "lc_time_names",
    "default_week_format", "windowing_use_high_precision", "block_encryption_mode", "sql_auto_is_null", ROW_LIMIT,
)  # fmt: skip
"""Variables that any session may set, and that may change an answer, or how it is told."""
_SAID_OTHERWISE = OWN_CONNECTION | {*NEEDED, *OF_QUERIES, *ASKED, ZONE_AS_SET}
ALIKE = Settings((), ())  # nothing is set otherwise
MOST_SETTINGS = 1000
_settings: dict[object, Settings] = {}


def settings_of(values: Mapping[str, str]) -> Settings:
    """What a session of these values has set otherwise than the connections that fill caches, as far as MySQL has told
    of it; ALIKE where that is nothing. The same object for all that are alike."""
    told = {**values, "time_zone": values.get(ZONE_AS_SET, "")}
    needed = tuple([(name, told[name]) for name in NEEDED if _otherwise(name, told.get(name))])
    others = tuple(sorted(item for item in values.items() if item[0] not in _SAID_OTHERWISE))
    if not (needed or others):
        return ALIKE
    found = _settings.get((needed, others))
    if found is None:
        if len(_settings) >= MOST_SETTINGS:
            _settings.clear()
        found = _settings[needed, others] = Settings(needed, others)
    return found


def _otherwise(name: str, value: str | None) -> bool:
    if value is None or (name == "time_zone" and not value):
        return False
    pinned = PINNED_VALUES[name]
    return SAME.get(value.lower(), value) != SAME.get(pinned.lower(), pinned)


def first_difference(values: Mapping[str, str], needs: frozenset[str]) -> str:
    """The first variable, of those that count for a query, whose value gives other answers than caches are filled with,
    in a sentence; "" if there is none. `needs`: those of SOMETIMES and OF_QUERIES that count."""
    off = untracked(values)
    if off:
        return f"MySQL does not tell this session's changes: {', '.join(off)}"
    for name in (*ALWAYS, *(name for name in (*SOMETIMES, *OF_QUERIES) if name in needs)):
        value = value_of(name, values)
        if not same(name, value):
            return _TOLD_OF.get(name, "{name} is {value!r} in this session").format(name=name, value=value)
    return ""


def _others(text: str) -> frozenset[str]:
    """The modes that are not known: they may change anything."""
    return modes_of(text) - NO_MATTER - JUDGED
