-- rows differ (hit, evict); found by make oracle SEED=9115286
-- a binary string that a column must equal is another number as a text than as x..
CREATE TABLE p1 (id INT NOT NULL, k INT NOT NULL, bv VARBINARY(6) NOT NULL, bz BIGINT UNSIGNED ZEROFILL, PRIMARY KEY (id))
REPLACE INTO p1 (id, k, bv, bz) VALUES (22, 1, x'6100', 18446744073709551615)
CREATE CACHE c FROM SELECT SQL_SMALL_RESULT a.k FROM p1 a WHERE a.bv = ? AND (a.k BETWEEN a.bv AND a.bz)
-- bound: fc=026100
SELECT SQL_SMALL_RESULT a.k FROM p1 a WHERE a.bv = ? AND (a.k BETWEEN a.bv AND a.bz)
