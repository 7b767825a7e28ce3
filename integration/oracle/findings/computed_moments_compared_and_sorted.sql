-- rows differ (hit, maintain); found by reading
-- a TIMESTAMP that a subquery gives, and what is sorted by a computed moment: 0000-00-00 is NULL there
-- ordered
CREATE TABLE a1 (id INT NOT NULL, k INT NOT NULL, d0 DATETIME, ts TIMESTAMP NULL, PRIMARY KEY (id), KEY (k))
CREATE TABLE b1 (id INT NOT NULL, bo INT, ts TIMESTAMP NULL, PRIMARY KEY (id), KEY (bo))
REPLACE INTO a1 VALUES (1, 7, '0000-00-00', '0000-00-00'), (2, 7, NULL, NULL)
REPLACE INTO b1 VALUES (1, 1, '0000-00-00')
CREATE CACHE c1 FROM SELECT a.id, (SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id) < '2024-01-01' FROM a1 a WHERE a.k = ? ORDER BY a.id
CREATE CACHE c2 FROM SELECT a.id FROM a1 a WHERE a.k = ? AND a.ts <=> (SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id) ORDER BY a.id
CREATE CACHE c3 FROM SELECT MIN((SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id)) FROM a1 a WHERE a.k = ?
CREATE CACHE c4 FROM SELECT a.id, CAST((SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id) AS CHAR) FROM a1 a WHERE a.k = ? ORDER BY a.id
CREATE CACHE c5 FROM SELECT a.id, COALESCE((SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id), a.ts) FROM a1 a WHERE a.k = ? ORDER BY a.id
CREATE CACHE c6 FROM SELECT a.id FROM a1 a WHERE a.k = ? ORDER BY (SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id), a.id
CREATE CACHE c7 FROM SELECT a.id, COALESCE((SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id), (SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id)) FROM a1 a WHERE a.k = ? ORDER BY a.id
CREATE CACHE d1 FROM SELECT id FROM a1 WHERE k = ? ORDER BY IFNULL(d0, d0), id
CREATE CACHE d2 FROM SELECT id FROM a1 ORDER BY IFNULL(ts, ts), id LIMIT 1
SELECT a.id, (SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id) < '2024-01-01' FROM a1 a WHERE a.k = 7 ORDER BY a.id
SELECT a.id FROM a1 a WHERE a.k = 7 AND a.ts <=> (SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id) ORDER BY a.id
SELECT MIN((SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id)) FROM a1 a WHERE a.k = 7
SELECT a.id, CAST((SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id) AS CHAR) FROM a1 a WHERE a.k = 7 ORDER BY a.id
SELECT a.id, COALESCE((SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id), a.ts) FROM a1 a WHERE a.k = 7 ORDER BY a.id
SELECT a.id FROM a1 a WHERE a.k = 7 ORDER BY (SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id), a.id
SELECT a.id, COALESCE((SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id), (SELECT MAX(b.ts) FROM b1 b WHERE b.bo = a.id)) FROM a1 a WHERE a.k = 7 ORDER BY a.id
SELECT id FROM a1 WHERE k = 7 ORDER BY IFNULL(d0, d0), id
SELECT id FROM a1 ORDER BY IFNULL(ts, ts), id LIMIT 1
