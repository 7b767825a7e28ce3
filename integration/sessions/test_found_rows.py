"""What a statement asks about the one before it, with another one in between: as without Upwell.

Each statement of `BETWEEN` stands between a SELECT that is a hit and FOUND_ROWS(), ROW_COUNT() or SHOW WARNINGS. The
same session directly at MySQL is the judge.
"""

from __future__ import annotations

import pytest

from integration.oracle.asker import Asker
from integration.support.raw_client import RawClient
from proxy.mysql.wire.packets import COM_INIT_DB, COM_PING, packet

READ = "SELECT id, g FROM t WHERE g = 1"
BETWEEN = """
SET @x = 1
SET @x = (SELECT MAX(id) FROM t)
SET @x = FOUND_ROWS()
SET NAMES utf8mb4
SET SESSION sql_mode = DEFAULT
BEGIN
COMMIT
ROLLBACK
START TRANSACTION READ ONLY
SAVEPOINT a
USE {database}
INSERT INTO w VALUES (NULL, 1)
INSERT INTO w SELECT NULL, id FROM t
INSERT INTO w (n) VALUES ((SELECT MAX(id) FROM t))
INSERT INTO w TABLE w2
INSERT INTO w (n) WITH q AS (SELECT 1 AS n) SELECT n FROM q
REPLACE INTO w VALUES (1, 2)
INSERT INTO w SET n = 4
INSERT INTO t VALUES (5, 1)
INSERT INTO w VALUES (1, 5) ON DUPLICATE KEY UPDATE n = 6
DELETE w FROM w JOIN t ON w.id = t.id
DELETE FROM w USING w, t WHERE w.id = t.id
DELETE FROM t WHERE id = 2
DELETE w, w2 FROM w, w2 WHERE w.n = w2.n
DELETE QUICK FROM w WHERE n = 2
UPDATE w JOIN t ON w.id = t.id SET n = 7
LOAD DATA INFILE 'nowhere' INTO TABLE w
SET @x = 1; SET @y = 2
SELECT 1; SET @y = 2
SELECT 1; no statement
SELECT 1; SELECT no_such FROM t
CALL fails()
SET NAMES binary
REPLACE INTO w SELECT NULL, id FROM t
UPDATE w SET n = 7
DELETE FROM w WHERE n = 1
DELETE FROM w WHERE n IN (SELECT id FROM t)
SELECT 1
SELECT id FROM t WHERE id > 1
SELECT id FROM t WHERE g = 1 INTO @y
SELECT 1 UNION SELECT 2
(SELECT 1)
TABLE w2
VALUES ROW(1), ROW(2)
WITH q AS (SELECT 1) SELECT * FROM q
DO 1
DO (SELECT MAX(id) FROM t)
SHOW WARNINGS
SHOW ERRORS
SHOW COUNT(*) WARNINGS
SHOW TABLES
SHOW VARIABLES LIKE 'version'
SHOW CREATE TABLE t
SHOW GRANTS
SHOW PROCESSLIST
SHOW COLUMNS FROM t
SHOW STATUS LIKE 'uptime'
SHOW ENGINES
SHOW INDEX FROM t
SHOW DATABASES
DESCRIBE t
EXPLAIN SELECT * FROM t
EXPLAIN FORMAT=TREE SELECT * FROM t
EXPLAIN ANALYZE SELECT * FROM t
HELP 'no such thing'
LOCK TABLES w READ
UNLOCK TABLES
FLUSH STATUS
CALL sets()
CALL gives()
PREPARE s FROM 'SELECT 1'
DEALLOCATE PREPARE known
EXECUTE known
CREATE TABLE made (id INT)
CREATE TABLE made AS SELECT id FROM t
CREATE TEMPORARY TABLE made_for_me (id INT)
CREATE TEMPORARY TABLE made_for_me SELECT id FROM t
DROP TABLE w2
ALTER TABLE w ADD COLUMN more INT
TRUNCATE TABLE w
ANALYZE TABLE t
CHECK TABLE t
CREATE VIEW seen AS SELECT 1
SIGNAL SQLSTATE '01000'
GET DIAGNOSTICS @n = NUMBER
KILL 0
XA RECOVER
no statement
SELECT no_such FROM t
INSERT INTO w VALUES (1)
SELECT adds(1)
DO adds(1)
SET @x = adds(1)
SET @x = counts()
SELECT (SELECT id FROM t) FROM w
SELECT EXP(id * 1000) FROM t
SELECT id, EXP((id - 1) * 1000) FROM t
SELECT SQL_BUFFER_RESULT id, EXP((id - 1) * 1000) FROM t ORDER BY g
INSERT INTO w SELECT NULL, EXP((id - 1) * 1000) FROM t
INSERT INTO w VALUES (1, 1)
UPDATE w SET n = EXP(n * 1000)
UPDATE w SET n = (SELECT id FROM t)
DELETE FROM w WHERE n = (SELECT id FROM t)
DO (SELECT id FROM t)
SET @x = (SELECT id FROM t)
CREATE TABLE made AS SELECT EXP((id - 1) * 1000) AS x FROM t
SELECT id FROM t LIMIT 1 INTO OUTFILE '/nonexistent/x'
SELECT SQL_CALC_FOUND_ROWS id FROM t LIMIT 1
SHOW CREATE TABLE nope
SHOW COLUMNS FROM nope
SHOW STATUS WHERE (SELECT id FROM t)
DESCRIBE nope
TABLE nope
VALUES ROW((SELECT id FROM t))
SELECT 1 UNION SELECT (SELECT id FROM t)
CHECKSUM TABLE t
OPTIMIZE TABLE w
REPAIR TABLE w
OPTIMIZE TABLE nope
RESIGNAL
SELECT SLEEP(0)
""".strip().splitlines()
ASKED = (
    "SELECT FOUND_ROWS()",
    "SELECT ROW_COUNT()",
    "SHOW WARNINGS",
    "SELECT `FOUND_ROWS`()",
    "SELECT @@local.warning_count",
)


