"""Behind SET NAMES a session is known at once, where another one has done the same: it is answered as MySQL answers,
byte for byte, and MySQL is asked less."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient
from integration.support.served import Reads, last_served, read_until_hit
from proxy.mysql.state.session_variables import ASK

DATABASE = "set_names"
TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20), b VARBINARY(9))",
    "INSERT INTO t VALUES (1, 'é😀', x'ff41'), (2, 'abc', 'abc')",
)
READS = tuple(f"SELECT id, s, b, CONCAT(s, 'x') AS c FROM t WHERE id = {id_} AND s <> 'zz'" for id_ in (1, 2))
STATEMENTS = (
    "SET NAMES utf8mb4", "set names 'utf8mb4' collate 'utf8mb4_unicode_520_ci'", "SET NAMES utf8", "SET NAMES latin1",
    "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_bin';", "SET NAMES binary", "SET NAMES cp1250", "SET NAMES ascii",
)  # fmt: skip
DEFAULT = "SET default_collation_for_utf8mb4 = utf8mb4_general_ci"
BEFORE = (
    "",
    "SET NAMES latin1",
    "SET collation_connection = utf8mb4_bin",
    "SET @@character_set_results = NULL",
    DEFAULT,
)
BEHIND = ("", "SET character_set_results = latin1", "SET collation_connection = utf8mb4_general_ci", DEFAULT)
READ = "SELECT id, s, b, CONCAT(s, 'x') AS c FROM t WHERE id = 2 AND s <> 'zz'"


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *TABLES)
    with proxy_in_thread(mysql, DATABASE, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            client.query("CREATE CACHE FROM SELECT id, s, b, CONCAT(s, 'x') AS c FROM t WHERE id = ? AND s <> 'zz'")
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {DATABASE}")


def answers(client: RawClient, *settings: str) -> list[bytes]:
    for setting in filter(None, settings):
        client.query(setting)
    return [client.query(sql) for sql in (*READS, *READS, "SELECT @@collation_connection, @@character_set_results")]


@pytest.mark.parametrize("collation", [255, 45, 8])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_answers_are_mysqls_bytes(beside: Beside, statement: str, collation: int) -> None:
    for before in BEFORE:
        for behind in BEHIND:
            with beside.direct(collation=collation) as direct:
                theirs = answers(direct, before, statement, behind)
            for _ in range(2):
                with beside.client(collation=collation) as through:
                    assert answers(through, before, statement, behind) == theirs, (before, statement, behind)


LATEST = """SELECT event_id, sql_text
    FROM performance_schema.events_statements_history JOIN performance_schema.threads USING (thread_id)
    WHERE processlist_id = {} AND timer_start > {}"""
NOW = """SELECT MAX(timer_end)
    FROM performance_schema.events_statements_history JOIN performance_schema.threads USING (thread_id)
    WHERE processlist_id = {}"""


def test_mysql_is_asked_what_a_session_is_like_for_the_first_one_only(beside: Beside, mysql: Server) -> None:
    asked = []
    for _ in range(3):
        with beside.client() as through:
            read_until_hit(beside, through, through.query, READ)
            thread = through.greeting.connection_id
            ((now,),) = mysql.execute(NOW.format(thread))
            through.query("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_icelandic_ci'")
            sent, reads = dict(mysql.execute(LATEST.format(thread, now))), Reads("hit")
            while True:  # MySQL keeps ten of a session's, and there may be more reads
                through.query(READ)
                sent |= mysql.execute(LATEST.format(thread, now))
                if reads.done(last_served(beside, through)):
                    break
            assert any(text.startswith("SET NAMES") for text in sent.values())
            asked.append(sum(ASK.startswith(text.removesuffix("...")) for text in sent.values()))
    assert asked == [1, 0, 0]
