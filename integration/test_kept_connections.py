"""A login on a connection that another client has left is as one on a connection of its own, and what the client before
has done is gone. MySQL is asked the same, without Upwell."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor
from pymysql.err import MySQLError

from integration.mysql_server import Server
from integration.proxy_thread import Beside, proxy_in_thread
from proxy.mysql.kept import AGREED
from proxy.mysql.packets import CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS, CLIENT_SESSION_TRACK, packet

CLIENT_FOUND_ROWS, CLIENT_IGNORE_SPACE, CLIENT_INTERACTIVE = 1 << 1, 1 << 8, 1 << 10

DATABASE = "kept_connections"
TABLES = ("CREATE TABLE item (id INT PRIMARY KEY, n INT)", "INSERT INTO item VALUES (1, 10), (2, 20)",
          "CREATE TABLE counted (id INT AUTO_INCREMENT PRIMARY KEY)")  # fmt: skip


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *TABLES)
    state = Path(tmp_path_factory.mktemp("state"))
    with proxy_in_thread(mysql, DATABASE, state, mysql_kept_connections="16") as found:
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {DATABASE}")


def left(beside: Beside) -> None:
    """Returns when all clients have, and MySQL has ended their sessions."""
    beside.at_rest()
    beside.until(lambda: beside.listener.kept.settled)


def kept(beside: Beside) -> int:
    return beside.call(lambda: len(beside.listener.kept))


def goes_on(beside: Beside) -> int:
    """How many clients have gone on with a connection."""
    return beside.call(lambda: beside.proxy.app.engine.memory.counters["mysql_logins_on_kept"])


def foreseen(beside: Beside, **options: object) -> None:
    """Clients of this kind come from here, and one of them has just left."""
    for _ in range(AGREED + 1):
        beside.client(**options).quit()
        left(beside)
    assert kept(beside) > 0


def test_the_next_client_goes_on_with_it(beside: Beside) -> None:
    foreseen(beside)
    before = goes_on(beside)
    numbers = set()
    for _ in range(3):
        with beside.client() as client:
            numbers.add(client.query("SELECT CONNECTION_ID()"))
            client.quit()
        left(beside)
    assert goes_on(beside) == before + 3 and len(numbers) == 1


# -- a new session is as one on a connection of its own ----------------------------------------------------------------

ITS_OWN = frozenset({"pseudo_thread_id", "timestamp", "rand_seed1", "rand_seed2", "statement_id", "gtid_executed"})
"""Variables that differ between any two sessions, or at any two times."""
STATE = (
    "SELECT LOWER(variable_name), variable_value FROM performance_schema.session_variables ORDER BY 1",
    "SELECT * FROM performance_schema.user_variables_by_thread",
    "SELECT LAST_INSERT_ID(), FOUND_ROWS(), ROW_COUNT(), DATABASE(), CURRENT_ROLE(), CURRENT_USER(), @x",
    "SELECT * FROM performance_schema.prepared_statements_instances",
    "SELECT attr_name, attr_value FROM performance_schema.session_connect_attrs"
    " WHERE processlist_id = CONNECTION_ID() AND attr_name <> '_pid'",
)


def state(connection: Connection[Cursor]) -> list[list[Any]]:
    """What a session sees of itself, behind its login."""
    found: list[list[Any]] = []
    with connection.cursor() as cursor:
        for sql in (*reversed(STATE[2:3]), *STATE):
            cursor.execute(sql)
            rows = cursor.fetchall()
            found.append([row for row in rows if row[0] not in ITS_OWN])
    return found


def state_of_new(beside: Beside) -> list[list[Any]]:
    """What a session is like whose connection nobody had before; but for the trackers that Upwell needs, as MySQL has
    it without Upwell."""
    before = goes_on(beside)
    beside.call(lambda: beside.listener.kept.part_with_all())
    with through(beside) as connection:
        found = state(connection)
    left(beside)
    assert goes_on(beside) == before
    with direct(beside) as connection:
        assert without_trackers(found) == without_trackers(state(connection))
    return found


def without_trackers(found: list[list[Any]]) -> list[list[Any]]:
    return [[row for row in rows if not str(row[0]).startswith("session_track_")] for rows in found]


def leaves(connection: Connection[Cursor], statements: Sequence[str]) -> int:
    """A session does all that MySQL lets it do, and quits. How much that was."""
    done = 0
    with connection.cursor() as cursor:
        for sql in statements:
            with suppress(MySQLError):
                cursor.execute(sql)
                done += 1
    connection.close()
    return done


def other_value(name: str, value: str) -> str:
    """Another one for a variable, as SQL; perhaps MySQL does not take it."""
    if value.lstrip("-").isdecimal():
        return str(int(value) + (1024 if int(value) >= 1024 else 1))
    if value in ("ON", "OFF"):
        return "OFF" if value == "ON" else "ON"
    return OTHER_VALUES.get(name, "''")


OTHER_VALUES = {
    "character_set_client": "latin1", "character_set_connection": "latin1", "character_set_results": "latin1",
    "character_set_database": "latin1", "character_set_server": "latin1", "collation_connection": "latin1_bin",
    "collation_database": "latin1_bin", "collation_server": "latin1_bin", "default_collation_for_utf8mb4":
    "utf8mb4_general_ci", "lc_messages": "de_DE", "lc_time_names": "de_DE", "time_zone": "'+05:00'",
    "transaction_isolation": "'SERIALIZABLE'", "completion_type": "'CHAIN'", "sql_mode": "'ANSI'",
    "session_track_system_variables": "'*'", "session_track_transaction_info": "'STATE'", "session_track_gtids":
    "'OFF'", "default_storage_engine": "MyISAM", "default_tmp_storage_engine": "MyISAM", "optimizer_switch":
    "'index_merge=off'", "binlog_format": "STATEMENT", "binlog_row_image": "MINIMAL", "gtid_next":
    "'00000000-0000-0000-0000-000000000001:1'", "long_query_time": "1", "timestamp": "1000000000",
    "internal_tmp_mem_storage_engine": "MEMORY", "block_encryption_mode": "'aes-256-cbc'", "myisam_stats_method":
    "nulls_equal", "rbr_exec_mode": "IDEMPOTENT", "use_secondary_engine": "OFF", "optimizer_trace": "'enabled=on'",
    "resultset_metadata": "NONE", "terminology_use_previous": "BEFORE_8_0_26", "xa_detach_on_prepare": "OFF",
    "profiling": "1", "group_replication_consistency": "BEFORE",
}  # fmt: skip


def through(beside: Beside, **options: Any) -> Connection[Cursor]:
    return connected("127.0.0.1", beside.port, options)


def direct(beside: Beside, **options: Any) -> Connection[Cursor]:
    return connected(beside.mysql.host, beside.mysql.port, options)


def connected(host: str, port: int, options: dict[str, Any]) -> Connection[Cursor]:
    return pymysql.connect(**{"host": host, "port": port, "user": "root", "database": DATABASE, **options})


def comes_to_be_foreseen(beside: Beside, **options: Any) -> None:
    """Clients as PyMySQL is one come from here."""
    for _ in range(AGREED + 1):
        through(beside, **options).close()
        left(beside)


LEFT_BEHIND: dict[str, tuple[str, ...]] = {
    "a transaction": ("BEGIN", "UPDATE item SET n = 0 WHERE id = 1"),
    "a transaction without autocommit": ("SET autocommit = 0", "UPDATE item SET n = 0 WHERE id = 1"),
    "a snapshot": ("START TRANSACTION WITH CONSISTENT SNAPSHOT",),
    "a savepoint": ("BEGIN", "DELETE FROM item", "SAVEPOINT s", "DELETE FROM item"),
    "the next transaction": ("SET TRANSACTION READ ONLY",),
    "all transactions": ("SET SESSION TRANSACTION READ ONLY, ISOLATION LEVEL SERIALIZABLE",),
    "chains": ("SET completion_type = CHAIN", "BEGIN", "COMMIT"),
    "table locks": ("LOCK TABLES item WRITE",),
    "the global lock": ("FLUSH TABLES WITH READ LOCK",),
    "a table's flush": ("FLUSH TABLES item FOR EXPORT",),
    "a lock by name": ("SELECT GET_LOCK('kept', 10)", "SELECT GET_LOCK('kept', 10)"),
    "a temporary table": ("CREATE TEMPORARY TABLE item (id INT)", "CREATE TEMPORARY TABLE t SELECT 1 AS a"),
    "variables of the user": ("SET @x = 1", "SELECT 2 INTO @y"),
    "what was inserted last": ("INSERT INTO counted VALUES ()", "SELECT LAST_INSERT_ID(17)"),
    "rows found": ("SELECT * FROM item", "UPDATE item SET n = n WHERE id = 9"),
    "warnings": ("SELECT 1/0", "DROP TABLE IF EXISTS nowhere"),
    "an error": ("nonsense",),
    "a text that is prepared": ("PREPARE s FROM 'SELECT 1'",),
    "a text that was executed": ("PREPARE s FROM 'SELECT 1'", "EXECUTE s"),
    "a role": ("SET ROLE NONE", "SET DEFAULT ROLE NONE TO root@localhost"),
    "another database": ("USE mysql",),
    "character sets": ("SET NAMES latin1", "SET CHARACTER SET utf8mb4"),
    "a handler": ("HANDLER item OPEN", "HANDLER item READ FIRST"),
    "an XA transaction": ("XA START 'kept'", "UPDATE item SET n = 0 WHERE id = 1"),
    "a backup's lock": ("LOCK INSTANCE FOR BACKUP",),
    "a resource group": ("SET RESOURCE GROUP SYS_default",),
    "a procedure": ("CALL sys.version_major()",),
    "a profile": ("SET profiling = 1", "SELECT 1"),
}


ENDS_WITH_IT = {
    "a text that was executed", "a role", "a handler", "an XA transaction", "a backup's lock", "a resource group",
    "a procedure", "the global lock", "a lock by name", "a temporary table", "variables of the user",
    "what was inserted last", "an error",
}  # fmt: skip
"""The connection goes with such a session, which has done more than Upwell knows of."""


@pytest.mark.parametrize("what", LEFT_BEHIND)
def test_nothing_is_left_behind(beside: Beside, what: str) -> None:
    comes_to_be_foreseen(beside)
    expected = state_of_new(beside)
    before = goes_on(beside)
    leaves(through(beside), LEFT_BEHIND[what])
    left(beside)
    assert kept(beside) == (what not in ENDS_WITH_IT)
    with direct(beside) as other, other.cursor() as cursor:  # nobody else meets what it has left
        cursor.execute("SET lock_wait_timeout = 20, innodb_lock_wait_timeout = 20")
        cursor.execute("UPDATE item SET n = n + 1 WHERE id = 1")
        cursor.execute("SELECT IS_FREE_LOCK('kept')")
        assert cursor.fetchall() == ((1,),)
        cursor.execute("ALTER TABLE item COMMENT = 'free'")
        cursor.execute("SELECT n FROM item WHERE id = 2")
        assert cursor.fetchall() == ((20,),)
        other.commit()
    with through(beside) as next_one:
        assert state(next_one) == expected
    assert (goes_on(beside) > before + 1) == (what not in ENDS_WITH_IT)


def test_no_variable_keeps_its_value(beside: Beside) -> None:
    comes_to_be_foreseen(beside)
    expected = state_of_new(beside)
    with direct(beside) as fresh, fresh.cursor() as cursor:
        cursor.execute("SHOW SESSION VARIABLES")
        names = dict(cursor.fetchall())
    done = skipped = 0
    for name, value in names.items():
        before = goes_on(beside)
        if not leaves(through(beside), [f"SET SESSION {name} = {other_value(name, value)}"]):
            skipped += 1
            continue
        done += 1
        left(beside)
        with through(beside) as next_one:
            assert state(next_one) == expected, name
        assert goes_on(beside) > before, name
    assert done > 100, f"{done} were set, {skipped} cannot be"


COUNTED = ("Com_", "Select_", "Sort_", "Created_tmp_", "Questions", "Last_query_cost")


def test_counters_begin_anew(beside: Beside) -> None:
    def counters() -> list[tuple[Any, ...]]:
        with through(beside) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW SESSION STATUS")
            return [row for row in cursor.fetchall() if row[0].startswith(COUNTED)]

    comes_to_be_foreseen(beside)
    beside.call(lambda: beside.listener.kept.part_with_all())
    of_new = counters()
    left(beside)
    leaves(through(beside), ["SELECT * FROM item ORDER BY n", "UPDATE item SET n = n + 1", "SHOW TABLES"])
    left(beside)
    before = goes_on(beside)
    assert counters() == of_new and len(of_new) > 100
    assert goes_on(beside) == before + 1


# -- logins ------------------------------------------------------------------------------------------------------------

ACCOUNTS = (
    "CREATE USER kept_a IDENTIFIED BY 'secret'",
    "CREATE USER kept_none",
    "CREATE USER kept_locked IDENTIFIED BY 'secret' ACCOUNT LOCK",
    "CREATE USER kept_expired IDENTIFIED BY 'secret' PASSWORD EXPIRE",
    "CREATE USER kept_sha256 IDENTIFIED WITH sha256_password BY 'secret'",
    "CREATE USER kept_two IDENTIFIED BY 'secret' WITH MAX_USER_CONNECTIONS 1",
    "CREATE USER kept_tls IDENTIFIED BY 'secret' REQUIRE SSL",
    "CREATE USER kept_roles IDENTIFIED BY 'secret'",
    "CREATE ROLE kept_role",
    "GRANT SELECT ON *.* TO kept_role",
    "GRANT kept_role TO kept_roles",
    "SET DEFAULT ROLE kept_role TO kept_roles",
    f"GRANT SELECT ON {DATABASE}.* TO kept_a, kept_none, kept_two, kept_sha256, kept_tls",
)
USERS = ("kept_a", "kept_none", "kept_locked", "kept_expired", "kept_sha256", "kept_two", "kept_tls", "kept_roles",
         "kept_nobody")  # fmt: skip


@pytest.fixture(scope="module")
def accounts(mysql: Server) -> Iterator[None]:
    dropped = (*(f"DROP USER IF EXISTS {user}" for user in USERS), "DROP ROLE IF EXISTS kept_role")
    mysql.execute(*dropped, *ACCOUNTS)
    yield
    mysql.execute(*dropped)


def outcome(connect: Callable[..., Connection[Cursor]], beside: Beside, **options: Any) -> object:
    """What comes of a login: who the client is then, or MySQL's error."""
    try:
        with connect(beside, **options) as connection:
            rows = state(connection)
        return without_trackers(rows)
    except MySQLError as error:
        return error.args


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("user", USERS)
def test_who_is_let_in_is_as_without_upwell(beside: Beside, accounts: None, user: str, tls: bool) -> None:
    of_tls = {"ssl": {"check_hostname": False, "verify_mode": "none"}} if tls else {"ssl_disabled": True}
    refused = 0
    for password, database in itertools.product(("secret", "wrong", ""), (DATABASE, "nowhere", "mysql", None)):
        options = {**of_tls, "user": user, "password": password, "database": database}
        comes_to_be_foreseen(beside, **of_tls)
        before = goes_on(beside)
        found = outcome(through, beside, **options)
        refused += isinstance(found, tuple)
        left(beside)
        assert found == outcome(direct, beside, **options), (password, database)
        assert refused or goes_on(beside) == before + 1, "it was no login on a connection that was kept"
        beside.call(lambda: beside.listener.kept.check_invariants())
    assert refused >= 3


