"""What drivers and frameworks ask as they log in is told byte by byte as MySQL tells it. Where each part of it can be
known, it is told without MySQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.logins.login_questions import QUESTIONS, Asked
from integration.protocol.test_hits_same_bytes import KINDS, comparable
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.served import Reads, last_served

ANSWERED = [each for each in QUESTIONS if each.answered]
MYSQLS = [each for each in QUESTIONS if not each.answered]


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    state = Path(tmp_path_factory.mktemp("state"))
    with beside_database(mysql, f"t{os.getpid()}_login_questions", state) as found:
        yield found


def origin(asked: Asked) -> str:
    return asked.origin


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("asked", ANSWERED, ids=origin)
def test_what_is_known_is_told_without_mysql(beside: Beside, asked: Asked, kind: str) -> None:
    reads = Reads("answered")
    done = False
    while not done:
        options = {"capabilities": KINDS[kind]}
        with beside.direct(**options) as direct, beside.client(**options) as through:
            expected, found = direct.query(asked.text), through.query(asked.text)
            assert comparable(direct, expected) == comparable(through, found)
            done = reads.done(last_served(beside, through))


@pytest.mark.parametrize("asked", MYSQLS, ids=origin)
def test_what_nobody_tells_of_is_mysqls(beside: Beside, asked: Asked) -> None:
    with beside.direct() as direct, beside.client() as through:
        for _ in range(2):
            expected, found = direct.query(asked.text), through.query(asked.text)
            assert comparable(direct, expected) == comparable(through, found)
            assert last_served(beside, through).startswith("passed")


def test_a_question_is_not_told_what_was_true_before_a_set_global(beside: Beside, mysql: Server) -> None:
    java = next(asked for asked in MYSQLS if "init_connect" in asked.text)
    with beside.client() as through:
        try:
            for value in ("SET @a = 1", "SET @a = 2"):
                mysql.execute(f"SET GLOBAL init_connect = '{value}'")
                assert value.encode() in through.query(java.text)
        finally:
            mysql.execute("SET GLOBAL init_connect = ''")


def test_most_of_what_is_asked_at_logins_is_answered() -> None:
    assert len(ANSWERED) >= 0.85 * len(QUESTIONS)
