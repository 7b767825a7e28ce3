"""Statements that change nothing of a table's rows, and how MySQL announces its columns: hits behind them do, too."""

from __future__ import annotations

import struct

import pytest

from integration.oracle.asker import Asker
from integration.sessions.session_commands import results
from integration.support.raw_client import bound
from integration.support.served import read_until_hit

READ = "SELECT id, s, n FROM t WHERE id = {}"
TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20) NOT NULL, n INT NOT NULL, p INT)",
    "INSERT INTO t VALUES (1, 'a', 10, 1), (2, 'b', 20, 1)",
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "INSERT INTO parent VALUES (1)",
)


@pytest.mark.parametrize(
    "changes",
    [
        ["CREATE INDEX i ON t (s)"],
        ["CREATE UNIQUE INDEX i ON t (n)"],
        ["CREATE FULLTEXT INDEX i ON t (s)"],
        ["CREATE INDEX i ON t (n, s)", "DROP INDEX i ON t"],
        ["ALTER TABLE t ADD INDEX i (s)"],
        ["ALTER TABLE t ALTER n SET DEFAULT 5"],
        ["ALTER TABLE t ADD FOREIGN KEY (n) REFERENCES parent (id)"],
        ["ALTER TABLE t COMMENT 'none'", "CREATE INDEX i USING BTREE ON t (n)"],
    ],
)
def test_columns_are_announced_as_they_are_by_then(asker: Asker, changes: list[str]) -> None:
    asker.begin(TABLES)
    asker.create_cache("c", READ.format("?"))
    through, direct = asker.session("through"), asker.session("direct")
    given = bound((0x08,), (struct.pack("<q", 1),))
    text, statements = READ.format(1), [client.prepare(READ.format("?")).id for client in (through, direct)]
    direct.execute(statements[1], given)
    read_until_hit(asker.beside, through, through.query, text)
    read_until_hit(asker.beside, through, through.execute, statements[0], given)
    through.query("SET foreign_key_checks = 0")
    for change in changes:
        assert through.query(change)[4] == 0
        hit = read_until_hit(asker.beside, through, through.query, text)
        executed = read_until_hit(asker.beside, through, through.execute, statements[0], given)
        wanted = results(direct, direct.query(text)), results(direct, direct.execute(statements[1], given))
        assert all(results(through, answer) == wanted[0] for answer in hit), change
        assert all(results(through, answer) == wanted[1] for answer in executed), change
