-- rows differ (hit); found by reading MySQL's sources
-- MySQL compares FLOAT(m,d) and DOUBLE(m,d) with a tolerance where the other side has a fixed number of digits, too
-- ordered
CREATE TABLE p1 (id INT NOT NULL, k INT NOT NULL, fm FLOAT(7,2), dm DOUBLE(9,2), fl FLOAT, dc DECIMAL(9,2), PRIMARY KEY (id), KEY (k))
REPLACE INTO p1 VALUES (1, 2, 1, 1, 1, 1)
CREATE CACHE c1 FROM SELECT id FROM p1 WHERE k = ? AND fm = 0.1 ORDER BY id
SELECT id FROM p1 WHERE k = 1 AND fm = 0.1 ORDER BY id
CREATE CACHE c2 FROM SELECT id FROM p1 WHERE k = ? AND fm > 0.1 ORDER BY id
SELECT id FROM p1 WHERE k = 1 AND fm > 0.1 ORDER BY id
CREATE CACHE c3 FROM SELECT id, fm = dc, fm + 0 = dc, NULLIF(fm, 0.1), fm = dm, dm = 0.1, dm < 0.104, fm IN (0.1, 0.2), fm BETWEEN 0.1 AND 0.2, CASE fm WHEN 0.1 THEN 1 ELSE 2 END, fm = fl, COALESCE(fm, 0) = 0.1, fm * 2 = 0.2, fm = 0.1e0 FROM p1 WHERE k = ? ORDER BY id
SELECT id, fm = dc, fm + 0 = dc, NULLIF(fm, 0.1), fm = dm, dm = 0.1, dm < 0.104, fm IN (0.1, 0.2), fm BETWEEN 0.1 AND 0.2, CASE fm WHEN 0.1 THEN 1 ELSE 2 END, fm = fl, COALESCE(fm, 0) = 0.1, fm * 2 = 0.2, fm = 0.1e0 FROM p1 WHERE k = 1 ORDER BY id
CREATE CACHE c4 FROM SELECT id FROM p1 WHERE k = ? AND fm = ? ORDER BY id
SELECT id FROM p1 WHERE k = 1 AND fm = 0.1 ORDER BY id
CREATE CACHE c5 FROM SELECT id FROM (SELECT id, k, fm + 0 AS v FROM p1) d WHERE k = ? AND v = 0.1 ORDER BY id
SELECT id FROM (SELECT id, k, fm + 0 AS v FROM p1) d WHERE k = 1 AND v = 0.1 ORDER BY id
CREATE CACHE c6 FROM SELECT COUNT(DISTINCT id) FROM p1 WHERE k = ? AND fm = 0.1
SELECT COUNT(DISTINCT id) FROM p1 WHERE k = 1 AND fm = 0.1
CREATE CACHE c7 FROM SELECT k, MAX(fm) FROM p1 WHERE k = ? GROUP BY k HAVING MAX(fm) = 0.1
SELECT k, MAX(fm) FROM p1 WHERE k = 1 GROUP BY k HAVING MAX(fm) = 0.1
CREATE CACHE c8 FROM SELECT id, fm + 0, fm * 2, -fm, ABS(fm), COALESCE(fm, 0), fm + dc, fm * dc, dm + 1, fm / 3, fm + fl FROM p1 WHERE k = ? ORDER BY id
SELECT id, fm + 0, fm * 2, -fm, ABS(fm), COALESCE(fm, 0), fm + dc, fm * dc, dm + 1, fm / 3, fm + fl FROM p1 WHERE k = 1 ORDER BY id
CREATE CACHE c9 FROM SELECT a.id, b.id FROM p1 a JOIN p1 b ON a.fm = b.dc WHERE a.k = ? ORDER BY 1, 2
SELECT a.id, b.id FROM p1 a JOIN p1 b ON a.fm = b.dc WHERE a.k = 1 ORDER BY 1, 2
CREATE CACHE c10 FROM SELECT id FROM p1 WHERE k = ? AND dm + 0.1 = 0.3 ORDER BY id
SELECT id FROM p1 WHERE k = 1 AND dm + 0.1 = 0.3 ORDER BY id
REPLACE INTO p1 VALUES (7, 1, 0.1, 0.1, 0.1, 0.1), (8, 1, 0.2, 0.2, 0.2, 0.2), (9, 1, 0.3, 0.3, 0.3, 0.3)
SELECT id FROM p1 WHERE k = 1 AND fm = 0.1 ORDER BY id
SELECT id FROM p1 WHERE k = 1 AND fm > 0.1 ORDER BY id
SELECT id, fm = dc, fm + 0 = dc, NULLIF(fm, 0.1), fm = dm, dm = 0.1, dm < 0.104, fm IN (0.1, 0.2), fm BETWEEN 0.1 AND 0.2, CASE fm WHEN 0.1 THEN 1 ELSE 2 END, fm = fl, COALESCE(fm, 0) = 0.1, fm * 2 = 0.2, fm = 0.1e0 FROM p1 WHERE k = 1 ORDER BY id
SELECT id FROM (SELECT id, k, fm + 0 AS v FROM p1) d WHERE k = 1 AND v = 0.1 ORDER BY id
SELECT COUNT(DISTINCT id) FROM p1 WHERE k = 1 AND fm = 0.1
SELECT k, MAX(fm) FROM p1 WHERE k = 1 GROUP BY k HAVING MAX(fm) = 0.1
SELECT id, fm + 0, fm * 2, -fm, ABS(fm), COALESCE(fm, 0), fm + dc, fm * dc, dm + 1, fm / 3, fm + fl FROM p1 WHERE k = 1 ORDER BY id
SELECT a.id, b.id FROM p1 a JOIN p1 b ON a.fm = b.dc WHERE a.k = 1 ORDER BY 1, 2
SELECT id FROM p1 WHERE k = 1 AND dm + 0.1 = 0.3 ORDER BY id
