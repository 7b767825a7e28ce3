-- rows differ (hit, evict); found by make oracle SEED=900196
-- whether 0 is NOT IN (NULL): MySQL looks the BIT up in a table of its own where the statement is prepared
CREATE TABLE p1 (id INT NOT NULL, b6 BIT(64), PRIMARY KEY (id))
REPLACE INTO p1 (id, b6) VALUES (22, NULL)
CREATE TABLE p2 (id INT NOT NULL, vg VARCHAR(12) COLLATE utf8mb4_general_ci, b9 BIT(9) NOT NULL, PRIMARY KEY (id))
REPLACE INTO p2 (id, vg, b9) VALUES (3, 'Ä', b'111111111'), (8, 'ss', b'0'), (17, ' ', b'111111111'), (21, 'a_', b'0'), (20, 'a ', b'111111111'), (11, 'B', b'1100001')
CREATE CACHE c FROM SELECT a.vg FROM p2 AS a WHERE a.b9 NOT IN (SELECT s1.b6 FROM p1 s1) AND a.b9 = ?
-- bound: 8=0000000000000000
SELECT a.vg FROM p2 AS a WHERE a.b9 NOT IN (SELECT s1.b6 FROM p1 s1) AND a.b9 = ?
UPDATE IGNORE p2 SET b9 = b'1' WHERE id = 3
-- bound: 8=0000000000000000
SELECT a.vg FROM p2 AS a WHERE a.b9 NOT IN (SELECT s1.b6 FROM p1 s1) AND a.b9 = ?
CREATE CACHE c2 FROM SELECT a.vg FROM p2 AS a WHERE a.b9 <> ALL (SELECT MAX(s1.b6) FROM p1 s1 UNION SELECT 1) AND a.b9 = ?
SELECT a.vg FROM p2 AS a WHERE a.b9 <> ALL (SELECT MAX(s1.b6) FROM p1 s1 UNION SELECT 1) AND a.b9 = 0
-- bound: 8=0000000000000000
SELECT a.vg FROM p2 AS a WHERE a.b9 <> ALL (SELECT MAX(s1.b6) FROM p1 s1 UNION SELECT 1) AND a.b9 = ?
