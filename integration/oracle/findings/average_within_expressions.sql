-- rows differ (hit, maintain); found by make oracle SEED=500056
-- MySQL computes with nine digits of an AVG, or with those that it shows: AVG(v) * 3 is 4.0000, by another plan 3.9999
-- ordered
CREATE TABLE p1 (id INT NOT NULL, k INT NOT NULL, g INT NOT NULL, v INT, PRIMARY KEY (id), KEY (k, g))
REPLACE INTO p1 (id, k, g, v) VALUES (1, 1, 1, 1), (2, 1, 1, 1), (3, 1, 1, 2), (4, 1, 2, 1), (5, 1, 2, 1), (6, 1, 2, 3)
CREATE CACHE c1 FROM SELECT AVG(v) / 3, AVG(v) > 1.3333, AVG(v) * 3, CAST(AVG(v) AS DECIMAL(20,9)) FROM p1 WHERE k = ? AND g = 1
SELECT AVG(v) / 3, AVG(v) > 1.3333, AVG(v) * 3, CAST(AVG(v) AS DECIMAL(20,9)) FROM p1 WHERE k = 1 AND g = 1
CREATE CACHE c2 FROM SELECT g, AVG(v) FROM p1 WHERE k = ? GROUP BY g HAVING AVG(v) > 1.3333 ORDER BY g
SELECT g, AVG(v) FROM p1 WHERE k = 1 GROUP BY g HAVING AVG(v) > 1.3333 ORDER BY g
CREATE CACHE c3 FROM SELECT g, AVG(v) AS d FROM p1 WHERE k = ? GROUP BY g HAVING d > 1.3333 ORDER BY d, g
SELECT g, AVG(v) AS d FROM p1 WHERE k = 1 GROUP BY g HAVING d > 1.3333 ORDER BY d, g
CREATE CACHE c4 FROM SELECT a.id, (SELECT AVG(b.v) FROM p1 b WHERE b.g = a.g) * 3 FROM p1 a WHERE a.k = ? ORDER BY a.id
SELECT a.id, (SELECT AVG(b.v) FROM p1 b WHERE b.g = a.g) * 3 FROM p1 a WHERE a.k = 1 ORDER BY a.id
CREATE CACHE c5 FROM SELECT d.id, d.m * 3 FROM (SELECT a.id, a.k, (SELECT AVG(b.v) FROM p1 b WHERE b.g = a.g) AS m FROM p1 a) d WHERE d.k = ? ORDER BY d.id
SELECT d.id, d.m * 3 FROM (SELECT a.id, a.k, (SELECT AVG(b.v) FROM p1 b WHERE b.g = a.g) AS m FROM p1 a) d WHERE d.k = 1 ORDER BY d.id
CREATE CACHE c6 FROM SELECT d.g, d.m * 3 FROM (SELECT b.k, b.g, AVG(b.v) AS m FROM p1 b GROUP BY b.k, b.g) d WHERE d.k = ? ORDER BY d.g
SELECT d.g, d.m * 3 FROM (SELECT b.k, b.g, AVG(b.v) AS m FROM p1 b GROUP BY b.k, b.g) d WHERE d.k = 1 ORDER BY d.g
CREATE CACHE c7 FROM SELECT g, COALESCE(AVG(v), 0), IFNULL(AVG(v), 0.00), AVG(v), COALESCE(AVG(v), 0.000001), COALESCE((SELECT AVG(b.v) FROM p1 b WHERE b.g = p1.g), 0), (SELECT AVG(b.v) FROM p1 b WHERE b.g = p1.g) FROM p1 WHERE k = ? GROUP BY g ORDER BY g
SELECT g, COALESCE(AVG(v), 0), IFNULL(AVG(v), 0.00), AVG(v), COALESCE(AVG(v), 0.000001), COALESCE((SELECT AVG(b.v) FROM p1 b WHERE b.g = p1.g), 0), (SELECT AVG(b.v) FROM p1 b WHERE b.g = p1.g) FROM p1 WHERE k = 1 GROUP BY g ORDER BY g
CREATE CACHE c8 FROM SELECT g, COALESCE(AVG(v), 0), AVG(v) FROM p1 WHERE k = ? GROUP BY g ORDER BY g
SELECT g, COALESCE(AVG(v), 0), AVG(v) FROM p1 WHERE k = 1 GROUP BY g ORDER BY g
CREATE CACHE c9 FROM SELECT a.id, COALESCE((SELECT AVG(b.v) FROM p1 b WHERE b.g = a.g), 0), (SELECT AVG(b.v) FROM p1 b WHERE b.g = a.g) FROM p1 a WHERE a.k = ? ORDER BY a.id
SELECT a.id, COALESCE((SELECT AVG(b.v) FROM p1 b WHERE b.g = a.g), 0), (SELECT AVG(b.v) FROM p1 b WHERE b.g = a.g) FROM p1 a WHERE a.k = 1 ORDER BY a.id
UPDATE p1 SET v = 2 WHERE id = 4
SELECT g, AVG(v) FROM p1 WHERE k = 1 GROUP BY g HAVING AVG(v) > 1.3333 ORDER BY g
SELECT g, COALESCE(AVG(v), 0), AVG(v) FROM p1 WHERE k = 1 GROUP BY g ORDER BY g
SELECT a.id, COALESCE((SELECT AVG(b.v) FROM p1 b WHERE b.g = a.g), 0), (SELECT AVG(b.v) FROM p1 b WHERE b.g = a.g) FROM p1 a WHERE a.k = 1 ORDER BY a.id
