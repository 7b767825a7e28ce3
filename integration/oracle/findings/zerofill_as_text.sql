-- rows differ (hit, maintain); found by make oracle SEED=717511
-- MySQL:  1 rows [(b'000002',)]
-- Upwell: 1 rows [(b'2',)]
-- free
CREATE TABLE x1 (id INT NOT NULL, k INT NOT NULL, zf INT(6) ZEROFILL, dz DECIMAL(8,2) ZEROFILL, PRIMARY KEY (id), KEY (k), KEY (zf))
REPLACE INTO x1 (id, k, zf, dz) VALUES (18, 2, 2, 1.5), (19, 2, 3, 2.5)
CREATE CACHE c1 FROM SELECT (CAST(a.zf AS CHAR)) FROM x1 AS a LEFT JOIN x1 b ON a.id = b.id WHERE a.k = ?
SELECT (CAST(a.zf AS CHAR)) FROM x1 AS a LEFT JOIN x1 b ON a.id = b.id WHERE a.k = 2
CREATE CACHE c2 FROM SELECT CAST(MAX(a.zf) AS CHAR), CAST(SUM(a.dz) AS CHAR), CAST(a.k + 1 AS CHAR) FROM x1 a WHERE a.k = ? GROUP BY a.k
SELECT CAST(MAX(a.zf) AS CHAR), CAST(SUM(a.dz) AS CHAR), CAST(a.k + 1 AS CHAR) FROM x1 a WHERE a.k = 2 GROUP BY a.k
CREATE CACHE c3 FROM SELECT CAST(a.dz AS CHAR), a.zf, CAST(IF(a.id > 18, a.zf, 1) AS CHAR) FROM x1 a WHERE a.k = ?
SELECT CAST(a.dz AS CHAR), a.zf, CAST(IF(a.id > 18, a.zf, 1) AS CHAR) FROM x1 a WHERE a.k = 2
CREATE CACHE c4 FROM SELECT a.id FROM x1 a WHERE a.k = ? AND CAST(a.zf AS CHAR) = '000002'
SELECT a.id FROM x1 a WHERE a.k = 2 AND CAST(a.zf AS CHAR) = '000002'
CREATE CACHE c5 FROM SELECT CONCAT(a.zf, 'a'), CHAR_LENGTH(a.zf), COALESCE(a.zf, 'a'), a.zf LIKE '00%' FROM x1 a WHERE a.k = ?
SELECT CONCAT(a.zf, 'a'), CHAR_LENGTH(a.zf), COALESCE(a.zf, 'a'), a.zf LIKE '00%' FROM x1 a WHERE a.k = 2
CREATE CACHE c6 FROM SELECT CAST(d.m AS CHAR) FROM (SELECT k, MAX(zf) AS m FROM x1 GROUP BY k) d WHERE d.k = ?
SELECT CAST(d.m AS CHAR) FROM (SELECT k, MAX(zf) AS m FROM x1 GROUP BY k) d WHERE d.k = 2
REPLACE INTO x1 (id, k, zf, dz) VALUES (20, 2, 7, 12.5)
SELECT (CAST(a.zf AS CHAR)) FROM x1 AS a LEFT JOIN x1 b ON a.id = b.id WHERE a.k = 2
SELECT CAST(MAX(a.zf) AS CHAR), CAST(SUM(a.dz) AS CHAR), CAST(a.k + 1 AS CHAR) FROM x1 a WHERE a.k = 2 GROUP BY a.k
SELECT CAST(a.dz AS CHAR), a.zf, CAST(IF(a.id > 18, a.zf, 1) AS CHAR) FROM x1 a WHERE a.k = 2
SELECT CONCAT(a.zf, 'a'), CHAR_LENGTH(a.zf), COALESCE(a.zf, 'a'), a.zf LIKE '00%' FROM x1 a WHERE a.k = 2
SELECT CAST(d.m AS CHAR) FROM (SELECT k, MAX(zf) AS m FROM x1 GROUP BY k) d WHERE d.k = 2
