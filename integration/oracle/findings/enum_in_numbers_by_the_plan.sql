-- rows differ (hit, evict); found by make oracle SEED=9114373
-- whether an ENUM is compared by its number or as a text depends on how MySQL looks it up
CREATE TABLE p1 (id INT NOT NULL, PRIMARY KEY (id))
REPLACE INTO p1 (id) VALUES (22), (8), (19), (0), (11), (2), (7)
CREATE TABLE p2 (id INT NOT NULL, ti TINYINT, e2 ENUM('c','b','a','1') NULL, bm BIGINT, PRIMARY KEY (id))
REPLACE INTO p2 (id, ti, e2, bm) VALUES (0, 3, 'a', 2), (9, 127, 'a', 3), (18, 1, 'a', 0), (12, 2, 'b', NULL), (19, NULL, 'a', 1), (7, NULL, 'b', 1), (10, NULL, 'b', 0), (13, 2, 'b', 2), (8, 3, 'a', NULL), (11, 2, 'b', 3), (5, 127, 'a', 1)
CREATE CACHE c FROM SELECT a.e2 FROM p2 a WHERE a.e2 NOT IN (SELECT s1.id FROM p1 s1) AND a.bm = ?
-- bound: 8=0300000000000000
SELECT a.e2 FROM p2 a WHERE a.e2 NOT IN (SELECT s1.id FROM p1 s1) AND a.bm = ?
DELETE FROM p2 WHERE ti IS NULL
-- bound: 8=0300000000000000
