-- rows differ (hit); found by reading MySQL's sources
-- latin1_bin orders by the bytes of cp1252
-- ordered
CREATE TABLE p1 (id INT NOT NULL, k INT NOT NULL, l VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_bin, PRIMARY KEY (id), KEY (k))
REPLACE INTO p1 VALUES (1, 1, 'é')
CREATE CACHE c1 FROM SELECT id FROM p1 WHERE k = ? ORDER BY l
SELECT id FROM p1 WHERE k = 1 ORDER BY l
CREATE CACHE c2 FROM SELECT MIN(l), MAX(l) FROM p1 WHERE k = ?
SELECT MIN(l), MAX(l) FROM p1 WHERE k = 1
CREATE CACHE c3 FROM SELECT id FROM p1 WHERE k = ? AND l > 'é' ORDER BY id
SELECT id FROM p1 WHERE k = 1 AND l > 'é' ORDER BY id
CREATE CACHE c4 FROM SELECT id FROM p1 WHERE k = ? ORDER BY l LIMIT 2
SELECT id FROM p1 WHERE k = 1 ORDER BY l LIMIT 2
REPLACE INTO p1 VALUES (2, 1, '’'), (3, 1, '€'), (4, 1, 'z'), (5, 1, 'Ÿ'), (6, 1, 'ÿ'), (7, 1, x'81')
SELECT id FROM p1 WHERE k = 1 ORDER BY l
SELECT MIN(l), MAX(l) FROM p1 WHERE k = 1
SELECT id FROM p1 WHERE k = 1 AND l > 'é' ORDER BY id
SELECT id FROM p1 WHERE k = 1 ORDER BY l LIMIT 2
