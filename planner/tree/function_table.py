"""What is known of functions, operators and casts: one table, from which all that tells kinds, families and dates of
expressions takes its lists."""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from planner.text.scan import words
from planner.tree.by_index import NUMBERS, Family

Classes = tuple[type[exp.Expr], ...]

# How its value follows from its arguments | the family of its value | what it does with dates | which ones: classes of
# the parser begin with a capital, functions that have none with a small letter. Nothing is concluded from what is "-".
#
#   number, operator, truth, part (of a date)   a number; without a family, one that its operands tell
#   date; moved: by an interval                 a date-time
#   letters, string                             a string with its first argument's collation; of letters in one case
#   value, chosen                               its first argument's value, and that of one of its results
#   to json, of json, unquoted                  JSON, a number of JSON, a string made of JSON
#   bytes                                       made of a string's bytes, whatever its collation
#
#   makes: a date-time of a date. wants: a date. date, time: gives one. days: adds days. keeps: gives what the first is.
_TABLE = """
    number   | -        | -     | Abs Ceil Floor Round Sum Avg
    number   | float    | -     | Sqrt Pow Exp Ln Log Stddev StddevPop StddevSamp Variance VariancePop CumeDist
    number   | float    | -     | PercentRank
    number   | integer  | -     | Sign Length Count CountIf RowNumber Rank DenseRank Ntile BitwiseCount
    operator | -        | -     | Mul Div IntDiv Mod Neg BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitwiseLeftShift
    operator | -        | -     | BitwiseRightShift
    truth    | integer  | -     | Predicate Connector And Or Xor Not Boolean In Between Is Exists Like Escape RegexpLike
    part     | integer  | -     | Hour Minute Second Extract ToDays
    part     | integer  | wants | Year Month Day DayOfMonth DayOfWeek DayOfYear Quarter Week WeekOfYear DateDiff
    part     | integer  | wants | TimestampDiff
    date     | date     | makes | TsOrDsToDate Date LastDay
    date     | moment   | makes | TsOrDsToTimestamp
    moved    | -        | -     | DateAdd DateSub
    letters  | text     | -     | Lower Upper
    string   | text     | -     | Left Right Substring Reverse Repeat Trim
    value    | -        | -     | Min Max AnyValue FirstValue LastValue NthValue Window IgnoreNulls RespectNulls Nullif
    chosen   | -        | -     | Case If Coalesce Greatest Least
    to json  | json     | -     | JSONObject JSONObjectAgg JSONExtract json_array json_insert json_merge_patch
    to json  | json     | -     | json_merge_preserve json_replace
    to json  | -        | -     | JSONSet JSONKeys JSONRemove JSONArrayAppend json_arrayagg
    of json  | integer  | -     | JSONArrayContains json_contains json_depth json_length json_valid
    of json  | -        | -     | json_contains_path json_overlaps
    unquoted | text     | -     | JSONExtractScalar json_unquote json_quote
    unquoted | -        | -     | JSONType
    bytes    | text     | -     | Hex MD5 SHA SHA2 hex sha1 bin_to_uuid
    bytes    | integer  | -     | bit_length crc32
    bytes    | -        | -     | LowerHex ToBase64 FromBase64 Unhex unhex md5 sha sha2 to_base64 from_base64 inet6_ntoa
    -        | integer  | -     | StrPosition field find_in_set instr locate position char_length character_length
    -        | integer  | -     | octet_length ord ascii inet_aton period_add period_diff time_to_sec microsecond
    -        | integer  | -     | bit_and bit_or bit_xor interval strcmp regexp_like datediff
    -        | integer  | wants | weekday yearweek to_seconds to_days
    -        | decimal  | wants | unix_timestamp
    -        | float    | -     | acos asin atan atan2 cos cot degrees pi power radians sin tan std
    -        | date     | date  | makedate from_days
    -        | date     | -     | last_day
    -        | moment   | makes | Timestamp
    -        | moment   | -     | UnixToTime
    -        | time     | time  | Time timediff maketime sec_to_time
    -        | time     | -     | TsOrDsToTime
    -        | text     | -     | Concat ConcatWs SubstringIndex Replace Pad Chr GroupConcat Space Stuff TimeToStr
    -        | text     | -     | Format RegexpReplace substr mid elt lcase ucase quote soundex dayname monthname lpad
    -        | text     | -     | rpad bin oct conv export_set make_set inet_ntoa insert insert_ time_format json_value
    -        | text     | -     | json_type json_pretty uuid_to_bin
    -        | collated | -     | Collate
    -        | json     | -     | JSONArray JSONArrayAgg json_extract json_object json_set json_keys json_remove
    -        | json     | -     | json_search
    -        | geometry | -     | point st_geomfromtext
    -        | -        | wants | Dayname
    -        | -        | makes | ConvertTimezone
    -        | -        | time  | TimeFromParts
    -        | -        | days  | adddate subdate
    -        | -        | keeps | addtime subtime
"""


