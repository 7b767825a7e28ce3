-- refused as an unknown column: a select alias within an expression of GROUP BY
-- free
CREATE TABLE p1 (id INT NOT NULL, k INT NOT NULL, v INT, PRIMARY KEY (id))
REPLACE INTO p1 (id, k, v) VALUES (1, 1, 3), (2, 1, 3), (3, 1, NULL), (4, 2, 3)
CREATE CACHE c FROM SELECT v + 1 AS z, COUNT(*) FROM p1 WHERE k = ? GROUP BY z + 0
SELECT v + 1 AS z, COUNT(*) FROM p1 WHERE k = 1 GROUP BY z + 0
UPDATE p1 SET v = 4 WHERE id = 2
SELECT v + 1 AS z, COUNT(*) FROM p1 WHERE k = 1 GROUP BY z + 0
