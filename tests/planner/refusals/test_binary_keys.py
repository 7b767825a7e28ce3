"""A binary string that a column must equal: where MySQL may read it as a number, the query is not cached."""

from __future__ import annotations

import pytest

from planner.api import plan_query
from sqltypes.errors import UnsupportedQuery
from sqltypes.schema import SchemaSnapshot
from tests.support.schema_text import snapshot_of

TABLES = """
CREATE TABLE files (
  id INT NOT NULL,
  digest VARBINARY(32),
  owner VARBINARY(32),
  name VARCHAR(32),
  PRIMARY KEY (id)
);
CREATE TABLE owners (
  id VARBINARY(32) NOT NULL,
  name VARCHAR(32),
  PRIMARY KEY (id)
);
"""
CACHED = (
    "SELECT digest + 0 FROM files WHERE digest = ?",
    "SELECT id FROM files WHERE digest = ? AND name = ? AND LENGTH(name) > 3",
    "SELECT id FROM files WHERE digest IN (?) AND digest <> 'x' AND digest IS NOT NULL ORDER BY digest",
    "SELECT f.id FROM files f JOIN owners o ON o.id = f.owner WHERE f.owner = ?",
    "SELECT id FROM files WHERE digest = ? AND digest LIKE 'a%' ESCAPE '`' AND name LIKE digest",
    "SELECT id FROM files WHERE digest = ? AND id = (SELECT MAX(g.id) FROM files g WHERE g.digest + 0 = 1)",
    "SELECT COUNT(*) FROM files WHERE digest = ? AND (digest) > (x'61') GROUP BY digest",
)
REFUSED = (
    "SELECT id FROM files WHERE digest = ? AND FLOOR(digest) = 0",
    "SELECT id FROM files WHERE digest = ? AND digest > 3",
    "SELECT id FROM files WHERE digest = ? AND digest LIKE 3",
    "SELECT id FROM files WHERE digest = ? AND digest",
    "SELECT id FROM files WHERE digest IN (?) AND (owner = 1 OR digest + 1 > id)",
    "SELECT id FROM files WHERE digest = ? AND id = (SELECT MAX(g.id) FROM files g WHERE g.digest = files.digest + 0)",
    "SELECT q.id FROM (SELECT digest AS d, id FROM files WHERE digest + 1 > 3) q WHERE q.d = ?",
    "SELECT digest FROM files WHERE digest = ? GROUP BY digest HAVING digest * 2 = 0",
    "SELECT f.id FROM files f JOIN owners o ON o.id + 0 = f.id + 0 WHERE o.id = ?",
    "SELECT s.id FROM small s WHERE s.digest = ?",
)


def schema() -> SchemaSnapshot:
    return snapshot_of(TABLES, "d", views={"small": "SELECT id, digest FROM d.files WHERE digest < 10"})


@pytest.mark.parametrize("sql", CACHED)
def test_a_binary_string_is_a_string_beside_strings(sql: str) -> None:
    assert plan_query(sql, "d", schema()).parameters[0].type.is_binary


@pytest.mark.parametrize("sql", REFUSED)
def test_what_computes_with_it_is_not_cached(sql: str) -> None:
    with pytest.raises(UnsupportedQuery) as refused:
        plan_query(sql, "d", schema())
    assert refused.value.code == "binary_as_number"
