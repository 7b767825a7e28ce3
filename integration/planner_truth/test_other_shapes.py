"""Shapes of a query beside SELECT ... FROM ... WHERE: cached, and as MySQL answers them, through changes of rows."""

from __future__ import annotations

import random
import re

import pytest

from integration.oracle.asker import Asker

TABLES = (
    "CREATE TABLE p (id INT, g INT, y INT, s VARCHAR(20), PRIMARY KEY (id, y), KEY (g)) PARTITION BY RANGE (y)"
    " (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), PARTITION p2 VALUES LESS THAN MAXVALUE)",
    "INSERT INTO p VALUES (1, 1, 1, 'a'), (2, 1, 11, 'b'), (3, 1, 21, 'c'), (4, 2, 5, 'd'), (5, 2, 15, 'e')",
    "CREATE TABLE t (id INT PRIMARY KEY, g INT, n INT, s VARCHAR(20), KEY (g))",
    "INSERT INTO t VALUES (1, 1, 10, 'a'), (2, 1, 20, 'b'), (3, 2, 30, 'c'), (4, 2, NULL, NULL), (5, 3, 50, 'a')",
    "CREATE TABLE u (g INT PRIMARY KEY, n INT)",
    "INSERT INTO u VALUES (1, 10), (2, 30), (3, 5)",
    "CREATE TABLE tree (id INT PRIMARY KEY, up INT, s VARCHAR(20), KEY (up))",
    "INSERT INTO tree VALUES (1, NULL, 'r'), (2, 1, 'a'), (3, 1, 'b'), (4, 2, 'c'), (5, NULL, 'q'), (6, 5, 'd')",
    "CREATE TABLE j (id INT PRIMARY KEY, g INT, d JSON, x VARCHAR(99), KEY (g))",
    'INSERT INTO j VALUES (1, 1, \'[1, 2, {"a": 3}]\', \'["a", "b"]\'), (2, 1, \'[2]\', "[]"), (3, 2, NULL, NULL)',
    """INSERT INTO j VALUES (4, 2, '{"a": 4, "b": [{"c": "x"}, {"c": 5}]}', '["c"]'), (5, 2, '[5, "a"]', '"a"')""",
    "CREATE VIEW vj AS SELECT j.id, j.g, k.n, k.v FROM j, JSON_TABLE(j.d, '$[*]' COLUMNS (n FOR ORDINALITY, v INT PATH"
    " '$')) k",
    "CREATE VIEW v AS SELECT id AS i, g FROM t",
    "CREATE VIEW w AS SELECT a.i, a.g FROM v a",
    "CREATE VIEW x AS SELECT b.i, (SELECT MAX(c.i) FROM w c WHERE c.g = b.g) AS m FROM w b LEFT JOIN v d ON d.i = b.i",
)
SHAPES: dict[str, list[tuple[int, ...]]] = {  # a cache, and the values of its parameters
    "TABLE u ORDER BY g": [()],
    "TABLE t ORDER BY id LIMIT 3": [()],
    "TABLE t ORDER BY n DESC, id LIMIT 2 OFFSET 1": [()],
    "SELECT id, n FROM t WHERE g > ? UNION TABLE u ORDER BY 1, 2": [(1,), (2,)],
    "SELECT o.id FROM (TABLE t) o WHERE o.g = ? ORDER BY o.id": [(1,)],
    "SELECT id FROM t WHERE (g, n) IN (TABLE u) AND g = ? ORDER BY id": [(1,), (2,)],
    "WITH q AS (TABLE u) SELECT t.id, q.n FROM t JOIN q ON q.g = t.g WHERE t.g = ? ORDER BY t.id": [(2,)],
    "SELECT id FROM t WHERE ROW(g, n) = ROW(?, ?) ORDER BY id": [(1, 20), (2, 30)],
    "SELECT id FROM t WHERE ROW(g, n) IN (ROW(1, 10), ROW(2, 30)) ORDER BY id": [()],
    "SELECT t.id, v.b FROM t JOIN (VALUES ROW(1, 'x'), ROW(2, 'y')) v (a, b) ON v.a = t.g WHERE t.g = ?"
    " ORDER BY t.id": [(1,), (2,), (3,)],
    "SELECT t.id, v.column_1 FROM t LEFT JOIN (VALUES ROW(1, (2 + 3)), ROW(7, 8)) v ON v.column_0 = t.g"
    " ORDER BY t.id": [()],
    "VALUES ROW(0, 0), ROW(1, 1) UNION ALL TABLE u ORDER BY 1, 2": [()],
    "SELECT id, s FROM p PARTITION (p0) WHERE g = ? ORDER BY id": [(1,), (2,)],
    "SELECT COUNT(*) FROM p PARTITION (p1, p2) AS q": [()],
    "SELECT t.id, q.id AS other FROM t LEFT JOIN p PARTITION (p1) q ON q.g = t.g WHERE t.g = ? ORDER BY t.id, q.id": [
        (1,)
    ],
    "SELECT SQL_NO_CACHE DISTINCT s FROM t WHERE g = ? ORDER BY s": [(1,)],
    "SELECT SQL_SMALL_RESULT SQL_BUFFER_RESULT s, COUNT(*) AS c FROM t WHERE g = ? GROUP BY s ORDER BY s": [(2,)],
    "SELECT /*+ MAX_EXECUTION_TIME(10000) */ id FROM t WHERE g = ? ORDER BY id": [(1,)],
    "SELECT /*+ SET_VAR(sort_buffer_size = 400000) NO_ICP(t) */ id FROM t WHERE g = ? ORDER BY n, id": [(1,)],
    "SELECT id FROM t FORCE INDEX FOR ORDER BY (PRIMARY) FORCE INDEX FOR JOIN (g) WHERE g = ? ORDER BY id": [(2,)],
    "SELECT t.id, (WITH RECURSIVE q AS (SELECT t.g AS n UNION ALL SELECT n + 1 FROM q WHERE n < 3) SELECT SUM(n)"
    " FROM q) AS m FROM t WHERE t.id = ?": [(2,)],
    "SELECT a.id, (WITH RECURSIVE q AS (SELECT id, up FROM tree WHERE id = a.id UNION ALL SELECT b.id, b.up FROM tree"
    " b JOIN q ON b.id = q.up) SELECT COUNT(*) FROM q) AS depth FROM tree a ORDER BY a.id": [()],
    "SELECT u.g, (WITH q AS (SELECT MAX(t.n) AS m FROM t WHERE t.g = u.g) SELECT m FROM q) AS m FROM u WHERE u.g = ?": [
        (1,),
        (2,),
    ],
    "SELECT j.id, k.v FROM j, JSON_TABLE(j.d, '$[*]' COLUMNS (v INT PATH '$')) AS k WHERE j.g = ? ORDER BY j.id, k.v": [
        (1,),
        (2,),
    ],
    "SELECT j.id, k.* FROM j LEFT JOIN JSON_TABLE(j.d, '$' COLUMNS (n FOR ORDINALITY, a BIGINT UNSIGNED PATH '$.a'"
    " DEFAULT '7' ON EMPTY NULL ON ERROR, e INT EXISTS PATH '$.b', NESTED PATH '$.b[*]' COLUMNS (c VARCHAR(9) PATH"
    " '$.c', p DECIMAL(5, 1) PATH '$.c' DEFAULT '0.5' ON ERROR))) k ON TRUE WHERE j.id = ? ORDER BY n, c": [(1,), (4,)],
    "SELECT j.id, k.s FROM j JOIN JSON_TABLE(j.x, '$[*]' COLUMNS (s VARCHAR(9) PATH '$')) k ON k.s = 'a'"
    " ORDER BY j.id": [()],
    "SELECT t.id FROM t WHERE t.g = ? AND t.id IN (SELECT k.v FROM JSON_TABLE('[1, 3, 4]', '$[*]' COLUMNS (v INT PATH"
    " '$')) k) ORDER BY t.id": [(1,), (2,)],
    "SELECT t.id, (SELECT COUNT(*) FROM j, JSON_TABLE(j.d, '$[*]' COLUMNS (v INT PATH '$')) k WHERE k.v = t.id) AS c"
    " FROM t WHERE t.g = ? ORDER BY t.id": [(1,), (2,)],
    "SELECT k.v, COUNT(*) AS c FROM j, JSON_TABLE(j.d, '$[*]' COLUMNS (v INT PATH '$')) k WHERE j.g = ? GROUP BY k.v"
    " ORDER BY k.v": [(1,)],
    "SELECT id, n, v FROM vj WHERE g = ? ORDER BY id, n": [(1,), (2,)],
    "SELECT i, g FROM w WHERE g = ? ORDER BY i": [(1,)],
    "SELECT i, m FROM x WHERE i = ?": [(1,), (4,)],
    "SELECT a.i FROM w a JOIN v b ON b.i = a.i WHERE a.g = ? ORDER BY a.i": [(2,)],
}
VIEWS = {"v": "t", "w": "t", "x": "t", "vj": "j"}
CHANGES = (
    "UPDATE p SET y = y + 10 WHERE id = {n}",
    "UPDATE p SET y = 1 WHERE id = {n}",
    "UPDATE p SET g = 3 - g WHERE id = {n}",
    "REPLACE INTO p VALUES ({n}, 1, {n} * 4, 'new')",
    "DELETE FROM p WHERE id = {n}",
    "UPDATE p SET s = 'other' WHERE id = {n}",
    "REPLACE INTO t VALUES ({n}, 1, 20, 'new'), (7, 2, 30, 'b')",
    "UPDATE t SET g = 3 - g, n = n + 10 WHERE id = {n}",
    "UPDATE t SET n = 10 WHERE id = {n}",
    "DELETE FROM t WHERE id = {n}",
    "REPLACE INTO u VALUES ({n}, {n} * 10)",
    "UPDATE u SET n = 30 WHERE g = {n}",
    "DELETE FROM u WHERE g = {n}",
    "UPDATE j SET d = JSON_ARRAY({n}, 2) WHERE id = {n}",
    'UPDATE j SET d = \'{"a": {n}, "b": [{"c": {n}}]}\', x = \'["a"]\' WHERE id = {n}',
    "UPDATE j SET g = 3 - g WHERE id = {n}",
    "REPLACE INTO j VALUES ({n}, 1, '[1, 1]', '[]')",
    "DELETE FROM j WHERE id = {n}",
    "REPLACE INTO tree VALUES ({n} + 10, {n}, 'new')",
    "UPDATE tree SET up = 6 WHERE id = {n} AND id NOT IN (5, 6)",
    "UPDATE tree SET up = NULL WHERE id = {n}",
)


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_a_shape_is_cached_and_as_mysql_has_it(asker: Asker, shape: str) -> None:
    asker.begin(list(TABLES))
    made = asker.create_cache("c", shape)
    assert not made.errno, made
    rng = random.Random(shape)
    reads = [shape.replace("?", "{}").format(*values) for values in SHAPES[shape]]
    named = {VIEWS.get(word, word) for word in re.findall(r"\w+", shape)}
    own = [change for change in CHANGES if not named.isdisjoint(re.findall(r"\w+", change)[1:3])]
    for change in [
        "",
        *rng.sample(own, min(len(own), 8)),
        "ALTER TABLE p TRUNCATE PARTITION p0",
        *rng.choices(own, k=4),
    ]:
        asker.run([change.replace("{n}", str(rng.choice((1, 2, 3, 4, 5))))] if change else [])
        asker.wait()
        for read in reads:
            wanted = told(asker, "direct", read)
            assert told(asker, "through", read) == wanted, (change, read, asker.served())
            asker.until_hit(read)
            assert told(asker, "through", read) == wanted, (change, read, asker.served())
    assert not asker.distrusted()


def told(asker: Asker, name: str, read: str) -> tuple[object, ...]:
    """Names and rows: how columns are announced depends on the plan, too."""
    answer = asker.ask(name, read, None)
    assert not answer.errno, (read, answer)
    return [column.name for column in answer.columns], answer.rows
