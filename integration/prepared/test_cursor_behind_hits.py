"""A cursor behind hits. Where MySQL resolves a statement anew as it opens a cursor, it answers the next execution
without one in a broken way (9.7): its rows never end. A client who executes it without a cursor first does not see
that, so he must not where hits have answered him."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.oracle.trees import VAR_STRING
from integration.protocol.test_hits_same_bytes import KINDS, comparable
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import Prepared, RawClient, bound
from integration.support.served import last_served, read_until_hit
from proxy.mysql.wire.packets import CLIENT_QUERY_ATTRIBUTES, ERR, lenenc

BY_N = "SELECT id FROM item WHERE n = ? ORDER BY id"
ALL = "SELECT id FROM item ORDER BY id"
READ_ONLY_CURSOR = 1
KINDS_OF_CLIENT = {name: kind for name, kind in KINDS.items() if not kind & CLIENT_QUERY_ATTRIBUTES}
INTEGER, STRING = bound((8,), (struct.pack("<q", 10),)), bound((VAR_STRING,), (lenenc(b"10"),))
DECIMAL = bound((0xF6,), (lenenc(b"10.0"),))


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    statements = (
        "CREATE TABLE item (id INT PRIMARY KEY, n INT, KEY (n))",
        "CREATE TABLE other (id INT PRIMARY KEY)",
        "INSERT INTO item VALUES (1, 10), (2, 10), (3, 30)",
    )
    state = Path(tmp_path_factory.mktemp("state"))
    with beside_database(mysql, "cursor_behind_hits", state, *statements, verify_new_caches="off") as found:
        with found.client() as client:
            for query in (BY_N, ALL):
                assert client.query(f"CREATE CACHE FROM {query}")[4] != ERR
        yield found


def altered(beside: Beside) -> None:
    """MySQL resolves statements anew."""
    beside.mysql.execute(f"ALTER TABLE {beside.proxy.database}.item FORCE")
    beside.caught_up()


def nothing(beside: Beside) -> None:
    pass


CASES: dict[str, tuple[str, tuple[bytes, ...], Callable[[Beside], None], bytes]] = {
    # the text; what hits are executed with, MySQL having executed it with the first; what happens then; the cursor's
    "another type": (BY_N, (INTEGER,), nothing, DECIMAL),
    "a type of hits": (BY_N, (STRING,), nothing, STRING),
    "a table that has changed": (BY_N, (INTEGER,), altered, INTEGER),
    "without parameters": (ALL, (b"",), altered, b""),
}


@pytest.mark.parametrize("kind", list(KINDS_OF_CLIENT))
@pytest.mark.parametrize("case", list(CASES))
def test_the_execution_behind_a_cursor_ends(beside: Beside, case: str, kind: str) -> None:
    text, values, happens, last = CASES[case]
    with beside.direct(capabilities=KINDS[kind]) as direct, beside.client(capabilities=KINDS[kind]) as through:
        both: list[tuple[RawClient, Prepared]] = [(client, client.prepare(text)) for client in (direct, through)]
        (_, of_direct), (_, of_through) = both

        def executed(given: bytes, flags: int = 0) -> list[object]:
            found = [comparable(client, client.execute(statement.id, given, flags)) for client, statement in both]
            assert found[0] == found[1]
            return found

        for given in values:
            executed(given)
            read_until_hit(beside, through, through.execute, of_through.id, given)
        happens(beside)
        with beside.client(capabilities=KINDS[kind]) as third:  # by whom it is known how MySQL announces the answer
            read_until_hit(beside, third, third.execute, third.prepare(text).id, last)
        executed(last)
        hit = last_served(beside, through)
        executed(last, READ_ONLY_CURSOR)
        assert direct.fetch(of_direct.id, 5)[5:] == through.fetch(of_through.id, 5)[5:]
        for client, _ in both:
            client.query("BEGIN")
            client.query(f"INSERT INTO other VALUES ({1 + (client is through)})")
        executed(last)
        assert last_served(beside, through).startswith("passed"), hit
        for client, _ in both:
            client.query("ROLLBACK")
        executed(last)
