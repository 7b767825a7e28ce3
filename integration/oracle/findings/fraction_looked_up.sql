-- rows differ (hit, evict); found by make oracle SEED=501995
-- in the ON of an outer join MySQL finds an integer for 0.5e0, if it looks it up in an index
-- free
CREATE TABLE x1 (id INT NOT NULL, PRIMARY KEY (id))
REPLACE INTO x1 (id) VALUES (17)
CREATE TABLE x2 (id INT NOT NULL, k INT, zf INT, dc DECIMAL(10,2), PRIMARY KEY (id), KEY (zf), KEY (dc))
REPLACE INTO x2 (id, k, zf, dc) VALUES (10, 1, 0, 1.12), (11, 1, 1, 2)
CREATE CACHE c1 FROM SELECT a.id, (MAX(b.id)) FROM x1 a LEFT JOIN x2 b ON (0.5e0 = b.zf) GROUP BY a.id
SELECT a.id, (MAX(b.id)) FROM x1 a LEFT JOIN x2 b ON (0.5e0 = b.zf) GROUP BY a.id
CREATE CACHE c2 FROM SELECT b.id FROM x2 b WHERE 0.5e0 = b.zf
SELECT b.id FROM x2 b WHERE 0.5e0 = b.zf
CREATE CACHE c3 FROM SELECT a.id, b.id FROM x1 a LEFT JOIN x2 b ON b.zf = 0.5 WHERE a.id = ?
SELECT a.id, b.id FROM x1 a LEFT JOIN x2 b ON b.zf = 0.5 WHERE a.id = 17
CREATE CACHE c4 FROM SELECT a.id, b.id FROM x1 a LEFT JOIN x2 b ON b.dc = 1.119 WHERE a.id = ?
SELECT a.id, b.id FROM x1 a LEFT JOIN x2 b ON b.dc = 1.119 WHERE a.id = 17
CREATE CACHE c5 FROM SELECT a.id, b.id FROM x1 a LEFT JOIN x2 b ON b.zf = '0.5' WHERE a.id = ?
SELECT a.id, b.id FROM x1 a LEFT JOIN x2 b ON b.zf = '0.5' WHERE a.id = 17
CREATE CACHE c6 FROM SELECT a.id, b.id FROM x1 a JOIN x2 b ON b.zf = a.id + 0.5e0 WHERE a.id = ?
SELECT a.id, b.id FROM x1 a JOIN x2 b ON b.zf = a.id + 0.5e0 WHERE a.id = 17
CREATE CACHE c7 FROM SELECT a.id, b.id FROM x1 a LEFT JOIN x2 b ON b.zf IN (0.5e0) WHERE a.id = ?
SELECT a.id, b.id FROM x1 a LEFT JOIN x2 b ON b.zf IN (0.5e0) WHERE a.id = 17
UPDATE IGNORE x2 SET zf = 5 WHERE id = 10
SELECT a.id, (MAX(b.id)) FROM x1 a LEFT JOIN x2 b ON (0.5e0 = b.zf) GROUP BY a.id
SELECT b.id FROM x2 b WHERE 0.5e0 = b.zf
SELECT a.id, b.id FROM x1 a LEFT JOIN x2 b ON b.zf = 0.5 WHERE a.id = 17