def initial_rows(asker: Asker) -> None:
    asker.begin(
        [
            "CREATE TABLE t (id INT PRIMARY KEY, g INT, KEY (g))",
            "INSERT INTO t VALUES (1, 1), (2, 1), (3, 1), (4, 2)",
            "CREATE TABLE w (id INT PRIMARY KEY AUTO_INCREMENT, n INT)",
            "INSERT INTO w VALUES (1, 1), (2, 2)",
            "CREATE TABLE w2 (id INT PRIMARY KEY AUTO_INCREMENT, n INT)",
            "INSERT INTO w2 VALUES (11, 1), (12, 2)",
            "CREATE PROCEDURE sets() SET @x = 1",
            "CREATE PROCEDURE fails() BEGIN SELECT 1; SIGNAL SQLSTATE '45000'; END",
            "CREATE PROCEDURE gives() SELECT id FROM t WHERE id > 2",
            "CREATE FUNCTION adds(n INT) RETURNS INT DETERMINISTIC RETURN n + 1",
            "CREATE FUNCTION counts() RETURNS INT READS SQL DATA RETURN (SELECT COUNT(*) FROM t)",
        ]
    )


def told(asker: Asker, name: str, between: str, asked: str) -> bytes:
    """What the last of the three is answered."""
    session = asker.session(name)
    session.query("PREPARE known FROM 'SELECT 1 UNION SELECT 2'")
    session.query("SET @x = 0, @y = 0")
    for _ in range(5000):
        session.query(READ)
        if name == "direct" or asker.served()[0] == "hit":
            break
    else:
        pytest.fail("never a hit")
    session.query("SELECT 1 UNION SELECT 2")  # of which MySQL's own FOUND_ROWS() tells from now on
    session.query(READ)
    for each in between.split(" & "):
        stand_between(asker, session, each)
    answer = session.query(asked)
    if asked.startswith("SET"):
        answer = session.query("SELECT @n")
    for back in ("SET NAMES utf8mb4", "ROLLBACK", "UNLOCK TABLES", "DROP TEMPORARY TABLE IF EXISTS made_for_me"):
        session.query(back)
    return answer


