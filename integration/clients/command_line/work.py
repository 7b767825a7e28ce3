"""The common work of the `mysql` command: `python -m integration.clients.command_line.work`."""

from __future__ import annotations

import json
import subprocess
import tempfile
import textwrap

from integration.clients.canonical import Step, digest, run_steps
from integration.clients.command_line.programs import ADDRESS, command, lines_of, mysql, run, with_password
from integration.clients.statements import DEFAULTS, ERRORS, EVERY_TYPE, LONG_RUNNING

STEPS: list[Step] = []
TALKATIVE = ("-vvv", "--show-warnings", "--force")
PLAIN, TLS = "--ssl-mode=DISABLED", "--ssl-mode=REQUIRED"
GREET = "SELECT CURRENT_USER(), DATABASE(), (SELECT VARIABLE_VALUE <> '' FROM performance_schema.session_status\
 WHERE VARIABLE_NAME = 'Ssl_cipher') AS tls;"


def step(function: Step) -> Step:
    STEPS.append(function)
    return function


# -- connecting --------------------------------------------------------------------------------------------------------


@step
def connect_plain_to_a_server_that_has_not_seen_the_password() -> object:
    return [mysql(GREET, PLAIN), mysql(GREET, PLAIN, "--get-server-public-key")]


@step
def connect_with_tls() -> object:
    return mysql(GREET, TLS)


@step
def connect_as_it_does_by_default() -> object:
    return mysql(GREET)


@step
def connect_with_a_wrong_password() -> object:
    return mysql(GREET, password="wrong")


@step
def connect_to_a_database_that_does_not_exist() -> object:
    return mysql(GREET, database="does_not_exist")


@step
def connect_with_compression() -> object:
    count = f"SELECT COUNT(*), MAX(label) FROM {ADDRESS.data}.number;"
    rows = f"SELECT n, label FROM {ADDRESS.data}.number ORDER BY n; SELECT REPEAT('y', 1000000);"
    algorithms = [("zlib",), ("zstd",), ("zstd", "--zstd-compression-level=22")]
    return [mysql(count + rows, f"--compression-algorithms={one}", *more) for one, *more in algorithms]


@step
def settings_of_a_new_session() -> object:
    return mysql(DEFAULTS + ";")


@step
def settings_with_another_character_set() -> object:
    script = (
        "SHOW VARIABLES WHERE Variable_name IN ('character_set_client', 'collation_connection'); SELECT 'caf\\u00e9';"
    )
    return mysql(script, "--default-character-set=latin1", "--init-command=SET @first = 1")


# -- answers -----------------------------------------------------------------------------------------------------------


@step
def every_type_with_what_mysql_tells_of_columns() -> object:
    return mysql(EVERY_TYPE.format(data=ADDRESS.data) + ";", "--column-type-info", "--table")


@step
def every_type_in_each_format() -> object:
    return {
        option: mysql(EVERY_TYPE.format(data=ADDRESS.data) + " LIMIT 1;", option)
        for option in ("--batch", "--raw", "--vertical", "--xml", "--html", "--binary-as-hex=0")
    }


@step
def a_hundred_thousand_rows_streamed() -> object:
    outcome: list[object] = []
    for option in ("--quick", "--skip-quick"):
        done = run("mysql", option, ADDRESS.data, script="SELECT n, label FROM number ORDER BY n;")
        outcome.append([done.returncode, done.stdout.count(b"\n"), digest(done.stdout)])
    return outcome


