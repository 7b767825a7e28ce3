"""Which session variables a query's answer depends on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.api import plan_evict, plan_query
from planner.session.needs import (
    AS_READ,
    BY_CODES,
    BYTES,
    LOCAL,
    OF_COMPUTED,
    OF_MODE,
    SESSION_NEEDS,
    STEADY,
    STRICT,
    STRINGS,
)
from planner.session.session_needs import session_needs
from sqltypes.schema import SchemaSnapshot, Table, View
from tests.support.goldens import PLANS, sample_queries, snapshot
from tests.support.schema_text import snapshot_of

DDL = """
CREATE TABLE t (
  id INT NOT NULL,
  name VARCHAR(20) COLLATE utf8mb4_general_ci,
  code VARCHAR(20) COLLATE utf8mb4_bin,
  price DECIMAL(8,2),
  day DATE,
  at DATETIME,
  clock TIME,
  doc JSON,
  PRIMARY KEY (id)
);
CREATE TABLE padded (
  id INT NOT NULL,
  fixed CHAR(8),
  PRIMARY KEY (id)
);
CREATE TABLE bytes (
  id INT NOT NULL,
  space INT NOT NULL,
  title VARBINARY(255) NOT NULL,
  stamp BINARY(14),
  body MEDIUMBLOB,
  PRIMARY KEY (id)
);
CREATE TABLE z (
  id INT NOT NULL,
  name VARCHAR(20),
  seen TIMESTAMP NULL,
  PRIMARY KEY (id)
);
"""
SCHEMA = snapshot_of(DDL, "d")
COLLATION, ZONE = "collation_connection", "time_zone"


def all_needs(sql: str, schema: SchemaSnapshot = SCHEMA) -> set[str]:
    return set(session_needs(plan_evict(sql, "d", schema), schema))


def needs(sql: str, schema: SchemaSnapshot = SCHEMA) -> set[str]:
    """The variables but sql_mode, and what of another one is judged by itself."""
    return {name for name in all_needs(sql, schema) if "." not in name}


def modes(sql: str) -> set[str]:
    """The modes of sql_mode."""
    return {name.removeprefix(OF_MODE) for name in all_needs(sql) if name.startswith(OF_MODE)}


PADDED = {"PAD_CHAR_TO_FULL_LENGTH"}
ALL = {name.removeprefix(OF_MODE) for name in OF_COMPUTED if name.startswith(OF_MODE)}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t WHERE id = ?",
        "SELECT name FROM t WHERE name = 'a' AND code LIKE 'x%' AND id IN (1, 2) ORDER BY name, at",
        "SELECT DISTINCT name FROM t WHERE name IN (?) OR name BETWEEN 'a' AND ? OR name <=> ?",
        "SELECT id FROM t WHERE id = 'x' OR at > '2024-01-01' OR day = '2024-01-01' OR clock < '12:00'",
        "SELECT 'x' AS kind, CONCAT(id, ' ', name), DATE_SUB(at, INTERVAL 1 DAY), HEX(id) FROM t WHERE id = ?",
        "SELECT name, COUNT(*) AS n, MAX(code), MIN(at) FROM t GROUP BY name HAVING n > 5 ORDER BY n DESC, 1",
        "SELECT SUM(CASE WHEN name = 'x' THEN 1 ELSE 0 END), IF(code = 'y', 'yes', 'no') FROM t",
        "SELECT CASE name WHEN 'a' THEN 'b' END FROM t WHERE COALESCE(name, 'none') = 'none'",
        "SELECT a.id FROM t a JOIN t b ON b.name = a.name WHERE LOWER(a.code) = 'x' AND a.id = ?",
        "SELECT id FROM t WHERE name IN (SELECT name FROM t WHERE code = 'x')",
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM z WHERE z.name = 'x')",
        "SELECT n FROM (SELECT name AS n, COUNT(*) AS c FROM t GROUP BY name) q WHERE n = 'x' AND c > 1 ORDER BY n",
        "SELECT id FROM t UNION SELECT id FROM z",
        "SELECT 'a' AS kind, id FROM t UNION ALL SELECT 'b', id FROM z",
        "SELECT id FROM t WHERE name COLLATE utf8mb4_bin = 'x' ORDER BY name COLLATE utf8mb4_bin",
        "SELECT YEAR(at), DATEDIFF(at, day) FROM t WHERE YEAR(at) = 2024 GROUP BY YEAR(at), DATEDIFF(at, day)",
        "SELECT COUNT(*), COUNT(DISTINCT name) FROM z WHERE name = 'x'",
        "SELECT CONCAT(name, code), COALESCE(name, 'x') FROM t WHERE LOWER(name) IN ('a', 'b') AND name = code",
        "SELECT ROUND(price + 1), id DIV 2, id % 2 FROM t",
    ],
)
def test_most_queries_need_nothing(sql: str) -> None:
    assert needs(sql) == set()


def test_a_string_made_of_json_is_refused_beside_a_literal_of_a_collation_by_codes() -> None:
    assert BY_CODES in all_needs("SELECT id FROM t WHERE JSON_TYPE(doc) = 'STRING'")
    assert BY_CODES not in all_needs("SELECT JSON_TYPE(doc) FROM t ORDER BY 1")


@pytest.mark.parametrize(
    ("sql", "needed"),
    [
        ("SELECT id FROM t WHERE 'a' = 'A'", {COLLATION}),
        ("SELECT id FROM t WHERE CAST(id AS CHAR) = 'a'", {COLLATION}),
        ("SELECT id FROM t WHERE id LIKE '1%'", {COLLATION}),
        ("SELECT id FROM t WHERE HEX(id) IN ('a', 'b')", {COLLATION}),
        ("SELECT id FROM t WHERE clock > '12:00:00'", set()),
        ("SELECT id FROM t WHERE IF(name = 'x', 'yes', 'no') = 'YES'", {COLLATION}),
        ("SELECT id FROM t ORDER BY CONCAT(id, 'x')", {COLLATION}),
        ("SELECT id, HEX(id) AS h FROM t ORDER BY h", {COLLATION}),
        ("SELECT id, HEX(id) FROM t ORDER BY 2", {COLLATION}),
        ("SELECT DISTINCT CAST(id AS CHAR) FROM t", {COLLATION}),
        ("SELECT COUNT(DISTINCT CAST(id AS CHAR)) FROM t", {COLLATION}),
        ("SELECT MAX(CAST(id AS CHAR)) FROM t", {COLLATION}),
        ("SELECT CASE WHEN id > 1 THEN 'a' ELSE 'A' END AS k, COUNT(*) FROM t GROUP BY k", {COLLATION}),
        ("SELECT 'a' AS kind FROM t UNION SELECT 'A' FROM z", {COLLATION}),
        ("SELECT kind FROM (SELECT 'a' AS kind FROM t UNION ALL SELECT 'A' FROM z) q ORDER BY kind", {COLLATION}),
        ("SELECT n FROM (SELECT CAST(id AS CHAR) AS n FROM t) q WHERE n = 'a'", {COLLATION}),
        ("SELECT COALESCE(name, CAST(id AS CHAR)) FROM t", {COLLATION}),
        ("SELECT id FROM t WHERE COALESCE(name, code) = 'x'", {COLLATION}),
        ("SELECT CONCAT(name, code, '!') FROM t", {COLLATION}),
        ("SELECT id FROM t WHERE name IN (code, 'x')", {COLLATION}),
        ("SELECT name FROM t UNION SELECT code FROM t", {COLLATION}),
        ("SELECT s FROM (SELECT IF(id = 1, name, code) AS s FROM t) q WHERE s < 'b'", {COLLATION}),
        ("SELECT UPPER(CAST(id AS CHAR)) FROM t", {COLLATION}),
        ("SELECT id FROM z WHERE seen > '2024-01-01'", {ZONE}),
        ("SELECT DATE(seen) FROM z WHERE id = ?", {ZONE}),
        ("SELECT x.* FROM (SELECT * FROM z) x JOIN t USING (id)", {ZONE}),
        ("SELECT id FROM t WHERE at > TIMESTAMP'2024-01-01 00:00:00+02:00'", {ZONE}),
        ("SELECT CAST(name AS DATETIME) FROM t", {ZONE}),
        ("SELECT YEAR(name) FROM t", {ZONE}),
        ("SELECT FROM_UNIXTIME(id) FROM t", {ZONE, "lc_time_names"}),
        ("SELECT id, at = name FROM t", {COLLATION, ZONE}),
        ("SELECT * FROM t NATURAL JOIN z", {COLLATION, ZONE}),
        ("SELECT GROUP_CONCAT(name ORDER BY code) FROM t", {"group_concat_max_len"}),
        ("SELECT price / 3 FROM t", {"div_precision_increment"}),
        ("SELECT AVG(price) FROM t", {"div_precision_increment"}),
        ("SELECT DATE_FORMAT(at, '%M') FROM t", {"lc_time_names"}),
        ("SELECT MONTHNAME(at), DAYNAME(day) FROM t", {"lc_time_names"}),
        ("SELECT WEEK(day) FROM t", {"default_week_format"}),
        ("SELECT id FROM t WHERE name = _UTF8MB4'a'", {"default_collation_for_utf8mb4", COLLATION}),
        ("SELECT AES_DECRYPT(name, 'k') FROM t", {"block_encryption_mode", COLLATION, ZONE}),
        ("SELECT id FROM t WHERE id IS NULL", {"sql_auto_is_null"}),
        ("SELECT EXTRACT(WEEK FROM day) FROM t", {"default_week_format"}),
        ("SELECT SUM(id) OVER (ORDER BY id) FROM t", {"windowing_use_high_precision"}),
        ("SELECT RANK() OVER (ORDER BY HEX(id)) FROM t", {"windowing_use_high_precision", COLLATION}),
        ("SELECT FIELD(name, 'a', 'b'), FIELD(id, 2, '1') FROM t", set()),
        ("SELECT FIELD(at, '2024', 'b') FROM t", {COLLATION, ZONE}),
        ("SELECT FIELD('a', 'A', 'b') FROM t", {COLLATION}),
        ("SELECT FIELD('a', name) FROM t", {COLLATION}),
        ("SELECT id FROM t WHERE ('a', id) IN (('x', 1), (name, id))", {COLLATION}),
        ("SELECT id FROM t WHERE (id, name) IN ((1, 'a'), (2, 'b'))", set()),
        ("SELECT id FROM t WHERE (id, name) IN ((1, 'a'), (2, IF(id = 1, 'b', name)))", {COLLATION}),
        ("SELECT id FROM t WHERE 'a' IN ('A', id)", {COLLATION}),
        ("SELECT id FROM t WHERE id IN ('1', '2', '3')", set()),
        ("SELECT GREATEST('a', 'B', id) FROM t", {COLLATION}),
        ("SELECT CASE 'a' WHEN 'A' THEN 1 WHEN id THEN 2 END FROM t", {COLLATION}),
        ("SELECT doc->'$.a' FROM t WHERE doc->'$.a' = 'x' ORDER BY doc", set()),
        ("SELECT JSON_OBJECT('n', name, 'id', CAST(id AS CHAR)) FROM t", set()),
        ("SELECT COALESCE(doc, 'x') FROM t", {COLLATION}),
        ("SELECT id FROM t WHERE doc->>'$.a' = 'x' ORDER BY JSON_UNQUOTE(doc)", set()),
        ("SELECT id FROM t WHERE doc->>'$.a' LIKE 'x%'", {COLLATION}),
        ("SELECT id FROM t WHERE name LIKE CONCAT('%', ?, '%')", set()),
        ("SELECT id FROM t WHERE HEX(id) LIKE CONCAT('%', ?, '%')", {COLLATION}),
        ("SELECT y.id FROM t y JOIN (SELECT CAST(id AS CHAR) AS id FROM t) q WHERE y.id = ?", set()),
        ("SELECT q.id FROM t y JOIN (SELECT CAST(id AS CHAR) AS id FROM t) q WHERE q.id = ?", {COLLATION}),
        ("SELECT y.id FROM t y, (SELECT 1 FROM (SELECT HEX(id) AS id FROM t) y WHERE y.id = 'x') q", {COLLATION}),
        ("SELECT id FROM t WHERE (id, name) IN ((1, 'a'))", set()),
        ("SELECT id FROM t WHERE (at, id) < ('2024-01-01', 5)", set()),
        ("SELECT id FROM t WHERE (id, 'a') IN ((1, 'A'))", {COLLATION}),
        ("SELECT id FROM t WHERE name = ANY (SELECT name FROM z)", {COLLATION, ZONE}),
    ],
)  # fmt: skip
def test_what_is_needed(sql: str, needed: set[str]) -> None:
    assert needs(sql) == needed


@pytest.mark.parametrize(
    ("sql", "needed"),
    [
        ("SELECT CAST(title AS CHAR) FROM bytes WHERE id = ?", True),
        ("SELECT CONVERT(body USING utf8mb4) FROM bytes WHERE id = ?", True),
        ("SELECT CAST(CONCAT(stamp, 'x') AS CHAR(9)) FROM bytes WHERE id = ?", True),
        ("SELECT CAST(id + 1 AS CHAR), CAST(UNHEX('ff') AS CHAR) FROM t WHERE id = ?", True),
        ("SELECT CHAR(id USING utf8mb4) FROM t WHERE id = ?", True),
        ("SELECT CAST(? AS CHAR) FROM t WHERE id = ?", True),
        ("SELECT CAST(id AS CHAR), CAST(name AS CHAR(4)), CAST('x' AS NCHAR), CAST(at AS CHAR) FROM t", False),
        ("SELECT CONVERT(name USING latin1), CHAR(id), CAST(price AS DECIMAL(9,3)), CAST(doc AS CHAR) FROM t", False),
    ],
)
def test_bytes_that_become_a_string_need_strictness(sql: str, needed: bool) -> None:
    assert (STRICT in all_needs(sql)) == needed


def test_what_is_not_understood_needs_everything() -> None:
    assert all_needs("SELECT id FROM t WHERE !id") == SESSION_NEEDS


@pytest.mark.parametrize(
    ("sql", "needed"),
    [
        ("SELECT * FROM t WHERE id = ?", set()),
        ("SELECT id, name AS n FROM t WHERE at > ? AND day = ? AND clock < ?", set()),
        ("SELECT id FROM t WHERE at > '2024-01-01 10:00:00' AND day IN ('2024-01-01', '2024-01-02')", set()),
        ("SELECT COUNT(*) FROM t WHERE name = ? OR code BETWEEN 'a' AND 'b'", PADDED),
        ("SELECT id, name FROM t WHERE id IN (1, 2) ORDER BY name LIMIT 5", PADDED),
        ("SELECT fixed FROM padded WHERE id = ?", PADDED),
        ("SELECT * FROM padded WHERE id = ?", PADDED),
        ("SELECT id FROM padded WHERE id = ?", set()),
        ("SELECT id FROM t WHERE NOT name = 'a'", {"HIGH_NOT_PRECEDENCE"}),
        ("SELECT id FROM t WHERE id = 1 || price = 2", {"PIPES_AS_CONCAT"}),
    ],
)
def test_which_modes_a_plain_query_needs(sql: str, needed: set[str]) -> None:
    assert modes(sql) == needed


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM t WHERE YEAR(at) = 2024",
        "SELECT DATE(at) FROM t WHERE id = ?",
        "SELECT COUNT(DISTINCT day) FROM t WHERE name = ?",
        "SELECT day, COUNT(*) FROM t GROUP BY day",
        "SELECT price - 1 FROM t WHERE id = ?",
        "SELECT BIT_COUNT('a') FROM t WHERE id = ?",
    ],
)
def test_what_computes_or_stores_dates_needs_the_sets_and_modes_of_that(sql: str) -> None:
    """MySQL computes, converts, and stores in temporary tables by them. Modes by which it only reads texts do not
    count."""
    assert all_needs(sql) >= OF_COMPUTED
    assert all_needs(sql).isdisjoint(AS_READ)


@pytest.mark.parametrize(
    ("sql", "needed"),
    [
        ("SELECT YEAR(at) || id FROM t WHERE id = ?", "PIPES_AS_CONCAT"),
        ("SELECT id FROM t WHERE NOT YEAR(at) = 2024", "HIGH_NOT_PRECEDENCE"),
        ("SELECT CAST(price AS REAL) FROM t WHERE id = ?", "REAL_AS_FLOAT"),
    ],
)
def test_modes_by_which_a_text_is_read_count_by_its_words(sql: str, needed: str) -> None:
    assert all_needs(sql) & AS_READ == {OF_MODE + needed}


@pytest.mark.parametrize(
    ("sql", "needed"),
    [
        ("SELECT id FROM t WHERE name LIKE 'a%'", set()),
        ("SELECT a.id FROM t a JOIN t b ON b.id = a.id WHERE a.name = ?", set()),
        ("SELECT code, COUNT(*), SUM(price), MAX(name) FROM t GROUP BY code HAVING COUNT(*) > 1 ORDER BY code", set()),
        ("SELECT DISTINCT name FROM t WHERE id IN (SELECT id FROM t WHERE code = ?)", set()),
        ("SELECT name FROM t UNION SELECT code FROM t", set()),
        (
            "SELECT a.id FROM t a LEFT JOIN t b USING (id) WHERE a.name = ? AND NOT b.code = 'x'",
            {"HIGH_NOT_PRECEDENCE"},
        ),
        ("SELECT fixed, COUNT(*) FROM padded GROUP BY fixed", ALL),
        ("SELECT a.* FROM t a JOIN t b ON b.id = a.id WHERE a.id = ?", ALL),
        ("SELECT a.id FROM t a JOIN t b USING (day)", ALL),
        ("SELECT a.id FROM t a NATURAL JOIN t b", ALL),
        ("SELECT id FROM t GROUP BY id ORDER BY MAX(at)", ALL),
    ],
)
def test_what_only_joins_and_groups_needs_the_modes_of_its_columns(sql: str, needed: set[str]) -> None:
    assert modes(sql) - PADDED == needed - PADDED


@pytest.mark.parametrize(
    ("sql", "of_bytes"),
    [
        ("SELECT * FROM bytes WHERE title = 'x' AND space IN ('0', 1) ORDER BY stamp LIMIT 5", True),
        ("SELECT a.id, b.body FROM bytes a JOIN bytes b ON b.title = a.title AND a.stamp > '2' WHERE a.id = 1", True),
        ("SELECT space, COUNT(*), MAX(title) FROM bytes WHERE title NOT LIKE '%/%' ESCAPE '`' GROUP BY space", True),
        ("SELECT COUNT(*), id FROM t GROUP BY id HAVING COUNT(*) > 1", True),
        ("SELECT id FROM bytes JOIN t USING (id) WHERE title = ?", True),
        ("SELECT 'x' AS kind, id FROM bytes WHERE title = ?", False),
        ("SELECT id FROM bytes WHERE title = ? UNION SELECT 'x'", False),
        ("SELECT id FROM bytes JOIN t USING (id) WHERE title = name", False),
        ("SELECT CONCAT(title, '!') FROM bytes WHERE id = ?", False),
        ("SELECT * FROM t WHERE name = ?", False),
        ("SELECT id FROM t WHERE at > '2024-01-01'", False),
        ("SELECT a.id FROM t a JOIN t b USING (day)", False),
    ],
)  # fmt: skip
def test_strings_that_are_bytes_are_the_same_in_every_character_set(sql: str, of_bytes: bool) -> None:
    assert all_needs(sql).isdisjoint({STRINGS, BYTES}) is of_bytes


def test_generated_columns_are_computed_by_the_session_that_reads_them() -> None:
    table = SCHEMA.relations["d", "padded"]
    assert isinstance(table, Table)
    of_id = replace(table.columns[1], expression="concat(`id`,_utf8mb4'.')")
    computed = replace(table, columns=(table.columns[0], of_id))
    schema = replace(SCHEMA, relations={**SCHEMA.relations, ("d", "padded"): computed})
    shown = f"SELECT {of_id.name} FROM padded WHERE id = ?"
    assert all_needs(shown, schema) >= OF_COMPUTED
    assert OF_COMPUTED.isdisjoint(all_needs("SELECT id FROM padded WHERE id = ?", schema))


def test_strings_are_other_bytes_where_literals_are_binary() -> None:
    assert BYTES in all_needs("SELECT id FROM t WHERE name = 'x'") & all_needs("SELECT id FROM t WHERE name = ?")
    assert BYTES not in all_needs("SELECT * FROM t WHERE id = ? AND price > 1.5")


def test_the_samples_queries_need_nothing_that_somebody_sets() -> None:
    database, schema = snapshot(PLANS / "lobsters.sql")
    for title, sql in sample_queries():
        found = session_needs(plan_query(sql, database, schema), schema)
        assert {name for name in found if "." not in name} <= {"sql_auto_is_null"}, title


def test_views_count_as_if_they_stood_in_the_query() -> None:
    shown = "SELECT id, CAST(id AS CHAR) AS k, price / 3 AS third, name FROM d.t"
    for columns in ((), ("id", "k", "third", "name")):
        views = {
            ("d", "v"): View("d", "v", shown, columns),
            ("d", "w"): View("d", "w", "SELECT k AS l, name AS m FROM d.v", ()),
        }
        schema = replace(SCHEMA, relations={**SCHEMA.relations, **views})
        assert needs("SELECT id FROM v WHERE name = 'x'", schema) == {"div_precision_increment"}
        assert needs("SELECT id FROM v WHERE k = 'x'", schema) == {"div_precision_increment", COLLATION}
        assert needs("SELECT l FROM w WHERE m = 'x'", schema) == {"div_precision_increment"}
        assert needs("SELECT l FROM w ORDER BY l", schema) == {"div_precision_increment", COLLATION}
    renamed = View("d", "v", "SELECT id, CAST(id AS CHAR) FROM d.t", ("id", "name"))
    schema = replace(SCHEMA, relations={**SCHEMA.relations, ("d", "v"): renamed})
    assert needs("SELECT id FROM v WHERE name = 'x'", schema) == {COLLATION}


def test_a_name_that_means_several_kinds_is_not_trusted() -> None:
    assert needs("SELECT name FROM (SELECT HEX(id) AS name FROM t) q WHERE name = 'x'") == {COLLATION}
    assert needs("WITH q (code) AS (SELECT HEX(id) FROM t) SELECT code FROM q WHERE code = 'x'") == {COLLATION}


@pytest.mark.parametrize(
    ("sql", "needed"),
    [
        ("SELECT id FROM z WHERE id = ? ORDER BY seen DESC", set()),
        ("SELECT COUNT(seen) FROM z WHERE id = ? AND seen IS NOT NULL", set()),
        ("SELECT id FROM t WHERE EXISTS (SELECT * FROM z WHERE z.id = t.id)", set()),
        ("SELECT seen FROM z WHERE id = ?", {LOCAL}),
        ("SELECT (seen) AS at FROM z WHERE id = ? ORDER BY at, 1", {LOCAL}),
        ("SELECT * FROM z WHERE id = ?", {LOCAL}),
        ("SELECT z.*, t.id FROM t JOIN z USING (id) ORDER BY z.seen", {LOCAL}),
        ("SELECT id FROM z WHERE seen > ?", {LOCAL}),
        ("SELECT id FROM z WHERE (seen) BETWEEN ? AND ? OR seen IN (?, ?) OR ? <=> seen", {LOCAL}),
        ("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM z WHERE z.id = t.id AND z.seen >= ?)", {LOCAL}),
        ("SELECT MAX(seen), MIN((seen)) AS least FROM z WHERE id > ?", {LOCAL, STEADY}),
        ("SELECT COUNT(DISTINCT seen) FROM z WHERE id > ?", {STEADY}),
        ("SELECT DISTINCT seen FROM z WHERE id > ?", {LOCAL, STEADY}),
        ("SELECT seen, COUNT(*) FROM z GROUP BY seen", {LOCAL, STEADY}),
        ("SELECT seen, COUNT(*) FROM z GROUP BY 1", {LOCAL, STEADY}),
        ("SELECT z.id FROM z JOIN z AS y ON z.seen = y.seen WHERE y.id = ?", {STEADY}),
        ("SELECT name FROM z GROUP BY name HAVING MAX(seen) > ?", {LOCAL, STEADY}),
        ("SELECT MAX(seen) AS last FROM z GROUP BY name HAVING last > ?", {LOCAL, STEADY}),
        ("SELECT seen AS at FROM z HAVING at > '2024-01-01'", {LOCAL, ZONE}),
        ("SELECT seen AS at FROM z HAVING DATE(at) = ?", {LOCAL, ZONE}),
        ("SELECT (MAX(seen)) AS at FROM z HAVING YEAR(at) = ?", {LOCAL, STEADY, ZONE}),
        ("SELECT id FROM z WHERE seen > '2024-01-01' AND seen < ?", {LOCAL, ZONE}),
        ("SELECT id FROM z WHERE (seen, id) > (?, ?)", {ZONE}),
        ("SELECT id FROM z WHERE id = ? ORDER BY DATE(seen)", {ZONE}),
        ("SELECT id FROM z WHERE id = ? ORDER BY seen + 0", {ZONE}),
        ("SELECT COALESCE(seen, ?) FROM z", {ZONE}),
        ("SELECT IF(id > 1, seen, NULL) FROM z WHERE id = ?", {ZONE}),
        ("SELECT (SELECT seen FROM z WHERE z.id = t.id) FROM t WHERE id = ?", {ZONE}),
        ("SELECT seen FROM z WHERE id = ? UNION ALL SELECT seen FROM z WHERE id = ?", {ZONE}),
        ("SELECT ROW_NUMBER() OVER (ORDER BY seen) FROM z WHERE id > ?", {ZONE}),
        ("SELECT z.id FROM z JOIN t ON z.seen = t.at WHERE t.id = ?", {ZONE}),
        ("SELECT id FROM z WHERE seen = (SELECT MAX(seen) FROM z)", {ZONE}),
        ("SELECT GROUP_CONCAT(seen) FROM z WHERE id > ?", {ZONE}),
    ],
)
def test_what_is_made_of_instants(sql: str, needed: set[str]) -> None:
    assert all_needs(sql) & {ZONE, LOCAL, STEADY} == needed


def test_a_name_that_is_an_instant_in_one_table_alone_is_none_for_sure() -> None:
    schema = snapshot_of(DDL + "CREATE TABLE y (id INT NOT NULL, seen DATETIME, PRIMARY KEY (id));", "d")
    assert {ZONE} <= all_needs("SELECT z.id FROM z JOIN y ON z.seen = y.seen WHERE y.id = ?", schema)
    assert {LOCAL} == all_needs("SELECT z.seen, y.seen FROM z JOIN y USING (id) WHERE y.id = ?", schema) & {ZONE, LOCAL}
