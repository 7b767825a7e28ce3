-- rows differ (hit)
-- CASE, and IN beside columns, compare the 64 bits of what is bound
-- ordered
CREATE TABLE p1 (id INT NOT NULL, k INT NOT NULL, bi BIGINT, bu BIGINT UNSIGNED, g VARCHAR(9) COLLATE utf8mb4_general_ci, b VARCHAR(9) COLLATE utf8mb4_bin, dt DATETIME, da DATE, PRIMARY KEY (id), KEY (k))
REPLACE INTO p1 VALUES (7, 1, -1, 18446744073709551615, 'x', 'q', '2024-01-01', '2024-01-01')
CREATE CACHE c1 FROM SELECT id, CASE bu WHEN ? THEN 'x' ELSE 'y' END FROM p1 WHERE k = ? ORDER BY id
-- bound: 08=ffffffffffffffff 08=0100000000000000
SELECT id, CASE bu WHEN ? THEN 'x' ELSE 'y' END FROM p1 WHERE k = ? ORDER BY id
CREATE CACHE c2 FROM SELECT id, CASE bi WHEN ? THEN 'x' ELSE 'y' END, bi IN (?, 5) FROM p1 WHERE k = ? ORDER BY id
-- bound: 8008=ffffffffffffffff 8008=ffffffffffffffff 08=0100000000000000
SELECT id, CASE bi WHEN ? THEN 'x' ELSE 'y' END, bi IN (?, 5) FROM p1 WHERE k = ? ORDER BY id
CREATE CACHE c3 FROM SELECT id, bu IN (?, bu - 1), bu IN (?, ?) FROM p1 WHERE k = ? ORDER BY id
-- bound: 08=ffffffffffffffff 08=ffffffffffffffff 08=0200000000000000 08=0100000000000000
SELECT id, bu IN (?, bu - 1), bu IN (?, ?) FROM p1 WHERE k = ? ORDER BY id
CREATE CACHE c4 FROM SELECT id, CASE g WHEN ? THEN 1 WHEN b THEN 2 END, g IN (?, b), CASE dt WHEN ? THEN 1 WHEN da THEN 2 END FROM p1 WHERE k = ? ORDER BY id
-- bound: fd=0158 fd=0158 fd=0a323032342d30312d3031 08=0100000000000000
SELECT id, CASE g WHEN ? THEN 1 WHEN b THEN 2 END, g IN (?, b), CASE dt WHEN ? THEN 1 WHEN da THEN 2 END FROM p1 WHERE k = ? ORDER BY id
CREATE CACHE c5 FROM SELECT id, bi IN (?, k), bu IN (?, k + bu) FROM p1 WHERE k = ? ORDER BY id
-- bound: 8008=ffffffffffffffff 08=ffffffffffffffff 08=0100000000000000
SELECT id, bi IN (?, k), bu IN (?, k + bu) FROM p1 WHERE k = ? ORDER BY id
CREATE CACHE c6 FROM SELECT id, bi IN (?, k) FROM p1 WHERE k = ? ORDER BY id
-- bound: 8008=ffffffffffffffff 08=0100000000000000
SELECT id, bi IN (?, k) FROM p1 WHERE k = ? ORDER BY id
CREATE CACHE c7 FROM SELECT id FROM p1 WHERE k = ? AND bi IN (?, k) ORDER BY id
-- bound: 08=0100000000000000 8008=ffffffffffffffff
SELECT id FROM p1 WHERE k = ? AND bi IN (?, k) ORDER BY id