def test_drivers_that_come_from_one_address_get_what_they_ask_for(beside: Beside) -> None:
    kinds: list[dict[str, Any]] = [
        {"capabilities": each, "collation": collation, "database": database}
        for each in (CLIENT_DEPRECATE_EOF, 0, CLIENT_FOUND_ROWS, CLIENT_DEPRECATE_EOF | CLIENT_INTERACTIVE,
                     CLIENT_IGNORE_SPACE, CLIENT_MULTI_STATEMENTS, CLIENT_SESSION_TRACK)
        for collation, database in ((255, DATABASE), (8, ""), (45, "mysql"))
    ]  # fmt: skip
    asked = (
        "SELECT @@wait_timeout, @@sql_mode, @@collation_connection, DATABASE()",
        f"UPDATE {DATABASE}.item SET n = n WHERE id = 1",
    )  # fmt: skip
    rng = Random(1)
    before = goes_on(beside)
    for _ in range(200):
        kind = rng.choice(kinds[:1] * 40 + kinds)
        ours, theirs = beside.client(**kind), beside.direct(**kind)
        assert ours.login_answer[4:] == theirs.login_answer[4:], kind
        for sql in (*asked, *["SELECT 1; SELECT 2"] * (rng.random() < 0.1)):
            assert ours.query(sql) == theirs.query(sql), (kind, sql)
        ours.quit()
        theirs.quit()
        left(beside)
    assert goes_on(beside) > before + 20


