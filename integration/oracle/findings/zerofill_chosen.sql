-- rows differ (hit, evict); found by make oracle SEED=88300104, 88300112
-- whether the zeros of a ZEROFILL number that IF, CASE, MIN or MAX gives are shown depends on MySQL's plan
CREATE TABLE x1 (id INT NOT NULL, k INT NOT NULL, vb VARCHAR(12), bz BIGINT UNSIGNED ZEROFILL, zf INT(6) ZEROFILL, PRIMARY KEY (id), KEY (k), KEY (bz))
REPLACE INTO x1 VALUES (8, 1, '10', 3, 3), (9, 1, '0', 4, 4)
CREATE CACHE c1 FROM SELECT (IF(a.vb, a.bz, 1)) FROM x1 a WHERE a.k = ?
SELECT (IF(a.vb, a.bz, 1)) FROM x1 a WHERE a.k = 1
CREATE CACHE c2 FROM SELECT CASE WHEN a.id = 8 THEN a.bz ELSE -1 END v, a.zf FROM x1 a WHERE a.k = ?
SELECT CASE WHEN a.id = 8 THEN a.bz ELSE -1 END v, a.zf FROM x1 a WHERE a.k = 1
CREATE CACHE c3 FROM SELECT a.id, (MIN(b.bz)), MAX(b.zf) FROM x1 a JOIN x1 b ON a.bz = b.bz GROUP BY a.id
SELECT a.id, (MIN(b.bz)), MAX(b.zf) FROM x1 a JOIN x1 b ON a.bz = b.bz GROUP BY a.id
CREATE CACHE c4 FROM SELECT MIN(zf), MAX(bz), COALESCE(MAX(bz), 0) FROM x1 WHERE k = ?
SELECT MIN(zf), MAX(bz), COALESCE(MAX(bz), 0) FROM x1 WHERE k = 1
CREATE CACHE c5 FROM SELECT bz, zf, COALESCE(bz, 1), IFNULL(zf, -1), NULLIF(bz, 7), CAST(zf AS CHAR), IF(id = 8, zf, 1) + 1 FROM x1 WHERE k = ?
SELECT bz, zf, COALESCE(bz, 1), IFNULL(zf, -1), NULLIF(bz, 7), CAST(zf AS CHAR), IF(id = 8, zf, 1) + 1 FROM x1 WHERE k = 1
CREATE CACHE c6 FROM SELECT IF(id = 8, bz, zf), MIN(bz) OVER (ORDER BY id) FROM x1 WHERE k = ?
SELECT IF(id = 8, bz, zf), MIN(bz) OVER (ORDER BY id) FROM x1 WHERE k = 1
CREATE CACHE c7 FROM SELECT k, bz, COUNT(*) FROM x1 WHERE k = ? GROUP BY k, bz
SELECT k, bz, COUNT(*) FROM x1 WHERE k = 1 GROUP BY k, bz
REPLACE INTO x1 VALUES (10, 1, '1', 5, 5)
SELECT (IF(a.vb, a.bz, 1)) FROM x1 a WHERE a.k = 1
SELECT CASE WHEN a.id = 8 THEN a.bz ELSE -1 END v, a.zf FROM x1 a WHERE a.k = 1
SELECT a.id, (MIN(b.bz)), MAX(b.zf) FROM x1 a JOIN x1 b ON a.bz = b.bz GROUP BY a.id
SELECT MIN(zf), MAX(bz), COALESCE(MAX(bz), 0) FROM x1 WHERE k = 1
SELECT bz, zf, COALESCE(bz, 1), IFNULL(zf, -1), NULLIF(bz, 7), CAST(zf AS CHAR), IF(id = 8, zf, 1) + 1 FROM x1 WHERE k = 1
SELECT IF(id = 8, bz, zf), MIN(bz) OVER (ORDER BY id) FROM x1 WHERE k = 1
SELECT k, bz, COUNT(*) FROM x1 WHERE k = 1 GROUP BY k, bz
