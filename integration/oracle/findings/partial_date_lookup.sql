-- rows differ (miss, maintain); found by make oracle SEED=1007
-- MySQL:  1 rows [(b'\x00\x00\x00\x00\x00\x00\x00\x01',)]
-- Upwell: 0 rows []
-- only MySQL has [(b'\x00\x00\x00\x00\x00\x00\x00\x01',)]
-- only Upwell has []
-- ordered
CREATE TABLE x1 (id INT NOT NULL, c6 TIME(6) NOT NULL, b6 BIT(64), da DATE NOT NULL, PRIMARY KEY (id), KEY (c6), KEY (b6), KEY (da))
REPLACE INTO x1 (id, c6, b6, da) VALUES (2, '-00:00:01', 1, '2024-00-00')
CREATE TABLE x2 (id INT NOT NULL, da DATE NOT NULL, PRIMARY KEY (id), KEY (da))
REPLACE INTO x2 (id, da) VALUES (15, '1999-12-31'), (6, '2024-00-00'), (4, '1999-12-31')
CREATE CACHE c FROM SELECT b.b6 FROM x2 a LEFT JOIN x1 b ON a.da = b.da WHERE b.c6 IN (?) ORDER BY a.id, b.id
-- bound: fd=092d30303a30303a3031
SELECT b.b6 FROM x2 a LEFT JOIN x1 b ON a.da = b.da WHERE b.c6 IN (?) ORDER BY a.id, b.id
