"""Every function and operator with arguments that fit, and sometimes with such that do not.

In a template {n} is a number, {i} a small one, {s} text, {d} a date, {t} a time, {j} JSON, {p} a path in it, {c} a
condition, {v} anything, {b} bytes, {g} a geometry, {w} a vector, {u} a unit of time.
"""

from __future__ import annotations

NUMERIC = """
ABS({n}); ACOS({n}); ASCII({s}); ASIN({n}); ATAN({n}); ATAN({n}, {n}); ATAN2({n}, {n}); BIT_COUNT({n})
BIT_LENGTH({s}); CEIL({n}); CEILING({n}); CHAR_LENGTH({s}); CHARACTER_LENGTH({s}); COS({n}); COT({n}); CRC32({s})
DATEDIFF({d}, {d}); DAY({d}); DAYOFMONTH({d}); DAYOFWEEK({d}); DAYOFYEAR({d}); DEGREES({n}); EXP({i})
EXTRACT({u} FROM {d}); FIELD({v}, {v}, {v}); FIND_IN_SET({s}, {s}); FLOOR({n}); HOUR({t}); INET_ATON({s})
INSTR({s}, {s}); INTERVAL({n}, {n}, {n}); IS_IPV4({s}); IS_IPV6({s}); ISNULL({v}); IS_UUID({s})
JSON_CONTAINS({j}, {j}); JSON_CONTAINS_PATH({j}, 'one', {p}); JSON_DEPTH({j}); JSON_LENGTH({j})
JSON_LENGTH({j}, {p}); JSON_OVERLAPS({j}, {j}); JSON_SCHEMA_VALID('{"type": "object"}', {j}); JSON_STORAGE_SIZE({j})
JSON_VALID({s}); LENGTH({s}); LN({n}); LOCATE({s}, {s}); LOCATE({s}, {s}, {i}); POSITION({s} IN {s}); LOG({n})
LOG({i}, {n}); LOG10({n}); LOG2({n}); MICROSECOND({t}); MINUTE({t}); MOD({n}, {n}); MONTH({d}); OCTET_LENGTH({s})
ORD({s}); PERIOD_ADD(202401, {i}); PERIOD_DIFF({n}, 202401); PI(); POW({n}, {i}); POWER({n}, {i}); QUARTER({d})
RADIANS({n}); REGEXP_INSTR({s}, '[a-b]'); REGEXP_LIKE({s}, '^a'); REGEXP_LIKE({s}, 'A', 'c'); ROUND({n})
ROUND({n}, {i}); SECOND({t}); SIGN({n}); SIN({n}); SQRT({n}); STRCMP({s}, {s}); TAN({n}); TIME_TO_SEC({t})
TIMESTAMPDIFF({u}, {d}, {d}); TO_DAYS({d}); TO_SECONDS({d}); TRUNCATE({n}, {i}); UNCOMPRESSED_LENGTH({b})
UNIX_TIMESTAMP({d}); WEEK({d}); WEEK({d}, {i}); WEEKDAY({d}); WEEKOFYEAR({d}); YEAR({d}); YEARWEEK({d})
YEARWEEK({d}, {i}); COERCIBILITY({v})
VALIDATE_PASSWORD_STRENGTH({s}); ST_X({g}); ST_Y({g}); ST_DISTANCE({g}, {g}); ST_CONTAINS({g}, {g})
ST_WITHIN({g}, {g}); ST_DISTANCE_SPHERE({g}, {g}); {n} + {n}; {n} - {n}; {n} * {n}; {n} / {n}; {n} % {n}
{n} DIV {n}; {n} MOD {n}; {n} & {n}; {n} | {n}; {n} ^ {n}; {n} << {i}; {n} >> {i}; ~{n}; -{n}; +{n}; (({n})); {c}
{n} - {i}; {n} * 2; {n} + 1.5; {n} / 3; CAST({v} AS SIGNED); CAST({v} AS UNSIGNED); CAST({v} AS DECIMAL(20, 4))
CAST({v} AS DOUBLE); CAST({v} AS FLOAT); CAST({v} AS YEAR); CONVERT({v}, SIGNED); CONVERT({v}, DECIMAL(12, 1))
CAST({n} AS DECIMAL); CAST({v} AS REAL); IF({c}, {n}, {n}); IFNULL({n}, {n}); NULLIF({n}, {n}); COALESCE({n}, {n})
COALESCE({n}, {n}, {i}); GREATEST({n}, {n}); LEAST({n}, {n}, {i}); CASE WHEN {c} THEN {n} ELSE {n} END
CASE {n} WHEN {n} THEN {n} WHEN {i} THEN {n} END; CASE {v} WHEN {v} THEN {i} ELSE {n} END; GET_FORMAT(DATE, 'ISO')
JSON_VALUE({j}, {p} RETURNING SIGNED)
"""

