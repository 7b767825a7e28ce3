"""Forms of queries with parameters whose type no column tells, and literals of every kind to put there."""

from __future__ import annotations

import random
from itertools import permutations

TABLE = """
    CREATE TABLE u (id INT PRIMARY KEY AUTO_INCREMENT, n INT, bu BIGINT UNSIGNED, d DECIMAL(10,2), f DOUBLE,
    s VARCHAR(40), b VARBINARY(20), c DATETIME, p DATETIME(6), da DATE, ti TIME, y YEAR, j JSON, tx TEXT,
    e ENUM('a', 'b', '1'), FULLTEXT (tx), KEY (n), KEY (s), KEY (c))
"""
NAMES = "n, bu, d, f, s, b, c, p, da, ti, y, j, tx, e"
ROWS = (
    "1, 1, 1.50, 1.5, 'a', 'a', '2024-01-01 10:00:00', '2024-01-01 10:00:00.5', '2024-01-01', '10:00:00', 2024,"
    " '{\"a\": 1, \"b\": \"a\"}', 'abc word one', 'a'",
    "2, 2, 2.00, 2, '1', '1', '2024-02-01 00:00:00', '2024-02-01 00:00:00', '2024-02-01', '12:00:00', 2001,"
    " '{\"a\": \"1\"}', 'one two', 'b'",
    "3, 3, 10.00, 10, 'abc', 'abc', '2024-01-01 23:59:59', '2024-01-01 23:59:59.25', '2024-01-01', '01:00:00', 1999,"
    " '[1, 2, \"a\"]', 'word', '1'",
    "-1, 18446744073709551615, -1.00, -1.25, '1.5', '1.5', '2020-02-29 12:34:56', '2020-02-29 12:34:56',"
    " '2020-02-29', '00:00:00', NULL, '1', '1.5 2024', '1'",
    ", ".join(["NULL"] * 14),
    "2024, 20240101, 2024.00, 20240101, '2024-01-01', '2024-01-01', '2024-01-01 00:00:00', '2024-01-01 00:00:00',"
    " '2024-01-01', '00:20:24', 2024, '\"2024-01-01\"', '2024', 'a'",
)
WRITES = (
    "UPDATE u SET n = n + 1 WHERE id % 3 = {}",
    "UPDATE u SET s = IF(LENGTH(s) < 9, CONCAT(s, '1'), 'a'), c = c + INTERVAL 1 DAY WHERE id % 4 = {}",
    "UPDATE u SET d = 3 - d, f = 1.5 - f, da = da - INTERVAL 1 MONTH WHERE id % 3 = {}",
    "UPDATE u SET j = JSON_ARRAY(n, s), tx = s WHERE id % 4 = {} AND n IS NOT NULL",
    "DELETE FROM u WHERE id % 7 = {}",
    f"INSERT INTO u ({NAMES}) SELECT {NAMES} FROM u WHERE id % 5 = {{}} LIMIT 3",
)
COMPUTED = (
    "DATE(c)", "YEAR(c)", "MONTH(c)", "LOWER(s)", "LENGTH(s)", "CONCAT(s, 'x')", "n + 1", "n * d", "d + 1", "f / 2",
    "ABS(n)", "c + INTERVAL 1 DAY", "DATE_FORMAT(c, '%Y-%m')", "JSON_EXTRACT(j, '$.a')", "j->'$.a'", "j->>'$.b'",
    "JSON_UNQUOTE(JSON_EXTRACT(j, '$.a'))", "COALESCE(n, 0)", "COALESCE(s, '')", "IFNULL(d, 0)", "n % 2", "n & 3",
    "CAST(s AS SIGNED)", "CAST(n AS CHAR)", "CAST(s AS UNSIGNED)", "SUBSTRING(s, 1, 1)", "LEFT(s, 1)", "HEX(b)",
    "TIME(c)", "TIMESTAMPDIFF(DAY, c, p)", "ROUND(d, 1)", "bu - 1", "-n", "IF(n > 1, s, n)",
    "CASE WHEN n > 1 THEN d END", "HOUR(ti)", "(SELECT MAX(n) FROM u x)", "(SELECT MIN(s) FROM u x)",
    "FIND_IN_SET('a', s)", "BINARY s", "s COLLATE utf8mb4_bin", "CONVERT(s USING latin1)", "CAST(b AS CHAR)",
    "GREATEST(n, 2)", "INSTR(s, 'a')", "DAYOFWEEK(c)", "TO_DAYS(c)", "LAST_DAY(c)", "c - INTERVAL 1 HOUR",
    "SEC_TO_TIME(n)", "n DIV 2", "NULLIF(n, 1)", "TRIM(s)", "(n, s)", "j",
)  # fmt: skip
COMPARISONS = (
    "{x} = ?", "{x} <> ?", "{x} > ?", "{x} <= ?", "? < {x}", "{x} <=> ?", "{x} IN (?)", "{x} NOT IN (?)",
    "{x} BETWEEN ? AND ?", "{x} NOT BETWEEN ? AND ?", "{x} LIKE ?",
)  # fmt: skip
CONDITIONS = (
    "s LIKE CONCAT('%', ?, '%')", "s LIKE CONCAT(?, '%')", "s = LOWER(?)", "s = CONCAT(?, 'bc')", "s = TRIM(?)",
    "n = ? + 1", "n = ABS(?)", "s + ? > 2", "n - ? > 0", "n * ? > 2", "f + ? > 2", "bu - ? >= 0", "n / ? > 1",
    "n % ? = 1", "n DIV ? = 1", "(n, s) IN ((?, ?))", "(n, s) IN ((?, ?), (?, ?))", "(n, s) = (?, ?)",
    "(c, id) > (?, ?)", "(c, id) < (?, ?)", "(s, n) >= (?, ?)", "(d, n) > (?, ?)", "(f, n) > (?, ?)",
    "(da, n) >= (?, ?)", "(p, id) <= (?, ?)", "(ti, n) < (?, ?)", "(e, n) = (?, ?)", "(b, n) IN ((?, ?), (?, ?))",
    "(y, bu) IN ((?, ?))", "n = COALESCE(?, n)", "s = COALESCE(?, s)", "d = COALESCE(?, d)", "c >= COALESCE(?, c)",
    "da = COALESCE(?, da)", "(? IS NULL OR n = ?)", "(? IS NULL OR s = ?)", "(? = '' OR s = ?)", "(? = 0 OR n = ?)",
    "? = 1", "?", "NOT ?", "(? OR n = 1)", "? AND n = 1", "FIND_IN_SET(?, s)", "FIND_IN_SET(s, ?)", "n & ?",
    "MATCH(tx) AGAINST (? IN BOOLEAN MODE)", "n & ? = ?", "n | ? = 3", "n ^ ? = 3", "~? = n", "n << ? = 4",
    "n >> ? = 1", "JSON_CONTAINS(j, ?)", "JSON_CONTAINS(j, ?, '$.a')", "JSON_EXTRACT(j, ?) = 1", "n IN (SELECT ?)",
    "JSON_EXTRACT(j, ?) IS NOT NULL", "JSON_UNQUOTE(JSON_EXTRACT(j, ?)) = ?", "JSON_OVERLAPS(j, ?)",
    "? MEMBER OF (j)", "JSON_SEARCH(j, 'one', ?) IS NOT NULL", "c > DATE_SUB(?, INTERVAL 1 DAY)",
    "c >= ? - INTERVAL 1 DAY", "c < ? + INTERVAL ? DAY", "c < p + INTERVAL ? DAY", "c >= DATE_ADD(p, INTERVAL ? HOUR)",
    "TIMESTAMPDIFF(DAY, c, ?) > 1", "DATE(c) = DATE(?)", "c >= DATE(?)", "YEAR(c) = YEAR(?)", "n = YEAR(?)",
    "n = LENGTH(?)", "n = CAST(? AS SIGNED)", "n = CAST(? AS UNSIGNED)", "s = CAST(? AS CHAR)", "da = CAST(? AS DATE)",
    "c = CAST(? AS DATETIME)", "d = CAST(? AS DECIMAL(10, 2))", "n = IF(?, 1, 2)", "s = IF(?, 'a', '1')",
    "n = IF(n > ?, 2, 3)", "n = CASE WHEN ? THEN 1 ELSE 2 END", "n = CASE n WHEN ? THEN 1 ELSE 2 END",
    "n = CASE ? WHEN 1 THEN 1 ELSE 2 END", "s = CASE WHEN n = 1 THEN ? ELSE s END", "n = GREATEST(?, 1)",
    "n = GREATEST(n, ?)", "s = GREATEST(s, ?)", "NULLIF(n, ?) IS NULL", "n = IFNULL(?, 1)", "IFNULL(n, ?) = ?",
    "COALESCE(s, ?) = ?", "COALESCE(d, ?) > 1", "SUBSTRING(s, ?) = 'c'", "SUBSTRING(s, 1, ?) = ?", "LEFT(s, ?) = ?",
    "LPAD(s, ?, ?) = s", "REPLACE(s, ?, ?) = s", "INSTR(s, ?) > 0", "LOCATE(?, s) > 0", "POSITION(? IN s)",
    "s REGEXP ?", "REGEXP_LIKE(s, ?)", "STRCMP(s, ?) = 0", "ROUND(d, ?) = d", "TRUNCATE(f, ?) = f", "MOD(n, ?) = 1",
    "POW(n, ?) = 4", "HEX(?) = s", "UNHEX(?) = b", "b = UNHEX(?)", "b = UUID_TO_BIN(?)", "DATE_FORMAT(c, ?) = ?",
    "STR_TO_DATE(?, '%Y-%m-%d') = da", "FROM_UNIXTIME(?) = c", "n IN (SELECT n FROM u x WHERE x.d > ? + 1)",
    "EXISTS (SELECT 1 FROM u x WHERE x.n = u.n AND DATE(x.c) = ?)", "MAKEDATE(?, 1) = da", "n BETWEEN ? AND ? + 1",
    "ISNULL(?)", "ELT(?, 'a', 'b') = s", "FIELD(s, ?, ?)", "FIELD(n, ?, ?)", "INTERVAL(n, ?, ?) = 1",
    "CHAR_LENGTH(?) = n", "s = REPEAT(?, 1)", "s = REVERSE(?)", "BIT_COUNT(?) = n", "CONCAT(s, ?) = ?",
    "CONCAT_WS(?, s, n) = ?", "QUOTE(?) = s", "s = ? COLLATE utf8mb4_bin", "s = BINARY ?", "b = BINARY ?",
    "TIME(?) = ti", "ADDDATE(da, ?) = da", "SEC_TO_TIME(?) = ti", "TIMESTAMP(?) = c", "(n > ?) = ?",
    "(s = ?) + ? > 1", "? IN (n, s)", "? IN (n, 2)", "? BETWEEN n AND d", "? LIKE s", "? LIKE CONCAT(s, '%')",
    "s LIKE ? ESCAPE '|'", "s LIKE 'a' ESCAPE ?", "id IN (SELECT x.id FROM u x WHERE (x.n, x.s) = (?, ?))",
)  # fmt: skip
TAILS = (
    "ORDER BY FIELD(id, ?, ?), id", "ORDER BY FIELD(s, ?, ?), id", "ORDER BY n = ? DESC, id",
    "ORDER BY s LIKE ? DESC, id", "ORDER BY LOCATE(?, s), id", "ORDER BY ABS(n - ?), id",
    "ORDER BY CASE WHEN n = ? THEN 0 ELSE 1 END, id", "ORDER BY COALESCE(n, ?), id", "ORDER BY IF(s = ?, 0, 1), id",
    "ORDER BY DATE(c) = ?, id", "ORDER BY ?, id", "ORDER BY id = ? + 1, id",
)  # fmt: skip
WHOLE = (
    "SELECT n, COUNT(*) FROM u GROUP BY n HAVING MAX(d) > ? ORDER BY n",
    "SELECT n, COUNT(*) FROM u GROUP BY n HAVING COUNT(*) + ? > 1 ORDER BY n",
    "SELECT s, COUNT(*) FROM u GROUP BY s HAVING MAX(c) > ? ORDER BY s",
    "SELECT s, COUNT(*) FROM u GROUP BY s HAVING SUM(n) > ? + 1 ORDER BY s",
    "SELECT x.id FROM u JOIN (SELECT id, n + 1 AS m, DATE(c) AS day FROM u) x ON x.id = u.id WHERE x.day = ?"
    " ORDER BY x.id",
    "SELECT x.id FROM u JOIN (SELECT id, n + 1 AS m, DATE(c) AS day FROM u) x ON x.id = u.id WHERE x.m = ?"
    " ORDER BY x.id",
    "SELECT x.m FROM (SELECT n AS m, COUNT(*) AS k FROM u WHERE DATE(c) > ? GROUP BY n) x WHERE x.k = ? ORDER BY x.m",
    "SELECT id FROM u WHERE DATE(c) = ? UNION SELECT n FROM u WHERE n & ? ORDER BY id",
    "WITH x AS (SELECT id, s FROM u WHERE s LIKE CONCAT(?, '%')) SELECT x.id FROM x JOIN u USING (id) WHERE u.n = ?"
    " ORDER BY x.id",
    "SELECT a.id FROM u a LEFT JOIN u b ON b.id = a.id AND b.n & ? WHERE b.id IS NULL ORDER BY a.id",
    "SELECT a.id FROM u a LEFT JOIN u b ON b.n = a.n AND (b.s, b.n) = (?, ?) WHERE a.id = ? ORDER BY a.id, b.id",
)
MIXED = tuple(
    f"SELECT id FROM u WHERE {condition.format(x=x, y=y)} ORDER BY id"
    for condition in (
        "CASE {x} WHEN {y} THEN 1 WHEN ? THEN 2 END", "CASE {x} WHEN ? THEN 1 WHEN {y} THEN 2 END",
        "CASE ? WHEN {x} THEN 1 WHEN {y} THEN 2 END", "FIELD({x}, {y}, ?)", "{x} BETWEEN {y} AND ?",
        "{x} BETWEEN ? AND {y}", "{x} IN ({y}, ?)", "? IN ({x}, {y})", "GREATEST({x}, {y}, ?) = {x}",
        "COALESCE({x}, {y}, ?) = {x}", "INTERVAL({x}, {y}, ?)", "IF(id = 1, {x}, {y}) = ?", "NULLIF({x}, ?) = {y}",
        "CASE WHEN id = 1 THEN {x} ELSE {y} END = ?", "IFNULL({x}, {y}) = ?", "LEAST({x}, ?, {y}) = {y}",
        "COALESCE({x}, ?) = {y}", "({x} = {y}) = ?", "IF({x} = {y}, ?, {x}) = {y}",
    )
    for x, y in permutations(("n", "s", "d", "f", "c", "da", "ti", "b", "e", "bu", "j"), 2)
)  # fmt: skip
"""Forms in which a parameter meets columns of two types."""
FORMS = (
    *(f"SELECT id FROM u WHERE {form.format(x=x)} ORDER BY id" for x in COMPUTED for form in COMPARISONS),
    *(f"SELECT id FROM u WHERE {condition} ORDER BY id" for condition in CONDITIONS),
    *(f"SELECT id FROM u {tail}" for tail in TAILS),
    *WHOLE,
)
LITERALS = (
    "1", "0", "3", "-1", "2024", "20240101", "1.5e0", "2e0", "1.5", "2.0", "1.50", "2.", "'a'", "'1'", "'1.5'", "''",
    "'abc'", "'A'", "'a '", "'2024-01-01'", "'2024-01-01 10:00:00'", "'2024-01-01 10:00:00+05:00'", "'10:00:00'",
    "DATE'2024-01-01'", "TIMESTAMP'2024-01-01 10:00:00'", "timestamp '2024-01-01 23:59:59.25'", "date '2020-02-29'",
    "'$.a'", "'one'", "'1abc'", "'é'", "'%'", "'it''s'", "x'61'", "0x31", "b'1'", "18446744073709551615",
    "99999999999999999999999", "20240101000000", "'1e0'", "' 1'", "'{\"a\": 1}'", "'[1]'",
)  # fmt: skip


def filled(form: str, rng: random.Random) -> str:
    """The form with literals; an `IN (?)` becomes a list of some."""
    while "IN (?)" in form:
        items = ", ".join(rng.choice(LITERALS) for _ in range(rng.randint(1, 3)))
        form = form.replace("IN (?)", f"IN ({items})", 1)
    while "?" in form:
        form = form.replace("?", rng.choice(LITERALS), 1)
    return form
