-- the planner failed: a name of a WITH is a table's where that WITH does not stand around it
CREATE TABLE p1 (id INT NOT NULL, v INT, PRIMARY KEY (id))
CREATE TABLE p2 (id INT NOT NULL, v INT, PRIMARY KEY (id))
REPLACE INTO p1 (id, v) VALUES (1, 20), (5, 30)
REPLACE INTO p2 (id, v) VALUES (1, 10), (5, 40)
CREATE CACHE c FROM SELECT a.v, d.n FROM p2 AS a JOIN (WITH p2 AS (SELECT v AS n FROM p1) SELECT MAX(n) AS n FROM p2) AS d WHERE a.id = ?
CREATE CACHE d FROM SELECT RANK() OVER (ORDER BY a.v), d.n FROM p2 AS a JOIN (WITH p2 AS (SELECT v AS n FROM p1) SELECT n FROM p2) AS d
SELECT a.v, d.n FROM p2 AS a JOIN (WITH p2 AS (SELECT v AS n FROM p1) SELECT MAX(n) AS n FROM p2) AS d WHERE a.id = 5
SELECT RANK() OVER (ORDER BY a.v), d.n FROM p2 AS a JOIN (WITH p2 AS (SELECT v AS n FROM p1) SELECT n FROM p2) AS d
UPDATE p2 SET v = 50 WHERE id = 5
-- again
UPDATE p1 SET v = 60 WHERE id = 1
-- again
