-- rows differ (hit); found by reading MySQL's sources
-- (2) is a position as 2 is
-- ordered
CREATE TABLE p1 (id INT NOT NULL, k INT NOT NULL, total INT, PRIMARY KEY (id), KEY (k))
REPLACE INTO p1 VALUES (1, 1, 1)
CREATE CACHE c1 FROM SELECT id, total FROM p1 WHERE k = ? ORDER BY (2) DESC LIMIT 2
SELECT id, total FROM p1 WHERE k = 1 ORDER BY (2) DESC LIMIT 2
CREATE CACHE c2 FROM SELECT total, COUNT(*) FROM p1 WHERE k = ? GROUP BY (1) ORDER BY (1)
SELECT total, COUNT(*) FROM p1 WHERE k = 1 GROUP BY (1) ORDER BY (1)
CREATE CACHE c3 FROM SELECT id, total FROM p1 WHERE k = ? ORDER BY ((2)) DESC, -1
SELECT id, total FROM p1 WHERE k = 1 ORDER BY ((2)) DESC, -1
REPLACE INTO p1 VALUES (7, 1, 4), (8, 1, 6), (9, 1, 2)
SELECT id, total FROM p1 WHERE k = 1 ORDER BY (2) DESC LIMIT 2
SELECT total, COUNT(*) FROM p1 WHERE k = 1 GROUP BY (1) ORDER BY (1)
SELECT id, total FROM p1 WHERE k = 1 ORDER BY ((2)) DESC, -1
