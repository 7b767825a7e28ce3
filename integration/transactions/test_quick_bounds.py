"""BEGIN, COMMIT and ROLLBACK that were answered without MySQL before are answered the quick way, and as MySQL answers
them, whatever stands between them."""

from __future__ import annotations

from random import Random

import pytest

from integration.support.proxy_thread import Beside
from integration.support.raw_client import RawClient
from integration.support.same_bytes import same
from integration.support.served import read_until_hit
from integration.transactions.test_begun_by_hits import KINDS, READ
from integration.transactions.test_begun_by_hits import beside as begun_by_hits
from proxy.mysql.session.session import Session
from proxy.mysql.wire.packets import ERR

beside = begun_by_hits
TEXTS = ("BEGIN", "COMMIT", "ROLLBACK", "START TRANSACTION READ ONLY", "COMMIT;")
PREPARED = ("COMMIT", "ROLLBACK", "commit")
STEPS = 60
NOW_AND_THEN = (
    "SELECT ROW_COUNT()", "SELECT FOUND_ROWS()", "SHOW WARNINGS", "SELECT n FROM item LIMIT 1",
    "UPDATE item SET n = n + 1 WHERE id = 2", "SET autocommit = 0", "SET autocommit = 1", "SAVEPOINT s",
    "ROLLBACK TO SAVEPOINT s", "SET completion_type = CHAIN", "SET completion_type = NO_CHAIN", "COMMIT AND CHAIN",
    "SET TRANSACTION READ ONLY", "SET SESSION TRANSACTION READ ONLY", "SET SESSION TRANSACTION READ WRITE",
    "SET session_track_transaction_info = STATE", "SET session_track_transaction_info = OFF",
    "LOCK TABLES item READ",
    "UNLOCK TABLES", "SELECT n FROM item WHERE id = 1 FOR UPDATE", "nonsense",
    "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
)  # fmt: skip


def test_the_second_time_they_take_the_quick_way(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    long_way: list[bytes] = []
    handle = Session.handle

    def handled(session: Session, data: bytes) -> None:
        long_way.append(data)
        handle(session, data)

    monkeypatch.setattr(Session, "handle", handled)
    beside.until(lambda: beside.proxy.app.watch._rights != "")  # when they are first known, all is looked at anew
    with beside.client() as client:
        read, end = (client.prepare(text).id for text in (READ, "COMMIT"))
        for _ in range(2):
            read_until_hit(beside, client, client.query, READ)
            read_until_hit(beside, client, lambda _: client.execute(read), READ)
            for sql in ("BEGIN", READ, "ROLLBACK"):
                client.query(sql)
            client.query("BEGIN")
            client.execute(read)
            client.execute(end)
        del long_way[:]
        for _ in range(3):
            for sql in ("BEGIN", READ, "ROLLBACK"):
                client.query(sql)
            client.query("BEGIN")
            client.execute(read)
            client.execute(end)
        assert long_way == []


def test_one_that_is_closed_is_none(beside: Beside) -> None:
    with beside.client() as client:
        read_until_hit(beside, client, client.query, READ)
        statement = client.prepare("COMMIT").id
        for _ in range(3):
            client.query("BEGIN")
            client.query(READ)
            assert client.execute(statement)[4] == 0
        client.query("BEGIN")
        client.close_statement(statement)
        assert client.execute(statement)[4] == ERR


@pytest.mark.parametrize("seed", range(8))
def test_whatever_stands_between_them(beside: Beside, seed: int) -> None:
    def script(client: RawClient) -> None:
        random = Random(seed)
        statements = [client.prepare(text).id for text in (*PREPARED, READ)]
        for _ in range(STEPS):
            client.query(READ)
            client.execute(statements[-1])
            for _ in range(random.randrange(2, 9)):
                number = random.randrange(len(PREPARED))
                match random.choice(["text"] * 4 + ["execute"] * 4 + ["read"] * 4 + ["else", "closed", "piece"]):
                    case "text":
                        client.query(random.choice(TEXTS))
                    case "execute":
                        client.execute(statements[number])
                    case "read":
                        client.query(READ)
                    case "else":
                        client.query(random.choice(NOW_AND_THEN))
                    case "closed" if random.random() < 0.3:
                        client.close_statement(statements[number])
                        statements[number] = client.prepare(PREPARED[number]).id
                    case "piece" if random.random() < 0.3:
                        client.long_data(statements[number], 0, b"x")
                        client.execute(statements[number])
                        client.reset_statement(statements[number])
        client.query("UNLOCK TABLES")
        client.query("ROLLBACK")

    same(beside, script, KINDS)
    beside.mysql.execute("UPDATE begun_by_hits.item SET n = 20 WHERE id = 2")
    beside.caught_up()
