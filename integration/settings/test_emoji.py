"""Characters that utf8mb3 lacks, in what MySQL tells in that set: definitions of views, members of ENUM and SET."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from integration.oracle.asker import Asker
from integration.oracle.script import Played, Script, Step, play

TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY, k INT, s VARCHAR(20), e ENUM('😁', 'b', '😀'), t SET('😁', 'b', '😀'),"
    " KEY (k))",
    "INSERT INTO p VALUES (1, 1, '😀', '😀', '😀,b'), (2, 1, 'a', 'b', 'b'), (3, 1, '?', '😁', '😁'),"
    " (4, 2, 'b😀', '😀', '')",
    "CREATE VIEW chosen AS SELECT id, k, s FROM p WHERE s = '😀' OR k > 1",
    "CREATE VIEW made AS SELECT id, k, CONCAT(s, '?😀\\'\\\\', '?') AS x FROM p",
    "CREATE VIEW `100%?` AS SELECT id, k, s AS `?` FROM p WHERE s <> '?'",
    "CREATE VIEW above AS SELECT id, k, CONCAT(x, _utf8mb4'😁') AS y FROM made",
)
WRITES = (
    "UPDATE p SET e = '😁', s = '😀' WHERE id = 1",
    "UPDATE p SET e = '😀', t = 'b,😁', s = CONCAT(s, '😀') WHERE id IN (2, 4)",
    "INSERT INTO p VALUES (7, 1, '😀', '😀', 'b,😀,😁')",
    "DELETE FROM p WHERE id = 3",
)
OF_VIEWS = (
    "SELECT id, s FROM chosen WHERE k = ?",
    "SELECT x FROM made WHERE k = ?",
    "SELECT id, `?` FROM `100%?` WHERE k = ?",
    "SELECT id, y FROM above WHERE k = ?",
    "SELECT COUNT(*) FROM chosen WHERE k = ?",
)
OF_MEMBERS = (
    "SELECT id, e, t FROM p WHERE k = ?",
    "SELECT MIN(e), MAX(e), COUNT(DISTINCT e) FROM p WHERE k = ?",
    "SELECT id FROM p WHERE k = ? AND e = '😀'",
    "SELECT e, COUNT(*) FROM p WHERE k = ? GROUP BY e",
    "SELECT id, e + 0, CONCAT(e, t) FROM p WHERE k = ?",
    "SELECT id, s FROM p WHERE k = ?",
)


def played(asker: Asker, query: str) -> Played:
    """Before and behind each of the writes."""
    reads = [Step(query.replace("= ?", f"= {key}", 1)) for key in (1, 2)]
    steps = [*map(Step, TABLES), Step(f"CREATE CACHE c FROM {query}"), *reads]
    for write in WRITES:
        steps += [Step(write), *reads]
    return play(asker, Script("", steps))


@pytest.mark.parametrize("query", OF_VIEWS)
def test_a_view_has_all_characters_of_its_text(asker: Asker, query: str) -> None:
    found = played(asker, query)
    assert not found.refused and not found.differences, (found.refused, *found.differences)
    assert "hit" in found.served[2:]


@contextmanager
def binlog_names(asker: Asker, metadata: str) -> Iterator[None]:
    mysql = asker.beside.mysql
    ((before,),) = mysql.execute("SELECT @@GLOBAL.binlog_row_metadata")
    mysql.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
    try:
        yield
    finally:
        mysql.execute(f"SET GLOBAL binlog_row_metadata = {before}")


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
@pytest.mark.parametrize("query", OF_MEMBERS)
def test_a_member_is_itself_or_its_table_is_emptied(asker: Asker, query: str, metadata: str) -> None:
    """Where the binlog does not tell members, those of information_schema have a `?` in its place."""
    with binlog_names(asker, metadata):
        found = played(asker, query)
    assert not found.refused and not found.differences, (found.refused, *found.differences)
    assert "hit" in found.served
