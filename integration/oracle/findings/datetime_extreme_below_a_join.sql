-- rows differ (hit, maintain); found by make oracle SEED=160002383
-- what a fill asks beside MAX of a DATETIME gives MySQL another plan for it, in which 2024-00-00 is 0000-00-00
CREATE TABLE x1 (id INT NOT NULL, vx VARCHAR(12) CHARACTER SET ascii, zf INT(6) ZEROFILL, PRIMARY KEY (id), KEY (vx), KEY (zf))
REPLACE INTO x1 (id, vx, zf) VALUES (15, 'b', 123456)
CREATE TABLE x2 (id INT NOT NULL, vx VARCHAR(12) CHARACTER SET ascii NOT NULL, d0 DATETIME, ft VARCHAR(40) COLLATE utf8mb4_0900_ai_ci NOT NULL, PRIMARY KEY (id), KEY (vx), KEY (d0), FULLTEXT KEY (ft))
REPLACE INTO x2 (id, vx, d0, ft) VALUES (10, 'a', NULL, 'green apple pie'), (20, 'B', '2024-00-00', 'Äpfel')
CREATE CACHE c FROM SELECT a.id, (MAX(b.ft)), (MAX(b.d0)) FROM x1 AS a LEFT JOIN x2 AS b ON a.vx = b.vx WHERE a.zf = ? GROUP BY a.id
SELECT a.id, (MAX(b.ft)), (MAX(b.d0)) FROM x1 AS a LEFT JOIN x2 AS b ON a.vx = b.vx WHERE a.zf = 123456 GROUP BY a.id
