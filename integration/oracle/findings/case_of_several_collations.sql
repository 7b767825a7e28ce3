-- rows differ (miss, maintain); found by make oracle SEED=9603468
-- MySQL:  1 rows [(b'1',)]
-- Upwell: 0 rows []
-- only MySQL has [(b'1',)]
-- only Upwell has []
CREATE TABLE p2 (id INT NOT NULL, cu CHAR(5) COLLATE utf8mb4_unicode_ci, bo BOOLEAN, lb VARCHAR(12) CHARACTER SET latin1 COLLATE latin1_bin, PRIMARY KEY (id))
REPLACE INTO p2 (id, cu, bo, lb) VALUES (6, '1', 1, 'aB')
CREATE CACHE c FROM SELECT a.bo FROM p2 a WHERE (CASE a.lb WHEN (UCASE(a.lb)) THEN 1 WHEN a.cu THEN 2 END)
SELECT a.bo FROM p2 a WHERE (CASE a.lb WHEN (UCASE(a.lb)) THEN 1 WHEN a.cu THEN 2 END)
