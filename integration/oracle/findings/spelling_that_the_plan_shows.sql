-- spelling differ (hit, maintain); found by make oracle SEED=1500875, 1501607, 1501639
-- of rows of one group that are spelled otherwise MySQL shows the one that it reads first: a fill has another plan than the text
-- ordered
CREATE TABLE x2 (id INT NOT NULL, k INT NOT NULL, va VARCHAR(12) COLLATE utf8mb4_0900_ai_ci, fl DOUBLE, PRIMARY KEY (id), KEY (va), KEY (k, va))
REPLACE INTO x2 (id, k, va, fl) VALUES (1, 1, 'b', 0), (2, 1, 'B', 1), (3, 1, 'c', 2), (4, 1, 'C', 3), (5, 2, 'd', 4), (6, 2, 'd', 5)
CREATE CACHE c1 FROM SELECT va, COUNT(*) FROM x2 GROUP BY va ORDER BY va DESC
SELECT va, COUNT(*) FROM x2 GROUP BY va ORDER BY va DESC
CREATE CACHE c2 FROM SELECT va, COUNT(*) FROM x2 WHERE k = ? GROUP BY va ORDER BY va DESC
SELECT va, COUNT(*) FROM x2 WHERE k = 1 GROUP BY va ORDER BY va DESC
SELECT va, COUNT(*) FROM x2 WHERE k = 2 GROUP BY va ORDER BY va DESC
CREATE CACHE c3 FROM SELECT MAX(va), MIN(va) FROM x2 WHERE k = ?
SELECT MAX(va), MIN(va) FROM x2 WHERE k = 1
SELECT MAX(va), MIN(va) FROM x2 WHERE k = 2
CREATE CACHE c4 FROM SELECT a.k, MAX(b.va), MIN(b.va) FROM x2 a LEFT JOIN x2 b ON b.k = a.k WHERE a.id = ? GROUP BY a.k
SELECT a.k, MAX(b.va), MIN(b.va) FROM x2 a LEFT JOIN x2 b ON b.k = a.k WHERE a.id = 1 GROUP BY a.k
SELECT a.k, MAX(b.va), MIN(b.va) FROM x2 a LEFT JOIN x2 b ON b.k = a.k WHERE a.id = 5 GROUP BY a.k
CREATE CACHE c5 FROM SELECT va, COUNT(*) FROM x2 WHERE va = ? GROUP BY va
SELECT va, COUNT(*) FROM x2 WHERE va = 'B' GROUP BY va
SELECT va, COUNT(*) FROM x2 WHERE va = 'D' GROUP BY va
CREATE CACHE c6 FROM SELECT MAX(va) FROM x2
SELECT MAX(va) FROM x2
REPLACE INTO x2 (id, k, va, fl) VALUES (5, 2, 'D', 6), (2, 1, 'b', 2)
SELECT va, COUNT(*) FROM x2 GROUP BY va ORDER BY va DESC
SELECT va, COUNT(*) FROM x2 WHERE k = 1 GROUP BY va ORDER BY va DESC
SELECT va, COUNT(*) FROM x2 WHERE k = 2 GROUP BY va ORDER BY va DESC
SELECT MAX(va), MIN(va) FROM x2 WHERE k = 1
SELECT MAX(va), MIN(va) FROM x2 WHERE k = 2
SELECT a.k, MAX(b.va), MIN(b.va) FROM x2 a LEFT JOIN x2 b ON b.k = a.k WHERE a.id = 1 GROUP BY a.k
SELECT a.k, MAX(b.va), MIN(b.va) FROM x2 a LEFT JOIN x2 b ON b.k = a.k WHERE a.id = 5 GROUP BY a.k
SELECT va, COUNT(*) FROM x2 WHERE va = 'B' GROUP BY va
SELECT va, COUNT(*) FROM x2 WHERE va = 'D' GROUP BY va
DELETE FROM x2 WHERE id IN (1, 4, 6)
SELECT va, COUNT(*) FROM x2 GROUP BY va ORDER BY va DESC
SELECT va, COUNT(*) FROM x2 WHERE k = 1 GROUP BY va ORDER BY va DESC
SELECT va, COUNT(*) FROM x2 WHERE k = 2 GROUP BY va ORDER BY va DESC
SELECT MAX(va), MIN(va) FROM x2 WHERE k = 1
SELECT MAX(va), MIN(va) FROM x2 WHERE k = 2
SELECT a.k, MAX(b.va), MIN(b.va) FROM x2 a LEFT JOIN x2 b ON b.k = a.k WHERE a.id = 1 GROUP BY a.k
SELECT MAX(va) FROM x2
