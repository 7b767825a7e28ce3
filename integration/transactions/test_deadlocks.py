"""A deadlock ends a transaction in which hits were given: what they have shown it ends with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from time import monotonic

import pytest

from integration.oracle.asker import Asker
from integration.sessions.session_commands import results
from integration.support.raw_client import RawClient
from integration.support.served import LIMIT, last_served, read_until_hit
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, ERR, parse_error
from proxy.planning import announced

READ = "SELECT id, g FROM t WHERE g = 1"
TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, g INT, KEY (g))",
    "INSERT INTO t VALUES (1, 1), (2, 1), (3, 1), (4, 2)",
    "CREATE TABLE w (id INT PRIMARY KEY, n INT)",
    "INSERT INTO w VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)",
    "CREATE TABLE w2 (id INT PRIMARY KEY)",
)
NAME_WAITS = (
    "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata%' AND id = {}"
)
ROW_WAITS = (  # information_schema.innodb_trx is not looked up anew for who asks more often than each 0.1 s
    "SELECT COUNT(*) > 0 FROM performance_schema.data_lock_waits JOIN performance_schema.threads"
    " ON thread_id = requesting_thread_id WHERE processlist_id = {}"
)


@contextmanager
def waiting(asker: Asker, other: RawClient, sql: str, waits: str) -> Iterator[None]:
    """A statement of the other session that waits until this one lets go."""
    thread = Thread(target=other.query, args=(sql,))
    thread.start()
    try:
        number = other.greeting.connection_id
        limit = monotonic() + LIMIT
        while asker.beside.mysql.execute(waits.format(number)) != ((1,),):
            assert monotonic() < limit, f"it does not wait: {sql}"
        yield
    finally:
        thread.join()


def over_names(asker: Asker, session: RawClient, other: RawClient) -> bytes:
    """The session reads w2, and w at last. The other drops both."""
    session.query("SELECT * FROM w2")
    with waiting(asker, other, "DROP TABLE w, w2", NAME_WAITS):
        return session.query("SELECT * FROM w")


def over_rows(asker: Asker, session: RawClient, other: RawClient) -> bytes:
    """The session writes one row, and at last one of those of which the other has written many."""
    session.query("UPDATE w SET n = n + 1 WHERE id = 1")
    other.query("BEGIN")
    other.query("UPDATE w SET n = n + 1 WHERE id > 1")
    try:
        with waiting(asker, other, "UPDATE w SET n = n + 1 WHERE id = 1", ROW_WAITS):
            return session.query("UPDATE w SET n = n + 1 WHERE id = 6")
    finally:
        other.query("COMMIT")


@pytest.mark.parametrize("capabilities", [0, CLIENT_DEPRECATE_EOF])
@pytest.mark.parametrize("begin", ["BEGIN", "SET autocommit = 0"])
@pytest.mark.parametrize("deadlock", [over_names, over_rows])
def test_what_hits_have_shown_ends_with_the_transaction(
    asker: Asker, deadlock: Callable[[Asker, RawClient, RawClient], bytes], begin: str, capabilities: int
) -> None:
    found = {}
    for name in ("direct", "through"):
        asker.begin(TABLES)
        if name == "through":
            asker.create_cache("c", "SELECT id, g FROM t WHERE g = ?")
        make = asker.beside.direct if name == "direct" else asker.beside.client
        with (
            make(database=asker.database, capabilities=capabilities) as session,
            asker.beside.direct(database=asker.database) as other,
        ):
            if name == "through":
                read_until_hit(asker.beside, session, session.query, READ)
            session.query(begin)
            shown = session.query(READ)
            assert name == "direct" or last_served(asker.beside, session).startswith("hit")
            error = deadlock(asker, session, other)
            assert error[4] == ERR and parse_error(error[4:]).errno == 1213
            other.query("DELETE FROM t WHERE id = 1")
            asker.wait()
            again = session.query(READ)
            assert len(again) < len(shown)
            answers = again, session.query("COMMIT"), session.query(READ)
            found[name] = [results(session, answer) for answer in answers]
    assert found["through"] == found["direct"]


def test_who_asks_why_no_cache_matches_does_not_wait_for_whom_it_holds_up(asker: Asker) -> None:
    """A transaction has read the table, a DDL statement waits for it, and what looks whether the query can be cached
    waits for the DDL statement: the transaction goes on without having been told."""
    asker.begin(TABLES)
    with (
        asker.beside.client(database=asker.database) as session,
        asker.beside.direct(database=asker.database) as other,
    ):
        other_number = other.greeting.connection_id
        session.query("BEGIN")
        session.query("SELECT n FROM w WHERE id = 1")
        with waiting(asker, other, "RENAME TABLE w TO w3", NAME_WAITS):
            assert b"no cache matches" in session.query("EXPLAIN LAST STATEMENT")
            assert asker.beside.mysql.execute(NAME_WAITS.format(other_number)) == ((1,),)
            session.query("COMMIT")


@pytest.mark.parametrize("own", ["SHOW PROXIED QUERIES", "CREATE CACHE FROM SELECT n FROM w WHERE id = ?"])
def test_what_a_transaction_asks_upwell_ends_while_ddl_waits_for_the_transaction(
    asker: Asker, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ask MySQL how it reads a query of a table that the transaction has read, and is to be renamed."""
    monkeypatch.setattr(announced, "PATIENCE", 4.0)
    asker.begin(TABLES)
    with (
        asker.beside.client(database=asker.database) as session,
        asker.beside.direct(database=asker.database) as other,
    ):
        session.query("BEGIN")
        session.query("SELECT n FROM w WHERE id = 1")
        with waiting(asker, other, "RENAME TABLE w TO w3", NAME_WAITS):
            assert b"MySQL has not prepared the query within" in session.query(own)
            assert asker.beside.mysql.execute(NAME_WAITS.format(other.greeting.connection_id)) == ((1,),)
            asker.create_cache("c", "SELECT id, g FROM t WHERE g = ?")  # nobody else waits
            session.query("COMMIT")
