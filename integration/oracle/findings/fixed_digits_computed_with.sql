-- rows differ (hit, maintain), columns differ; found by make oracle SEED=9303564
-- what MySQL computes from a FLOAT(m,d) has d digits behind the point or all of them, FLOAT or DOUBLE, by its plan
-- free
CREATE TABLE p2 (id INT NOT NULL, k INT NOT NULL, vg VARCHAR(12) COLLATE utf8mb4_general_ci, ff FLOAT(7,2), dd DOUBLE(9,1), PRIMARY KEY (id), KEY (k))
REPLACE INTO p2 VALUES (19, 2, 'é', 1, 1), (20, 0, 'e', 0.1, 0.1)
CREATE CACHE c1 FROM SELECT (SELECT (MIN((ABS(s1.ff)))) FROM p2 s1 WHERE a.vg = s1.vg) FROM p2 AS a WHERE a.k = ?
CREATE CACHE c2 FROM SELECT vg, MAX(COALESCE(ff, ff)), MIN(-dd) FROM p2 WHERE k = ? GROUP BY vg
CREATE CACHE c3 FROM SELECT ff, dd, id FROM p2 WHERE k = ? ORDER BY dd, id
CREATE CACHE c4 FROM SELECT ABS(ff), dd + 1, IF(id, ff, dd) FROM p2 WHERE k = ?
-- bound: 8=0200000000000000
SELECT (SELECT (MIN((ABS(s1.ff)))) FROM p2 s1 WHERE a.vg = s1.vg) FROM p2 AS a WHERE a.k = ?
-- bound: 8=0200000000000000
SELECT (SELECT (MIN((ABS(s1.ff)))) FROM p2 s1 WHERE a.vg = s1.vg) FROM p2 AS a WHERE a.k = ?
-- bound: 8=0200000000000000
SELECT (SELECT (MIN((ABS(s1.ff)))) FROM p2 s1 WHERE a.vg = s1.vg) FROM p2 AS a WHERE a.k = ?
-- bound: 8=0000000000000000
SELECT vg, MAX(COALESCE(ff, ff)), MIN(-dd) FROM p2 WHERE k = ? GROUP BY vg
-- bound: 8=0000000000000000
SELECT vg, MAX(COALESCE(ff, ff)), MIN(-dd) FROM p2 WHERE k = ? GROUP BY vg
-- bound: 8=0000000000000000
SELECT vg, MAX(COALESCE(ff, ff)), MIN(-dd) FROM p2 WHERE k = ? GROUP BY vg
-- bound: 8=0000000000000000
SELECT ff, dd, id FROM p2 WHERE k = ? ORDER BY dd, id
-- bound: 8=0000000000000000
SELECT ff, dd, id FROM p2 WHERE k = ? ORDER BY dd, id
-- bound: 8=0000000000000000
SELECT ff, dd, id FROM p2 WHERE k = ? ORDER BY dd, id
-- bound: 8=0000000000000000
SELECT ABS(ff), dd + 1, IF(id, ff, dd) FROM p2 WHERE k = ?
-- bound: 8=0000000000000000
SELECT ABS(ff), dd + 1, IF(id, ff, dd) FROM p2 WHERE k = ?
-- bound: 8=0000000000000000
SELECT ABS(ff), dd + 1, IF(id, ff, dd) FROM p2 WHERE k = ?
REPLACE INTO p2 VALUES (21, 0, 'e', 0.3, 0.7), (22, 2, 'e', 0.7, 7.7)
-- bound: 8=0200000000000000
SELECT (SELECT (MIN((ABS(s1.ff)))) FROM p2 s1 WHERE a.vg = s1.vg) FROM p2 AS a WHERE a.k = ?
-- bound: 8=0200000000000000
SELECT (SELECT (MIN((ABS(s1.ff)))) FROM p2 s1 WHERE a.vg = s1.vg) FROM p2 AS a WHERE a.k = ?
-- bound: 8=0200000000000000
SELECT (SELECT (MIN((ABS(s1.ff)))) FROM p2 s1 WHERE a.vg = s1.vg) FROM p2 AS a WHERE a.k = ?
-- bound: 8=0000000000000000
SELECT vg, MAX(COALESCE(ff, ff)), MIN(-dd) FROM p2 WHERE k = ? GROUP BY vg
-- bound: 8=0000000000000000
SELECT vg, MAX(COALESCE(ff, ff)), MIN(-dd) FROM p2 WHERE k = ? GROUP BY vg
-- bound: 8=0000000000000000
SELECT vg, MAX(COALESCE(ff, ff)), MIN(-dd) FROM p2 WHERE k = ? GROUP BY vg
-- bound: 8=0000000000000000
SELECT ff, dd, id FROM p2 WHERE k = ? ORDER BY dd, id
-- bound: 8=0000000000000000
SELECT ff, dd, id FROM p2 WHERE k = ? ORDER BY dd, id
-- bound: 8=0000000000000000
SELECT ff, dd, id FROM p2 WHERE k = ? ORDER BY dd, id
-- bound: 8=0000000000000000
SELECT ABS(ff), dd + 1, IF(id, ff, dd) FROM p2 WHERE k = ?
-- bound: 8=0000000000000000
SELECT ABS(ff), dd + 1, IF(id, ff, dd) FROM p2 WHERE k = ?
-- bound: 8=0000000000000000
SELECT ABS(ff), dd + 1, IF(id, ff, dd) FROM p2 WHERE k = ?
CREATE TABLE p3 (id INT NOT NULL, ff FLOAT(7,2), PRIMARY KEY (id))
REPLACE INTO p3 VALUES (13, 1e15)
CREATE CACHE c5 FROM SELECT (SEC_TO_TIME(a.ff)) FROM p3 AS a
-- bound:
SELECT (SEC_TO_TIME(a.ff)) FROM p3 AS a
-- bound:
SELECT (SEC_TO_TIME(a.ff)) FROM p3 AS a
-- bound:
SELECT (SEC_TO_TIME(a.ff)) FROM p3 AS a
CREATE CACHE c6 FROM SELECT ff, ff AS f FROM p3 WHERE id IN (?, ?)
SELECT ff, ff AS f FROM p3 WHERE id IN (13, 14)