TEXTUAL = """
AES_DECRYPT({b}, 'key'); HEX(AES_ENCRYPT({s}, 'key')); BIN({n}); BIN_TO_UUID(UUID_TO_BIN({s})); CHAR({n})
CHAR({n}, {n} USING utf8mb4); CHARSET({v}); COLLATION({s}); CONCAT({s}, {s}); CONCAT({s}, {v}, {s})
CONCAT_WS({s}, {s}, {v}); HEX(COMPRESS({s})); CONV({s}, 16, 10); CONV({n}, 10, 2); DATE_FORMAT({d}, '%Y-%m %W %f')
DAYNAME({d}); ELT({i}, {s}, {s}); EXPORT_SET({i}, {s}, {s}, ',', 4); EXTRACTVALUE({s}, '/a'); FORMAT({n}, {i})
FROM_UNIXTIME({n}, '%W %M %e'); STR_TO_DATE({s}, '%W %M %e')
FROM_BASE64({s}); GET_FORMAT(TIME, 'ISO'); HEX({v}); INET_NTOA({n}); HEX(INET6_ATON({s})); INET6_NTOA({b})
INSERT({s}, {i}, {i}, {s}); JSON_PRETTY({j}); JSON_QUOTE({s}); JSON_TYPE({j}); JSON_UNQUOTE({j})
JSON_VALUE({j}, {p}); LCASE({s}); LEFT({s}, {i}); LOWER({s}); LPAD({s}, {i}, {s}); LTRIM({s})
MAKE_SET({i}, {s}, {s}); MD5({s}); MID({s}, {i}, {i}); MONTHNAME({d}); OCT({n}); QUOTE({s})
REGEXP_REPLACE({s}, '[a-b]', 'x'); REGEXP_SUBSTR({s}, '[a-b]+'); REPEAT({s}, {i}); REPLACE({s}, {s}, {s})
REVERSE({s}); RIGHT({s}, {i}); RPAD({s}, {i}, {s}); RTRIM({s}); SHA({s}); SHA1({s}); SHA2({s}, 256); SOUNDEX({s})
SPACE({i}); SUBSTR({s}, {i}); SUBSTRING({s}, {i}, {i}); SUBSTRING({s} FROM {i} FOR {i})
SUBSTRING_INDEX({s}, {s}, {i}); TIME_FORMAT({t}, '%H %i'); TO_BASE64({s}); TRIM({s}); TRIM(LEADING {s} FROM {s})
TRIM(TRAILING 'a' FROM {s}); TRIM(BOTH ' ' FROM {s}); UCASE({s}); UPPER({s}); HEX(UNHEX({s}))
UNCOMPRESS(COMPRESS({s})); HEX(WEIGHT_STRING({s})); CAST({v} AS CHAR); CAST({v} AS CHAR(3)); CONVERT({v}, CHAR)
CONVERT({s} USING latin1); CONVERT({s} USING utf8mb4); CAST({v} AS BINARY); CAST({s} AS BINARY(4)); BINARY {s}
{s} COLLATE utf8mb4_0900_as_cs; {j}->>'$.b'; CAST({s} AS NCHAR(4)); IF({c}, {s}, {s}); IFNULL({s}, {s})
NULLIF({s}, {s}); COALESCE({s}, {s}); COALESCE({v}, {v}); GREATEST({s}, {s}); LEAST({s}, {s})
CASE WHEN {c} THEN {s} ELSE {s} END; CASE {s} WHEN {s} THEN {s} WHEN {s} THEN {s} END; IF({c}, {v}, {v})
IFNULL({v}, {v}); CASE WHEN {c} THEN {v} WHEN {c} THEN {v} END; GREATEST({v}, {v}); LEAST({v}, {v})
NULLIF({v}, {v}); COALESCE({v}, {n}); ST_ASTEXT({g}); ANY_VALUE({v}); {s} {s}
"""