class Functions(NamedTuple):
    """Those of the parser's classes, and those that it knows by their names alone, in small letters."""

    classes: Classes
    names: frozenset[str]


def classes(names: str) -> Classes:
    """The parser's classes of these names; not every version has all."""
    return tuple(getattr(exp, name) for name in names.split() if hasattr(exp, name))


_ROWS = [[part.strip() for part in line.split("|")] for line in _TABLE.strip().splitlines()]


def _of(column: int, *values: str) -> Functions:
    """Those with one of these values in a column of the table."""
    found = [name for row in _ROWS if row[column] in values for name in row[3].split()]
    capitals = " ".join(name for name in found if name[0].isupper())
    return Functions(classes(capitals), frozenset(name for name in found if name[0].islower()))


NUMERIC, OPERATORS, TRUTHS, DATE_PARTS, DATES, DATE_ARITHMETIC, CASES, OF_ITS_VALUE, CHOOSING = [
    _of(0, value).classes
    for value in ("number", "operator", "truth", "part", "date", "moved", "letters", "value", "chosen")
]
OF_ITS_STRING = _of(0, "letters", "string").classes
TO_JSON, OF_JSON, UNQUOTED, OF_BYTES = [_of(0, value) for value in ("to json", "of json", "unquoted", "bytes")]
COMPUTED: Classes = (exp.Add, exp.Sub, *NUMERIC, *OPERATORS)
COMPARISONS = classes("EQ NEQ NullSafeEQ NullSafeNEQ GT GTE LT LTE")
BY_FAMILY = [(family, _of(1, family.value)) for family in Family]
MAKING_DATES, WANTING_DATES, TIMES = [_of(2, value) for value in ("makes", "wants", "time")]
DATES_BY_NAME, DAYS_BY_NAME, KEEPING_BY_NAME = [_of(2, value).names for value in ("date", "days", "keeps")]

CASTS: dict[str, Family] = {
    **dict.fromkeys(
        words("TINYINT SMALLINT MEDIUMINT INT BIGINT UTINYINT USMALLINT UMEDIUMINT UINT UBIGINT"), Family.INTEGER
    ),
    **dict.fromkeys(("DECIMAL", "UDECIMAL"), Family.DECIMAL),
    **dict.fromkeys(("FLOAT", "DOUBLE", "UDOUBLE"), Family.FLOAT),
    **{"YEAR": Family.YEAR, "DATE": Family.DATE, "TIME": Family.TIME, "JSON": Family.JSON},
    **dict.fromkeys(words("DATETIME DATETIME2 TIMESTAMP TIMESTAMPTZ TIMESTAMPLTZ"), Family.MOMENT),
    **dict.fromkeys(("BINARY", "VARBINARY"), Family.BYTES),
}
"""Of what CAST makes, by the parser's names of types; of any other a text."""
TO_NUMBER = frozenset(name for name, family in CASTS.items() if family in (*NUMBERS, Family.YEAR))
