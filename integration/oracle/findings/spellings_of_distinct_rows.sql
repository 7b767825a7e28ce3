-- found by make oracle SEED=717392
-- which of rows that are spelled otherwise stands for them in a DISTINCT, a GROUP BY: MySQL takes the first that it reads
CREATE TABLE x1 (id INT NOT NULL, k INT, vu VARCHAR(12) COLLATE utf8mb4_unicode_ci, n INT, PRIMARY KEY (id), KEY (k), KEY (n))
REPLACE INTO x1 (id, k, vu, n) VALUES (3, 1, 'ä', 1), (5, 1, 'a ', 2), (7, 1, 'b', 3), (8, 2, 'c', 4)
CREATE CACHE c1 FROM SELECT DISTINCT vu FROM x1 WHERE k = ?
CREATE CACHE c2 FROM SELECT vu, COUNT(*) FROM x1 WHERE k = ? GROUP BY vu
CREATE CACHE c3 FROM SELECT a.vu, COUNT(*) FROM x1 a JOIN x1 b ON b.id = a.id WHERE a.k = ? GROUP BY a.vu
SELECT DISTINCT vu FROM x1 WHERE k = 1
SELECT DISTINCT vu FROM x1 WHERE k = 2
SELECT vu, COUNT(*) FROM x1 WHERE k = 1 GROUP BY vu
SELECT vu, COUNT(*) FROM x1 WHERE k = 2 GROUP BY vu
SELECT a.vu, COUNT(*) FROM x1 a JOIN x1 b ON b.id = a.id WHERE a.k = 1 GROUP BY a.vu
SELECT a.vu, COUNT(*) FROM x1 a JOIN x1 b ON b.id = a.id WHERE a.k = 2 GROUP BY a.vu
REPLACE INTO x1 (id, k, vu, n) VALUES (1, 1, 'A', 5), (2, 2, 'C', 6)
SELECT DISTINCT vu FROM x1 WHERE k = 1
SELECT DISTINCT vu FROM x1 WHERE k = 2
SELECT vu, COUNT(*) FROM x1 WHERE k = 1 GROUP BY vu
SELECT vu, COUNT(*) FROM x1 WHERE k = 2 GROUP BY vu
SELECT a.vu, COUNT(*) FROM x1 a JOIN x1 b ON b.id = a.id WHERE a.k = 1 GROUP BY a.vu
SELECT a.vu, COUNT(*) FROM x1 a JOIN x1 b ON b.id = a.id WHERE a.k = 2 GROUP BY a.vu
