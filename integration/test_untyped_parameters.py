"""Parameters whose type no column tells: what is held for a literal is what MySQL answers to the text with it, through
changes of the rows. All forms of `untyped_parameters.py` by UPWELL_WHOLE=1, else some of them."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.mysql_server import Server
from integration.oracle.answers import parse
from integration.proxy_thread import Beside, proxy_in_thread
from integration.raw_client import RawClient, bound
from integration.served import last_served
from integration.untyped_parameters import FORMS, NAMES, ROWS, TABLE, WRITES, filled
from proxy.mysql.routes import BOUND

DATABASE = "untyped_parameters"
WHOLE = os.environ.get("UPWELL_WHOLE") == "1"
SEED = int(os.environ.get("UPWELL_LITERALS_SEED", "1"))
TOGETHER, OF_EACH, REPEATED = 20, 4, 3


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    rows = [f"INSERT INTO u ({NAMES}) VALUES ({row})" for row in ROWS]
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", TABLE, *rows)
    with proxy_in_thread(mysql, DATABASE, Path(tmp_path_factory.mktemp("state"))) as found:
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {DATABASE}")


def shown(client: RawClient, sql: str) -> object:
    found = parse(client.query(sql), binary=False)
    return (found.errno, found.message) if found.errno else (found.columns, found.rows)


@pytest.mark.timeout(1800 if WHOLE else 300)
def test_each_form_with_literals_of_each_kind(beside: Beside, mysql: Server) -> None:
    rng = random.Random(SEED)
    forms = list(FORMS) if WHOLE else rng.sample(FORMS, 160)
    wrong: list[str] = []
    served: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    with beside.client() as through, beside.direct() as direct:
        for at in range(0, len(forms), TOGETHER):
            asked = []
            for number, form in enumerate(forms[at : at + TOGETHER]):
                made = parse(through.query(f"CREATE CACHE u{number} FROM {form}"), binary=False)
                if made.errno:
                    refused[made.message.split(":")[0]] += 1
                asked += [filled(form, rng) for _ in range(OF_EACH)]
            for write in (None, *rng.sample(WRITES, 2)):
                if write is not None:
                    mysql.execute(f"USE {DATABASE}", write.format(rng.randrange(4)))
                    beside.caught_up()
                expected = [shown(direct, sql) for sql in asked]
                for _ in range(REPEATED):
                    for sql, theirs in zip(asked, expected, strict=True):
                        ours = shown(through, sql)
                        served[last_served(beside, through).split(" ")[0]] += 1
                        if ours != theirs:
                            wrong.append(f"{write}: {sql}\n  MySQL  {theirs}\n  Upwell {ours}")
            for number in range(TOGETHER):
                through.query(f"DROP CACHE u{number}")
    print(served, refused)
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:10])
    assert served["hit"] > 0.4 * served.total(), (served, refused)


@pytest.mark.parametrize(
    ("sql", "given"),
    [
        ("SELECT id FROM u WHERE DATE(c) = {} ORDER BY id", ("'2024-01-01'", "20240101", "'2024-01-01 00:00:00'")),
        ("SELECT id FROM u WHERE (c, id) > ('2024-01-01', {}) ORDER BY c, id LIMIT 2", ("1", "'1'", "1.0", "1e0")),
        ("SELECT id FROM u WHERE n & {} ORDER BY id", ("1", "'1'", "1.4", "x'31'")),
    ],
)
def test_literals_of_other_kinds_are_other_keys(beside: Beside, sql: str, given: tuple[str, ...]) -> None:
    with beside.client() as through, beside.direct() as direct:
        through.query(f"CREATE CACHE kinds FROM {sql.format('?')}")
        for _ in range(REPEATED):
            for literal in given:
                assert shown(through, sql.format(literal)) == shown(direct, sql.format(literal))
        assert last_served(beside, through).startswith("hit")
        through.query("DROP CACHE kinds")


def test_what_is_bound_is_passed_with_the_reason(beside: Beside) -> None:
    """MySQL does not read it as a literal: `DATE(c) = ?` is no error for 'a'."""
    sql = "SELECT id FROM u WHERE DATE(c) = ? ORDER BY id"
    with beside.client() as through, beside.direct() as direct:
        through.query(f"CREATE CACHE kinds FROM {sql}")
        for value in (b"\x0a2024-01-01", b"\x01a"):
            answers = []
            for client in (direct, through, through):
                statement = client.prepare(sql)
                answers.append(client.execute(statement.id, bound([0xFD], [value])))
            assert answers[0] == answers[1] == answers[2]
        assert BOUND in last_served(beside, through)
        through.query("DROP CACHE kinds")