@step
def a_value_of_twenty_megabytes() -> object:
    value = "0123456789abcdef" * (20 * 1024 * 1024 // 16)
    script = (
        f"CREATE TABLE huge (id INT PRIMARY KEY, value LONGTEXT);\nINSERT INTO huge VALUES (1, '{value}');\n"
        "SELECT LENGTH(value), CRC32(value) FROM huge;\nSELECT value FROM huge;\nDROP TABLE huge;\n"
    )
    done = run("mysql", "--max-allowed-packet=64M", ADDRESS.database, script=script)
    return [done.returncode, lines_of(done.stderr), len(done.stdout), digest(done.stdout)]


# -- scripts -----------------------------------------------------------------------------------------------------------


@step
def a_script_of_writes_and_transactions() -> object:
    return mysql(
        """
        CREATE TABLE account (id INT PRIMARY KEY AUTO_INCREMENT, balance INT, name VARCHAR(20) CHARACTER SET utf8mb4);
        INSERT INTO account (balance, name) VALUES (10, 'größer'), (20, '🐬🐬'), (30, NULL);
        SELECT LAST_INSERT_ID(), ROW_COUNT(); -- a comment; with a semicolon
        START TRANSACTION; UPDATE account SET balance = balance + 1; SELECT * FROM account; ROLLBACK;
        BEGIN; DELETE FROM account WHERE id = 1; SAVEPOINT middle; DELETE FROM account; ROLLBACK TO middle; COMMIT;
        SELECT * FROM account;
        SET autocommit = 0; UPDATE account SET balance = 0 WHERE id = 2; ROLLBACK; SET autocommit = 1;
        REPLACE INTO account VALUES (2, 99, 'again'); TABLE account;
        PREPARE one FROM 'SELECT name FROM account WHERE id = ?'; SET @id = 2; EXECUTE one USING @id;
        DEALLOCATE PREPARE one;
        CREATE TEMPORARY TABLE mine SELECT * FROM account; SELECT COUNT(*) FROM mine;
        LOCK TABLES account WRITE; SELECT COUNT(*) FROM account; UNLOCK TABLES;
        SELECT GET_LOCK('clients', 1), RELEASE_LOCK('clients');
        ALTER TABLE account ADD COLUMN note TEXT; DESCRIBE account; SHOW CREATE TABLE account;
        DROP TABLE account, mine;
        """,
        *TALKATIVE,
    )


@step
def a_script_with_procedures() -> object:
    return mysql(
        """
        delimiter //
        CREATE PROCEDURE both_kinds (n INT) BEGIN SELECT n; SELECT n + 1 AS `n;1`; END//
        CALL both_kinds(1)//
        delimiter ;
        CALL both_kinds(2); DROP PROCEDURE both_kinds;
        """
        f"USE {ADDRESS.data}; SET @twice = 4; CALL two_results(2, @found, @twice); SELECT @found, @twice;"
        "CALL fails_midway();",
        *TALKATIVE,
    )


@step
def a_script_with_errors() -> object:
    statements = [
        "CREATE TABLE taken (id INT PRIMARY KEY)",
        "INSERT INTO taken VALUES (1)",
        *ERRORS,
        "DROP TABLE taken",
    ]
    return [mysql(";\n".join(statements) + ";", *TALKATIVE), mysql("SELECT 1; SELECT * FROM missing; SELECT 2;")]


@step
def a_script_with_warnings() -> object:
    return mysql(
        """
        CREATE TEMPORARY TABLE short (id INT, name VARCHAR(3)); SET SESSION sql_mode = '';
        INSERT INTO short VALUES (1, 'too long'), ('x', 'abc'); SHOW WARNINGS; SHOW COUNT(*) WARNINGS;
        SELECT 1 / 0, CAST('7x' AS SIGNED); DROP TABLE IF EXISTS missing; SELECT * FROM missing; SHOW ERRORS;
        """,
        *TALKATIVE,
    )


@step
def commands_of_the_client() -> object:
    script = f"""
        SET @mine = 1, SESSION group_concat_max_len = 77; SELECT @mine, @@group_concat_max_len;
        resetconnection
        SELECT @mine, @@group_concat_max_len, DATABASE();
        use {ADDRESS.data}
        SELECT DATABASE(), COUNT(*) FROM author;
        use does_not_exist
        charset latin1
        SELECT @@character_set_client;
        query_attributes name value other 2
        SELECT 1;
        rehash
        connect {ADDRESS.database}
        SELECT DATABASE(), @@character_set_client\\G
        """
    return mysql(textwrap.dedent(script), "--force", "--loose-commands", "--named-commands")


@step
def a_local_file_loaded() -> object:
    with tempfile.NamedTemporaryFile("w") as file:
        file.writelines(f"{n},line {n} 🐬,{'x' * (n % 4)}\n" for n in range(5000))
        file.flush()
        load = f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE loaded CHARACTER SET utf8mb4 FIELDS TERMINATED BY ','"
        script = f"""
            CREATE TABLE loaded (id INT PRIMARY KEY, line VARCHAR(40), short VARCHAR(2)) CHARSET utf8mb4;
            SET sql_mode = '';
            {load}; SELECT COUNT(*), SUM(id), MAX(line), MAX(short), @@warning_count FROM loaded;
            DROP TABLE loaded;"""
        loaded = mysql(script, "-vvv", "--force", "--local-infile=1")
        refused = mysql(script, "--force", "--local-infile=0")
    return [json.loads(json.dumps(one).replace(file.name, "FILE")) for one in (loaded, refused)]


# -- sessions that end -------------------------------------------------------------------------------------------------


@step
def kill_query() -> object:
    with with_password(ADDRESS.user, ADDRESS.password) as options_file:
        line = command("mysql", options_file, "--force", ADDRESS.data)
        script = f"{LONG_RUNNING}; SELECT 'after it';"
        pipe = subprocess.PIPE
        with subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe) as running:
            assert running.stdin is not None
            running.stdin.write(script.encode())
            running.stdin.close()
            running.stdin = None
            there = (
                "SELECT id FROM performance_schema.processlist"
                f" WHERE user = '{ADDRESS.user}' AND info LIKE '%long_running%' AND id <> CONNECTION_ID();"
            )
            ids: list[bytes] = []
            while not ids:  # each try is a session
                ids = run("mysql", "--skip-column-names", ADDRESS.database, script=there).stdout.split()
            mysql(f"KILL QUERY {int(ids[0])};")
            out, errors = running.communicate()
            return {"exit": running.returncode, "out": lines_of(out), "errors": lines_of(errors)}


@step
def session_killed() -> object:
    script = "SELECT 'before';\nKILL CONNECTION_ID();\nSELECT 'after', DATABASE();\nSELECT 'at last', DATABASE();\n"
    return mysql(script, "--force", "--reconnect")


if __name__ == "__main__":
    run_steps(STEPS)
