-- rows differ (hit, maintain); found by make oracle SEED=500587
-- the '' that an ENUM has as a member comes where the member stands, and not before all others
-- ordered
CREATE TABLE x1 (id INT NOT NULL, k INT NOT NULL, en ENUM('b','a','c','1',''), PRIMARY KEY (id), KEY (k), KEY (en))
REPLACE INTO x1 (id, k, en) VALUES (10, 1, ''), (0, 1, 'c'), (1, 1, NULL)
INSERT IGNORE INTO x1 (id, k, en) VALUES (2, 1, 'nonsense'), (3, 1, 0)
CREATE CACHE c1 FROM SELECT a.id FROM x1 AS a ORDER BY a.en, a.id DESC
SELECT a.id FROM x1 AS a ORDER BY a.en, a.id DESC
CREATE CACHE c2 FROM SELECT a.id FROM x1 AS a WHERE a.k = ? ORDER BY a.en DESC, a.id LIMIT 2
SELECT a.id FROM x1 AS a WHERE a.k = 1 ORDER BY a.en DESC, a.id LIMIT 2
CREATE CACHE c3 FROM SELECT a.en, COUNT(*) AS n FROM x1 AS a WHERE a.k = ? GROUP BY a.en ORDER BY n, a.en
SELECT a.en, COUNT(*) AS n FROM x1 AS a WHERE a.k = 1 GROUP BY a.en ORDER BY n, a.en
CREATE CACHE c4 FROM SELECT a.id, a.en = '', a.en IN ('', 'c') FROM x1 AS a WHERE a.k = ? ORDER BY a.id
SELECT a.id, a.en = '', a.en IN ('', 'c') FROM x1 AS a WHERE a.k = 1 ORDER BY a.id
CREATE CACHE c5 FROM SELECT a.id FROM x1 AS a WHERE a.en = ? ORDER BY a.id
SELECT a.id FROM x1 AS a WHERE a.en = '' ORDER BY a.id
CREATE CACHE c6 FROM SELECT MIN(a.en), MAX(a.en) FROM x1 AS a WHERE a.k = ?
SELECT MIN(a.en), MAX(a.en) FROM x1 AS a WHERE a.k = 1
