"""The tap that MySQL's own tests run through, with a script of our own: it finds a fault that is planted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from integration.mysql_suite.tally import Tally
from integration.mysql_suite.tap import Tap
from integration.oracle.mutants import FAULTS, planted
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import Ended, RawClient
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, CLIENT_QUERY_ATTRIBUTES, ERR

SCRIPT = (
    "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(9)) ENGINE = MyISAM",
    "INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')",
    "SELECT id FROM t WHERE name NOT LIKE 't%'",
    "SET SESSION sql_mode = ''",
    "SELECT name FROM t ORDER BY id DESC LIMIT 2;",
    "UPDATE t SET name = 'ten' WHERE id = 1",
    "SET GLOBAL max_connections = 1",
)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    with proxy_in_thread(mysql, "", tmp_path_factory.mktemp("state"), check="false") as found:
        yield found


@contextmanager
def client_of(tap: Tap, database: str) -> Iterator[RawClient]:
    tap.begin("a test", 60)
    both = CLIENT_DEPRECATE_EOF | CLIENT_QUERY_ATTRIBUTES
    with RawClient("127.0.0.1", tap.port, capabilities=both, database=database) as client:
        yield client


def play(tap: Tap, database: str) -> None:
    with client_of(tap, database) as client:
        for text in SCRIPT:
            assert client.query(text)[4] != ERR, text
        statement = client.prepare("SELECT COUNT(*) FROM t")
        assert client.execute(statement.id)[4] != ERR


def test_reads_are_compared_until_they_are_hits(beside: Beside, database: str) -> None:
    tally = Tally()
    with closing(Tap(beside, tally)) as tap:
        play(tap, database)
    assert not tally.findings and not tap.ended
    assert tally.counts["cached"] == 3 and tally.counts["hit"] >= 4, tally
    assert tally.counts["asked after a change"] == 2
    assert tally.counts["answered OK"] == 1


def test_a_planted_fault_is_found(beside: Beside, database: str, capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    fault = next(fault for fault in FAULTS if fault.name == "NOT LIKE is read as LIKE")
    with planted(fault.plant), closing(Tap(beside, tally)) as tap:
        play(tap, database)
    assert [(found.kind, found.text) for found in tally.findings] == [("rows", SCRIPT[2])]
    printed = capsys.readouterr().out
    assert "only MySQL has" in printed and "INSERT INTO t VALUES" in printed


def test_a_session_that_ends_in_the_middle_is_noted(beside: Beside, mysql: Server, database: str) -> None:
    with closing(Tap(beside, Tally())) as tap, client_of(tap, database) as client:
        number = client.greeting.connection_id
        mysql.execute(f"KILL {number}")
        with pytest.raises(Ended):
            while client.query("SELECT 1 FROM t")[4] in (0, ERR):
                pass
    assert [how for how, _ in tap.ended] == ["ended"]
