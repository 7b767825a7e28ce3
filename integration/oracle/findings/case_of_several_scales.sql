-- rows differ (hit, maintain); found by make oracle SEED=500091
-- MySQL shows a CASE with the digits of the result that it chose: 2, and not 2.00
-- ordered
CREATE TABLE p1 (id INT NOT NULL, k INT NOT NULL, mu MEDIUMINT UNSIGNED, dc DECIMAL(10,2), dl DECIMAL(35,10), PRIMARY KEY (id))
REPLACE INTO p1 (id, k, mu, dc, dl) VALUES (1, 1, 2, NULL, NULL), (2, 1, 3, 1.5, 1.5), (3, 2, 4, NULL, NULL)
CREATE CACHE c1 FROM SELECT IF(id = 2, dc, mu) FROM p1 ORDER BY id
SELECT IF(id = 2, dc, mu) FROM p1 ORDER BY id
CREATE CACHE c2 FROM SELECT CASE WHEN id = 2 THEN dc ELSE 0 END, id FROM p1 WHERE k = ? ORDER BY id
SELECT CASE WHEN id = 2 THEN dc ELSE 0 END, id FROM p1 WHERE k = 1 ORDER BY id
CREATE CACHE c3 FROM SELECT COALESCE(dc, mu), IFNULL(dc, 7), GREATEST(mu, 0.00), IF(id = 2, dc, mu) + 1, MAX(IF(id = 2, dc, mu)), SUM(IF(id = 2, dc, 0)) FROM p1 WHERE k = ? GROUP BY id ORDER BY id
SELECT COALESCE(dc, mu), IFNULL(dc, 7), GREATEST(mu, 0.00), IF(id = 2, dc, mu) + 1, MAX(IF(id = 2, dc, mu)), SUM(IF(id = 2, dc, 0)) FROM p1 WHERE k = 1 GROUP BY id ORDER BY id
CREATE CACHE c4 FROM SELECT AVG(COALESCE(dl, mu)), AVG(COALESCE(dc, mu)) FROM p1 WHERE k = ?
SELECT AVG(COALESCE(dl, mu)), AVG(COALESCE(dc, mu)) FROM p1 WHERE k = 2
CREATE CACHE c5 FROM SELECT IF(id = 2, dc, mu) AS g, COUNT(*) FROM p1 WHERE k = ? GROUP BY g ORDER BY g
SELECT IF(id = 2, dc, mu) AS g, COUNT(*) FROM p1 WHERE k = 1 GROUP BY g ORDER BY g
CREATE CACHE c6 FROM SELECT SUM(COALESCE(dl, mu)), SUM(COALESCE(dl, mu)) / 7 FROM p1 WHERE k = ?
SELECT SUM(COALESCE(dl, mu)), SUM(COALESCE(dl, mu)) / 7 FROM p1 WHERE k = 2
