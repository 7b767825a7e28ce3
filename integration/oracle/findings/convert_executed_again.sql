-- rows differ (hit, evict); found by make oracle SEED=1500940
-- executed again, MySQL reads the letters of a UTF-16 column as others; a text, or a statement prepared anew, has the right ones
CREATE TABLE x2 (id INT NOT NULL, v6 VARCHAR(12) CHARACTER SET utf16 NOT NULL, PRIMARY KEY (id), KEY (v6))
REPLACE INTO x2 (id, v6) VALUES (21, 'é')
CREATE CACHE c FROM SELECT a.id, (MAX((CONVERT(b.v6 USING utf8mb4)))) FROM x2 AS a, x2 b GROUP BY a.id
-- bound:
SELECT a.id, (MAX((CONVERT(b.v6 USING utf8mb4)))) FROM x2 AS a, x2 b GROUP BY a.id
-- bound:
SELECT a.id, (MAX((CONVERT(b.v6 USING utf8mb4)))) FROM x2 AS a, x2 b GROUP BY a.id
SELECT a.id, (MAX((CONVERT(b.v6 USING utf8mb4)))) FROM x2 AS a, x2 b GROUP BY a.id
REPLACE INTO x2 (id, v6) VALUES (22, 'a')
-- bound:
SELECT a.id, (MAX((CONVERT(b.v6 USING utf8mb4)))) FROM x2 AS a, x2 b GROUP BY a.id
SELECT a.id, (MAX((CONVERT(b.v6 USING utf8mb4)))) FROM x2 AS a, x2 b GROUP BY a.id
