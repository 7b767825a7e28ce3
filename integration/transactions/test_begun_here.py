"""A transaction that the client has begun with BEGIN begins at MySQL once it must answer in it: until then BEGIN, hits
and COMMIT do not reach MySQL, and whatever comes behind them is answered as MySQL answers it."""

from __future__ import annotations

from itertools import count

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside
from integration.support.raw_client import RawClient
from integration.support.same_bytes import same
from integration.support.served import last_served, read_until_hit
from integration.transactions.test_begun_by_hits import BEHIND_HITS, KINDS, LEVELS, READ, go_on
from integration.transactions.test_begun_by_hits import beside as begun_by_hits
from proxy.mysql.wire.packets import COM_FIELD_LIST, COM_INIT_DB, COM_STMT_RESET, ERR

BEGINS = ("BEGIN", "begin work;", "START TRANSACTION", "/* pool */ START TRANSACTION READ ONLY")
beside = begun_by_hits
ENDS = ("COMMIT", "ROLLBACK", "commit work;")


def passed(beside: Beside) -> int:
    return beside.call(lambda: beside.shared.passed)


@pytest.mark.parametrize("autocommit", [1, 0])
@pytest.mark.parametrize("begin", BEGINS)
def test_a_transaction_of_hits_does_not_reach_mysql(beside: Beside, begin: str, autocommit: int) -> None:
    with beside.client() as client:
        client.query(f"SET autocommit = {autocommit}")
        client.query("COMMIT")
        read_until_hit(beside, client, client.query, READ)
        client.query("COMMIT")
        before = passed(beside)
        for end in ENDS:
            client.query(begin)
            for _ in range(3):
                client.query(READ)
                assert last_served(beside, client).startswith("hit")
            client.query(end)
        assert passed(beside) == before
        client.query(begin)
        assert b"once it must answer in it" in client.query("EXPLAIN LAST STATEMENT")


