-- rows differ (hit); found by reading MySQL's sources
-- of a literal, strings and bytes IN compares all as bytes, of a literal, strings and dates all as dates
-- ordered
CREATE TABLE p1 (id INT NOT NULL, k INT NOT NULL, n VARCHAR(9) COLLATE utf8mb4_0900_ai_ci, vb VARBINARY(9), da DATE, PRIMARY KEY (id), KEY (k))
REPLACE INTO p1 VALUES (1, 2, 'b', 'b', '2000-01-01')
CREATE CACHE c1 FROM SELECT id, 'A' IN (n, vb) FROM p1 WHERE k = ? ORDER BY id
SELECT id, 'A' IN (n, vb) FROM p1 WHERE k = 1 ORDER BY id
CREATE CACHE c2 FROM SELECT id, '2024-01-01' IN ('2024-1-1', da) FROM p1 WHERE k = ? ORDER BY id
SELECT id, '2024-01-01' IN ('2024-1-1', da) FROM p1 WHERE k = 1 ORDER BY id
CREATE CACHE c3 FROM SELECT id, '2024-01-01' IN (n, da) FROM p1 WHERE k = ? ORDER BY id
SELECT id, '2024-01-01' IN (n, da) FROM p1 WHERE k = 1 ORDER BY id
CREATE CACHE c4 FROM SELECT id, CASE 'A' WHEN n THEN 1 WHEN vb THEN 2 ELSE 3 END, 'A' IN (vb, 'b') FROM p1 WHERE k = ? ORDER BY id
SELECT id, CASE 'A' WHEN n THEN 1 WHEN vb THEN 2 ELSE 3 END, 'A' IN (vb, 'b') FROM p1 WHERE k = 1 ORDER BY id
CREATE CACHE c5 FROM SELECT id, da IN ('2024-1-1', '2024-01-01') FROM p1 WHERE k = ? ORDER BY id
SELECT id, da IN ('2024-1-1', '2024-01-01') FROM p1 WHERE k = 1 ORDER BY id
REPLACE INTO p1 VALUES (7, 1, 'a', 'b', '2023-01-01'), (8, 1, '2024-1-1', 'A', '2023-01-01')
SELECT id, 'A' IN (n, vb) FROM p1 WHERE k = 1 ORDER BY id
SELECT id, '2024-01-01' IN ('2024-1-1', da) FROM p1 WHERE k = 1 ORDER BY id
SELECT id, '2024-01-01' IN (n, da) FROM p1 WHERE k = 1 ORDER BY id
SELECT id, CASE 'A' WHEN n THEN 1 WHEN vb THEN 2 ELSE 3 END, 'A' IN (vb, 'b') FROM p1 WHERE k = 1 ORDER BY id
SELECT id, da IN ('2024-1-1', '2024-01-01') FROM p1 WHERE k = 1 ORDER BY id
