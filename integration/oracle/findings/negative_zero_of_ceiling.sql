-- rows differ (hit, maintain); found by make oracle SEED=501819
-- CEILING of -0.0, and of -0.5, is -0.0
-- ordered
CREATE TABLE x1 (id INT NOT NULL, k INT NOT NULL, fl FLOAT, db DOUBLE, PRIMARY KEY (id), KEY (k))
REPLACE INTO x1 (id, k, fl, db) VALUES (17, 3, -0.0e0, -0.5), (18, 3, 0.5, 0), (19, 3, -2.5, 1e15), (20, 3, -0.25, -0.0e0)
CREATE CACHE c FROM SELECT CEILING(fl), FLOOR(fl), CEIL(db), FLOOR(db), ABS(fl), -fl, -db, fl % 2, db % -2, db * 0, fl / -2 FROM x1 WHERE k = ? ORDER BY id
SELECT CEILING(fl), FLOOR(fl), CEIL(db), FLOOR(db), ABS(fl), -fl, -db, fl % 2, db % -2, db * 0, fl / -2 FROM x1 WHERE k = 3 ORDER BY id
-- bound: 8=0300000000000000
SELECT CEILING(fl), FLOOR(fl), CEIL(db), FLOOR(db), ABS(fl), -fl, -db, fl % 2, db % -2, db * 0, fl / -2 FROM x1 WHERE k = ? ORDER BY id
