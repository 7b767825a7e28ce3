"""Reads that are too large for a cache, as ORMs write them that join whole tables: each column is named, with an alias.
What such a text is, is told from its tokens. Behind a plain read nothing of the session is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit
from proxy.mysql.session.session import Session
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, ERR

COLUMNS = [f"c{number}" for number in range(60)]
TABLES = (
    f"CREATE TABLE wide (id INT PRIMARY KEY, {', '.join(f'{name} INT' for name in COLUMNS)})",
    "INSERT INTO wide (id, c1) VALUES (1, 1), (2, 2)",
    "CREATE TABLE item (id INT PRIMARY KEY, n INT)",
    "INSERT INTO item VALUES (1, 10)",
    "CREATE FUNCTION hides() RETURNS INT NO SQL BEGIN CREATE TEMPORARY TABLE item (id INT, n INT); RETURN 1; END",
)
NAMED = ", ".join(f"wide.{name} AS t0_r{at}, w2.{name} AS t1_r{at}" for at, name in enumerate(COLUMNS))
LARGE = f"SELECT {NAMED} FROM wide JOIN wide w2 ON w2.id = wide.id WHERE wide.id = {{}}"
HIDING = LARGE.replace("SELECT ", "SELECT hides(), ")
READ = "SELECT n FROM item WHERE id = 1"


@pytest.mark.parametrize("capabilities", [0, None], ids=["eof", "deprecate-eof"])
def test_only_what_may_do_more_is_asked_about(mysql: Server, tmp_path: Path, capabilities: int | None) -> None:
    given = {} if capabilities is None else {"capabilities": capabilities}
    with beside_database(mysql, "large_reads", tmp_path, *TABLES) as beside, beside.client(**given) as client:
        assert client.query("CREATE CACHE FROM SELECT n FROM item WHERE id = ?")[4] != ERR
        read_until_hit(beside, client, client.query, READ)
        (session,) = beside.shared.sessions
        assert isinstance(session, Session)
        state = session.state

        def asked() -> tuple[bool, bool, bool]:
            return beside.call(lambda: (state.known, state.token_known, state.hiding))

        for number in (1, 2):
            answer = client.query(LARGE.format(number))
            assert answer[4] != ERR and str(number).encode() in answer
            assert asked() == (True, True, False)
            assert beside.call(lambda: state.passed), "it may have shown more than the hits before it"
            last = beside.call(lambda: session.context.last_statement)
            assert last is not None and last.served == "passed"
            client.query(READ)
            assert last_served(beside, client) == "hit"
        assert client.query(HIDING.format(1))[4] != ERR
        assert asked()[2], "what it calls may do anything"
        with beside.direct() as direct:
            assert direct.query(READ) != (hidden := client.query(READ)), "the temporary table is empty"
        assert b"\x0210" not in hidden
        assert "temporary table" in last_served(beside, client)


@pytest.mark.parametrize("mark", ["-- ", "#"])
def test_what_stands_between_quotes_of_comments_is_no_literal(mysql: Server, tmp_path: Path, mark: str) -> None:
    """To who cuts texts at their quotes these two differ in a literal alone."""
    harmless, hiding = (
        f"SELECT {NAMED} FROM wide JOIN wide w2 ON w2.id = wide.id {mark}'\n WHERE wide.id = {given} {mark}'\n"
        for given in ("1", "hides()")
    )
    with beside_database(mysql, "large_reads", tmp_path, *TABLES) as beside, beside.client() as client:
        assert client.query("CREATE CACHE FROM SELECT n FROM item WHERE id = ?")[4] != ERR
        read_until_hit(beside, client, client.query, READ)
        assert client.query(harmless)[4] != ERR
        assert client.query(hiding)[4] != ERR
        assert b"\x0210" not in client.query(READ), "the temporary table is empty"
        assert "temporary table" in last_served(beside, client)


@pytest.mark.parametrize("capabilities", [0, CLIENT_DEPRECATE_EOF], ids=["eof", "deprecate-eof"])
@pytest.mark.parametrize("named", [NAMED, "wide.c1 AS a"], ids=["large", "small"])
def test_a_literal_that_mysql_refuses_stands_for_no_comment(
    mysql: Server, tmp_path: Path, named: str, capabilities: int
) -> None:
    """`f 5 ()` is no query, and `f /* */ ()` calls a function. Both are cut alike."""
    refused = f"SELECT {named}, hides 5 () AS h FROM wide JOIN wide w2 ON w2.id = wide.id WHERE wide.id = 1"
    with (
        beside_database(mysql, "large_reads", tmp_path, *TABLES) as beside,
        beside.client(capabilities=capabilities) as client,
    ):
        assert client.query("CREATE CACHE FROM SELECT n FROM item WHERE id = ?")[4] != ERR
        with beside.client() as other:
            assert other.query(refused)[4] == ERR
        read_until_hit(beside, client, client.query, READ)
        assert client.query(refused.replace(" 5 ", " /* x */ "))[4] != ERR
        assert b"\x0210" not in client.query(READ), "the temporary table is empty"


def test_its_cost_is_paid_once(mysql: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that differ in their literals alone are one to it."""
    with beside_database(mysql, "large_reads", tmp_path, *TABLES) as beside, beside.client() as client:
        client.query(LARGE.format(1))
        route = beside.call(lambda: beside.shared.texts.route(LARGE.format(9).encode(), "large_reads"))
        assert route.large and route.effects.simple
        classified: list[str] = []
        monkeypatch.setattr("proxy.mysql.session.known_texts.classify", lambda sql, version: classified.append(sql))
        _read(client)
        assert not classified


def _read(client: RawClient) -> None:
    for number in (1, 2, 3):
        assert client.query(LARGE.format(number))[4] != ERR