def test_kill_finds_a_client_that_was_greeted_on_another_connection(beside: Beside) -> None:
    comes_to_be_foreseen(beside)
    before = goes_on(beside)
    with beside.client(capabilities=CLIENT_FOUND_ROWS) as other, through(beside) as killer, killer.cursor() as cursor:
        assert goes_on(beside) == before
        told = other.greeting.connection_id
        other.write(packet(other.text("SELECT SLEEP(600)"), 0))
        sleeps = "SELECT id FROM information_schema.processlist WHERE info = 'SELECT SLEEP(600)'"
        while not beside.mysql.execute(sleeps):
            pass
        cursor.execute(f"KILL QUERY {told}")
        assert other.result()[-1:] != b""
        cursor.execute(f"KILL {told}")
        assert other.at_end()


def test_init_connect_is_run(beside: Beside) -> None:
    beside.mysql.execute("CREATE USER kept_plain", f"GRANT SELECT ON {DATABASE}.* TO kept_plain")
    try:
        comes_to_be_foreseen(beside, user="kept_plain")
        beside.mysql.execute("SET GLOBAL init_connect = 'SET @x = 17'")
        with through(beside, user="kept_plain") as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @x")
            assert cursor.fetchall() == ((17,),)
    finally:
        beside.mysql.execute("SET GLOBAL init_connect = ''", "DROP USER kept_plain")


