-- rows differ (hit, maintain); found by make oracle SEED=9101332
-- MIN and MAX of a YEAR of zero are 0000 from a temporary table and else 0: the LIMIT decides for an index
CREATE TABLE x1 (id INT NOT NULL, k INT, va VARCHAR(9), yr YEAR, PRIMARY KEY (id), KEY (k), KEY (va))
REPLACE INTO x1 VALUES (1, 1, 'a', 0), (2, 1, 'b', 0), (3, 1, 'c', 2000), (4, 2, 'a', 2001), (5, 1, 'a', 2024)
CREATE CACHE c FROM SELECT a.va, MIN(a.yr) FROM x1 a WHERE a.k = ? GROUP BY a.va ORDER BY 1 LIMIT ?
SELECT a.va, MIN(a.yr) FROM x1 a WHERE a.k = 1 GROUP BY a.va ORDER BY 1 LIMIT 4
SELECT a.va, MIN(a.yr) FROM x1 a WHERE a.k = 1 GROUP BY a.va ORDER BY 1 LIMIT 1
UPDATE x1 SET yr = 2005 WHERE id IN (1, 2)
-- again
UPDATE x1 SET yr = 0 WHERE id = 1
-- again