def stand_between(asker: Asker, session: RawClient, between: str) -> None:
    match between:
        case "PING":
            session.write(packet(bytes((COM_PING,)), 0))
            session.result()
        case "INIT_DB":
            session.write(packet(bytes((COM_INIT_DB,)) + asker.database.encode(), 0))
            session.result()
        case "PREPARED":
            session.close_statement(session.prepare("SELECT id FROM t WHERE id > 0").id)
        case _:
            session.query(between.format(database=asker.database))


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("asked", ASKED)
def test_an_end_that_mysql_does_not_see_does_not_hide_a_hit(asker: Asker, end: str, asked: str) -> None:
    found: dict[str, bytes] = {}
    for name in ("direct", "through"):
        initial_rows(asker)
        session = asker.session(name)
        if name == "through":
            asker.create_cache("c", "SELECT id, g FROM t WHERE g = ?")
        session.query("SET autocommit = 0")
        for _ in range(5000):
            session.query("SELECT 1 UNION SELECT 2")  # of which MySQL's own FOUND_ROWS() tells from now on
            session.query("COMMIT")
            session.query(READ)
            if name == "direct" or asker.served()[0] == "hit":
                break
            session.query("COMMIT")
        else:
            pytest.fail("never a hit")
        session.query(end)
        assert name == "direct" or asker.served()[0] == "answered"
        found[name] = session.query(asked)
        session.query("SET autocommit = 1")
    assert found["through"] == found["direct"]


@pytest.mark.parametrize("between", [*BETWEEN, "PING", "INIT_DB", "PREPARED"])
def test_what_stands_between_does_not_hide_a_hit(asker: Asker, between: str) -> None:
    found: dict[str, dict[str, bytes]] = {}
    for name in ("direct", "through"):
        initial_rows(asker)
        if name == "through":
            asker.create_cache("c", "SELECT id, g FROM t WHERE g = ?")
        known = [asked for asked in ASKED if not (between == "PING" and "ROW_COUNT" in asked)]
        found[name] = {asked: told(asker, name, between, asked) for asked in known}
    assert found["through"] == found["direct"]


@pytest.mark.parametrize(
    "last",
    ["XA RECOVER", "GET DIAGNOSTICS @n = NUMBER", "SIGNAL SQLSTATE '01000'", "HANDLER t OPEN & HANDLER t READ FIRST"],
)
def test_nor_do_two_that_stand_between(asker: Asker, last: str) -> None:
    """MySQL was shown the hit before the first, and has then answered another statement."""
    found = {}
    for name in ("direct", "through"):
        initial_rows(asker)
        if name == "through":
            asker.create_cache("c", "SELECT id, g FROM t WHERE g = ?")
        found[name] = told(asker, name, f"SET @y = 2 & {last}", "SELECT FOUND_ROWS()")
        asker.session(name).query("HANDLER t CLOSE")
    assert found["through"] == found["direct"]


@pytest.mark.parametrize("hit", [False, True], ids=["", "hit"])
@pytest.mark.parametrize("then", ["", "SET @x = 1", "BEGIN", "RESET", "CHANGE"])
def test_a_session_that_begins(asker: Asker, then: str, hit: bool) -> None:
    """Nothing was found in a new one; behind COM_RESET_CONNECTION and COM_CHANGE_USER it is what was found before."""
    found: dict[str, bytes] = {}
    for name in ("direct", "through"):
        initial_rows(asker)
        if name == "through":
            asker.create_cache("c", "SELECT id, g FROM t WHERE g = ?")
            asker.until_hit(READ)
        make = asker.beside.direct if name == "direct" else asker.beside.client
        with make(database=asker.database) as session:
            if hit:
                session.query(READ)
            if then in ("RESET", "CHANGE"):
                session.begin_anew(asker.database, change_user=then == "CHANGE")
            elif then:
                session.query(then)
            found[name] = session.query("SELECT FOUND_ROWS()")
    assert found["through"] == found["direct"]


@pytest.mark.parametrize("read", [READ, f"{READ} ORDER BY id LIMIT 1", f"{READ} ORDER BY id LIMIT 5 OFFSET 1"])
def test_what_others_change_behind_a_hit_it_has_not_found(asker: Asker, read: str) -> None:
    found: dict[str, list[bytes]] = {}
    for name in ("direct", "through"):
        initial_rows(asker)
        if name == "through":
            asker.create_cache("c", read.replace("g = 1", "g = ?"))
            asker.until_hit(read)
        session = asker.session(name)
        session.query(read)
        if "OFFSET" not in read:  # of which MySQL is asked again
            asker.run(["UPDATE t SET g = 7"])
        found[name] = [session.query("SELECT FOUND_ROWS()")]
    assert found["through"] == found["direct"]
