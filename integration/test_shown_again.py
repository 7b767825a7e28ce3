"""A REPEATABLE READ transaction is shown again what it was shown, though the cache is gone that it came from.

Hits hold no lock on their table by which MySQL would keep a DDL statement waiting. And a cache may be dropped
or planned again at any moment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from integration.mysql_server import Server
from integration.oracle.asker import Asker, asker_beside
from integration.oracle.trees import Spelled, integer, string
from proxy.mysql.reads import AGAIN

WAYS = {
    "dropped": "DROP CACHE c",
    "altered": "ALTER TABLE t ADD COLUMN more INT FIRST",
    "swapped": "RENAME TABLE t TO old, other TO t",
    "gone": "DROP TABLE t",
}


@pytest.fixture(scope="module")
def asker(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    with asker_beside(mysql, f"t{os.getpid()}_again", Path(tmp_path_factory.mktemp("state"))) as found:
        yield found


@pytest.fixture
def cached(asker: Asker) -> Iterator[Asker]:
    """A cache of a table `t`, and another table with the same columns."""
    asker.drop_caches()
    asker.new_database()
    asker.run([f"CREATE TABLE {name} (id INT PRIMARY KEY, s VARCHAR(9))" for name in ("t", "other")])
    asker.run(["INSERT INTO t VALUES (1, 'a'), (2, 'b')", "INSERT INTO other VALUES (1, 'x')"])
    asker.wait()
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


def until_hit(asker: Asker, text: str, values: Sequence[Spelled] | None) -> None:
    for _ in range(100):
        asker.ask("through", text, values)
        if asker.served()[0] == "hit":
            return
    pytest.fail(f"never a hit: {asker.served()}")


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_the_same_read_has_the_same_answer(cached: Asker, way: str, bound: bool) -> None:
    asker = cached
    text, values = (READ, [integer(1)]) if bound else ("SELECT * FROM t WHERE id = 1", None)
    until_hit(asker, text, values)
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
    until_hit(asker, text, None)
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
    until_hit(asker, READ, [integer(1)])
    session = asker.session("through")
    session.query("BEGIN")
    asker.ask("through", READ, [integer(1)])
    change(asker, "DROP CACHE c")
    asker.ask("through", READ, [string("1")])
    assert asker.served()[0] == "passed"
    asker.ask("through", READ, [integer(1)])
    assert asker.served() == ("hit", AGAIN)
    session.query("ROLLBACK")
