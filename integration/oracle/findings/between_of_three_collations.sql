-- rows differ (hit, maintain); found by make oracle SEED=1200481
-- BETWEEN compares all three by one collation; of two comparisons each takes its own
-- ordered
CREATE TABLE p2 (id INT NOT NULL, cb CHAR(5) COLLATE utf8mb4_bin NOT NULL, c2 TIME(2) NOT NULL, vg VARCHAR(12) COLLATE utf8mb4_general_ci, PRIMARY KEY (id))
REPLACE INTO p2 (id, cb, c2, vg) VALUES (1, '1', '838:59:59', 'a%'), (0, 'Ä', '00:00:00', 'ÿ')
CREATE CACHE c FROM SELECT a.c2 FROM p2 AS a WHERE (a.vg BETWEEN a.cb AND (UCASE(a.vg))) ORDER BY a.id DESC
SELECT a.c2 FROM p2 AS a WHERE (a.vg BETWEEN a.cb AND (UCASE(a.vg))) ORDER BY a.id DESC
CREATE CACHE c2 FROM SELECT a.c2 FROM p2 AS a WHERE a.cb BETWEEN LCASE(a.vg) AND a.vg ORDER BY a.id DESC
SELECT a.c2 FROM p2 AS a WHERE a.cb BETWEEN LCASE(a.vg) AND a.vg ORDER BY a.id DESC
CREATE CACHE c3 FROM SELECT a.c2 FROM p2 AS a WHERE a.vg IN (a.cb, UCASE(a.vg)) ORDER BY a.id DESC
SELECT a.c2 FROM p2 AS a WHERE a.vg IN (a.cb, UCASE(a.vg)) ORDER BY a.id DESC
