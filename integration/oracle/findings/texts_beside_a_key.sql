-- what has its row's key beside it need not be compared
-- texts that MySQL sorts by a part of, JSON, approximate numbers
-- free
CREATE TABLE p1 (id INT NOT NULL, k INT NOT NULL, tx TEXT COLLATE utf8mb4_general_ci, tu VARCHAR(700) COLLATE utf8mb4_unicode_ci, js JSON, db DOUBLE, PRIMARY KEY (id), KEY (k))
CREATE TABLE p2 (id INT NOT NULL, p INT NOT NULL, tag INT NOT NULL, PRIMARY KEY (id), KEY (p), KEY (tag))
REPLACE INTO p1 VALUES (1, 1, CONCAT(REPEAT('a',600),'b'), REPEAT('¼', 300), '{"a": 1}', 0e0), (2, 1, CONCAT(REPEAT('a',600),'a'), REPEAT('¼', 300), '{"a": 1}', -0e0), (3, 1, CONCAT(REPEAT('a',600),'B'), REPEAT('¼', 301), '[1.0]', 1.5)
REPLACE INTO p2 VALUES (1, 1, 7), (2, 2, 7), (3, 1, 7), (4, 3, 8), (5, 2, 7), (6, 3, 7), (7, 1, 7)
CREATE CACHE c1 FROM SELECT DISTINCT p1.* FROM p1 JOIN p2 ON p2.p = p1.id WHERE p2.tag = ?
SELECT DISTINCT p1.* FROM p1 JOIN p2 ON p2.p = p1.id WHERE p2.tag = 7
CREATE CACHE c2 FROM SELECT p1.tx, p1.id, p1.tu, COUNT(*) FROM p1 JOIN p2 ON p2.p = p1.id WHERE p1.k = ? AND p2.tag > 6 AND p2.id > p1.id - 9 GROUP BY p1.id
SELECT p1.tx, p1.id, p1.tu, COUNT(*) FROM p1 JOIN p2 ON p2.p = p1.id WHERE p1.k = 1 AND p2.tag > 6 AND p2.id > p1.id - 9 GROUP BY p1.id
CREATE CACHE c3 FROM SELECT DISTINCT tx, tu, id FROM p1 WHERE k = ?
SELECT DISTINCT tx, tu, id FROM p1 WHERE k = 1
CREATE CACHE c4 FROM SELECT tx, db, id, COUNT(*), MAX(tu) FROM p1 WHERE k = ? GROUP BY id, tx, db
SELECT tx, db, id, COUNT(*), MAX(tu) FROM p1 WHERE k = 1 GROUP BY id, tx, db
UPDATE p1 SET tx = CONCAT(REPEAT('a',600),'A'), js = '[1]' WHERE id = 1
UPDATE p1 SET id = 4, k = 1 WHERE id = 3
REPLACE INTO p2 VALUES (8, 4, 7), (9, 4, 7), (10, 1, 9)
SELECT DISTINCT p1.* FROM p1 JOIN p2 ON p2.p = p1.id WHERE p2.tag = 7
SELECT p1.tx, p1.id, p1.tu, COUNT(*) FROM p1 JOIN p2 ON p2.p = p1.id WHERE p1.k = 1 AND p2.tag > 6 AND p2.id > p1.id - 9 GROUP BY p1.id
SELECT DISTINCT tx, tu, id FROM p1 WHERE k = 1
SELECT tx, db, id, COUNT(*), MAX(tu) FROM p1 WHERE k = 1 GROUP BY id, tx, db
UPDATE p1 SET id = id + 10 ORDER BY id DESC
UPDATE p2 SET p = p + 10
SELECT DISTINCT p1.* FROM p1 JOIN p2 ON p2.p = p1.id WHERE p2.tag = 7
SELECT p1.tx, p1.id, p1.tu, COUNT(*) FROM p1 JOIN p2 ON p2.p = p1.id WHERE p1.k = 1 AND p2.tag > 6 AND p2.id > p1.id - 9 GROUP BY p1.id
SELECT DISTINCT tx, tu, id FROM p1 WHERE k = 1
SELECT tx, db, id, COUNT(*), MAX(tu) FROM p1 WHERE k = 1 GROUP BY id, tx, db
CREATE TABLE p3 (id INT NOT NULL, k INT NOT NULL, tx TEXT COLLATE latin1_german2_ci, js JSON, ff FLOAT(7,2), un VARCHAR(9) COLLATE utf8mb4_unicode_ci, PRIMARY KEY (id), KEY (k), UNIQUE KEY (un(1)))
REPLACE INTO p3 VALUES (1, 1, 'a', '[1]', 1.1, 'ß'), (2, 1, 'a', '[1]', 1.1, 'ss'), (3, 2, 'A', '[2]', 1.2, 'x')
CREATE CACHE e1 FROM SELECT id, tx, js, COUNT(*), MAX(ff) FROM p3 WHERE k = ? GROUP BY id
CREATE CACHE e2 FROM SELECT id, ff, COUNT(*) FROM p3 WHERE k = ? GROUP BY id, ff
CREATE CACHE e3 FROM SELECT COUNT(*), un FROM p3 WHERE k = ? GROUP BY un
SELECT id, tx, js, COUNT(*), MAX(ff) FROM p3 WHERE k = 1 GROUP BY id
SELECT id, ff, COUNT(*) FROM p3 WHERE k = 1 GROUP BY id, ff
SELECT COUNT(*), un FROM p3 WHERE k = 1 GROUP BY un
UPDATE p3 SET tx = 'b', js = '[3]', ff = 3.3 WHERE id = 1
UPDATE p3 SET id = id + 5 ORDER BY id DESC
SELECT id, tx, js, COUNT(*), MAX(ff) FROM p3 WHERE k = 1 GROUP BY id
SELECT id, ff, COUNT(*) FROM p3 WHERE k = 1 GROUP BY id, ff
SELECT COUNT(*), un FROM p3 WHERE k = 1 GROUP BY un
