"""Sessions of NO_BACKSLASH_ESCAPES: what has no backslash in it is a hit, and MySQL's answer byte for byte, with the
flag that tells drivers of the mode. What has one is MySQL's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from integration.oracle.trees import Spelled, integer, payload, string
from integration.servers.mysql_server import Server
from integration.settings.test_answers_in_modes import cached, differs
from integration.settings.test_settings_that_change_answers import KINDS, both, do, shown
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit
from proxy.mysql.state.ansi_quotes import with_backticks
from proxy.mysql.wire.packets import STATUS_NO_BACKSLASH_ESCAPES

DATABASE = "backslashes"
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(20), pattern VARCHAR(20), doc JSON, grp INT, KEY (name))",
    "INSERT INTO item VALUES (1, 'a_b', 'a\\\\_b', '[\"a_b\"]', 1), (2, 'axb', 'a_b', '[\"axb\"]', 1),"
    " (3, 'a\\\\b', 'a\\\\%', '[]', 1), (4, 'a\\\\_b', '%', '[\"a\\\\\\\\_b\"]', 2)",
)
MODES = ("NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE", "NO_BACKSLASH_ESCAPES,ANSI_QUOTES")
HITS = (
    "SELECT id, name FROM item WHERE id = 1",
    "SELECT id, name, pattern FROM item WHERE grp = 1 ORDER BY id",
    "SELECT id FROM item WHERE name LIKE 'a_b' ORDER BY id",
    "SELECT id FROM item WHERE name = 'x' OR name = 'axb' ORDER BY id",
    "SELECT i.id, o.id AS other FROM item i JOIN item o ON o.grp = i.grp WHERE i.name = 'axb' ORDER BY o.id",
)
PASSED = (
    "SELECT id FROM item WHERE name LIKE 'a\\_b' ORDER BY id",
    "SELECT id FROM item WHERE name = 'a\\b'",
    "SELECT id FROM item WHERE name = 'a\\\\b'",
    "SELECT id FROM item WHERE name LIKE x'615c5f62' ORDER BY id",
    "SELECT id FROM item WHERE name LIKE 0x615c5f62 ORDER BY id",
    "SELECT id FROM item WHERE name LIKE pattern ORDER BY id",
    "SELECT id FROM item WHERE name LIKE CONCAT('a', CHAR(92), '_b') ORDER BY id",
    "SELECT id, JSON_SEARCH(doc, 'all', pattern) AS found FROM item WHERE id = 1",
)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    with beside_database(mysql, DATABASE, Path(tmp_path_factory.mktemp("state")), *TABLES) as found:
        yield found


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sql", [*HITS, *PASSED])
def test_texts(beside: Beside, mysql: Server, sql: str, mode: str, kind: str) -> None:
    """Beside sessions without the mode, and behind changes of it."""
    hinted = sql.replace("SELECT", "SELECT /*+ SET_VAR(sql_mode='NO_ENGINE_SUBSTITUTION') */", 1)
    with cached(beside, sql, hinted), both(beside, kind) as pair, both(beside, kind) as others:
        do(pair, f"SET sql_mode = '{mode}'")
        for change in ("", "UPDATE item SET grp = grp + 1 WHERE id = 4", "UPDATE item SET grp = 2 WHERE id = 4"):
            if change:
                mysql.execute(f"USE {DATABASE}", change)
                beside.caught_up()
            for _ in range(3):
                assert not differs(pair, sql, mode)
                assert not differs(others, sql, "the default")
        if sql in HITS:
            read_until_hit(beside, pair[1], pair[1].query, sql)
            assert not differs(pair, sql, mode)
            assert status_of(pair[1].query(sql), eof=pair[1].eof) & STATUS_NO_BACKSLASH_ESCAPES
        else:
            assert last_served(beside, pair[1]).startswith("passed"), last_served(beside, pair[1])
        for other in ("DEFAULT", f"'{mode}'", "''"):
            do(pair, f"SET sql_mode = {other}")
            for _ in range(3):
                assert not differs(pair, sql, other)


def status_of(answer: bytes, *, eof: bool) -> int:
    """The flags at the end of an answer with rows."""
    return int.from_bytes(answer[-2:] if eof else answer[-4:-2], "little")


def test_names_in_double_quotes_beside(beside: Beside) -> None:
    sql = 'SELECT "id", "name" FROM "item" WHERE "name" = \'axb\''
    read = with_backticks(sql.encode())
    assert read is not None
    with cached(beside, read.decode()), both(beside, "OK at the end") as pair:
        do(pair, "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'")
        read_until_hit(beside, pair[1], pair[1].query, sql)
        for text in (sql, sql.replace("axb", "a\\b"), 'SELECT "id\\" FROM "item"'):
            for _ in range(3):
                assert not differs(pair, text, "both")


GIVEN = ("a_b", "axb", "a\\_b", "a\\\\b", "%\\%", "a\\b", "%")


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM item WHERE name LIKE ? ORDER BY id",
        "SELECT id FROM item WHERE name = ?",
        "SELECT id FROM item WHERE name LIKE CONCAT('%', ?, '%') ORDER BY id",
        "SELECT id FROM item WHERE id = ? AND name NOT LIKE 'x'",
    ],
)
def test_what_is_bound(beside: Beside, sql: str, kind: str) -> None:
    """A pattern may have a backslash, which escapes or does not by the mode in which the statement was prepared."""
    hits = 0
    with cached(beside, sql), both(beside, kind) as pair:
        for mode in (f"'{MODES[0]}'", "DEFAULT", f"'{MODES[0]}'"):
            do(pair, f"SET sql_mode = {mode}")
            ids = [client.prepare(sql).id for client in pair]
            for _ in range(4):
                for given in [integer(1)] if "id = ?" in sql else map(string, GIVEN):
                    hits += alike(beside, pair, ids, [given])
            for other in (f"'{MODES[0]}'", "DEFAULT"):
                do(pair, f"SET sql_mode = {other}")
                for given in [integer(1)] if "id = ?" in sql else map(string, GIVEN):
                    alike(beside, pair, ids, [given])
            do(pair, f"SET sql_mode = {mode}")
    assert hits, last_served(beside, pair[1])


def alike(beside: Beside, pair: Sequence[RawClient], ids: list[int], given: list[Spelled]) -> bool:
    """Whether an execution was a hit, which MySQL answers alike."""
    told = [shown(client, client.execute(id_, payload(given))) for client, id_ in zip(pair, ids, strict=True)]
    assert told[0] == told[1], ([each.text for each in given], last_served(beside, pair[1]))
    return last_served(beside, pair[1]).startswith("hit")
