-- rows differ (hit, evict); found by make oracle SEED=31003219
-- whether MySQL shows a YEAR of zero, given by IF or CASE beside a DECIMAL, as 0000 or as 0 depends on its plan
-- free
CREATE TABLE x1 (id INT NOT NULL, t3 TIMESTAMP(3) NULL NOT NULL, dz DECIMAL(5,0), zf INT(6) ZEROFILL, yr YEAR, PRIMARY KEY (id), KEY (t3), KEY (dz), KEY (zf), KEY (yr))
REPLACE INTO x1 (id, t3, dz, zf, yr) VALUES (23, '2024-02-29 12:34:56.789', -3, 123456, 0)
CREATE CACHE c FROM SELECT q.n FROM x1 AS a JOIN (SELECT i.id, i.dz, i.zf, i.t3, (IF(NULL, i.dz, i.yr)) AS n FROM x1 AS i) q ON a.id = q.id
CREATE CACHE c1 FROM SELECT id, IF(id > 5, yr, dz), CASE WHEN id < 5 THEN 1.5 ELSE yr END FROM x1 WHERE id = ?
CREATE CACHE c2 FROM SELECT id, IF(id > 5, yr, id), IF(id > 5, yr, NULL), CASE WHEN id < 5 THEN 0 ELSE yr END, MAX(yr), COALESCE(yr, dz) FROM x1 WHERE id = ?
SELECT q.n FROM x1 AS a JOIN (SELECT i.id, i.dz, i.zf, i.t3, (IF(NULL, i.dz, i.yr)) AS n FROM x1 AS i) q ON a.id = q.id
SELECT id, IF(id > 5, yr, dz), CASE WHEN id < 5 THEN 1.5 ELSE yr END FROM x1 WHERE id = 23
SELECT id, IF(id > 5, yr, id), IF(id > 5, yr, NULL), CASE WHEN id < 5 THEN 0 ELSE yr END, MAX(yr), COALESCE(yr, dz) FROM x1 WHERE id = 23
UPDATE x1 SET yr = 2024 WHERE id = 23
SELECT q.n FROM x1 AS a JOIN (SELECT i.id, i.dz, i.zf, i.t3, (IF(NULL, i.dz, i.yr)) AS n FROM x1 AS i) q ON a.id = q.id
SELECT id, IF(id > 5, yr, dz), CASE WHEN id < 5 THEN 1.5 ELSE yr END FROM x1 WHERE id = 23
UPDATE x1 SET yr = 0 WHERE id = 23
SELECT q.n FROM x1 AS a JOIN (SELECT i.id, i.dz, i.zf, i.t3, (IF(NULL, i.dz, i.yr)) AS n FROM x1 AS i) q ON a.id = q.id
SELECT id, IF(id > 5, yr, dz), CASE WHEN id < 5 THEN 1.5 ELSE yr END FROM x1 WHERE id = 23
SELECT id, IF(id > 5, yr, id), IF(id > 5, yr, NULL), CASE WHEN id < 5 THEN 0 ELSE yr END, MAX(yr), COALESCE(yr, dz) FROM x1 WHERE id = 23
