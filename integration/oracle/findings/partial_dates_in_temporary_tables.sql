-- a GROUP BY, MIN and MAX, the ORDER BY of a join: MySQL's temporary tables make 0000-00-00 of a partial date
-- free
CREATE TABLE x1 (id INT NOT NULL, k INT, da DATE, dt DATETIME, PRIMARY KEY (id), KEY (k))
REPLACE INTO x1 (id, k, da, dt) VALUES (1, 1, '2024-05-05', '2024-05-05 10:00:00'), (2, 1, '2024-00-00', '2024-05-00 10:00:00')
CREATE CACHE c1 FROM SELECT a.k, MIN(a.da), MAX(a.dt) FROM x1 a WHERE a.k < 5 GROUP BY a.k
CREATE CACHE c2 FROM SELECT a.da, COUNT(*) FROM x1 a WHERE a.k = ? GROUP BY a.da
CREATE CACHE c3 FROM SELECT a.id, b.da FROM x1 a JOIN x1 b ON b.k = a.k WHERE a.k = ? ORDER BY b.dt, a.id, b.id
CREATE CACHE c4 FROM SELECT MIN(a.da) FROM x1 a WHERE a.k = ?
CREATE CACHE c5 FROM SELECT a.da, COUNT(*) FROM x1 a JOIN x1 b ON b.id = a.id WHERE a.k = ? GROUP BY a.da
SELECT a.k, MIN(a.da), MAX(a.dt) FROM x1 a WHERE a.k < 5 GROUP BY a.k
SELECT a.da, COUNT(*) FROM x1 a WHERE a.k = 1 GROUP BY a.da
SELECT a.id, b.da FROM x1 a JOIN x1 b ON b.k = a.k WHERE a.k = 1 ORDER BY b.dt, a.id, b.id
SELECT MIN(a.da) FROM x1 a WHERE a.k = 1
SELECT a.da, COUNT(*) FROM x1 a JOIN x1 b ON b.id = a.id WHERE a.k = 1 GROUP BY a.da
UPDATE x1 SET da = '2024-02-02', dt = '2024-02-02' WHERE id = 2
SELECT a.k, MIN(a.da), MAX(a.dt) FROM x1 a WHERE a.k < 5 GROUP BY a.k
SELECT a.da, COUNT(*) FROM x1 a WHERE a.k = 1 GROUP BY a.da
SELECT a.id, b.da FROM x1 a JOIN x1 b ON b.k = a.k WHERE a.k = 1 ORDER BY b.dt, a.id, b.id
SELECT MIN(a.da) FROM x1 a WHERE a.k = 1
SELECT a.da, COUNT(*) FROM x1 a JOIN x1 b ON b.id = a.id WHERE a.k = 1 GROUP BY a.da
UPDATE x1 SET da = '2024-02-00', dt = '2024-02-00' WHERE id = 2
REPLACE INTO x1 (id, k, da, dt) VALUES (3, 1, '0000-00-00', '0000-00-00 00:00:00')
SELECT a.k, MIN(a.da), MAX(a.dt) FROM x1 a WHERE a.k < 5 GROUP BY a.k
SELECT a.da, COUNT(*) FROM x1 a WHERE a.k = 1 GROUP BY a.da
SELECT a.id, b.da FROM x1 a JOIN x1 b ON b.k = a.k WHERE a.k = 1 ORDER BY b.dt, a.id, b.id
SELECT MIN(a.da) FROM x1 a WHERE a.k = 1
SELECT a.da, COUNT(*) FROM x1 a JOIN x1 b ON b.id = a.id WHERE a.k = 1 GROUP BY a.da
