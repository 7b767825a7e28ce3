"""A REPEATABLE READ transaction is shown again what it was shown, though the cache is gone that it came from.

Hits hold no lock on their table by which MySQL would keep a DDL statement waiting. And a cache may be dropped
or planned again at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from integration.oracle.answers import Answer, parse
from integration.oracle.asker import Asker
from integration.oracle.trees import Spelled, integer, payload, string
from integration.support.raw_client import Prepared, RawClient
from proxy.mysql.reads.gate import AGAIN
from proxy.mysql.session.session import Session
from proxy.mysql.text.own_sql_syntax import LastStatement
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS, lenenc, packet

WAYS = {
    "dropped": "DROP CACHE c",
    "altered": "ALTER TABLE t ADD COLUMN more INT FIRST",
    "swapped": "RENAME TABLE t TO old, other TO t",
    "gone": "DROP TABLE t",
}


@pytest.fixture
def cached(asker: Asker) -> Iterator[Asker]:
    """A cache of a table `t`, and another table with the same columns."""
    asker.beside.until(lambda: asker.beside.shared.system.accounts.version > 0)  # the first look at rights
    asker.begin([
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY, s VARCHAR(9))" for name in ("t", "other")),
        *("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "INSERT INTO other VALUES (1, 'x')"),
    ])  # fmt: skip
    asker.create_cache("c", READ)
    yield asker
    asker.session("through").query("ROLLBACK")  # it may hold locks on the tables


READ = "SELECT * FROM t WHERE id = ?"


def change(asker: Asker, statement: str) -> None:
    if "CACHE" in statement:
        asker.session("through").query(statement)
    else:
        asker.run([statement])
    asker.wait()


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_the_same_read_has_the_same_answer(cached: Asker, way: str, bound: bool) -> None:
    asker = cached
    text, values = (READ, [integer(1)]) if bound else ("SELECT * FROM t WHERE id = 1", None)
    asker.until_hit(text, values)
    session = asker.session("through")
    session.query("BEGIN")
    shown = asker.ask("through", text, values)
    assert asker.served()[0] == "hit" and len(shown.rows) == 1
    change(asker, "UPDATE t SET s = 'later'")
    change(asker, WAYS[way])
    for _ in range(2):
        found = asker.ask("through", text, values)
        assert (found.rows, found.columns, asker.served()) == (shown.rows, shown.columns, ("hit", AGAIN))
    assert asker.ask("through", "SELECT * FROM t WHERE id = 2", None).rows != shown.rows, "it was not shown"
    session.query("COMMIT")
    now = asker.ask("through", text, values)
    wanted = asker.ask("direct", text, values)
    assert (now.rows, now.errno) == (wanted.rows, wanted.errno)


@pytest.mark.parametrize("between", ["UPDATE t SET s = 'own' WHERE id = 1", "SET NAMES latin1", "COMMIT", "USE mysql"])
def test_it_is_not_shown_to_who_has_become_another(cached: Asker, between: str) -> None:
    """What MySQL says now is the answer: to a transaction that has written, to other settings, to another one."""
    asker = cached
    text = "SELECT * FROM t WHERE id = 1"
    asker.until_hit(text)
    session = asker.session("through")
    session.query("BEGIN")
    asker.ask("through", text, None)
    assert asker.served()[0] == "hit"
    change(asker, "DROP CACHE c")
    try:
        session.query(between)
        asker.ask("through", text, None)
        assert asker.served()[0] == "passed"
    finally:
        for back in ("ROLLBACK", "SET NAMES utf8mb4", f"USE `{asker.database}`"):
            session.query(back)


def test_a_value_of_another_type_is_another_read(cached: Asker) -> None:
    asker = cached
    asker.until_hit(READ, [integer(1)])
    session = asker.session("through")
    session.query("BEGIN")
    asker.ask("through", READ, [integer(1)])
    change(asker, "DROP CACHE c")
    asker.ask("through", READ, [string("1")])
    assert asker.served()[0] == "passed"
    asker.ask("through", READ, [integer(1)])
    assert asker.served() == ("hit", AGAIN)
    session.query("ROLLBACK")


def answered(session: RawClient, statement: Prepared, *values: Spelled) -> Answer:
    session.write(packet(session.execution(statement.id, payload(values)), 0))
    return parse(session.result(), binary=True)


def client(asker: Asker, name: str, **options: object) -> RawClient:
    """A session to the proxy, the only one, or to MySQL."""
    for session in asker.sessions.values():
        session.close()
    asker.sessions.clear()
    asker.prepared = {"direct": {}, "through": {}}
    make = asker.beside.client if name == "through" else asker.beside.direct
    return make(database=asker.database, **options)


def warm(asker: Asker, ask: Callable[[], object]) -> None:
    for _ in range(100):
        ask()
        if any(last.served == "hit" for last in lasts(asker)):
            return
    pytest.fail("never a hit")


def lasts(asker: Asker) -> list[LastStatement]:
    found = [session.context.last_statement for session in asker.beside.shared.sessions]
    return [last for last in found if last is not None]


def test_equal_texts_prepared_in_two_databases_are_two_reads(cached: Asker) -> None:
    asker = cached
    other = f"{asker.database}2"
    asker.run([f"CREATE DATABASE {other}", f"CREATE TABLE {other}.t SELECT 1 AS id, 'other' AS s"])
    try:
        with client(asker, "through") as session:
            session.use(other)
            second = session.prepare(READ)
            session.use(asker.database)
            first = session.prepare(READ)
            warm(asker, lambda: answered(session, first, integer(1)))
            session.query("BEGIN")
            assert b"a" in answered(session, first, integer(1)).rows[0]
            assert b"other" in answered(session, second, integer(1)).rows[0]
    finally:
        asker.run([f"DROP DATABASE {other}"])


@pytest.mark.parametrize("before", ["sql_mode", "number", "character set"])
def test_what_mysql_resolved_otherwise_is_another_read(cached: Asker, before: str) -> None:
    """Of two statements with one text: for one MySQL goes on by a setting or by a type that was bound before."""
    asker = cached
    text = "SELECT id, s || 'x' FROM other WHERE s = ?"
    asker.run(["INSERT INTO other VALUES (5, '1'), (6, '01'), (7, '\u00e9')"])
    asker.wait()
    asker.create_cache("d", text)
    value = string("\u00e9" if before == "character set" else "1")
    bare = b"\0\0" + lenenc("\u00e9".encode())  # without types: they were bound before
    found = {}
    for name in ("direct", "through"):
        with client(asker, name) as session:
            if before == "sql_mode":
                session.query("SET sql_mode = 'PIPES_AS_CONCAT'")
            odd = session.prepare(text)
            if before == "sql_mode":
                session.query("SET sql_mode = DEFAULT")
            elif before == "number":
                answered(session, odd, integer(1))
            else:
                session.query("SET NAMES latin1")
                answered(session, odd, string("x"))
                session.query("SET NAMES utf8mb4")
            plain = session.prepare(text)
            if name == "through":
                warm(asker, lambda: answered(session, plain, value))  # noqa: B023
            session.query("BEGIN")
            answered(session, plain, value)
            if name == "through":
                assert lasts(asker)[0].served == "hit"
                session.query("DROP CACHE d")
            if before == "character set":
                session.write(packet(session.execution(odd.id, bare), 0))
                found[name] = parse(session.result(), binary=True).rows
            else:
                found[name] = answered(session, odd, value).rows
    assert found["through"] == found["direct"]


def test_few_executions_are_kept_from_mysql(cached: Asker) -> None:
    asker = cached
    with client(asker, "through") as session:
        statement = session.prepare(READ)
        warm(asker, lambda: answered(session, statement, integer(1)))
        session.query("BEGIN")
        answered(session, statement, integer(1))
        session.query("DROP CACHE c")
        for _ in range(20):
            answered(session, statement, integer(1))
            answered(session, statement, string("1"))
        (own,) = asker.beside.shared.sessions
        assert isinstance(own, Session)
        for each in own.statements.values():
            asker.beside.call(each.bound.check_invariants)


def test_an_open_cursor_is_closed(cached: Asker) -> None:
    asker = cached
    found = {}
    for name in ("direct", "through"):
        with client(asker, name) as session:
            statement = session.prepare(READ)
            if name == "through":
                warm(asker, lambda: answered(session, statement, integer(1)))  # noqa: B023
            session.query("BEGIN")
            answered(session, statement, integer(1))
            if name == "through":
                session.query("DROP CACHE c")
            session.execute(statement.id, payload([integer(1)]), 1)
            answered(session, statement, integer(1))
            session.fetch(statement.id, 5)
            found[name] = session.transcript[-1][1]
    assert found["through"] == found["direct"]


@pytest.mark.parametrize("way", ["role", "use"])
def test_rights_that_are_lost_end_it(cached: Asker, way: str) -> None:
    asker = cached
    user, role = f"u_{asker.database}", f"r_{asker.database}"
    asker.run([
        *(f"CREATE {kind} {name}" for kind, name in (("USER", user), ("ROLE", role))),
        f"GRANT INSERT ON {asker.database}.* TO {user}",
        f"GRANT SELECT ON {asker.database}.* TO {role if way == 'role' else user}",
        f"GRANT {role} TO {user}", f"SET DEFAULT ROLE ALL TO {user}",
    ])  # fmt: skip
    asker.wait()
    text = "SELECT * FROM t WHERE id = 1"
    try:
        with client(asker, "through", user=user) as session:
            warm(asker, lambda: session.query(text))
            if way == "use":
                change(asker, f"REVOKE SELECT ON {asker.database}.* FROM {user}")
                session.query(text)
            session.query("BEGIN")
            session.query(text)
            session.query("SET ROLE NONE" if way == "role" else f"USE {asker.database}")
            assert parse(session.query(text), binary=False).errno == REFUSED
    finally:
        asker.run([f"DROP USER {user}", f"DROP ROLE {role}"])


REFUSED = 1142  # MySQL's error: SELECT command denied


def test_long_texts_of_one_read_take_little_memory(cached: Asker) -> None:
    asker = cached
    with client(asker, "through") as session:
        warm(asker, lambda: session.query("SELECT * FROM t WHERE id = 1"))
        session.query("BEGIN")
        for number in range(20):
            session.query(f"SELECT * FROM t /* {number:10000} */ WHERE id = 1")
        (own,) = asker.beside.shared.sessions
        assert isinstance(own, Session)
        said = own.context.shown.said
        assert said and max(len(digest) for digest, *_ in said) <= 16


BOTH = CLIENT_DEPRECATE_EOF | CLIENT_MULTI_STATEMENTS
ENDS = (
    *("COMMIT", "ROLLBACK AND CHAIN", "BEGIN", "COMMIT; DO 1", "DO 1; COMMIT", "COMMIT; BEGIN", "CALL ends()"),
    *("DO 1; COMMIT; BEGIN", "SAVEPOINT a; ROLLBACK; BEGIN", "EXECUTE s", "CALL begins()"),
    *("SET autocommit = 1; SET autocommit = 0", "LOCK TABLES other READ; UNLOCK TABLES", "FLUSH TABLES"),
    *("CREATE TABLE other (id INT)", "ALTER TABLE nope ADD x INT", "RENAME TABLE nope TO nope2"),
    *("CREATE USER root@localhost", "ALTER EVENT nope DISABLE", "INSTALL PLUGIN x SONAME 'x'"),
    *("CACHE INDEX other IN nope", "SET autocommit = 0", "SET autocommit = 1", "SAVEPOINT a"),
    *("SELECT no_such", "SET @x = 1", "SET @x = 1; SELECT 1"),
)  # fmt: skip


@pytest.mark.parametrize("begin", ["BEGIN", "SET autocommit = 0"])
@pytest.mark.parametrize("end", ENDS)
def test_what_was_shown_ends_with_its_transaction(cached: Asker, begin: str, end: str) -> None:
    """Whatever ends it; and it is shown again where nothing has."""
    asker = cached
    text = "SELECT * FROM t WHERE id = 1"
    asker.run(["CREATE PROCEDURE ends() COMMIT", "CREATE PROCEDURE begins() BEGIN COMMIT; START TRANSACTION; END"])
    with client(asker, "direct", capabilities=BOTH) as direct, client(asker, "through", capabilities=BOTH) as through:
        warm(asker, lambda: through.query(text))
        for session in (direct, through):
            session.query("PREPARE s FROM 'COMMIT'")
            session.query(begin)
            session.query(text)
        change(asker, "UPDATE t SET s = 'later'")
        found = []
        for session in (direct, through):
            session.query(end)
            found.append(parse(session.query(text), binary=False).rows)
            session.query("ROLLBACK")
        assert found[1] == found[0]