TEMPORAL = """
ADDDATE({d}, {i}); ADDDATE({d}, INTERVAL {i} {u}); ADDTIME({t}, {t}); CONVERT_TZ({d}, '+00:00', '+02:00'); DATE({d})
DATE_ADD({d}, INTERVAL {i} {u}); DATE_SUB({d}, INTERVAL {i} {u}); FROM_DAYS({n}); LAST_DAY({d}); MAKEDATE(2024, {i})
MAKETIME({i}, {i}, {i}); SEC_TO_TIME({n}); STR_TO_DATE({s}, '%Y-%m-%d'); SUBDATE({d}, {i}); SUBTIME({t}, {t})
SUBDATE({d}, INTERVAL {i} DAY); TIME({t}); TIMEDIFF({t}, {t}); TIMESTAMP({d}); TIMESTAMP({d}, {t})
TIMESTAMPADD({u}, {i}, {d}); {d} + INTERVAL {i} {u}; {d} - INTERVAL {i} {u}; INTERVAL {i} DAY + {d}
CAST({v} AS DATE); CAST({v} AS DATETIME); CAST({v} AS DATETIME(3)); CAST({v} AS TIME); CAST({v} AS TIME(2))
CONVERT({v}, DATE); IF({c}, {d}, {d}); COALESCE({d}, {d}); IFNULL({d}, {v}); GREATEST({d}, {d}); LEAST({t}, {t})
CASE WHEN {c} THEN {d} END; NULLIF({d}, {d}); DATE_ADD({d}, INTERVAL '1:30' MINUTE_SECOND)
DATE_SUB({d}, INTERVAL '1 2' DAY_HOUR); CAST({d} AT TIME ZONE '+00:00' AS DATETIME); FROM_UNIXTIME({n})
"""

JSONS = """
JSON_ARRAY({v}, {v}); JSON_EXTRACT({j}, {p}); JSON_KEYS({j}); JSON_MERGE_PATCH({j}, {j})
JSON_MERGE_PRESERVE({j}, {j}); JSON_OBJECT('a', {v}, 'b', {v}); JSON_REMOVE({j}, '$.a'); JSON_REPLACE({j}, {p}, {v})
JSON_SEARCH({j}, 'one', {s}); JSON_SET({j}, {p}, {v}); {j}->'$.b'; {j}->'$[0]'; CAST({v} AS JSON)
COALESCE({j}, {j}); IF({c}, {j}, {j}); JSON_ARRAY_APPEND({j}, '$', {v}); JSON_ARRAY_INSERT({j}, '$[0]', {v})
JSON_INSERT({j}, {p}, {v}); JSON_SCHEMA_VALIDATION_REPORT('{"type": "object"}', {j})
"""

CONDITIONS = """
{n} = {n}; {s} = {s}; {d} = {d}; {v} = {v}; {n} <=> {n}; {v} <=> {v}; {n} <> {n}; {s} != {s}; {n} < {n}; {s} <= {s}
{d} > {d}; {t} >= {t}; {v} < {v}; {v} >= {v}; {t} = {t}; {d} <= {t}; {j} = {j}; {j} = {v}; {b} = {s}; {s} = {n}
{n} BETWEEN {n} AND {n}; {s} BETWEEN {s} AND {s}; {d} NOT BETWEEN {d} AND {d}; {v} BETWEEN {v} AND {v}
{n} IN ({n}, {n}); {s} IN ({s}, {s}, {s}); {v} IN ({v}, {v}); {n} NOT IN ({n}, {n}); {s} NOT IN ({s}, {v})
{d} IN ({d}, {d}); {s} LIKE {s}; {s} NOT LIKE {s}; {s} LIKE 'a%'; {s} NOT LIKE '%b'; {s} LIKE {s} ESCAPE '|'
{s} NOT LIKE 'a_' ESCAPE '!'; {v} LIKE {s}; {n} NOT LIKE '1%'; {s} REGEXP '^[a-b]'; {s} NOT REGEXP 'a'
{s} RLIKE 'b$'; {s} NOT RLIKE 'z'; {v} IS NULL; {v} IS NOT NULL; {n} IS TRUE; {n} IS NOT TRUE; {c} IS FALSE
{c} IS NOT FALSE; {n} IS UNKNOWN; {c} IS NOT UNKNOWN; NOT {c}; !{n}; NOT ({c} AND {c}); ({c} AND {c}); ({c} OR {c})
({c} XOR {c}); ({c} OR {c} AND {c}); {n}; {s}; {c} && {c}; ({c} || {c}); {s} SOUNDS LIKE {s}; {i} MEMBER OF ({j})
({n}, {s}) = ({n}, {s}); ({n}, {n}) IN (({n}, {n}), ({i}, {i})); ({n}, {s}) < ({n}, {s}); ({v}, {n}) <=> ({v}, {n})
ISNULL({v}); COALESCE({c}, {c}); IF({c}, {c}, {c}); {n} = {s} = {c}; {c} = {c}; {n} <> {i} IS TRUE; BINARY {s} = {s}
{s} COLLATE utf8mb4_bin = {s}; NOT {n} = {i}; {n} | {i}; {n} & {i}; CASE WHEN {c} THEN {c} ELSE {c} END
NOT {c} OR {c}; {n} IN ({n}); {s} NOT IN ({s}); {v} NOT BETWEEN {v} AND {v}
"""

