-- rows differ (hit, maintain); found by make oracle SEED=1500385
-- a DATE with a zero in it is NULL beside a DATETIME where two are compared, and is not in a BETWEEN
-- free
CREATE TABLE x2 (id INT NOT NULL, da DATE, d0 DATETIME, PRIMARY KEY (id), KEY (da), KEY (d0))
REPLACE INTO x2 (id, da, d0) VALUES (21, '2024-00-00', '1999-12-31')
CREATE CACHE c FROM SELECT (SUM(CASE WHEN (a.d0 NOT BETWEEN a.da AND a.d0) THEN 1 ELSE 0 END)) FROM x2 a
SELECT (SUM(CASE WHEN (a.d0 NOT BETWEEN a.da AND a.d0) THEN 1 ELSE 0 END)) FROM x2 a
CREATE CACHE c2 FROM SELECT a.d0 > a.da, a.d0 <= a.da, a.d0 = a.da, NOT (a.d0 >= a.da), a.da IN (a.d0, a.da), a.da BETWEEN a.d0 AND a.da, a.da <=> a.d0 FROM x2 a WHERE a.id = ?
SELECT a.d0 > a.da, a.d0 <= a.da, a.d0 = a.da, NOT (a.d0 >= a.da), a.da IN (a.d0, a.da), a.da BETWEEN a.d0 AND a.da, a.da <=> a.d0 FROM x2 a WHERE a.id = 21
CREATE CACHE c3 FROM SELECT id FROM x2 WHERE d0 < da AND id > ?
SELECT id FROM x2 WHERE d0 < da AND id > 3
CREATE CACHE c4 FROM SELECT SUM(d0 < da), SUM(d0 >= da), SUM(da = d0), SUM(da IN (d0, da)) FROM x2
SELECT SUM(d0 < da), SUM(d0 >= da), SUM(da = d0), SUM(da IN (d0, da)) FROM x2
UPDATE IGNORE x2 SET d0 = '2024-00-00 00:00:00'
SELECT a.d0 > a.da, a.d0 <= a.da, a.d0 = a.da, NOT (a.d0 >= a.da), a.da IN (a.d0, a.da), a.da BETWEEN a.d0 AND a.da, a.da <=> a.d0 FROM x2 a WHERE a.id = 21
SELECT id FROM x2 WHERE d0 < da AND id > 3
SELECT SUM(d0 < da), SUM(d0 >= da), SUM(da = d0), SUM(da IN (d0, da)) FROM x2
