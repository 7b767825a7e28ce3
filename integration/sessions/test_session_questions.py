"""What a session asks about itself, as drivers do, is told byte by byte as MySQL tells it, and mostly without MySQL."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from integration.logins.login_settings import LOGINS, Login
from integration.protocol.test_hits_same_bytes import KINDS, comparable
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient
from integration.support.served import Reads, last_served
from proxy.mysql.reads.questions import question_of
from proxy.mysql.state.session_variables import ANSWERED, CONSTANT, QUESTIONED
from proxy.mysql.wire.packets import ERR

JAVA = (
    "/* a driver 9.4.0 (Revision: d680) */SELECT  @@session.auto_increment_increment AS auto_increment_increment,"
    " @@character_set_client AS character_set_client, @@character_set_server AS character_set_server,"
    " @@max_allowed_packet AS max_allowed_packet, @@sql_mode AS sql_mode, @@system_time_zone AS system_time_zone,"
    " @@time_zone AS time_zone, @@transaction_isolation AS transaction_isolation, @@wait_timeout AS wait_timeout"
)
ANSWERED_TEXTS = (  # without MySQL, the second time
    *("SELECT @@sql_mode", "SELECT @@SESSION.sql_mode", "SELECT @@session.transaction_isolation", "SELECT VERSION()"),
    *("SELECT @@version_comment LIMIT 1", "SELECT DATABASE()", "select database() as d", "SELECT @@max_allowed_packet"),
    *("SELECT 1", "SELECT 1 AS one FROM DUAL", "/* ping */ SELECT 1", "SELECT 'x', 2.50, NULL", "SELECT @@autocommit"),
    *("SELECT @@version, @@lower_case_table_names l", "SELECT @@time_zone, @@system_time_zone", "SELECT SCHEMA()"),
    *("SELECT @@sql_select_limit", "SELECT CURRENT_USER()", "SELECT CURRENT_USER, 1", "SELECT @@local.wait_timeout"),
    *(
        "SHOW VARIABLES LIKE 'lower_case_%'",
        "SHOW SESSION VARIABLES LIKE 'sql_mode'",
        "show variables like 'time_zone'",
    ),
    *("SELECT @@foreign_key_checks", "SELECT @@character_set_server, @@collation_connection", JAVA),
    *("SELECT @@character_set_results", "SELECT @@transaction_read_only", "SELECT @@auto_increment_increment"),
)
PASSED_TEXTS = (
    *("SELECT @@tx_isolation", "SELECT @@global.sql_mode", "SELECT @@init_connect", "SELECT USER()", "SELECT @x"),
    *("SELECT @@character_set_database", "SELECT NOW() IS NULL", "SELECT @@warning_count"),
    *("SELECT no_such", "SELECT 1 WHERE @@sql_mode = 'x'", "SHOW VARIABLES LIKE 'sql_%'", "SELECT @@optimizer_switch"),
    *("SELECT @@session . sql_mode", "SELECT @@max_sort_length", "SELECT version", "SELECT @@session.version"),
    *(
        "SELECT @@server_id",
        "SELECT @@hostname",
        "SELECT @@net_write_timeout",
        "SELECT @@session_track_gtids IS NULL",
        "SELECT ROW_COUNT()",
    ),
)
STATES = (
    *("SET sql_mode = ''", "SET sql_mode = 'ANSI_QUOTES'", "SET sql_mode = DEFAULT", "SET NAMES latin1", "SET @x = 3"),
    *("SET NAMES utf8mb4", "SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET character_set_results = NULL", "USE {db}"),
    *("SET character_set_results = utf16", "SET autocommit = 0", "SET autocommit = 1", "BEGIN", "COMMIT", "ROLLBACK"),
    *("SET time_zone = '+05:00'", "SET time_zone = 'SYSTEM'", "SET sql_select_limit = 0", "SET sql_select_limit = 2"),
    *("SET sql_select_limit = DEFAULT", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "USE {db}2"),
    *(
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET TRANSACTION READ ONLY",
        "SELECT COUNT(*) FROM t",
        "CALL m()",
    ),
    "CALL m()",
    *("SET foreign_key_checks = 0", "SET foreign_key_checks = 1", "SET auto_increment_increment = 7", "CALL f()"),
    *("SET wait_timeout = 1000", "SET transaction_isolation = DEFAULT", "SET default_storage_engine = MyISAM"),
    *("SET @@session.collation_server = utf8mb4_bin", "DELETE FROM t WHERE id = 2", "SHOW WARNINGS", "SELECT 1/0"),
    *("SELECT @@warning_count", "SELECT FOUND_ROWS()", "SELECT ROW_COUNT()", "SET sql_mode = 'NO_BACKSLASH_ESCAPES'"),
    *("SET sql_select_limit = 1, no_such = 2", "DROP DATABASE IF EXISTS {db}3", "SELECT zsets()", "DO zsets()"),
    *(
        "CREATE DATABASE IF NOT EXISTS {db}3; USE {db}3",
        "SET STATEMENT x",
        "XA START '{who}'",
        "XA END '{who}'",
        "XA ROLLBACK '{who}'",
    ),
)


READ = "SELECT id FROM t WHERE id = 1"
SWITCHES = (
    *("foreign_key_checks", "sql_notes", "sql_safe_updates", "unique_checks", "sql_buffer_result", "sql_auto_is_null"),
    *("sql_log_bin", "transaction_read_only", "windowing_use_high_precision"),
)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = f"t{os.getpid()}_questions"
    mysql.execute(
        f"CREATE DATABASE {database}2",
        f"CREATE DATABASE {database}",
        f"USE {database}",
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)",
        "CREATE PROCEDURE m() SET SESSION sql_mode = 'ANSI_QUOTES', time_zone = '+03:00', foreign_key_checks = 0",
        "CREATE PROCEDURE f() BEGIN SET SESSION foreign_key_checks = 0; SIGNAL SQLSTATE '45000'; END",
        "CREATE FUNCTION zsets() RETURNS INT DETERMINISTIC BEGIN SET SESSION wait_timeout = 9999; RETURN 1; END",
    )
    with proxy_in_thread(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            client.query("CREATE CACHE FROM SELECT id FROM t WHERE id = ?")
        yield found
        found.at_rest()
    mysql.execute(*(f"DROP DATABASE IF EXISTS {database}{each}" for each in ("", "2", "3")))


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_second_answer_is_not_mysqls(beside: Beside, kind: str) -> None:
    with beside.direct(capabilities=KINDS[kind]) as direct, beside.client(capabilities=KINDS[kind]) as through:
        for text in ANSWERED_TEXTS:
            reads = Reads("answered")
            while True:
                wanted, found = comparable(direct, direct.query(text)), comparable(through, through.query(text))
                assert wanted == found, text
                if reads.done(last_served(beside, through)):
                    break
        for text in PASSED_TEXTS:
            for _ in range(2):
                assert comparable(direct, direct.query(text)) == comparable(through, through.query(text)), text
                assert last_served(beside, through).startswith("passed"), text


def logged_in(make: object, login: Login, kind: str) -> RawClient:
    client: RawClient = make(capabilities=KINDS[kind], collation=login.collation)  # type: ignore[operator]
    for statement in login.statements:
        client.query(statement)
    return client


@pytest.mark.parametrize("login", LOGINS, ids=lambda login: login.name)
def test_however_a_session_has_logged_in(beside: Beside, login: Login) -> None:
    kind = random.Random(login.name).choice(list(KINDS))
    for _ in range(2):
        with logged_in(beside.direct, login, kind) as direct, logged_in(beside.client, login, kind) as through:
            for text in ANSWERED_TEXTS:
                assert comparable(direct, direct.query(text)) == comparable(through, through.query(text)), text


@pytest.mark.parametrize("seed", range(1, 17))
def test_in_whatever_state_a_session_is(beside: Beside, seed: int) -> None:
    rng = random.Random(seed)
    kind = rng.choice(list(KINDS))
    database = beside.proxy.database
    texts = rng.sample(ANSWERED_TEXTS, 8) + rng.sample(PASSED_TEXTS, 2)
    states = rng.sample(STATES, 12)
    done: list[str] = []
    with beside.direct(capabilities=KINDS[kind]) as direct, beside.client(capabilities=KINDS[kind]) as through:
        for _ in range(300):
            chance = rng.random()
            step = rng.choice(texts) if chance < 0.8 else rng.choice(states).replace("{db}", database)
            if chance > 0.9:  # MySQL is asked what the session is like before it may be a hit
                step = READ
            answers = [
                comparable(client, client.query(step.replace("{who}", who)))
                for who, client in (("direct", direct), ("through", through))
            ]
            done.append(f"{step} [{last_served(beside, through)}]")
            assert answers[0] == answers[1], f"seed {seed}, {kind}\n" + "\n".join(done[-15:])


def test_the_number_of_the_connection_is_its_own(beside: Beside) -> None:
    for _ in range(2):
        with beside.client() as client:
            reads = Reads("answered")
            while True:
                number = str(client.greeting.connection_id).encode()
                assert bytes((len(number),)) + number in client.query("SELECT CONNECTION_ID()")
                if reads.done(last_served(beside, client)):
                    break


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_database_that_is_dropped_is_no_sessions(beside: Beside, kind: str) -> None:
    database = f"{beside.proxy.database}4"
    with beside.client(capabilities=KINDS[kind]) as client:
        for drop in (f"DROP DATABASE {database}", "CALL drops()"):
            client.query(f"USE {beside.proxy.database}")
            client.query(f"CREATE DATABASE {database}")
            client.query(f"CREATE PROCEDURE {database}.drops() DROP DATABASE {database}")
            client.query(f"USE {database}")
            for _ in range(3):
                assert database.encode() in client.query("SELECT DATABASE()")
            client.query(drop)
            for _ in range(3):
                assert database.encode() not in client.query("SELECT DATABASE()"), last_served(beside, client)


@pytest.mark.parametrize("name", CONSTANT)
def test_a_constant_cannot_be_set(mysql: Server, name: str) -> None:
    for scope in ("GLOBAL", "SESSION", "PERSIST"):
        with pytest.raises(pymysql.MySQLError, match="read only"):
            mysql.execute(f"SET {scope} {name} = @@{name}")


def test_a_variable_of_the_session_that_is_set_is_told(beside: Beside) -> None:
    """Of each, MySQL's tracker tells the new value."""
    values = {
        **{"character_set_results": "latin1", "transaction_isolation": "'READ-COMMITTED'", "time_zone": "'+04:00'"},
        **{"sql_mode": "'ANSI'", "lc_time_names": "'de_DE'", "completion_type": "1"},
        **{"block_encryption_mode": "'aes-256-cbc'", "default_storage_engine": "'MyISAM'", "default_week_format": "3"},
        **dict.fromkeys(("collation_connection", "collation_server"), "'utf8mb4_bin'"),
        **dict.fromkeys(("character_set_client", "character_set_connection", "character_set_server"), "latin1"),
        **{name: f"NOT @@session.{name}" for name in SWITCHES},
    }
    for name in sorted((*QUESTIONED, *ANSWERED - {"max_allowed_packet"})):
        with beside.direct() as direct, beside.client() as through:
            for change in ("DO 1", f"SET SESSION {name} = {values.get(name, '2000')}"):
                for client in (direct, through):
                    answer = client.query(change)
                    assert answer[4] != ERR, (name, answer)
                for text in (f"SELECT @@session.{name}", f"SHOW VARIABLES LIKE '{name}'"):
                    for _ in range(2):
                        assert comparable(direct, direct.query(text)) == comparable(through, through.query(text)), name
                    assert question_of(text.encode()) is not None
