-- stale: rows of a table in brackets behind LEFT JOIN, beside an ON that is true for missing rows, did not count
CREATE TABLE p1 (id INT NOT NULL, v INT, PRIMARY KEY (id))
CREATE TABLE p2 (w INT NOT NULL, v INT, PRIMARY KEY (w))
REPLACE INTO p1 (id, v) VALUES (1, 20), (5, 30)
CREATE CACHE c FROM SELECT a.id, b.id FROM p1 AS a LEFT JOIN (p1 AS b LEFT JOIN p2 AS c ON b.v = c.v) ON c.w IS NULL UNION ALL SELECT 1, 1
CREATE CACHE d FROM SELECT a.id, b.id FROM p1 AS a LEFT JOIN (p1 AS b LEFT JOIN p2 AS c ON b.v = c.v) ON c.w IS NULL
SELECT a.id, b.id FROM p1 AS a LEFT JOIN (p1 AS b LEFT JOIN p2 AS c ON b.v = c.v) ON c.w IS NULL UNION ALL SELECT 1, 1
SELECT a.id, b.id FROM p1 AS a LEFT JOIN (p1 AS b LEFT JOIN p2 AS c ON b.v = c.v) ON c.w IS NULL
REPLACE INTO p2 (w, v) VALUES (1, 20), (2, 40)
-- again
