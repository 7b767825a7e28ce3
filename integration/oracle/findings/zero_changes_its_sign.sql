-- rows differ (hit, maintain)
-- 0.0 equals -0.0, and is written otherwise
CREATE TABLE x1 (id INT NOT NULL, k INT NOT NULL, fl FLOAT NOT NULL, db DOUBLE NOT NULL, PRIMARY KEY (id))
REPLACE INTO x1 (id, k, fl, db) VALUES (1, 0, 0, 0), (2, 0, 1, 1), (3, 1, 0, 0)
CREATE CACHE c1 FROM SELECT id, fl, db FROM x1 WHERE k = ?
SELECT id, fl, db FROM x1 WHERE k = 0
CREATE CACHE c2 FROM SELECT id, fl, db FROM x1 WHERE k = ? ORDER BY id LIMIT 2
SELECT id, fl, db FROM x1 WHERE k = 0 ORDER BY id LIMIT 2
CREATE CACHE c3 FROM SELECT MIN(fl), MAX(db) FROM x1 WHERE k = ?
SELECT MIN(fl), MAX(db) FROM x1 WHERE k = 1
CREATE CACHE c4 FROM SELECT fl, db FROM x1 WHERE k = ? UNION ALL SELECT 1, 2
SELECT fl, db FROM x1 WHERE k = 0 UNION ALL SELECT 1, 2
UPDATE x1 SET fl = -fl, db = -db
SELECT id, fl, db FROM x1 WHERE k = 0
SELECT id, fl, db FROM x1 WHERE k = 0 ORDER BY id LIMIT 2
SELECT MIN(fl), MAX(db) FROM x1 WHERE k = 1
SELECT fl, db FROM x1 WHERE k = 0 UNION ALL SELECT 1, 2
UPDATE x1 SET fl = -fl, db = -db
SELECT id, fl, db FROM x1 WHERE k = 0
SELECT id, fl, db FROM x1 WHERE k = 0 ORDER BY id LIMIT 2
SELECT MIN(fl), MAX(db) FROM x1 WHERE k = 1
SELECT fl, db FROM x1 WHERE k = 0 UNION ALL SELECT 1, 2
