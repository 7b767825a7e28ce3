"""Savepoints, and kinds of transactions that are changed in one, beside hits: each answer and its status flags are
those that the same session has directly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.oracle.answers import parse
from integration.oracle.asker import Asker
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS

R = "SELECT id, s FROM t WHERE id = 1"
PASSED = "SELECT s FROM t WHERE id = 1 LIMIT 9"
OUTSIDE = "UPDATE t SET s = 'later' WHERE id = 1"


@pytest.fixture
def cached(asker: Asker) -> Iterator[Asker]:
    asker.begin([
        "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9))",
        "CREATE TABLE w (id INT PRIMARY KEY)",
    ])  # fmt: skip
    yield asker


def played(asker: Asker, steps: list[str]) -> dict[str, list[tuple[int, bytes, object]]]:
    """By session: errno, status flags of the end, rows. A step that begins with "! " is another session's."""
    found: dict[str, list[tuple[int, bytes, object]]] = {}
    for name in ("direct", "through"):
        asker.run(["REPLACE INTO t VALUES (1, '1'), (2, '2')", "DELETE FROM w"])
        asker.wait()
        if name == "through":
            asker.create_cache("c", "SELECT id, s FROM t WHERE id = ?")
        make = asker.beside.direct if name == "direct" else asker.beside.client
        with make(database=asker.database, capabilities=CLIENT_DEPRECATE_EOF | CLIENT_MULTI_STATEMENTS) as client:
            for _ in range(100):
                client.query(R)
                if name == "direct" or asker.served()[0] == "hit":
                    break
            out = found[name] = []
            for step in steps:
                if step.startswith("! "):
                    assert not asker.run([step[2:]])
                    asker.wait()
                    continue
                data = client.query(step)
                answer = parse(data, binary=False)
                status = b"" if answer.errno else (data[-4:-2] if answer.definitions else data[7:9])
                out.append((answer.errno, status, answer.rows))
    return found


BEGINS = ["SET autocommit = 0", "SELECT COUNT(*) FROM w"]


@pytest.mark.parametrize("begin", ["BEGIN", "SET autocommit = 0"])
@pytest.mark.parametrize("first", ["SELECT COUNT(*) FROM w", R])
def test_a_read_only_session_writes(cached: Asker, begin: str, first: str) -> None:
    """SET SESSION TRANSACTION in a transaction that SET autocommit = 1 ends: MySQL takes the new characteristics over
    at the end of the next statement, which a hit keeps from it. The UPDATE must be refused (1792)."""
    steps = ["SET autocommit = 0", first, "SET SESSION TRANSACTION READ ONLY", "SET autocommit = 1", R, begin]
    steps += ["SELECT COUNT(*) FROM w", "INSERT INTO w VALUES (1)", "ROLLBACK"]
    found = played(cached, steps)
    assert found["through"] == found["direct"]


def test_repeatable_read_is_not_repeatable(cached: Asker) -> None:
    """The same, with the isolation level: MySQL goes on with READ COMMITTED in a session of REPEATABLE READ."""
    steps = ["SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", *BEGINS]
    steps += ["SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SET autocommit = 1", R]
    steps += ["BEGIN", PASSED, f"! {OUTSIDE}", PASSED, "COMMIT"]
    found = played(cached, steps)
    assert found["through"] == found["direct"]


def test_hits_by_the_level_that_mysql_has_not_taken_over(cached: Asker) -> None:
    """No hit in between: MySQL's transaction is still REPEATABLE READ, hits go by READ COMMITTED."""
    steps = [*BEGINS, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET autocommit = 1"]
    steps += ["BEGIN", R, f"! {OUTSIDE}", R, "COMMIT"]
    found = played(cached, steps)
    assert found["through"] == found["direct"]


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize("end", ["ROLLBACK TO SAVEPOINT a", "RELEASE SAVEPOINT a"])
@pytest.mark.parametrize("before", [[], [R, "COMMIT"]])
def test_a_savepoint_before_a_hit(cached: Asker, level: str, end: str, before: list[str]) -> None:
    """autocommit=0: the BEGIN that is sent ahead of what follows the hit commits, and takes the savepoint away. MySQL
    answers 1305 in the place of OK, and what was to be rolled back is committed."""
    steps = [f"SET SESSION TRANSACTION ISOLATION LEVEL {level}", "SET autocommit = 0", *before]
    steps += ["SAVEPOINT a", R, "INSERT INTO w VALUES (1)", end, "COMMIT", "SELECT COUNT(*) FROM w", "ROLLBACK"]
    found = played(cached, steps)
    assert found["through"] == found["direct"]


LEVEL = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"


@pytest.mark.parametrize(
    "steps",
    [
        [*BEGINS, LEVEL, "SET autocommit = 1", "SELECT 1", "BEGIN"],
        [*BEGINS, LEVEL, "SET autocommit = 1", "SET @x = 1", "BEGIN"],
        ["SET completion_type = 'CHAIN'", "BEGIN", "SELECT COUNT(*) FROM w", LEVEL, "COMMIT"],
        [f"BEGIN; SELECT COUNT(*) FROM w; {LEVEL}; SET autocommit = 0; SET autocommit = 1", "BEGIN"],
    ],
)
def test_what_has_not_made_mysql_take_the_level_over(cached: Asker, steps: list[str]) -> None:
    found = played(cached, [*steps, R, f"! {OUTSIDE}", R, "ROLLBACK"])
    assert found["through"] == found["direct"]


@pytest.mark.parametrize("set_", [["SET autocommit = 0; SAVEPOINT a"], ["CALL saves()"]])
def test_a_savepoint_that_comes_with_autocommit_off(cached: Asker, set_: list[str]) -> None:
    cached.run(["CREATE PROCEDURE saves() BEGIN SET autocommit = 0; SAVEPOINT a; END"])
    steps = [*set_, R, "INSERT INTO w VALUES (1)", "ROLLBACK TO SAVEPOINT a", "COMMIT", "SELECT COUNT(*) FROM w"]
    found = played(cached, steps)
    assert found["through"] == found["direct"]
