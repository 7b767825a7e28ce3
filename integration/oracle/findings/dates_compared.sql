-- rows differ (hit, maintain); found by make oracle SEED=901711
-- a DATETIME with a zero in it that is no plain column is NULL to a comparison, not so a DATE, but in an IN
-- ordered
CREATE TABLE p1 (id INT NOT NULL, k INT NOT NULL, d0 DATETIME, d1 DATETIME, da DATE, PRIMARY KEY (id))
REPLACE INTO p1 (id, k, d0, d1, da) VALUES (7, 1, '1999-12-31', '1999-12-31', '1999-12-31'), (14, 1, '0000-00-00', '0000-00-00', '0000-00-00'), (15, 2, '2024-00-00', '2024-00-00', '2024-00-00'), (16, 2, NULL, NULL, NULL)
CREATE CACHE c1 FROM SELECT b.id FROM p1 AS a LEFT JOIN p1 b ON a.id = b.id WHERE COALESCE(a.d0, b.d0) = b.d0 AND a.k = ? ORDER BY a.id DESC, b.id
SELECT b.id FROM p1 AS a LEFT JOIN p1 b ON a.id = b.id WHERE COALESCE(a.d0, b.d0) = b.d0 AND a.k = 1 ORDER BY a.id DESC, b.id
SELECT b.id FROM p1 AS a LEFT JOIN p1 b ON a.id = b.id WHERE COALESCE(a.d0, b.d0) = b.d0 AND a.k = 2 ORDER BY a.id DESC, b.id
CREATE CACHE c2 FROM SELECT id FROM p1 WHERE k = ? AND IFNULL(da, da) IN (da, '1999-12-31') ORDER BY id
SELECT id FROM p1 WHERE k = 1 AND IFNULL(da, da) IN (da, '1999-12-31') ORDER BY id
SELECT id FROM p1 WHERE k = 2 AND IFNULL(da, da) IN (da, '1999-12-31') ORDER BY id
CREATE CACHE c3 FROM SELECT k, COUNT(*) FROM p1 WHERE k = ? GROUP BY k HAVING MIN(d0) = MIN(d1)
SELECT k, COUNT(*) FROM p1 WHERE k = 1 GROUP BY k HAVING MIN(d0) = MIN(d1)
SELECT k, COUNT(*) FROM p1 WHERE k = 2 GROUP BY k HAVING MIN(d0) = MIN(d1)
CREATE CACHE c4 FROM SELECT id FROM p1 WHERE k = ? AND d0 = (SELECT MAX(i.d0) FROM p1 i WHERE i.id = p1.id) ORDER BY id
SELECT id FROM p1 WHERE k = 1 AND d0 = (SELECT MAX(i.d0) FROM p1 i WHERE i.id = p1.id) ORDER BY id
SELECT id FROM p1 WHERE k = 2 AND d0 = (SELECT MAX(i.d0) FROM p1 i WHERE i.id = p1.id) ORDER BY id
CREATE CACHE c5 FROM SELECT id, IF(id, d0, d1) = d1, NULLIF(d0, '2000-01-01') < d1, GREATEST(da, da) = da, CASE COALESCE(d0, d1) WHEN d0 THEN 1 ELSE 0 END FROM p1 WHERE k = ? ORDER BY id
SELECT id, IF(id, d0, d1) = d1, NULLIF(d0, '2000-01-01') < d1, GREATEST(da, da) = da, CASE COALESCE(d0, d1) WHEN d0 THEN 1 ELSE 0 END FROM p1 WHERE k = 1 ORDER BY id
SELECT id, IF(id, d0, d1) = d1, NULLIF(d0, '2000-01-01') < d1, GREATEST(da, da) = da, CASE COALESCE(d0, d1) WHEN d0 THEN 1 ELSE 0 END FROM p1 WHERE k = 2 ORDER BY id
CREATE CACHE c6 FROM SELECT q.k, q.m FROM (SELECT k, MIN(d0) AS m FROM p1 GROUP BY k) q JOIN p1 AS a ON a.k = q.k AND a.d0 >= q.m WHERE a.id = ?
SELECT q.k, q.m FROM (SELECT k, MIN(d0) AS m FROM p1 GROUP BY k) q JOIN p1 AS a ON a.k = q.k AND a.d0 >= q.m WHERE a.id = 14
UPDATE p1 SET k = 3 - k WHERE id > 14
SELECT b.id FROM p1 AS a LEFT JOIN p1 b ON a.id = b.id WHERE COALESCE(a.d0, b.d0) = b.d0 AND a.k = 1 ORDER BY a.id DESC, b.id
SELECT id FROM p1 WHERE k = 1 AND IFNULL(da, da) IN (da, '1999-12-31') ORDER BY id
SELECT k, COUNT(*) FROM p1 WHERE k = 1 GROUP BY k HAVING MIN(d0) = MIN(d1)
SELECT id FROM p1 WHERE k = 1 AND d0 = (SELECT MAX(i.d0) FROM p1 i WHERE i.id = p1.id) ORDER BY id
SELECT id, IF(id, d0, d1) = d1, NULLIF(d0, '2000-01-01') < d1, GREATEST(da, da) = da, CASE COALESCE(d0, d1) WHEN d0 THEN 1 ELSE 0 END FROM p1 WHERE k = 1 ORDER BY id
SELECT q.k, q.m FROM (SELECT k, MIN(d0) AS m FROM p1 GROUP BY k) q JOIN p1 AS a ON a.k = q.k AND a.d0 >= q.m WHERE a.id = 14
UPDATE p1 SET d0 = d0 + INTERVAL 1 DAY, d1 = d1 + INTERVAL 1 DAY WHERE id = 7
SELECT k, COUNT(*) FROM p1 WHERE k = 1 GROUP BY k HAVING MIN(d0) = MIN(d1)
