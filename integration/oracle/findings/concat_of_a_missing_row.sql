-- rows differ (hit, evict); found by make oracle SEED=9800363
-- GROUP_CONCAT of a LEFT JOIN's missing row is '' where constants that are written tell its key, NULL where they are bound
-- free
CREATE TABLE x1 (id INT NOT NULL, vu VARCHAR(12) COLLATE utf8mb4_unicode_ci, iu INT UNSIGNED, PRIMARY KEY (id), KEY (vu), KEY (iu))
REPLACE INTO x1 (id, vu, iu) VALUES (3, 'ss', 1), (4, 'b', 3), (5, 'c', 3)
CREATE CACHE c1 FROM SELECT a.id, (GROUP_CONCAT(b.vu ORDER BY b.id)) FROM x1 AS a LEFT JOIN x1 b ON a.iu = b.id WHERE a.iu = ? GROUP BY a.id ORDER BY 1
CREATE CACHE c2 FROM SELECT a.id, GROUP_CONCAT(b.vu) FROM x1 a LEFT JOIN (SELECT id AS i, vu FROM x1) b ON b.i = a.iu WHERE a.iu = ? GROUP BY a.id
CREATE CACHE c3 FROM SELECT a.id, GROUP_CONCAT(b.vu ORDER BY b.id) FROM x1 a LEFT JOIN x1 b ON b.iu = a.id WHERE a.id = ? GROUP BY a.id
-- bound: 8=0100000000000000
SELECT a.id, (GROUP_CONCAT(b.vu ORDER BY b.id)) FROM x1 AS a LEFT JOIN x1 b ON a.iu = b.id WHERE a.iu = ? GROUP BY a.id ORDER BY 1
-- bound: 8=0100000000000000
SELECT a.id, GROUP_CONCAT(b.vu) FROM x1 a LEFT JOIN (SELECT id AS i, vu FROM x1) b ON b.i = a.iu WHERE a.iu = ? GROUP BY a.id
-- bound: 8=0300000000000000
SELECT a.id, GROUP_CONCAT(b.vu ORDER BY b.id) FROM x1 a LEFT JOIN x1 b ON b.iu = a.id WHERE a.id = ? GROUP BY a.id
-- bound: 8=0100000000000000
SELECT a.id, (GROUP_CONCAT(b.vu ORDER BY b.id)) FROM x1 AS a LEFT JOIN x1 b ON a.iu = b.id WHERE a.iu = ? GROUP BY a.id ORDER BY 1
-- bound: 8=0100000000000000
SELECT a.id, GROUP_CONCAT(b.vu) FROM x1 a LEFT JOIN (SELECT id AS i, vu FROM x1) b ON b.i = a.iu WHERE a.iu = ? GROUP BY a.id
SELECT a.id, (GROUP_CONCAT(b.vu ORDER BY b.id)) FROM x1 AS a LEFT JOIN x1 b ON a.iu = b.id WHERE a.iu = '1' GROUP BY a.id ORDER BY 1
SELECT a.id, (GROUP_CONCAT(b.vu ORDER BY b.id)) FROM x1 AS a LEFT JOIN x1 b ON a.iu = b.id WHERE a.iu = 1 GROUP BY a.id ORDER BY 1
-- bound: 8=0300000000000000
SELECT a.id, GROUP_CONCAT(b.vu ORDER BY b.id) FROM x1 a LEFT JOIN x1 b ON b.iu = a.id WHERE a.id = ? GROUP BY a.id
SELECT a.id, GROUP_CONCAT(b.vu ORDER BY b.id) FROM x1 a LEFT JOIN x1 b ON b.iu = a.id WHERE a.id = 4 GROUP BY a.id
