"""The names of what the answer of a query may depend on in a session (`planner/session/session_needs.py`)."""

from __future__ import annotations

from planner.text.scan import words

TIME_ZONE, COLLATION, AUTO_IS_NULL = "time_zone", "collation_connection", "sql_auto_is_null"
BY_CODES = "collation_connection.codes"
"""Whether it orders by codes, and is not utf8mb4_bin: beside such a literal MySQL refuses a string that it makes of
JSON, whose collation utf8mb4_bin wins beside each other."""
STRINGS = "character_set_connection.strings"
"""Whether strings that MySQL makes, or converts to character_set_connection, are the same characters in it."""
BYTES = "character_set_connection.bytes"
"""Whether string literals and parameters are binary ones."""
SENT = "character_set_results.strings"
"""Whether strings are sent in the set that each has: one of the answer may have another than Unicode's."""
LOCAL = "time_zone.local"
"""Whether it is known how the session's clocks are set: an instant is shown by them, or compared with what they say."""
STEADY = "time_zone.steady"
"""Whether they are never set: instants are compared with each other, which MySQL does now and then by what they say."""
PACKET = "max_allowed_packet.filled"
"""Whether strings may have as many bytes as where caches are filled: MySQL says NULL of longer ones."""
OF_MODE = "sql_mode."
"""Before the name of a mode of sql_mode: each counts as a variable of its own."""
ESCAPES = f"{OF_MODE}NO_BACKSLASH_ESCAPES"
"""Whether a backslash escapes in a pattern that is no plain string: LIKE takes it so, unless it is told another one."""
PADDED = f"{OF_MODE}PAD_CHAR_TO_FULL_LENGTH"
STRICT = f"{OF_MODE}STRICT"
"""Whether one of the strict modes is on: bytes that are no string of the set that they become one of are NULL then,
and cut off where they go wrong without."""
DATE_MODES = frozenset(
    OF_MODE + name for name in ("ALLOW_INVALID_DATES", "NO_ZERO_DATE", "NO_ZERO_IN_DATE", "TIME_TRUNCATE_FRACTIONAL")
)
CONVERTED = DATE_MODES | {TIME_ZONE}
"""On which it depends what date-time a string is."""
BY_WORD: dict[str, frozenset[str]] = {
    "group_concat_max_len": words("group_concat"),
    "div_precision_increment": words("/ avg"),
    "cte_max_recursion_depth": words("recursive"),
    "lc_time_names": words("date_format time_format dayname monthname str_to_date from_unixtime"),
    "default_week_format": words("week yearweek"),
    "windowing_use_high_precision": words("over"),
    "block_encryption_mode": words("aes_encrypt aes_decrypt"),
    "default_collation_for_utf8mb4": words("_utf8mb4"),
    ESCAPES: words("json_search"),
    STRINGS: words("char nchar character using json"),
    TIME_ZONE: words("from_unixtime unix_timestamp convert_tz"),
    PACKET: words(
        """
        cast compress concat concat_ws convert export_set from_base64 insert lpad make_set quote regexp_replace repeat
        replace rpad space to_base64 uncompress weight_string -> ->> json_array json_array_append json_array_insert
        json_arrayagg json_extract json_insert json_keys json_merge json_merge_patch json_merge_preserve json_object
        json_objectagg json_pretty json_quote json_remove json_replace json_schema_valid json_schema_validation_report
        json_search json_set json_storage_size json_unquote json_value ||
        """
    ),
    f"{OF_MODE}PIPES_AS_CONCAT": words("||"),
    f"{OF_MODE}HIGH_NOT_PRECEDENCE": words("not"),
    f"{OF_MODE}NO_UNSIGNED_SUBTRACTION": words("-"),
    f"{OF_MODE}REAL_AS_FLOAT": words("real"),
    f"{OF_MODE}TIME_TRUNCATE_FRACTIONAL": words("sec_to_time maketime from_unixtime"),
}
SESSION_NEEDS = frozenset(
    {LOCAL, STEADY, COLLATION, BY_CODES, STRINGS, BYTES, SENT, AUTO_IS_NULL, PADDED, STRICT, *DATE_MODES, *BY_WORD}
)
"""All variables that can be needed."""
AS_READ = frozenset(
    OF_MODE + name for name in ("PIPES_AS_CONCAT", "HIGH_NOT_PRECEDENCE", "REAL_AS_FLOAT", "NO_BACKSLASH_ESCAPES")
)
"""Modes by which MySQL reads a text, and nothing else: they count only where a word of it is read so."""
OF_COMPUTED = frozenset({STRINGS, BYTES, PADDED, *DATE_MODES, f"{OF_MODE}NO_UNSIGNED_SUBTRACTION"})
"""Those that every query needs that computes: a row of the caches' own session is not believed there."""
OF_OTHERS = OF_COMPUTED | AS_READ
"""Those that every query needs whose views or generated columns compute: their texts are stored, and read by MySQL."""