# What the proxy computes itself, for queries that are to be maintained.
PLAIN_NUMERIC = """
{n} + {n}; {n} - {n}; {n} * {n}; {n} / {n}; {n} % {n}; {n} DIV {n}; -{n}; ABS({n}); CEIL({n}); FLOOR({n}); SIGN({n})
MOD({n}, {n}); IF({c}, {n}, {n}); IFNULL({n}, {n}); NULLIF({n}, {n}); COALESCE({n}, {n}); GREATEST({n}, {n})
LEAST({n}, {n}); CASE WHEN {c} THEN {n} ELSE {n} END; CASE {n} WHEN {n} THEN {n} END; CHAR_LENGTH({s}); LENGTH({s})
{c}; CAST({n} AS SIGNED); CAST({n} AS DECIMAL(20, 4)); CAST({s} AS UNSIGNED); CEILING({n}); OCTET_LENGTH({s})
CAST({n} AS DOUBLE)
"""
PLAIN_TEXTUAL = """
CONCAT({s}, {s}); CONCAT({s}, {n}); LOWER({s}); UPPER({s}); LCASE({s}); UCASE({s}); IF({c}, {s}, {s})
COALESCE({s}, {s}); IFNULL({s}, {s}); NULLIF({s}, {s}); CASE WHEN {c} THEN {s} ELSE {s} END
CASE {s} WHEN {s} THEN {s} END; CAST({v} AS CHAR); GREATEST({s}, {s}); LEAST({s}, {s}); IF({c}, {v}, {v})
COALESCE({v}, {v}); CASE {v} WHEN {v} THEN {s} END
"""
PLAIN_TEMPORAL = """
CAST({d} AS DATE); CAST({d} AS DATETIME); COALESCE({d}, {d}); IF({c}, {d}, {d}); IFNULL({d}, {d})
GREATEST({d}, {d}); CASE WHEN {c} THEN {d} END; CAST({d} AS DATETIME(3)); CAST({t} AS TIME)
"""
PLAIN_CONDITIONS = """
{n} = {n}; {s} = {s}; {d} = {d}; {n} <=> {n}; {n} <> {n}; {s} != {s}; {n} < {n}; {s} <= {s}; {d} > {d}; {t} >= {t}
{t} = {t}; {v} = {v}; {v} < {v}; {n} BETWEEN {n} AND {n}; {s} BETWEEN {s} AND {s}; {d} NOT BETWEEN {d} AND {d}
{n} IN ({n}, {n}); {s} IN ({s}, {s}); {n} NOT IN ({n}, {n}); {s} NOT IN ({s}, {s}); {n} NOT IN ({i}, NULL)
NOT ({s} IN ('a', NULL)); {s} LIKE {s}; {s} NOT LIKE {s}; {s} LIKE 'a%'; {s} NOT LIKE '%b'; {v} IS NULL
{v} IS NOT NULL; {n} IS TRUE; {n} IS NOT TRUE; {c} IS FALSE; NOT {c}; ({c} AND {c}); ({c} OR {c}); ({c} XOR {c})
{n} NOT BETWEEN {n} AND {n}; {c} IS NOT FALSE; {n}; {d} IN ({d}, {d}); NOT ({c} OR {c}); {n} IS UNKNOWN
{s} LIKE '_'; {s} NOT LIKE 'a_'
"""

