"""What kind of statement a text is: many spellings."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.mysql.text.statement_kind import ANYTHING, Kind, Statement, classify
from proxy.mysql.text.statement_set import Scope, Setting
from proxy.mysql.text.write_outline import write_outline
from tests.support.query_texts import FRAGMENTS, HOLES, client_text, golden_plans

OF_KIND: dict[Kind, tuple[str, ...]] = {
    Kind.READ: (
        "SELECT 1",
        "select * from t where a = 1;",
        "  /* c */ -- d\n SELECT/**/a FROM t",
        "((SELECT a FROM t) UNION (SELECT b FROM u)) LIMIT 1",
        "WITH c (a, b) AS (SELECT 1, 2), d AS (SELECT 3) SELECT * FROM c, d",
        "WITH RECURSIVE c AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT * FROM c",
        "TABLE t ORDER BY a",
        "VALUES ROW(1, 2), ROW(3, 4)",
        "SELECT @@autocommit, @x",
        "SELECT 'FOR UPDATE', `into`, t.into, \"a;b\" FROM t -- ; SET x = 1",
        "SELECT /*!40001 SQL_NO_CACHE */ * FROM `t`",
        "SELECT a FROM t USE INDEX FOR JOIN (i)",
        "SELECT /*+ MAX_EXECUTION_TIME(1000) */ a FROM t",
        "EXPLAIN ANALYZE SELECT a FROM t",
        "EXPLAIN FORMAT=TREE ANALYZE (SELECT a FROM t)",
        "DESC ANALYZE TABLE t",
    ),
    Kind.LOCKING_READ: (
        "SELECT a FROM t FOR UPDATE",
        "select a from t for  /* c */ share of t nowait",
        "SELECT a FROM t LOCK IN SHARE MODE",
        "SELECT * FROM (SELECT a FROM t FOR UPDATE) d",
        "(SELECT a FROM t) UNION (SELECT b FROM u FOR SHARE)",
        "WITH c AS (SELECT 1) SELECT * FROM c, t FOR UPDATE SKIP LOCKED",
        "SELECT a FROM t /*! FOR UPDATE */",
        "EXPLAIN ANALYZE SELECT a FROM t FOR UPDATE",
    ),
    Kind.WRITE: (
        "INSERT INTO t VALUES (1)",
        "insert ignore t (a) select b from u",
        "UPDATE t SET a = 1",
        "DELETE FROM t",
        "DELETE t, u FROM t JOIN u",
        "REPLACE INTO t SET a = 1",
        "WITH c AS (SELECT 1 AS a) UPDATE t, c SET t.a = c.a",
        "WITH c AS (SELECT a FROM t FOR UPDATE) DELETE FROM t WHERE a IN (SELECT a FROM c)",
        "LOAD DATA LOCAL INFILE 'f' INTO TABLE t",
        "LOAD XML INFILE 'f' INTO TABLE t",
        "EXPLAIN ANALYZE DELETE FROM t",
    ),
    Kind.BEGIN: (
        "BEGIN",
        "begin work;",
        "START TRANSACTION",
        "START TRANSACTION READ ONLY",
        "start /**/ transaction with consistent snapshot, read only",
        "/*!40100 START TRANSACTION */",
    ),
    Kind.COMMIT: ("COMMIT", "commit work", "COMMIT AND CHAIN", "COMMIT WORK AND NO CHAIN RELEASE"),
    Kind.ROLLBACK: ("ROLLBACK", "ROLLBACK AND CHAIN NO RELEASE", "rollback work release"),
    Kind.SAVEPOINT: ("SAVEPOINT a", "ROLLBACK TO a", "ROLLBACK WORK TO SAVEPOINT `a`", "RELEASE SAVEPOINT a"),
    Kind.SET: ("SET NAMES utf8mb4", "SET autocommit = 0", "set @a := 1", "SET ROLE ALL", "/*!40101 SET NAMES utf8 */"),
    Kind.USE: ("USE d", "use `d`;"),
    Kind.HARMLESS: (
        "",
        ";",
        "-- nothing",
        "SHOW TABLES",
        "SHOW /*!50002 FULL */ COLUMNS FROM t",
        "DESCRIBE t",
        "DESC t 'a%'",
        "EXPLAIN SELECT a FROM t",
        "EXPLAIN UPDATE t SET a = 1",
        "EXPLAIN FOR CONNECTION 5",
        "HELP 'SELECT'",
    ),
    Kind.LOCK_TABLES: (
        "LOCK TABLES t READ",
        "lock table t write",
        "FLUSH TABLES t, `d`.`u` WITH READ LOCK",
        "flush local table t for export",
        "FLUSH NO_WRITE_TO_BINLOG TABLES t WITH READ LOCK",
    ),
    Kind.UNLOCK_TABLES: ("UNLOCK TABLES",),
    Kind.DDL: (
        "CREATE TABLE t (a INT)",
        "CREATE TABLE t SELECT 1",
        "ALTER TABLE t ADD b INT",
        "DROP TABLE t",
        "TRUNCATE t",
        "RENAME TABLE t TO u",
        "GRANT SELECT ON *.* TO u",
        "CREATE USER u",
        "ANALYZE TABLE t",
        "CREATE OR REPLACE VIEW v AS SELECT 1",
        "LOAD INDEX INTO CACHE t",
        "/*!40000 ALTER TABLE t DISABLE KEYS */",
        "CREATE PROCEDURE p() SELECT 1",
        "FLUSH TABLES t",
        "FLUSH LOCAL TABLES",
        "FLUSH STATUS",
        "FLUSH SLOW LOGS",
    ),
    Kind.TEMPORARY: (
        "CREATE TEMPORARY TABLE t (a INT)",
        "DROP TEMPORARY TABLE IF EXISTS t",
        "create temporary table t select 1",
    ),
    Kind.CALL: ("CALL p(1)", "call d.p"),
    Kind.PREPARE: ("PREPARE s FROM 'SELECT 1'",),
    Kind.EXECUTE: ("EXECUTE s USING @a",),
    Kind.DEALLOCATE: ("DEALLOCATE PREPARE s", "DROP PREPARE s"),
    Kind.KILL: ("KILL 5", "KILL QUERY 5"),
    Kind.OTHER: (
        "SELECT a INTO @x FROM t",
        "SELECT a FROM t INTO OUTFILE 'f'",
        "SELECT @a := a FROM t",
        "XA START 'a'",
        "HANDLER t OPEN",
        "FLUSH TABLES WITH READ LOCK",
        "FLUSH PRIVILEGES",
        "FLUSH STATUS, PRIVILEGES",
        "DO @a := 1",
        "START REPLICA",
        "BEGIN NOT ATOMIC",
        "COMMIT PREPARED 'x'",
        "START TRANSACTION READ SOMETHING",
        "LOCK INSTANCE FOR BACKUP",
        "EXPLAIN FORMAT=JSON INTO @x SELECT 1",
        "SELECT /*!99999 a INTO @b, */ c FROM t",
        "COMMIT /*!80030 ; DROP TABLE t */",
        "/*!80013 SET a = 1 */",
        "nonsense",
        "(UPDATE t SET a = 1)",
        "(",
        "SELECT 'open",
        "SELECT /*!50000 1",
        "5",
        "`select` 1",
        "\0",
        "RELEASE a",
        "TABLE t INTO OUTFILE 'f'",
    ),
    Kind.SEVERAL: (
        "SELECT 1; SELECT 2",
        "SELECT 1;; SET autocommit = 0",
        "COMMIT /*!50000 ; DROP TABLE t */",
        "SELECT (1; SET autocommit = 0",
        "CREATE PROCEDURE p() BEGIN COMMIT; END",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "sql"), [(kind, sql) for kind, texts in OF_KIND.items() for sql in texts])
def test_kinds(kind: Kind, sql: str) -> None:
    assert classify(sql).kind is kind


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*), COALESCE (b, 1), IF(a, NOW(6), UUID()) FROM t WHERE a IN (1) AND (b OR c) ORDER BY (a)",
        "SELECT LAST_INSERT_ID(), CONNECTION_ID(), VERSION(), DATABASE()",
        "SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) FROM t FORCE INDEX (i) JOIN (u) USING (a)",
        "WITH c (a) AS (SELECT 1), d (b) AS (SELECT 2) SELECT * FROM c JOIN (SELECT 1) AS e (x) JOIN (SELECT 2) f (y)",
        "SELECT CAST(a AS DECIMAL(10, 2)), CONVERT(b, CHAR), TRIM('x' FROM c) FROM t WHERE MATCH (a) AGAINST ('x')",
        "INSERT INTO d.t (a, b) VALUES (1, ABS(2)) ON DUPLICATE KEY UPDATE a = VALUES(a)",
        "INSERT t (a) VALUES (DEFAULT(a))",
        "REPLACE `t` (a) SELECT b FROM u",
        "SELECT a FROM t WHERE a = ANY (SELECT b FROM u) OR EXISTS (SELECT 1) OR a IN (TABLE v)",
        "SELECT 'get_lock(1)', `f(x)`, a AS `b(` FROM t",
    ],
)
def test_functions_of_mysql_are_known(sql: str) -> None:
    assert not classify(sql).calls_unknown


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT GET_LOCK('a', 1)",
        "SELECT RELEASE_ALL_LOCKS()",
        "SELECT SLEEP(1)",
        "SELECT BENCHMARK(1, 1)",
        "SELECT LAST_INSERT_ID(5)",
        "SELECT LAST_INSERT_ID( a + 1 ) FROM t",
        "SELECT f(1)",
        "SELECT f (1)",
        "SELECT f((SELECT 1))",
        "SELECT text(1)",
        "SELECT d.count(1)",
        "SELECT `d`.`f`(1)",
        "SELECT `abs`(1)",
        "SELECT COUNT (1)",
        "SELECT a FROM t WHERE b IN (f(1))",
        "SELECT a AS b, f(c) FROM t",
        "UPDATE t SET a = f(1)",
        "INSERT INTO t (a) VALUES (f(1))",
        "INSERT INTO t VALUES (LAST_INSERT_ID(1))",
        "SET @a = f(1)",
        "SHOW TABLES WHERE f(1)",
        "EXPLAIN SELECT f(1)",
        "SELECT 1; SELECT f(1)",
        "SELECT RAN\u212a()",  # the sign of Kelvin, which is a k in lower case
        "CALL p()",
        "EXECUTE s",
        "f(1)",
    ],
)
def test_calls_of_what_may_do_anything_are_seen(sql: str) -> None:
    assert classify(sql).calls_unknown


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT 1", False),
        ("SELECT 1 FROM DUAL", False),
        ("SELECT @@x, NOW()", False),
        ("SELECT (SELECT MAX(a) FROM t)", True),
        ("TABLE t", True),
        ("VALUES ROW(1)", False),
        ("SET @a = 1", False),
        ("SET @a = (SELECT MAX(b) FROM t)", True),
        ("SHOW TABLES", True),
        ("SHOW FULL COLUMNS FROM t", True),
        ("SHOW GLOBAL STATUS", False),
        ("SHOW CREATE TABLE t", False),
        ("EXPLAIN SELECT a FROM t", True),
        ("DESC t", True),
        ("EXPLAIN ANALYZE SELECT a FROM t", True),
        ("INSERT INTO t VALUES (1)", True),
        ("BEGIN", False),
        ("SELECT 1; SELECT a FROM t", True),
        ("EXECUTE s", True),
    ],
)
def test_whether_rows_of_tables_may_be_touched(sql: str, tables: bool) -> None:
    assert classify(sql).tables is tables


def test_options_of_transactions() -> None:
    assert classify("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY").options == {
        "consistent snapshot",
        "read only",
    }
    assert classify("START TRANSACTION READ WRITE").options == {"read write"}
    assert classify("COMMIT AND CHAIN").options == {"chain"}
    assert classify("ROLLBACK WORK AND NO CHAIN RELEASE").options == {"release"}
    assert classify("COMMIT AND NO CHAIN NO RELEASE").options == frozenset()
    assert classify("ROLLBACK TO a").options == {"rollback"}
    assert classify("RELEASE SAVEPOINT a").options == {"release"}
    assert classify("SAVEPOINT a").options == frozenset()


SESSION, GLOBAL, USER, NEXT = Scope.SESSION, Scope.GLOBAL, Scope.USER, Scope.NEXT


@pytest.mark.parametrize(
    ("sql", "settings"),
    [
        ("SET autocommit=0", [(SESSION, "autocommit", "0")]),
        ("SET @@Session.SQL_MODE := CONCAT(@@sql_mode, ',x')", [(SESSION, "sql_mode", "CONCAT(@@sql_mode, ',x')")]),
        ("SET @@sql_mode = '', `time_zone` = '+00:00'",
         [(SESSION, "sql_mode", "''"), (SESSION, "time_zone", "'+00:00'")]),
        ("SET GLOBAL a = 1, b = 2, SESSION c = 3, d = 4, @@global.e = 5, f = 6",
         [(GLOBAL, "a", "1"), (GLOBAL, "b", "2"), (SESSION, "c", "3"), (SESSION, "d", "4"), (GLOBAL, "e", "5"),
          (SESSION, "f", "6")]),
        ("SET PERSIST a = 1, @@PERSIST_ONLY.b = 2", [(GLOBAL, "a", "1"), (GLOBAL, "b", "2")]),
        ("SET @a = 1, @`b c` = (SELECT 1, 2), @'d' := 3",
         [(USER, "a", "1"), (USER, "b c", "(SELECT 1, 2)"), (USER, "d", "3")]),
        ("SET NAMES utf8mb4 COLLATE utf8mb4_bin", [(SESSION, "names", "utf8mb4 COLLATE utf8mb4_bin")]),
        ("SET NAMES 'latin1'", [(SESSION, "names", "'latin1'")]),
        ("SET CHARACTER SET utf8mb4", [(SESSION, "character_set", "utf8mb4")]),
        ("SET CHARSET 'utf8mb4'", [(SESSION, "character_set", "'utf8mb4'")]),
        ("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", [(NEXT, "transaction_isolation", "READ-COMMITTED")]),
        ("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
         [(SESSION, "transaction_isolation", "REPEATABLE-READ"), (SESSION, "transaction_read_only", "ON")]),
        ("SET LOCAL TRANSACTION READ WRITE", [(SESSION, "transaction_read_only", "OFF")]),
        ("SET GLOBAL TRANSACTION READ WRITE", [(GLOBAL, "transaction_read_only", "OFF")]),
        ("SET session = 1", [(SESSION, "session", "1")]),
        ("SET GLOBAL hot.key_buffer_size = 1", [(GLOBAL, "hot.key_buffer_size", "1")]),
        ("SET ROLE 'r', s", [(Scope.OTHER, "role", "'r', s")]),
        ("SET DEFAULT ROLE r TO u", [(Scope.OTHER, "default_role", "r TO u")]),
        ("SET PASSWORD = 'x'", [(Scope.OTHER, "password", "= 'x'")]),
        ("SET RESOURCE GROUP g", [(Scope.OTHER, "resource_group", "g")]),
    ],
)  # fmt: skip
def test_what_a_set_sets(sql: str, settings: list[tuple[Scope, str, str]]) -> None:
    found = classify(sql)
    assert found.settings == tuple(Setting(*setting) for setting in settings)
    assert found.assigns is any(scope is USER for scope, _, _ in settings)


@pytest.mark.parametrize(
    "sql", ["SET", "SET a", "SET a =", "SET = 1", "SET a = 1,", "SET @ = 1", "SET TRANSACTION x", "SET NAMES"]
)
def test_a_set_that_is_not_understood_may_set_anything(sql: str) -> None:
    assert classify(sql) == replace(ANYTHING, kind=Kind.SET)


def test_several_statements_have_parts() -> None:
    found = classify("SET autocommit = 0; SELECT a FROM t; COMMIT;")
    assert [part.kind for part in found.parts] == [Kind.SET, Kind.READ, Kind.COMMIT]
    assert found.parts[0].settings == (Setting(Scope.SESSION, "autocommit", "0"),)
    assert classify("CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN SET autocommit = 0; END").parts == ()


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW WARNINGS LIMIT 5",
        "SHOW COUNT(*) ERRORS",
        "SELECT FOUND_ROWS()",
        "SELECT @@warning_count",
        "SELECT @@session.error_count",
        "SELECT @@`Warning_Count`",
        "SELECT @@local.`warning_count`",
        "SELECT @@`session`.`warning_count`",
        "SELECT @@session . warning_count",
        "SELECT row_count()",
    ],
)
def test_questions_about_the_last_statement(sql: str) -> None:
    assert classify(sql).of_last
    assert not classify("SELECT 'FOUND_ROWS()' FROM t").of_last
    assert not classify("SELECT @@sql_mode, id, warning_count FROM t").of_last, "a column"


def test_the_servers_version_decides_what_a_comment_is() -> None:
    assert classify("SELECT a FROM t /*!80100 FOR UPDATE */", (8, 4, 0)).kind is Kind.LOCKING_READ
    assert classify("SELECT a FROM t /*!80100 FOR UPDATE */", (8, 0, 36)).kind is Kind.READ
    assert classify("SELECT a FROM t /*!80100 FOR UPDATE */").kind is Kind.OTHER
    assert classify("SELECT a FROM t /*!80100 WHERE b = 1 */").kind is Kind.READ


def test_the_servers_version_decides_which_functions_are_its_own() -> None:
    for name in ("MD5", "sha", "sha1"):
        assert not classify(f"SELECT {name}(a) FROM t", (9, 5, 0)).calls_unknown
        assert classify(f"SELECT {name}(a) FROM t", (9, 6, 0)).calls_unknown
        assert classify(f"SELECT {name}(a) FROM t").calls_unknown
    assert not classify("SELECT SHA2(a, 256) FROM t", (9, 7, 0)).calls_unknown
    assert classify("SELECT TO_VECTOR(a) FROM t", (8, 4, 0)).calls_unknown
    assert not classify("SELECT TO_VECTOR(a) FROM t", (9, 7, 0)).calls_unknown


@given(st.text())
def test_nothing_raises_on_any_text(sql: str) -> None:
    assert isinstance(classify(sql), Statement)


STARTS = tuple(sql.split()[0] + " " for texts in OF_KIND.values() for sql in texts if sql.split())


@given(
    st.sampled_from(STARTS), st.lists(st.sampled_from((*FRAGMENTS, *HOLES, *STARTS, "INTO ", "FOR ", "UPDATE ", "TO ")))
)
def test_nothing_raises_on_any_fragments(start: str, fragments: list[str]) -> None:
    assert isinstance(classify(start + "".join(fragments)), Statement)


def test_queries_that_can_be_cached_are_reads_however_they_are_written() -> None:
    rng = random.Random(1)
    for _, plan in golden_plans():
        for _ in range(3):
            found = classify(client_text(rng, plan.sql.replace("?...", "?")))
            assert found.kind is Kind.READ and found.tables, plan.sql


VALUES = (
    *("1", "-2.5", "'a'", "'it''s'", "NULL", "DEFAULT", "NOW()", "f(1)", "`f`(1)", "@a := 1", "'f(1)'", "d.f ( 1 )"),
    "x'0a'",
)
TAILS = (
    *("", " ON DUPLICATE KEY UPDATE a = VALUES(a)", " /* it's */ AS n", "; DROP TABLE t", " -- '\n, (f(2), 'x')"),
    ", ('a",
)


@pytest.mark.parametrize("seed", range(30))
def test_a_long_write_is_what_its_outline_is(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        rows = [[rng.choice(VALUES) for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(1, 6))]
        rows *= rng.choice((1, 3))
        text = "INSERT INTO `t` (a, b) VALUES " + ", ".join(f"({', '.join(row)})" for row in rows) + rng.choice(TAILS)
        outline = write_outline(text.encode()).decode()
        assert classify(outline) == classify(text), (text, outline)


def test_long_writes_of_one_kind_have_one_outline() -> None:
    outlines = set()
    for count in (1, 2, 500):
        rows = ", ".join([f"({count}, 'x', NULL, NOW())"] * count)
        outlines.add(write_outline(f"INSERT INTO t VALUES {rows}".encode()))
    assert len(outlines) == 1
