-- rows differ (miss, maintain); MySQL's temporary table makes 0000-00-00 of a partial date
-- free
CREATE TABLE x2 (id INT NOT NULL, c0 TIME, da DATE, PRIMARY KEY (id), KEY (c0), KEY (da))
REPLACE INTO x2 (id, c0, da) VALUES (2, '00:00:00', '2024-00-00')
CREATE CACHE c FROM SELECT DISTINCT a.c0, a.da FROM x2 AS a
SELECT DISTINCT a.c0, a.da FROM x2 AS a
