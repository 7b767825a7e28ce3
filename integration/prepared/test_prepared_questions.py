"""What a session asks about itself by a prepared statement is told byte by byte as MySQL tells it, and mostly without
MySQL. MySQL resolves such a text as it is prepared, so what the session was like then counts, too."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.logins.login_settings import LOGINS, Login
from integration.protocol.test_hits_same_bytes import KINDS, comparable
from integration.servers.mysql_server import Server
from integration.sessions.test_session_questions import ANSWERED_TEXTS, JAVA, PASSED_TEXTS, READ, STATES, logged_in
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import Prepared, RawClient
from integration.support.served import Reads, last_served
from proxy.mysql.wire.packets import ERR

TEXTS = tuple(text for text in ANSWERED_TEXTS if not text.lower().startswith("show"))
MYSQLS = tuple(text for text in (*PASSED_TEXTS, "SHOW VARIABLES LIKE 'sql_mode'") if text != "SELECT no_such")
ROW_COUNT = "SELECT ROW_COUNT()"  # MySQL may be asked what the session is like ahead of a COM_STMT_PREPARE
READ_ONLY_CURSOR = 1


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = f"t{os.getpid()}_prepared_questions"
    mysql.execute(f"CREATE DATABASE {database}2")
    state = Path(tmp_path_factory.mktemp("state"))
    statements = (
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)",
        "CREATE PROCEDURE m() SET SESSION sql_mode = 'ANSI_QUOTES', time_zone = '+03:00', foreign_key_checks = 0",
        "CREATE PROCEDURE f() BEGIN SET SESSION foreign_key_checks = 0; SIGNAL SQLSTATE '45000'; END",
        "CREATE FUNCTION zsets() RETURNS INT DETERMINISTIC BEGIN SET SESSION wait_timeout = 9999; RETURN 1; END",
    )
    with beside_database(mysql, database, state, *statements) as found:
        with found.client() as client:
            client.query("CREATE CACHE FROM SELECT id FROM t WHERE id = ?")
        yield found
    mysql.execute(*(f"DROP DATABASE IF EXISTS {database}{each}" for each in ("2", "3")))


def executed(client: RawClient, statement: Prepared) -> object:
    return comparable(client, client.execute(statement.id))


def both(direct: RawClient, through: RawClient, text: str) -> tuple[Prepared, Prepared]:
    """The statement at MySQL and through the proxy, announced alike."""
    prepared = direct.prepare(text), through.prepare(text)
    assert direct.transcript[-1] == through.transcript[-1], text
    return prepared


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_second_execution_is_not_mysqls(beside: Beside, kind: str) -> None:
    with beside.direct(capabilities=KINDS[kind]) as direct, beside.client(capabilities=KINDS[kind]) as through:
        for text in TEXTS:
            of_direct, of_through = both(direct, through, text)
            reads = Reads("answered")
            while True:
                assert executed(direct, of_direct) == executed(through, of_through), text
                if reads.done(last_served(beside, through)):
                    break
            assert comparable(direct, direct.query("SELECT FOUND_ROWS()")) == comparable(
                through, through.query("SELECT FOUND_ROWS()")
            ), text
            of_direct, of_through = both(direct, through, text)
            assert executed(direct, of_direct) == executed(through, of_through), text
            assert last_served(beside, through).startswith("answered"), f"another statement of {text}"
        for text in MYSQLS:
            of_direct, of_through = both(direct, through, text)
            for _ in range(0 if of_direct.error else 2):
                assert executed(direct, of_direct) == executed(through, of_through), text
                assert last_served(beside, through).startswith("passed"), text


@pytest.mark.parametrize("login", LOGINS, ids=lambda login: login.name)
def test_however_a_session_has_logged_in(beside: Beside, login: Login) -> None:
    kind = random.Random(login.name).choice(list(KINDS))
    for _ in range(2):
        with logged_in(beside.direct, login, kind) as direct, logged_in(beside.client, login, kind) as through:
            for text in (*random.Random(login.name).sample(TEXTS, 8), JAVA):
                of_direct, of_through = both(direct, through, text)
                for _ in range(2):
                    assert executed(direct, of_direct) == executed(through, of_through), text


def test_an_error_of_the_session_costs_one_question(beside: Beside) -> None:
    """Behind it the session is not known; MySQL is asked once what it is like, not at each execution."""
    with beside.client() as client:
        statement = client.prepare("SELECT 1")
        reads = Reads("answered")
        while not reads.done((client.execute(statement.id), last_served(beside, client))[1]):
            pass
        assert client.query("SELECT * FROM no_such")[4] == ERR
        client.execute(statement.id)
        client.execute(statement.id)
        assert last_served(beside, client).startswith("answered")


def test_a_cursor_and_what_follows_it_are_mysqls(beside: Beside) -> None:
    with beside.direct() as direct, beside.client() as through:
        of_direct, of_through = both(direct, through, "SELECT 1, @@sql_mode")
        for flags in (0, 0, READ_ONLY_CURSOR, 0, 0, READ_ONLY_CURSOR):
            answers = [
                comparable(client, client.execute(statement.id, flags=flags))
                for client, statement in ((direct, of_direct), (through, of_through))
            ]
            assert answers[0] == answers[1]
            assert not flags or last_served(beside, through).startswith("passed")
        assert direct.fetch(of_direct.id, 5)[4:] == through.fetch(of_through.id, 5)[4:]
        assert executed(direct, of_direct) == executed(through, of_through)


@pytest.mark.parametrize("seed", range(1, 25))
def test_in_whatever_state_a_session_is(beside: Beside, seed: int) -> None:
    """Statements outlive changes of what the session is like, and come back to what it was like before."""
    rng = random.Random(seed)
    kind = rng.choice(list(KINDS))
    database = beside.proxy.database
    texts = [*rng.sample(TEXTS, 6), rng.choice([text for text in MYSQLS if text != ROW_COUNT])]
    states = rng.sample([state for state in STATES if state != ROW_COUNT], 10)
    done: list[str] = []
    with beside.direct(capabilities=KINDS[kind]) as direct, beside.client(capabilities=KINDS[kind]) as through:
        held: list[tuple[str, Prepared, Prepared]] = []
        for _ in range(300):
            chance = rng.random()
            if chance < 0.15 or not held:
                text = rng.choice(texts)
                step = f"prepare {text}"
                of_direct, of_through = (client.prepare(text) for client in (direct, through))
                told = f"seed {seed}\n" + "\n".join([*done[-15:], step])
                assert direct.transcript[-1] == through.transcript[-1], told
                if not of_direct.error:
                    held = [*held[-5:], (text, of_direct, of_through)]
                done.append(step)
                continue
            if chance < 0.8:
                text, of_direct, of_through = rng.choice(held)
                step = f"execute {held.index((text, of_direct, of_through))}: {text}"
                answers = [executed(direct, of_direct), executed(through, of_through)]
            else:
                step = READ if chance > 0.95 else rng.choice(states).replace("{db}", database)
                if chance > 0.97:  # as a text it has other rows
                    step = rng.choice(texts)
                answers = [
                    comparable(client, client.query(step.replace("{who}", who)))
                    for who, client in (("direct", direct), ("through", through))
                ]
            done.append(f"{step} [{last_served(beside, through)}]")
            assert answers[0] == answers[1], f"seed {seed}, {kind}\n" + "\n".join(done[-20:])
