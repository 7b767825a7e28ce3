-- error differ (hit, maintain); found by make oracle SEED=9503254
-- the lowest BIGINT is no quotient of integers
-- ordered
CREATE TABLE p2 (id INT NOT NULL, k INT NOT NULL, vb VARCHAR(12) COLLATE utf8mb4_bin, bm BIGINT, dc DECIMAL(30), PRIMARY KEY (id))
REPLACE INTO p2 VALUES (7, 1, 'B', 1, 1)
CREATE CACHE c FROM SELECT a.id, a.k, (MIN((b.bm DIV +1))) FROM p2 AS a INNER JOIN p2 AS b ON a.vb = b.vb WHERE a.k = ? GROUP BY a.id, a.k ORDER BY 1 DESC
CREATE CACHE d FROM SELECT id, bm DIV -1 FROM p2 WHERE k = ? ORDER BY id
CREATE CACHE e FROM SELECT id, dc DIV 1, bm DIV 1.0, bm DIV 2 FROM p2 WHERE k = ? ORDER BY id
SELECT a.id, a.k, (MIN((b.bm DIV +1))) FROM p2 AS a INNER JOIN p2 AS b ON a.vb = b.vb WHERE a.k = 1 GROUP BY a.id, a.k ORDER BY 1 DESC
SELECT id, bm DIV -1 FROM p2 WHERE k = 3 ORDER BY id
SELECT id, dc DIV 1, bm DIV 1.0, bm DIV 2 FROM p2 WHERE k = 3 ORDER BY id
REPLACE INTO p2 VALUES (5, 3, '10', NULL, NULL), (15, 0, NULL, 2, 2), (3, 3, 'B', -9223372036854775808, -9223372036854775808)
SELECT a.id, a.k, (MIN((b.bm DIV +1))) FROM p2 AS a INNER JOIN p2 AS b ON a.vb = b.vb WHERE a.k = 1 GROUP BY a.id, a.k ORDER BY 1 DESC
SELECT id, bm DIV -1 FROM p2 WHERE k = 3 ORDER BY id
SELECT id, dc DIV 1, bm DIV 1.0, bm DIV 2 FROM p2 WHERE k = 3 ORDER BY id
