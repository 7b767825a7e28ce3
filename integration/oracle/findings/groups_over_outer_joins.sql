-- rows differ (hit, maintain); found by reading
-- all that ON asks of other rows tells whether an outer join's row is there, not the one equality alone
-- free
CREATE TABLE a1 (id INT NOT NULL, k INT NOT NULL, bid INT NOT NULL, tenant INT NOT NULL, PRIMARY KEY (id), KEY (k))
CREATE TABLE b1 (id INT NOT NULL, tenant INT NOT NULL, price DECIMAL(10,2), PRIMARY KEY (id))
CREATE TABLE v1 (id INT NOT NULL, cid INT NOT NULL, PRIMARY KEY (id), KEY (cid))
CREATE TABLE c1 (id INT NOT NULL, k INT NOT NULL, aid INT NOT NULL, y INT NOT NULL, PRIMARY KEY (id), KEY (k))
REPLACE INTO a1 VALUES (1, 7, 5, 1), (2, 7, 5, 2), (3, 8, 6, 1), (4, 7, 6, 1)
REPLACE INTO b1 VALUES (5, 1, 9.99), (6, 1, 1.5)
REPLACE INTO v1 VALUES (1, 1), (2, 1), (3, 2)
REPLACE INTO c1 VALUES (1, 1, 7, 1), (2, 1, 8, 2)
CREATE CACHE g1 FROM SELECT a.bid, b.price, COUNT(*) FROM a1 a LEFT JOIN b1 b ON b.id = a.bid AND b.tenant = a.tenant WHERE a.k = ? GROUP BY a.bid, b.price
CREATE CACHE g2 FROM SELECT DISTINCT a.bid, b.price FROM a1 a LEFT JOIN b1 b ON b.id = a.bid AND b.tenant = a.tenant WHERE a.k = ?
CREATE CACHE g3 FROM SELECT a.bid, b.price, COUNT(*) FROM a1 a LEFT JOIN b1 b ON b.id = a.bid AND a.tenant = 1 WHERE a.k = ? GROUP BY a.bid, b.price
CREATE CACHE g4 FROM SELECT a.bid, b.price, SUM(a.id) FROM a1 a LEFT JOIN b1 b ON b.id = a.bid AND a.id < 2 WHERE a.k = ? GROUP BY a.bid, b.price
CREATE CACHE g5 FROM SELECT c.id, COUNT(v.id) FROM c1 c JOIN a1 a ON a.k = c.aid LEFT JOIN b1 b ON b.id = c.id AND a.id = c.y JOIN v1 v ON v.cid = c.id WHERE c.k = ? GROUP BY c.id, c.y
SELECT a.bid, b.price, COUNT(*) FROM a1 a LEFT JOIN b1 b ON b.id = a.bid AND b.tenant = a.tenant WHERE a.k = 7 GROUP BY a.bid, b.price
SELECT DISTINCT a.bid, b.price FROM a1 a LEFT JOIN b1 b ON b.id = a.bid AND b.tenant = a.tenant WHERE a.k = 7
SELECT a.bid, b.price, COUNT(*) FROM a1 a LEFT JOIN b1 b ON b.id = a.bid AND a.tenant = 1 WHERE a.k = 7 GROUP BY a.bid, b.price
SELECT a.bid, b.price, SUM(a.id) FROM a1 a LEFT JOIN b1 b ON b.id = a.bid AND a.id < 2 WHERE a.k = 7 GROUP BY a.bid, b.price
SELECT c.id, COUNT(v.id) FROM c1 c JOIN a1 a ON a.k = c.aid LEFT JOIN b1 b ON b.id = c.id AND a.id = c.y JOIN v1 v ON v.cid = c.id WHERE c.k = 1 GROUP BY c.id, c.y
UPDATE a1 SET tenant = 3 - tenant WHERE id < 3
SELECT a.bid, b.price, COUNT(*) FROM a1 a LEFT JOIN b1 b ON b.id = a.bid AND b.tenant = a.tenant WHERE a.k = 7 GROUP BY a.bid, b.price
SELECT DISTINCT a.bid, b.price FROM a1 a LEFT JOIN b1 b ON b.id = a.bid AND b.tenant = a.tenant WHERE a.k = 7
SELECT a.bid, b.price, COUNT(*) FROM a1 a LEFT JOIN b1 b ON b.id = a.bid AND a.tenant = 1 WHERE a.k = 7 GROUP BY a.bid, b.price
SELECT a.bid, b.price, SUM(a.id) FROM a1 a LEFT JOIN b1 b ON b.id = a.bid AND a.id < 2 WHERE a.k = 7 GROUP BY a.bid, b.price
SELECT c.id, COUNT(v.id) FROM c1 c JOIN a1 a ON a.k = c.aid LEFT JOIN b1 b ON b.id = c.id AND a.id = c.y JOIN v1 v ON v.cid = c.id WHERE c.k = 1 GROUP BY c.id, c.y
CREATE TABLE c2 (id INT NOT NULL, k INT NOT NULL, bid INT NOT NULL, name VARCHAR(9), PRIMARY KEY (id), KEY (k))
CREATE TABLE a2 (id INT NOT NULL, name VARCHAR(9), PRIMARY KEY (id), KEY (name))
REPLACE INTO c2 VALUES (1, 7, 5, 'e')
REPLACE INTO a2 VALUES (1, 'e'), (2, 'é')
CREATE CACHE h1 FROM SELECT c.id, b.price, COUNT(*) FROM c2 c JOIN a2 a ON a.name = c.name LEFT JOIN b1 b ON b.id = c.bid AND LENGTH(a.name) = 1 WHERE c.k = ? GROUP BY c.id, b.price
SELECT c.id, b.price, COUNT(*) FROM c2 c JOIN a2 a ON a.name = c.name LEFT JOIN b1 b ON b.id = c.bid AND LENGTH(a.name) = 1 WHERE c.k = 7 GROUP BY c.id, b.price
