-- rows differ (hit, maintain); found by make oracle SEED=800274
-- 'A' and 'a ' are one group: which of them a LIKE is asked of, and whether of each row or of the group, is MySQL's choice
-- free
CREATE TABLE x2 (id INT NOT NULL, k INT, vx VARCHAR(12) CHARACTER SET ascii, ti TINYINT, PRIMARY KEY (id), KEY (vx), KEY (ti))
REPLACE INTO x2 (id, k, vx, ti) VALUES (9, 1, 'A', 2), (19, 1, 'a ', 1), (20, 1, 'b', 1)
CREATE CACHE c1 FROM SELECT q.n FROM (SELECT i.vx, (SUM(i.ti) / COUNT(*)) AS n FROM x2 AS i GROUP BY i.vx) q WHERE q.vx = ? AND (q.vx NOT LIKE 'a_')
SELECT q.n FROM (SELECT i.vx, (SUM(i.ti) / COUNT(*)) AS n FROM x2 AS i GROUP BY i.vx) q WHERE q.vx = 'a' AND (q.vx NOT LIKE 'a_')
CREATE CACHE c2 FROM SELECT a.id, q.n FROM x2 a JOIN (SELECT i.vx, COUNT(*) AS n FROM x2 AS i GROUP BY i.vx) q ON q.vx = a.vx AND CHAR_LENGTH(q.vx) = 1 WHERE a.k = ?
SELECT a.id, q.n FROM x2 a JOIN (SELECT i.vx, COUNT(*) AS n FROM x2 AS i GROUP BY i.vx) q ON q.vx = a.vx AND CHAR_LENGTH(q.vx) = 1 WHERE a.k = 1
CREATE CACHE c3 FROM SELECT vx, COUNT(*) FROM x2 WHERE k = ? GROUP BY vx HAVING vx NOT LIKE 'a_'
SELECT vx, COUNT(*) FROM x2 WHERE k = 1 GROUP BY vx HAVING vx NOT LIKE 'a_'
CREATE CACHE c4 FROM SELECT vx, COUNT(*) FROM x2 WHERE k = ? GROUP BY vx HAVING vx > 'a' OR vx IS NULL
SELECT vx, COUNT(*) FROM x2 WHERE k = 1 GROUP BY vx HAVING vx > 'a' OR vx IS NULL
CREATE CACHE c5 FROM SELECT a.id, COUNT(b.id) FROM x2 a LEFT JOIN x2 b ON b.vx = a.vx AND b.vx NOT LIKE 'a_' WHERE a.k = ? GROUP BY a.id
SELECT a.id, COUNT(b.id) FROM x2 a LEFT JOIN x2 b ON b.vx = a.vx AND b.vx NOT LIKE 'a_' WHERE a.k = 1 GROUP BY a.id
UPDATE x2 SET ti = 3 WHERE id = 19
SELECT q.n FROM (SELECT i.vx, (SUM(i.ti) / COUNT(*)) AS n FROM x2 AS i GROUP BY i.vx) q WHERE q.vx = 'a' AND (q.vx NOT LIKE 'a_')
SELECT a.id, COUNT(b.id) FROM x2 a LEFT JOIN x2 b ON b.vx = a.vx AND b.vx NOT LIKE 'a_' WHERE a.k = 1 GROUP BY a.id
CREATE CACHE c6 FROM SELECT CHAR_LENGTH(vx), COUNT(*) FROM x2 WHERE k = ? GROUP BY vx
SELECT CHAR_LENGTH(vx), COUNT(*) FROM x2 WHERE k = 1 GROUP BY vx
CREATE CACHE c7 FROM SELECT LOWER(vx) AS g, COUNT(*), vx = 'a' FROM x2 WHERE k = ? GROUP BY LOWER(vx), vx = 'a'
SELECT LOWER(vx) AS g, COUNT(*), vx = 'a' FROM x2 WHERE k = 1 GROUP BY LOWER(vx), vx = 'a'
