-- rows differ (miss, maintain); found by make oracle SEED=1039
-- an aggregate without GROUP BY has one row, not one for each key of a list that another condition narrows
-- free
CREATE TABLE x1 (id INT NOT NULL, k INT NOT NULL, PRIMARY KEY (id), KEY (k))
REPLACE INTO x1 (id, k) VALUES (1, 1), (2, 3), (3, 3)
CREATE CACHE c FROM SELECT MAX(a.id), COUNT(*) FROM x1 a WHERE a.k IN (?) AND a.k = ?
SELECT MAX(a.id), COUNT(*) FROM x1 a WHERE a.k IN (1, 3) AND a.k = 3
SELECT MAX(a.id), COUNT(*) FROM x1 a WHERE a.k IN (1, 3) AND a.k = 7
-- bound: 8=0100000000000000 8=0300000000000000 8=0100000000000000
SELECT MAX(a.id), COUNT(*) FROM x1 a WHERE a.k IN (?, ?) AND a.k = ?
CREATE CACHE d FROM SELECT MIN(a.id) FROM x1 a WHERE a.k = 3 AND a.k IN (?)
SELECT MIN(a.id) FROM x1 a WHERE a.k = 3 AND a.k IN (1, 3, 4)
CREATE CACHE e FROM SELECT COUNT(*) FROM x1 a JOIN x1 b ON b.id = a.id WHERE a.k = 3 AND a.k IN (?)
SELECT COUNT(*) FROM x1 a JOIN x1 b ON b.id = a.id WHERE a.k = 3 AND a.k IN (1, 3, 4)
