"""Lists with ORDER BY, DISTINCT or LIMIT that are asked for again and again, in lock step with MySQL: each row's bytes,
by text and prepared, in sessions with other settings and in transactions, while rows change and behind a DDL statement.

What is announced of the columns is not compared: whether MySQL says of one that it is a key depends on its plan."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pytest

from integration.protocol.test_hits_same_bytes import comparable
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient, bound
from integration.support.served import last_served, read_until_hit
from proxy.mysql.wire.packets import lenenc
from proxy.port.api import ParameterValue
from proxy.read.look import Look
from proxy.read.open_cache import OpenCache

TABLE = (
    "CREATE TABLE item (id INT PRIMARY KEY, g INT, name VARCHAR(20), at TIMESTAMP(2) NULL, m DECIMAL(9,2), f DOUBLE,"
    " KEY (g), KEY (name)) DEFAULT CHARSET utf8mb4",
    "INSERT INTO item VALUES "
    + ", ".join(
        f"({n}, {n % 5}, 'nämé {n % 4}', '2024-0{1 + n % 9}-15 12:00:00.5', {n}.25, {-0.0 if n % 3 else n / 3})"
        for n in range(40)
    ),
)
SORTED = "SELECT id, name, at, m, f FROM item WHERE g IN (?, ?, ?) ORDER BY m DESC, id"
QUERIES: dict[str, tuple[object, ...]] = {
    SORTED: (1, 3, 2),
    "SELECT DISTINCT name FROM item WHERE g IN (?, ?) ORDER BY name": (4, 0),
    "SELECT id, at FROM item WHERE g IN (?, ?) ORDER BY at, id LIMIT 3": (1, 2),
    "SELECT id, m FROM item WHERE name IN (?, ?) AND g = ? ORDER BY id DESC": ("NÄMÉ 1", "nämé 2", 1),
    "SELECT id, m FROM item WHERE name IN (?) AND g = ? ORDER BY id DESC": ("nämé 3", 3),
}
SESSIONS = {
    "plain": (),
    "zone": ("SET time_zone = '+05:30'",),
    "mode": ("SET sql_mode = ''",),
    "characters": ("SET character_set_results = latin1", "SET lc_time_names = 'de_DE'"),
}
WRITES = (
    "UPDATE item SET m = m + 100, at = at + INTERVAL 1 DAY WHERE id IN (6, 7)",
    "DELETE FROM item WHERE id = 1",
    "INSERT INTO item VALUES (101, 1, 'nämé 1', '2024-02-02', 7, 0), (102, 77, 'x', NULL, 1, 1)",
    "UPDATE item SET g = 4 WHERE id = 2",
    "UPDATE item SET g = 2 WHERE id = 2",
)


@pytest.fixture
def beside(mysql: Server, tmp_path: Path) -> Iterator[Beside]:
    with beside_database(mysql, f"t{os.getpid()}_kept_lists", tmp_path, *TABLE, verify_new_caches="off") as found:
        with found.client() as client:
            for number, query in enumerate(list(QUERIES)[:4]):
                listed = query.replace("IN (?, ?, ?)", "IN (?)").replace("IN (?, ?)", "IN (?)")
                client.query(f"CREATE CACHE c{number} FROM {listed}")
        yield found


class Session:
    """The same commands at MySQL and through Upwell."""

    def __init__(self, stack: ExitStack, beside: Beside, settings: tuple[str, ...]) -> None:
        self.beside = beside
        self.both = direct, client = stack.enter_context(beside.direct()), stack.enter_context(beside.client())
        self.client = client
        for setting in settings:
            self.do(setting)
        self.prepared = {query: [one.prepare(query).id for one in (direct, client)] for query in QUERIES}

    def do(self, text: str) -> None:
        for one in self.both:
            one.query(text)

    def differing(self, times: int) -> list[str]:
        """What differs, each query as a text and prepared, so often."""
        wrong = []
        for query, values in QUERIES.items():
            texts = [f"'{value}'" if isinstance(value, str) else str(value) for value in values]
            text = query.replace("?", "{}").format(*texts)
            kinds = [0xFD if isinstance(value, str) else 0x08 for value in values]
            given = [lenenc(v.encode()) if isinstance(v, str) else struct.pack("<q", v) for v in values]
            for _ in range(times):
                wanted, found = (shown(one, one.query(text)) for one in self.both)
                executed = zip(self.both, self.prepared[query], strict=True)
                rows = [shown(one, one.execute(number, bound(kinds, given))) for one, number in executed]
                if found != wanted or rows[0] != rows[1]:
                    wrong.append(f"{text}: {last_served(self.beside, self.client)}")
        return wrong

    def hit(self) -> None:
        """Reads one as a text until it is a hit."""
        read_until_hit(self.beside, self.client, lambda: self.client.query(SORTED.replace("?", "{}").format(1, 3, 2)))


def shown(client: RawClient, answer: bytes) -> tuple[object, object]:
    """The rows and the end."""
    _, rows, end = cast(tuple[object, object, object], comparable(client, answer))
    return rows, end


def derived(beside: Beside) -> int:
    return beside.call(lambda: beside.proxy.app.engine.memory.derived)


def write(beside: Beside, text: str) -> None:
    beside.mysql.execute(f"USE `{beside.proxy.database}`", text)
    beside.caught_up()


def test_each_session_has_mysqls_bytes_while_rows_change(beside: Beside) -> None:
    with ExitStack() as stack:
        sessions = {name: Session(stack, beside, settings) for name, settings in SESSIONS.items()}
        for text in ("DO 0", *WRITES):
            write(beside, text)
            for name, session in sessions.items():
                assert session.differing(3) == [], (name, text)
        plain = sessions["plain"]
        plain.hit()
        assert plain.differing(2) == []
        before = derived(beside)
        assert plain.differing(3) == []
        assert derived(beside) == before, "what is kept is derived no more"


def test_a_transaction_is_shown_one_state(beside: Beside) -> None:
    with ExitStack() as stack:
        session, other = Session(stack, beside, ()), Session(stack, beside, ())
        other.hit()
        assert session.differing(4) == other.differing(4) == []
        for isolation in ("REPEATABLE READ", "READ COMMITTED"):
            session.do(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
            for text in WRITES[:1] * 3:
                session.do("START TRANSACTION")
                assert session.differing(2) == []
                write(beside, text)
                assert other.differing(3) == []
                assert session.differing(2) == [], (isolation, text)
                session.do("COMMIT")
                assert session.differing(3) == []


def test_behind_a_ddl_statement_columns_are_the_new_ones(beside: Beside) -> None:
    with ExitStack() as stack:
        session = Session(stack, beside, ())
        session.hit()
        assert session.differing(4) == []
        write(beside, "ALTER TABLE item MODIFY m DECIMAL(12,4), ADD COLUMN more INT FIRST")
        assert session.differing(4) == []
        session.hit()
        write(beside, "UPDATE item SET m = m / 3")
        assert session.differing(4) == []


def test_a_list_that_others_have_pushed_out_is_at_hand_again(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is kept of the cache. The text of another had found it in the place of a key."""
    monkeypatch.setattr("proxy.read.together.MOST_ANSWERS", 1)
    looks = 0
    look = OpenCache.look

    def counted(cache: OpenCache, parameters: Sequence[ParameterValue]) -> Look:
        nonlocal looks
        looks += 1
        return look(cache, parameters)

    monkeypatch.setattr(OpenCache, "look", counted)
    with beside.client() as client:

        def long_ways(*groups: int) -> list[bool]:
            """Of so many reads which took the long way."""
            found = []
            for _ in range(8):
                before = looks
                client.query(SORTED.replace("?", "{}").format(*groups))
                found.append(looks > before)
            return found

        read_until_hit(beside, client, lambda: client.query(SORTED.replace("?", "{}").format(1, 3, 2)))
        for groups in ((1, 3, 2), (4, 3, 2), (1, 3, 2)):
            assert long_ways(*groups)[-2:] == [False, False], groups