def test_one_that_mysql_ends_is_nobodys(beside: Beside) -> None:
    comes_to_be_foreseen(beside)
    numbers: list[int] = []
    for _ in range(5):
        with through(beside) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT CONNECTION_ID()")
            numbers += cursor.fetchone() or ()
        left(beside)
        beside.mysql.execute(f"KILL {numbers[-1]}")
    assert len(set(numbers)) == 5


def test_they_go_when_nobody_comes(beside: Beside) -> None:
    comes_to_be_foreseen(beside)
    assert kept(beside)
    connections = f"SELECT COUNT(*) FROM performance_schema.threads WHERE processlist_db = '{DATABASE}'"
    beside.until(lambda: not len(beside.listener.kept))
    while beside.mysql.execute(connections) != ((0,),):
        pass


def test_they_make_room_where_mysql_has_too_many(beside: Beside) -> None:
    """Root has one connection more than others."""
    comes_to_be_foreseen(beside)
    assert kept(beside)
    server = beside.mysql
    most = int(server.execute("SELECT @@max_connections")[0][0])
    open_now = int(server.execute("SELECT COUNT(*) FROM performance_schema.threads WHERE type = 'FOREGROUND'")[0][0])
    server.execute("CREATE USER kept_plain", f"GRANT SELECT ON {DATABASE}.* TO kept_plain",
                   f"SET GLOBAL max_connections = {open_now}")  # fmt: skip
    try:
        with beside.client(user="kept_plain", capabilities=CLIENT_FOUND_ROWS) as client:  # of another kind
            assert client.login_answer[4:5] == b"\0"
    finally:
        server.execute(f"SET GLOBAL max_connections = {most}", "DROP USER kept_plain")
