"""What the sessions of `integration/sessions/session_scripts.py` read, and what they do between.

`{db}` is a session's database, beside which there is `{db}2`, an account `{db}u` and its role `{db}r`. What begins with
an exclamation mark is a command of the protocol.
"""

from __future__ import annotations

ROWS = "REPLACE INTO t VALUES (1,'é',10,1.5,'2024-01-01'), (2,'b',10,2.5,'2024-06-01 12:00:00'), (3,'C',20,NULL,NULL)"
TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20), n INT, d DECIMAL(8,2), z TIMESTAMP NULL, KEY (n))",
    ROWS,
    "CREATE TABLE w (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
    "CREATE VIEW vv AS SELECT id, s FROM t WHERE id < 3",
    "CREATE PROCEDURE names() SET NAMES latin1",
    "CREATE PROCEDURE mode() SET SESSION sql_mode = ''",
    "CREATE PROCEDURE lim() SET SESSION sql_select_limit = 1",
    "CREATE PROCEDURE chains() SET SESSION completion_type = 1",
    "CREATE PROCEDURE zone() SET SESSION time_zone = '+05:00'",
    "CREATE PROCEDURE level() SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "CREATE PROCEDURE once() SET TRANSACTION READ ONLY",
    "CREATE PROCEDURE saves() SAVEPOINT a",
    "CREATE PROCEDURE writes() UPDATE t SET n = n + 1 WHERE id = 1",
    "CREATE PROCEDURE shows() SELECT id, s FROM t WHERE id = 1",
    "CREATE PROCEDURE two() BEGIN SELECT id, s FROM t WHERE id = 1; UPDATE t SET s = 'two' WHERE id = 1;"
    " SELECT id, s FROM t WHERE id = 1; END",
    "CREATE PROCEDURE begins() START TRANSACTION",
    "CREATE PROCEDURE commits() COMMIT",
    "CREATE PROCEDURE rolls() ROLLBACK",
    "CREATE PROCEDURE beginwrites() BEGIN START TRANSACTION; UPDATE t SET n = n + 1 WHERE id = 1; END",
    "CREATE PROCEDURE switches() SET autocommit = 0",
    "CREATE PROCEDURE locks() SELECT id FROM t WHERE id = 2 FOR UPDATE",
    "CREATE PROCEDURE hides() CREATE TEMPORARY TABLE t SELECT 1 id, 'TMP' s, 5 n, 1.0 d, NULL z",
    "CREATE PROCEDURE fails() BEGIN UPDATE t SET n = n + 1 WHERE id = 2; SIGNAL SQLSTATE '45000'; END",
    "CREATE PROCEDURE setfails() BEGIN SET SESSION time_zone = '+03:00'; SIGNAL SQLSTATE '45000'; END",
    "CREATE PROCEDURE endfails() BEGIN START TRANSACTION; UPDATE t SET s = 'fc' WHERE id = 2; COMMIT;"
    " START TRANSACTION; UPDATE t SET s = 'fd' WHERE id = 2; SIGNAL SQLSTATE '45000'; END",
    "CREATE FUNCTION written() RETURNS INT DETERMINISTIC MODIFIES SQL DATA"
    " BEGIN UPDATE t SET n = n + 1 WHERE id = 3; RETURN 1; END",
    "CREATE FUNCTION unwritten() RETURNS INT DETERMINISTIC MODIFIES SQL DATA"
    " BEGIN UPDATE t SET n = n + 1 WHERE id = 3; SIGNAL SQLSTATE '45000'; RETURN 1; END",
    "CREATE FUNCTION limited() RETURNS INT DETERMINISTIC BEGIN SET SESSION sql_select_limit = 1; RETURN 1; END",
    "CREATE TRIGGER counts AFTER INSERT ON w FOR EACH ROW UPDATE t SET n = n + 1 WHERE id = 2",
    "CREATE TRIGGER refuses BEFORE UPDATE ON w FOR EACH ROW"
    " BEGIN UPDATE t SET s = 'trig' WHERE id = 2; IF NEW.v > 100 THEN SIGNAL SQLSTATE '45000'; END IF; END",
    "CREATE VIEW wv AS SELECT written() AS x",
)
ACCOUNTS = (
    "DROP USER IF EXISTS '{db}u'",
    "DROP ROLE IF EXISTS '{db}r'",
    "CREATE USER '{db}u'",
    "CREATE ROLE '{db}r'",
    "GRANT INSERT, UPDATE, DELETE, EXECUTE, CREATE TEMPORARY TABLES, LOCK TABLES ON `{db}`.* TO '{db}u'",
    "GRANT SELECT ON `{db}`.t TO '{db}r'",
    "GRANT '{db}r' TO '{db}u'",
    "SET DEFAULT ROLE ALL TO '{db}u'",
)
GONE = ("DROP DATABASE `{db}`", "DROP DATABASE `{db}2`", "DROP USER IF EXISTS '{db}u'", "DROP ROLE IF EXISTS '{db}r'")
RESTORED = ("DELETE FROM t WHERE id > 3", ROWS, "TRUNCATE w", "DROP TABLE IF EXISTS ddl")
CACHES = (
    "SELECT id, s FROM t WHERE id = ?",
    "SELECT id, n FROM t WHERE n = ? ORDER BY id",
    "SELECT COUNT(*), SUM(n) FROM t WHERE n > ?",
    "SELECT id, d / 3 AS q FROM t WHERE id = ?",
    "SELECT id, z FROM t WHERE id = ?",
    "SELECT * FROM t WHERE id = ?",
    "SELECT id, s FROM vv WHERE id = ?",
    "SELECT id, s FROM t WHERE s = ? ORDER BY id",
    "SELECT id, s FROM t WHERE id IN (?) ORDER BY id",
    "SELECT id, GROUP_CONCAT(s) FROM t WHERE id = ? GROUP BY id",
    "SELECT id, DATE_FORMAT(z, '%W') AS a, WEEK(z) AS b FROM t WHERE id = ?",
    'SELECT id, "s" FROM t WHERE id = ?',
)
READS = (
    "SELECT id, s FROM t WHERE id = 1",
    "SELECT id, s FROM t WHERE id = 2",
    "SELECT id, n FROM t WHERE n = 10 ORDER BY id",
    "SELECT COUNT(*), SUM(n) FROM t WHERE n > 0",
    "SELECT id, d / 3 AS q FROM t WHERE id = 2",
    "SELECT id, z FROM t WHERE id = 2",
    "SELECT * FROM t WHERE id = 1",
    "SELECT * FROM t WHERE id = 3",
    "SELECT * FROM t WHERE id = 9",
    "SELECT id, s FROM vv WHERE id = 2",
    "SELECT id, s FROM t WHERE s = 'é' ORDER BY id",
    "SELECT id, s FROM t WHERE s = 'B' ORDER BY id",
    'SELECT id, s FROM t WHERE s = "B" ORDER BY id',
    "SELECT id, s FROM t WHERE s = 'a\\'' ORDER BY id",
    "SELECT id, s FROM t WHERE id IN (1, 2) ORDER BY id",
    "SELECT id, GROUP_CONCAT(s) FROM t WHERE id = 2 GROUP BY id",
    "SELECT id, s FROM t WHERE id = 2 /* traced */",
    "SELECT id, DATE_FORMAT(z, '%W') AS a, WEEK(z) AS b FROM t WHERE id = 2",
)
BOUND = (  # prepared, with one of these bound
    "SELECT id, s FROM t WHERE id = ?",
    "SELECT * FROM t WHERE id = ?",
    'SELECT id, "s" FROM t WHERE id = ?',
)
IDS = (1, 2, 3, 9)
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
HARMLESS = (  # neither writes nor locks
    *("BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK", "START TRANSACTION READ ONLY"),
    *("START TRANSACTION READ WRITE", "START TRANSACTION WITH CONSISTENT SNAPSHOT"),
    *("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", "SET autocommit = 0", "SET autocommit = 1"),
    *("SAVEPOINT a", "!ping", "SELECT 1", "DO 0", "SET @x = 1", "SELECT COUNT(*) FROM w", "SELECT 1 FROM t LIMIT 0"),
    *("SHOW TABLES", "SHOW VARIABLES LIKE 'autocommit'", "SHOW WARNINGS", "SELECT FOUND_ROWS()", "SELECT ROW_COUNT()"),
    *("SELECT LAST_INSERT_ID()", "SELECT SQL_CALC_FOUND_ROWS id FROM t LIMIT 1", "SELECT @@warning_count"),
    *("SELECT id, s FROM t WHERE id = 1 LIMIT 7", "FLUSH STATUS", "SET ROLE NONE", "SET ROLE ALL", "SET ROLE DEFAULT"),
)
TRANSACTIONS = (
    *(
        "BEGIN",
        "START TRANSACTION",
        "COMMIT",
        "ROLLBACK",
        "START TRANSACTION READ ONLY",
        "START TRANSACTION READ WRITE",
    ),
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    *("SET autocommit = 0", "SET autocommit = 1", "SET @@autocommit := OFF", "SET SESSION autocommit = DEFAULT"),
    *(
        "SAVEPOINT a",
        "ROLLBACK TO a",
        "RELEASE SAVEPOINT a",
        "ROLLBACK TO SAVEPOINT nope",
        "SAVEPOINT b; ROLLBACK TO b",
    ),
    *("COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "COMMIT WORK AND NO CHAIN NO RELEASE"),
    *("BEGIN; BEGIN", "BEGIN; SELECT 1; COMMIT", "SET autocommit = 0; SELECT id, s FROM t WHERE id = 1"),
    *("COMMIT; SELECT id, s FROM t WHERE id = 1", "SELECT id, s FROM t WHERE id = 1; COMMIT"),
    *(f"CALL {name}()" for name in ("begins", "commits", "rolls", "beginwrites", "switches", "saves", "endfails")),
    *("SELECT id FROM t WHERE id = 1 FOR UPDATE", "SELECT id FROM t WHERE id = 1 FOR SHARE", "CALL locks()"),
    *("SELECT no_such FROM t", "NO SYNTAX"),
    "SELECT @@autocommit, @@transaction_isolation, @@transaction_read_only, @@completion_type",
    *("KILL QUERY CONNECTION_ID()", "CREATE TABLE ddl (id INT)", "DROP TABLE IF EXISTS ddl"),
    *("CREATE TEMPORARY TABLE tmp (id INT)", "DROP TEMPORARY TABLE IF EXISTS tmp"),
    *("LOCK TABLES t READ", "LOCK TABLES t WRITE, w WRITE, vv READ", "FLUSH TABLES t WITH READ LOCK", "UNLOCK TABLES"),
    *("XA START '{db}'", "XA END '{db}'", "XA COMMIT '{db}' ONE PHASE", "XA ROLLBACK '{db}'"),
    *("!reset", "!change root", "!change {db}u"),
)
KINDS_OF_TRANSACTION = (
    *(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}" for level in (*LEVELS, "READ UNCOMMITTED")),
    *(f"SET TRANSACTION ISOLATION LEVEL {level}" for level in (*LEVELS, "READ UNCOMMITTED")),
    *("SET TRANSACTION READ ONLY", "SET SESSION TRANSACTION READ ONLY", "SET SESSION TRANSACTION READ WRITE"),
    *("SET @@transaction_isolation = 'SERIALIZABLE'", "SET @@session.transaction_isolation = 'READ-COMMITTED'"),
    *("SET transaction_read_only = 1", "SET transaction_read_only = 0", "SET @@transaction_read_only = 1"),
    *("SET completion_type = 1", "SET completion_type = 'CHAIN'", "SET completion_type = DEFAULT"),
    *("CALL level()", "CALL once()", "CALL chains()", "COMMIT; SET TRANSACTION READ ONLY"),
)
WRITES = (
    "UPDATE t SET n = n + 1 WHERE id = 1",
    "UPDATE t SET s = CONCAT(LEFT(s, 9), 'x') WHERE id = 2",
    *("DELETE FROM t WHERE id = 9", "REPLACE INTO t VALUES (9, 'new', 10, 1, NULL)", "INSERT INTO w (v) VALUES (1)"),
    "INSERT INTO t VALUES (8, 'e', 10, 1, NULL), (1, 'dup', 1, 1, NULL)",
    "INSERT IGNORE INTO t VALUES (8, 'e', 10, 1, NULL), (1, 'dup', 1, 1, NULL)",
    "INSERT INTO t VALUES (1, 'o', 5, 1, NULL) ON DUPLICATE KEY UPDATE s = 'odku'",
    *("UPDATE w SET v = 101", "UPDATE w SET v = 5", "UPDATE IGNORE w SET v = 101", "TRUNCATE w"),
    *("SELECT written()", "DO written()", "SELECT x FROM wv", "SELECT unwritten()", "SET @q = written()"),
    *("SELECT id, s, written() FROM t WHERE id = 1", "UPDATE t SET s = 'sub' WHERE id = written() + 1"),
    "CREATE TEMPORARY TABLE IF NOT EXISTS ct SELECT written()",
    "WITH c AS (SELECT 1 id) UPDATE t, c SET t.s = 'cte' WHERE t.id = c.id",
    *("UPDATE t SET id = id WHERE id = 1", "UPDATE t, w SET t.n = 33, w.v = 3 WHERE t.id = 3"),
    "BEGIN; UPDATE t SET n = n + 1 WHERE id = 1; COMMIT",
    "UPDATE t SET s = 'm1' WHERE id = 1; SELECT id, s FROM t WHERE id = 1",
    *("UPDATE t SET s = 'm2' WHERE id = 1; SELECT no_such", "UPDATE t SET s = 'm3' WHERE id = 1; NO SYNTAX"),
    "BEGIN; UPDATE t SET s = 'rolled' WHERE id = 1; ROLLBACK; SELECT id, s FROM t WHERE id = 1",
    *(f"CALL {name}()" for name in ("writes", "fails", "two", "shows", "endfails")),
    *("PREPARE pw FROM 'UPDATE t SET s = ? WHERE id = 1'", "SET @v = 'pw'", "EXECUTE pw USING @v"),
    *("UPDATE vv SET s = 'byview' WHERE id = 1", "INSERT INTO t SELECT id + 20, s, n, d, z FROM t WHERE id = 1"),
    *("DELETE FROM t WHERE id > 19", "DELETE a FROM t a WHERE a.id = 9", "ANALYZE TABLE w"),
    *("SELECT GET_LOCK('{db}', 0)", "SELECT RELEASE_ALL_LOCKS()", "/*!50000 UPDATE t SET s = 'vc' WHERE id = 1 */"),
    "SET @s = 'UPDATE t SET s = ''dyn'' WHERE id = 2'; PREPARE q FROM @s; EXECUTE q",
)
ASKING = ("SELECT FOUND_ROWS()", "SHOW WARNINGS", "SELECT LAST_INSERT_ID()")
STATE = (
    *("SET NAMES latin1", "SET NAMES utf8mb4", "SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET CHARACTER SET DEFAULT"),
    *("SET CHARACTER SET latin1", "SET NAMES utf8mb3", "SET NAMES binary", "SET NAMES DEFAULT"),
    *("SET character_set_results = NULL", "SET character_set_results = latin1", "SET character_set_results = utf8mb4"),
    *("SET collation_connection = utf8mb4_bin", "SET character_set_connection = latin1"),
    *("SET character_set_client = latin1", "SET @x = 1, sql_mode = ''", "SET sql_mode = 'ANSI_QUOTES'"),
    *("SET sql_mode = DEFAULT", "SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH,HIGH_NOT_PRECEDENCE'"),
    *("SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "SET sql_mode = CONCAT(@@sql_mode, ',PIPES_AS_CONCAT')"),
    *("SET @@sql_select_limit = 1", "SET sql_select_limit = DEFAULT", "SET sql_select_limit = 0"),
    *("SET time_zone = '+05:00'", "SET time_zone = '+00:00'", "SET time_zone = 'bad/zone'"),
    *("SET div_precision_increment = 1", "SET div_precision_increment = 4", "SET group_concat_max_len = 4"),
    *("SET group_concat_max_len = DEFAULT", "SET default_week_format = 3", "SET default_week_format = 0"),
    *("SET lc_time_names = 'de_DE'", "SET lc_time_names = 'en_US'", "SET sql_big_selects = 0", "SET max_join_size = 1"),
    *("SET max_join_size = DEFAULT", "SET sql_safe_updates = 1", "SET optimizer_switch = 'mrr=off'"),
    *("SET optimizer_switch = DEFAULT", "SET sql_buffer_result = 1", "SET sql_auto_is_null = 1"),
    *("SET no_such_variable = 1", "SET sql_select_limit = 1, no_such = 2", "SET sql_select_limit = 1; SELECT no_such"),
    *("SET time_zone = '+05:00', gtid_next = 'x'", "SET sql_mode = 'ANSI_QUOTES', gtid_next = 'x'"),
    *("SET character_set_results = utf16", "SET sql_select_limit = 1, character_set_results = utf32, gtid_next = 'x'"),
    *("SET div_precision_increment = 2; NO SYNTAX", "USE {db}2", "USE {db}", "USE no_such_database", "!use", "!use 2"),
    "USE {db}2; SELECT * FROM no_such_table",
    "CREATE TEMPORARY TABLE t (id INT, s VARCHAR(20), n INT, d DECIMAL(8,2), z TIMESTAMP NULL)",
    "CREATE TEMPORARY TABLE t SELECT 1 id, 'CT' s, 10 n, 3.0 d, NULL z",
    *("DROP TEMPORARY TABLE IF EXISTS t", "CREATE TEMPORARY TABLE vv SELECT 2 id, 'hidden' s"),
    *("DROP TEMPORARY TABLE IF EXISTS vv", "CREATE TEMPORARY TABLE x LIKE t", "ALTER TABLE x RENAME TO t"),
    *(f"CALL {name}()" for name in ("names", "mode", "hides", "lim", "zone", "setfails")),
    *("SELECT limited()", "PREPARE p FROM 'SELECT limited()'", "EXECUTE p", "SELECT @x := 5"),
    *("PREPARE o FROM 'SET sql_select_limit = 1'", "EXECUTE o", "SET session_track_gtids = OFF"),
    *("SET session_track_system_variables = ''", "SET session_track_state_change = OFF, session_track_schema = OFF"),
    "SET session_track_transaction_info = 'STATE'",
    "SELECT /*+ SET_VAR(sql_select_limit=1) */ id, s FROM t ORDER BY id",
)
BOUND_STEPS = (
    *(
        "!execute",
        "!execute",
        "!execute",
        "!word",
        "!cursor",
        "!cursor",
        "!fetch",
        "!fetch",
        "!free",
        "!close",
        "!long",
    ),
)
COMMANDS = (
    *("!option 0", "!option 1", "!fields t", "!ping", "!use", "!attributes SELECT id, s FROM t WHERE id = 1"),
    *("!attributes UPDATE t SET n = n + 1 WHERE id = 1", "!attributes SELECT * FROM t WHERE id = 1"),
    *("PREPARE pr FROM 'SELECT id, s FROM t WHERE id = ?'", "SET @i = 2", "EXECUTE pr USING @i", "EXECUTE nope"),
    *("DEALLOCATE PREPARE pr", "PREPARE pr FROM 'COMMIT'", "EXECUTE pr", "PREPARE pr FROM 'SELECT 1/0'"),
    *("PREPARE pr FROM 'SET TRANSACTION READ ONLY'", "PREPARE pr FROM 'SELECT id FROM t WHERE id = 1 FOR UPDATE'"),
    *("GET DIAGNOSTICS @n = NUMBER", "SELECT @n", "SELECT @@warning_count, @@error_count", "SELECT 1 UNION SELECT 2"),
    *(
        "SELECT 1; SELECT 2",
        "SELECT 1; SELECT no_such",
        "SET @x = 2; NO SYNTAX",
        "SHOW COUNT(*) WARNINGS",
        "SELECT 1/0",
    ),
    *(
        "SET default_week_format = 3",
        "SET default_week_format = 0",
        "SET NAMES utf8mb4",
        "SET @x = 1",
        "COMMIT",
        "BEGIN",
    ),
    *("FLUSH TABLES", "SHOW WARNINGS", "SELECT FOUND_ROWS()", "SELECT ROW_COUNT()", "KILL QUERY CONNECTION_ID()"),
    *(
        "HANDLER t OPEN",
        "HANDLER t READ FIRST",
        "HANDLER t CLOSE",
        "SET autocommit = 0",
        "SET autocommit = 1",
        "!reset",
    ),
    *("SELECT id, s FROM t WHERE id = 1;", "SELECT id, s FROM t WHERE id = 1; /* behind */", "SELECT 1 INTO @x"),
)
BASE, VIEW = TABLES[0], TABLES[3]
DDL = (
    *("ALTER TABLE t ADD COLUMN extra INT DEFAULT 7", "ALTER TABLE t ADD COLUMN extra INT DEFAULT 7 FIRST"),
    *("ALTER TABLE t DROP COLUMN extra", "CREATE INDEX on_s ON t (s)", "DROP INDEX on_s ON t", "ANALYZE TABLE t"),
    *("ALTER TABLE t MODIFY s VARCHAR(30)", "ALTER TABLE t MODIFY s VARCHAR(20) COLLATE utf8mb4_bin"),
    *("ALTER TABLE t MODIFY s VARCHAR(20)", "ALTER TABLE t MODIFY n BIGINT", "ALTER TABLE t MODIFY n INT"),
    *(
        "ALTER TABLE t MODIFY n VARCHAR(10)",
        "RENAME TABLE t TO away",
        "RENAME TABLE away TO t",
        "TRUNCATE t",
        ROWS,
        ROWS,
    ),
    *("RENAME TABLE t TO away; RENAME TABLE away TO t", "ALTER TABLE t COMMENT 'x'", "ALTER TABLE t ENGINE = InnoDB"),
    *(
        "ALTER TABLE t RENAME COLUMN s TO s2",
        "ALTER TABLE t RENAME COLUMN s2 TO s",
        "ALTER TABLE t ALTER n SET DEFAULT 3",
    ),
    *("DROP TABLE IF EXISTS t", BASE, f"DROP TABLE t; {BASE}; {ROWS}", "CREATE TABLE t LIKE away", "DROP TABLE away"),
    "CREATE TABLE IF NOT EXISTS t (id BIGINT PRIMARY KEY, s VARCHAR(40), n INT, d DOUBLE, z DATETIME, KEY (n))",
    "DROP TABLE IF EXISTS t; CREATE TABLE t (id INT PRIMARY KEY, z TIMESTAMP NULL, s CHAR(9), n SMALLINT, d FLOAT)",
    *(
        "CREATE OR REPLACE VIEW vv AS SELECT id, n AS s FROM t",
        "CREATE OR REPLACE VIEW vv AS SELECT id, s FROM t WHERE id < 3",
    ),
    *("DROP VIEW IF EXISTS vv", VIEW, "CREATE TABLE vv SELECT 2 AS id, 'table' AS s", "DROP TABLE IF EXISTS vv"),
    *("CREATE OR REPLACE VIEW vv AS SELECT 2 AS id, 'w' AS s FROM w", "ALTER TABLE t DROP PRIMARY KEY"),
    *("ALTER TABLE t ADD PRIMARY KEY (id)", "ALTER TABLE t ADD UNIQUE (s)", "SET foreign_key_checks = 0"),
)
ANEW = ("DROP VIEW IF EXISTS vv", "DROP TABLE IF EXISTS vv, away, t", BASE, ROWS, VIEW)
RIGHTS = (
    *("GRANT SELECT ON `{db}`.t TO '{db}u'", "REVOKE IF EXISTS SELECT ON `{db}`.t FROM '{db}u'"),
    *("REVOKE IF EXISTS SELECT ON `{db}`.t FROM '{db}r'", "GRANT SELECT ON `{db}`.t TO '{db}r'"),
    *("GRANT SELECT (id, s) ON `{db}`.t TO '{db}u'", "REVOKE IF EXISTS SELECT (id, s) ON `{db}`.t FROM '{db}u'"),
    *("GRANT SELECT (id, s, n) ON `{db}`.t TO '{db}r'", "REVOKE IF EXISTS SELECT (s) ON `{db}`.t FROM '{db}r'"),
    *("GRANT SELECT ON `{db}`.vv TO '{db}u'", "REVOKE IF EXISTS SELECT ON `{db}`.vv FROM '{db}u'", "FLUSH PRIVILEGES"),
    *("GRANT SELECT ON `{db}`.* TO '{db}u'", "REVOKE IF EXISTS SELECT ON `{db}`.* FROM '{db}u'"),
    *("REVOKE '{db}r' FROM '{db}u'", "GRANT '{db}r' TO '{db}u'", "SET DEFAULT ROLE NONE TO '{db}u'"),
    *(
        "SET DEFAULT ROLE ALL TO '{db}u'",
        "GRANT SELECT ON *.* TO '{db}u'",
        "REVOKE IF EXISTS SELECT ON *.* FROM '{db}u'",
    ),
    *("ALTER USER '{db}u' COMMENT 'x'", "GRANT UPDATE ON `{db}`.t TO '{db}r'"),
)
OF_ROLES = (
    "SET ROLE NONE",
    "SET ROLE ALL",
    "SET ROLE DEFAULT",
    "SET ROLE '{db}r'",
    "!reset",
    "!change {db}u",
    "USE {db}",
    "!use",
)
OF_GLOBALS = {
    "sql_mode": ("'ANSI_QUOTES'", "''", "DEFAULT"),
    "autocommit": ("0", "1"),
    "transaction_isolation": ("'READ-COMMITTED'", "'SERIALIZABLE'", "'REPEATABLE-READ'"),
    "transaction_read_only": ("1", "0"),
    "time_zone": ("'+05:00'", "'+00:00'"),
    "sql_select_limit": ("1", "DEFAULT"),
    "div_precision_increment": ("1", "4"),
    "group_concat_max_len": ("4", "1024"),
    "completion_type": ("1", "0"),
    "lc_time_names": ("'de_DE'", "'en_US'"),
    "default_week_format": ("3", "0"),
    "session_track_gtids": ("OWN_GTID", "OFF"),
    "session_track_transaction_info": ("STATE", "OFF"),
    "init_connect": ("'SET sql_select_limit = 1'", "''"),
    "max_sort_length": ("4", "1024"),
}
"""Variables that a session begins with: `!reset` and `!change` begin it anew."""
GLOBALS = tuple(f"SET GLOBAL {name} = {value}" for name, values in OF_GLOBALS.items() for value in values)
XA = (
    *(
        "XA START '{db}'",
        "UPDATE t SET n = n + 1 WHERE id = 1",
        "XA END '{db}'",
        "XA PREPARE '{db}'",
        "XA COMMIT '{db}'",
    ),
    *("XA ROLLBACK '{db}'", "XA COMMIT '{db}' ONE PHASE", "INSERT INTO w (v) VALUES (1)", "!reset", "BEGIN", "COMMIT"),
)