AGGREGATES = """
COUNT(*); COUNT({v}); COUNT(DISTINCT {v}); COUNT(DISTINCT {v}, {v}); SUM({n}); SUM(DISTINCT {n}); AVG({n})
AVG(DISTINCT {n}); MIN({v}); MAX({v}); MIN({n}); MAX({s}); MIN({d}); MAX({d}); BIT_AND({n}); BIT_OR({n})
BIT_XOR({n}); STD({n}); STDDEV({n}); STDDEV_POP({n}); STDDEV_SAMP({n}); VAR_POP({n}); VAR_SAMP({n}); VARIANCE({n})
JSON_LENGTH(JSON_ARRAYAGG({v})); GROUP_CONCAT({s} ORDER BY {a}.id)
GROUP_CONCAT(DISTINCT {s} ORDER BY {a}.id SEPARATOR '|'); SUM({c}); MAX({t}); MIN({s})
GROUP_CONCAT({v}, {s} ORDER BY {a}.id DESC SEPARATOR ''); JSON_KEYS(JSON_OBJECTAGG({a}.id, {n})); AVG({n}) / 3
SUM({n}) + COUNT(*)
"""
PLAIN_AGGREGATES = """
COUNT(*); COUNT({v}); SUM({n}); AVG({n}); MIN({v}); MAX({v}); MIN({n}); MAX({n}); MIN({s}); MAX({s}); MIN({d})
MAX({d}); SUM({c}); SUM(CASE WHEN {c} THEN 1 ELSE 0 END); COUNT(*); SUM({n}); AVG({n}); SUM({n}) / COUNT(*)
MAX({t}); COUNT({n})
"""

WINDOWS = """
ROW_NUMBER(); RANK(); DENSE_RANK(); CUME_DIST(); PERCENT_RANK(); NTILE(3); LAG({v}); LAG({v}, 2, {v}); LEAD({v})
LEAD({n}, 1); FIRST_VALUE({v}); LAST_VALUE({v}); NTH_VALUE({v}, 2); SUM({n}); COUNT(*); AVG({n}); MIN({v}); MAX({v})
COUNT({v}); BIT_OR({n})
"""
FRAMES = (
    "",
    " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " ROWS UNBOUNDED PRECEDING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    " RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " RANGE UNBOUNDED PRECEDING",
)

UNITS = (
    *("MICROSECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"),
    *("DAY", "MONTH", "HOUR"),
)
COMPOSITE_UNITS = ("SECOND_MICROSECOND", "DAY_HOUR", "YEAR_MONTH", "DAY_MICROSECOND", "HOUR_MINUTE")
PATHS = ("'$'", "'$.a'", "'$.b'", "'$[0]'", "'$.b[1]'", "'$.*'", "'$[last]'")
POINTS = ("ST_GEOMFROMTEXT('POINT(1 2)')", "POINT(0, 1)", "ST_GEOMFROMTEXT('LINESTRING(0 0, 1 1)')", "NULL")


# Beside columns of rare types.
GEOMETRIC = """
ST_X({g}); ST_Y({g}); ST_DISTANCE({g}, {g}); ST_CONTAINS({g}, {g}); ST_WITHIN({g}, {g}); ST_ASTEXT({g}); HEX({g})
ST_DISTANCE_SPHERE({g}, {g}); LENGTH({g}); COALESCE({g}, {g}); IF({c}, {g}, {g}); IFNULL({g}, {g}); CAST({g} AS CHAR)
CASE WHEN {c} THEN {g} END; NULLIF({g}, {g}); GREATEST({g}, {g}); {g}; CONCAT({g}, {s})
"""
VECTORS = """
{w}; HEX({w}); LENGTH({w}); COALESCE({w}, {w}); IF({c}, {w}, {w}); IFNULL({w}, {w}); CAST({w} AS BINARY)
CASE WHEN {c} THEN {w} END; NULLIF({w}, {w}); CONCAT({w}, {s})
"""
RARE_CONDITIONS = """
{g} = {g}; {g} <=> {g}; {g} <> {g}; {g} IN ({g}, {g}); {g} IS NULL; {g} IS NOT NULL; ST_CONTAINS({g}, {g}); {g} < {g}
{w} = {w}; {w} <=> {w}; {w} <> {w}; {w} IN ({w}, {w}); {w} IS NULL; {w} > {w}; {g} = {v}; {w} = {b}; {w} LIKE {s}
"""

# Beside columns of unusual types, also in what is to be maintained.
UNUSUAL = """
CASE {v} WHEN {v} THEN 1 WHEN {v} THEN 2 ELSE 3 END; CASE {s} WHEN {s} THEN 1 WHEN {s} THEN 2 END; {s} IN ({s}, {b})
CASE {n} WHEN {n} THEN 1 WHEN {n} THEN 2 END; CASE {s} WHEN {b} THEN 1 WHEN {s} THEN 2 END; {n} IN ({n}, {n})
CASE {s} WHEN {d} THEN 1 WHEN {s} THEN 2 END; {s} IN ({s}, {d}); NULLIF({t}, {t}); NULLIF({s}, {s}); NULLIF({n}, {n})
{n} = {n}; {n} < {n}; {s} < {s}; {s} NOT IN ({s}, {s})
"""


def templates(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for line in text.strip().splitlines() for item in line.split("; ") if item.strip())
