-- rows differ (hit, maintain); found by make oracle SEED=7700162
-- the groups are computed below the join; MySQL's table of them is above it, and has 0000-00-00 for 2024-06-00
CREATE TABLE p1 (id INT NOT NULL, k INT NOT NULL, PRIMARY KEY (id))
CREATE TABLE p2 (id INT NOT NULL, k INT NOT NULL, da DATE, PRIMARY KEY (id))
REPLACE INTO p1 (id, k) VALUES (1, 0)
REPLACE INTO p2 (id, k, da) VALUES (20, 0, '2024-06-00'), (21, 1, '2024-05-05'), (22, 2, '2024-07-00'), (23, 3, '2024-08-08')
CREATE CACHE c1 FROM SELECT a.id, a.da, 1 FROM p2 AS a LEFT JOIN p1 b ON a.k = b.k WHERE a.k = ? GROUP BY a.id, a.da
-- bound: 8=0000000000000000
SELECT a.id, a.da, 1 FROM p2 AS a LEFT JOIN p1 b ON a.k = b.k WHERE a.k = ? GROUP BY a.id, a.da
SELECT a.id, a.da, 1 FROM p2 AS a LEFT JOIN p1 b ON a.k = b.k WHERE a.k = 0 GROUP BY a.id, a.da
SELECT a.id, a.da, 1 FROM p2 AS a LEFT JOIN p1 b ON a.k = b.k WHERE a.k = 1 GROUP BY a.id, a.da
CREATE CACHE c2 FROM SELECT a.id, COUNT(b.id) FROM p2 AS a LEFT JOIN p1 b ON a.k = b.k WHERE a.k = ? GROUP BY a.id, a.da HAVING a.da > '2024-05-05'
SELECT a.id, COUNT(b.id) FROM p2 AS a LEFT JOIN p1 b ON a.k = b.k WHERE a.k = 3 GROUP BY a.id, a.da HAVING a.da > '2024-05-05'
SELECT a.id, COUNT(b.id) FROM p2 AS a LEFT JOIN p1 b ON a.k = b.k WHERE a.k = 3 GROUP BY a.id, a.da HAVING a.da > '2024-05-05'
SELECT a.id, COUNT(b.id) FROM p2 AS a LEFT JOIN p1 b ON a.k = b.k WHERE a.k = 0 GROUP BY a.id, a.da HAVING a.da > '2024-05-05'
SELECT a.id, COUNT(b.id) FROM p2 AS a LEFT JOIN p1 b ON a.k = b.k WHERE a.k = 1 GROUP BY a.id, a.da HAVING a.da > '2024-05-05'
SELECT a.id, COUNT(b.id) FROM p2 AS a LEFT JOIN p1 b ON a.k = b.k WHERE a.k = 2 GROUP BY a.id, a.da HAVING a.da > '2024-05-05'
CREATE CACHE c3 FROM SELECT a.id, (SELECT COUNT(*) FROM p1 b WHERE b.k = a.k) AS n FROM p2 a WHERE a.k = ? AND a.da > '2023-01-01'
SELECT a.id, (SELECT COUNT(*) FROM p1 b WHERE b.k = a.k) AS n FROM p2 a WHERE a.k = 0 AND a.da > '2023-01-01'