def test_prepared_statements_begin_and_end_it_as_texts_do(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        read, end = client.prepare(READ).id, client.prepare("COMMIT").id
        client.execute(read)
        client.execute(read)
        for _ in range(3):
            client.query("BEGIN")
            client.execute(read)
            client.execute(end)
            client.query("SHOW WARNINGS")
            client.query("SELECT ROW_COUNT()")

    same(beside, script, KINDS)
    with beside.client() as client:
        end = client.prepare("COMMIT").id
        read_until_hit(beside, client, client.query, READ)
        before = passed(beside)
        client.query("BEGIN")
        client.query(READ)
        client.execute(end)
        assert passed(beside) == before


@pytest.mark.parametrize("autocommit", [1, 0])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", list(BEHIND_HITS))
def test_behind_it_as_behind_begin_at_mysql(beside: Beside, name: str, level: str, autocommit: int) -> None:
    def script(client: RawClient) -> None:
        through = client.socket.getpeername()[1] == beside.port
        client.query(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        client.query(f"SET autocommit = {autocommit}")
        if through:
            read_until_hit(beside, client, client.query, READ)
        client.query("COMMIT")
        client.transcript.clear()
        for begin in BEGINS:
            for hit in (True, False):
                client.query(begin)
                if hit:
                    client.query(READ)
                go_on(client, name, level, autocommit)

    same(beside, script, KINDS)


FIRST = {
    "a transaction": ("BEGIN", "SELECT COUNT(*) FROM other"),
    "table locks": ("LOCK TABLES item READ",),
    "its kind": ("SET TRANSACTION READ ONLY",),
    "a number": ("SET gtid_next = '3e11fa47-71ca-11e1-9e33-c80aa9429562:{number}'",),
    "an XA transaction": ("XA START 'b'", "UPDATE item SET n = n + 1 WHERE id = 2", "XA END 'b'", "XA PREPARE 'b'"),
    "a tracker of transactions": ("SET session_track_transaction_info = 'CHARACTERISTICS'",),
    "a savepoint": ("SET autocommit = 0", "SAVEPOINT a"),
}
AFTER = ("SET gtid_next = 'AUTOMATIC'", "SET autocommit = 1", "XA ROLLBACK 'b'", "UNLOCK TABLES")


@pytest.mark.parametrize("name", list(FIRST))
def test_a_begin_that_does_more_is_for_mysql(beside: Beside, name: str) -> None:
    numbers = count(1)

    def script(client: RawClient) -> None:
        for begin in BEGINS:
            for sql in (*FIRST[name], begin, READ, "SELECT 2", "COMMIT", *AFTER):
                client.query(sql.format(number=next(numbers)), sql)

    same(beside, script, KINDS)


ODD = (
    *("{} /* /* x */", "{} /*", "{} /*!", "/*!50000{}*/", "/*!50000 {}*/", "{} /*!99999 x /* y */ */"),
    *("{} /*! /* x */ */", "{};;", "{}; ;", "{}\0", "{} -- x", "{} --x", "{}; -- x", "{}\x0b", "({})"),
    *("{} /*+ x */", "{} /*/"),
)  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_text_is_what_it_is_at_mysql(beside: Beside, odd: str) -> None:
    def script(client: RawClient) -> None:
        if client.socket.getpeername()[1] == beside.port:
            read_until_hit(beside, client, client.query, READ)
        client.query("COMMIT")
        client.transcript.clear()
        for text in (ODD[0], odd):
            for begin in BEGINS[2:]:
                client.query(text.format(begin))
                client.query(READ)
                client.query("SHOW WARNINGS")
                client.query("ROLLBACK")
            for end in ENDS[:2]:
                client.query("BEGIN")
                client.query(READ)
                client.query(text.format(end))
                client.query(READ)
                client.query("SHOW WARNINGS")
                client.query("ROLLBACK")
            client.query(text.format(READ))
            client.query(text.format(READ))
            client.query("SHOW WARNINGS")

    same(beside, script, KINDS)


BETWEEN = (
    "", "SET @x = 1", "!fields", "!use", "SELECT 1/0", "SHOW WARNINGS", "NO SYNTAX", "DELETE FROM other WHERE id = 99",
)  # fmt: skip


@pytest.mark.parametrize("between", BETWEEN)
def test_what_mysql_has_found_before_is_found_behind_it(beside: Beside, between: str) -> None:
    def script(client: RawClient) -> None:
        end = client.prepare("COMMIT").id
        client.query("SELECT id FROM item WHERE id > 0 AND n > -5")
        client.query("SELECT 1/0 UNION SELECT 2")
        for _ in range(2):
            client.query("BEGIN")
            client.query("COMMIT")
            client.query("START TRANSACTION READ ONLY")
            client.execute(end)
        if between == "!fields":
            client.command(COM_FIELD_LIST, b"no_such_table\0")
        elif between == "!use":
            client.command(COM_INIT_DB, b"no_such_database")
        elif between:
            client.query(between)
        client.query("SHOW WARNINGS")
        client.query("SELECT FOUND_ROWS()")

    beside.mysql.execute("UPDATE begun_by_hits.item SET n = n + 1 WHERE id = 3")  # and what is new must be waited for
    same(beside, script, KINDS)


@pytest.mark.parametrize("text", ["COMMIT", "ROLLBACK", "SELECT @@autocommit", READ])
def test_pieces_of_a_parameter_that_it_has_not_are_an_error(beside: Beside, text: str) -> None:
    def script(client: RawClient) -> None:
        statement = client.prepare(text).id
        for reset in (True, False):
            for _ in range(3):
                client.execute(statement)
            client.long_data(statement, 0, b"x")
            client.execute(statement)
            for begin in BEGINS:
                client.query(READ)
                client.query(begin)
                client.query(READ)
                client.execute(statement)
                client.query("SHOW WARNINGS")
                client.query("ROLLBACK")
            if reset:
                client.command(COM_STMT_RESET, statement.to_bytes(4, "little"))
        for _ in range(3):
            client.execute(statement)

    same(beside, script, KINDS)


def test_rows_that_it_has_written_are_rolled_back(beside: Beside) -> None:
    with beside.client() as client, beside.direct() as direct:
        read_until_hit(beside, client, client.query, READ)
        for _ in range(3):
            client.query("BEGIN")
            client.query(READ)
            assert client.query("UPDATE item SET n = 11 WHERE id = 1")[4] != ERR
            assert b"\x0211" in client.query(READ)
            client.query("ROLLBACK")
            assert b"\x0210" in direct.query(READ) and b"\x0210" in client.query(READ)


def test_a_client_that_leaves_in_it_leaves_nothing(beside: Beside, mysql: Server) -> None:
    client = beside.client()
    read_until_hit(beside, client, client.query, READ)
    client.query("BEGIN")
    client.query(READ)
    client.close()
    beside.at_rest()
    mysql.execute("SET lock_wait_timeout = 1", "ALTER TABLE begun_by_hits.item COMMENT = 'changed'")
    beside.caught_up()
