-- rows differ (hit, maintain)
-- 0.0 equals -0.0: MIN and MAX show the one that MySQL reads first, from the ends of an index or in the order of its rows
CREATE TABLE x2 (id INT NOT NULL, k INT NOT NULL, db DOUBLE, fl FLOAT, PRIMARY KEY (id), KEY (db), KEY (k, db))
REPLACE INTO x2 (id, k, db, fl) VALUES (1, 1, -0e0, -0e0), (2, 1, 0e0, 0e0), (3, 2, 1.5, 1.1), (4, 2, 1.5, 1.1), (5, 2, 0, 0), (6, 2, -1.5, 1.23456789)
CREATE CACHE c1 FROM SELECT MIN(db), MAX(db) FROM x2 WHERE k = ?
SELECT MIN(db), MAX(db) FROM x2 WHERE k = 1
SELECT MIN(db), MAX(db) FROM x2 WHERE k = 2
CREATE CACHE c2 FROM SELECT MIN(fl), MAX(fl) FROM x2 WHERE k = ?
SELECT MIN(fl), MAX(fl) FROM x2 WHERE k = 1
SELECT MIN(fl), MAX(fl) FROM x2 WHERE k = 2
CREATE CACHE c3 FROM SELECT MIN(db), MAX(db) FROM x2
SELECT MIN(db), MAX(db) FROM x2
CREATE CACHE c4 FROM SELECT a.k, MIN(b.db), MAX(b.db) FROM x2 a LEFT JOIN x2 b ON b.k = a.k WHERE a.id = ? GROUP BY a.k
SELECT a.k, MIN(b.db), MAX(b.db) FROM x2 a LEFT JOIN x2 b ON b.k = a.k WHERE a.id = 1 GROUP BY a.k
REPLACE INTO x2 (id, k, db, fl) VALUES (6, 2, 0, 0), (7, 2, -0e0, -0e0)
SELECT MIN(db), MAX(db) FROM x2 WHERE k = 2
SELECT MIN(fl), MAX(fl) FROM x2 WHERE k = 2
SELECT MIN(db), MAX(db) FROM x2
SELECT a.k, MIN(b.db), MAX(b.db) FROM x2 a LEFT JOIN x2 b ON b.k = a.k WHERE a.id = 1 GROUP BY a.k
DELETE FROM x2 WHERE id = 1
SELECT MIN(db), MAX(db) FROM x2 WHERE k = 1
SELECT MIN(fl), MAX(fl) FROM x2 WHERE k = 1
