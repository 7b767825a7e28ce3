-- rows differ (hit, maintain); found by make oracle SEED=717412
-- read from behind (ORDER BY id DESC), an index does not give MySQL all of 0 and -0
-- ordered
CREATE TABLE x1 (id INT NOT NULL, db DOUBLE, fl FLOAT, ts INT, PRIMARY KEY (id), KEY (db), KEY (fl))
REPLACE INTO x1 (id, db, fl, ts) VALUES (6, -0.0e0, -0.0e0, NULL), (22, -0.0e0, 0, 1), (23, 0, -0.0e0, 2), (24, 1, 1, 3), (5, 0, 0, 4), (30, -0.0e0, -0.0e0, 5)
CREATE CACHE c1 FROM SELECT a.id, a.ts FROM x1 AS a WHERE a.db = ? ORDER BY a.id DESC
-- bound: fd=0130
SELECT a.id, a.ts FROM x1 AS a WHERE a.db = ? ORDER BY a.id DESC
SELECT a.id, a.ts FROM x1 AS a WHERE a.db = 0 ORDER BY a.id DESC
SELECT a.id, a.ts FROM x1 AS a WHERE a.db = 1 ORDER BY a.id DESC
CREATE CACHE c2 FROM SELECT a.id, a.ts FROM x1 AS a WHERE a.fl <=> ? ORDER BY a.id DESC
SELECT a.id, a.ts FROM x1 AS a WHERE a.fl <=> 0 ORDER BY a.id DESC
CREATE CACHE c3 FROM SELECT a.id, a.ts FROM x1 AS a WHERE a.db = 0 AND a.ts > ? ORDER BY a.id DESC
SELECT a.id, a.ts FROM x1 AS a WHERE a.db = 0 AND a.ts > 1 ORDER BY a.id DESC
