-- rows differ (hit); found by reading MySQL's sources
-- MIN and MAX of an ENUM or SET go by number where an index gives them, else by text
-- ordered
CREATE TABLE p1 (id INT NOT NULL, k INT NOT NULL, e ENUM('b','a'), s SET('y','x'), PRIMARY KEY (id), KEY (k, e), KEY (k, s))
REPLACE INTO p1 VALUES (1, 1, 'b', 'y')
CREATE CACHE c1 FROM SELECT MIN(e) FROM p1 WHERE k = ?
SELECT MIN(e) FROM p1 WHERE k = 1
CREATE CACHE c2 FROM SELECT MAX(e) FROM p1 WHERE k = ?
SELECT MAX(e) FROM p1 WHERE k = 1
CREATE CACHE c3 FROM SELECT k, MAX(e) FROM p1 WHERE k < ? GROUP BY k ORDER BY k
SELECT k, MAX(e) FROM p1 WHERE k < 5 GROUP BY k ORDER BY k
CREATE CACHE c4 FROM SELECT MIN(s) FROM p1 WHERE k = ?
SELECT MIN(s) FROM p1 WHERE k = 1
CREATE CACHE c5 FROM SELECT k, MIN(e), MAX(e) FROM p1 GROUP BY k ORDER BY k
SELECT k, MIN(e), MAX(e) FROM p1 GROUP BY k ORDER BY k
REPLACE INTO p1 VALUES (2, 1, 'a', 'x'), (3, 1, 'b', 'x'), (4, 2, 'b', 'y'), (5, 2, 'a', 'y'), (6, 3, 'a', 'y'), (7, 3, 'b', 'x')
SELECT MIN(e) FROM p1 WHERE k = 1
SELECT MAX(e) FROM p1 WHERE k = 1
SELECT k, MAX(e) FROM p1 WHERE k < 5 GROUP BY k ORDER BY k
SELECT MIN(s) FROM p1 WHERE k = 1
SELECT k, MIN(e), MAX(e) FROM p1 GROUP BY k ORDER BY k
