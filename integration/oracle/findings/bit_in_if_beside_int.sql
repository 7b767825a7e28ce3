-- error differ (passed, evict); found by make oracle SEED=12
-- MySQL announces DECIMAL for IF(..., 0, bit) and sends the bit's bytes: the client waited until its deadline
-- free
CREATE TABLE p2 (id INT NOT NULL, k INT NOT NULL, b1 BIT(1), yr YEAR, PRIMARY KEY (id))
REPLACE INTO p2 (id, k, b1, yr) VALUES (35, 2, b'1', 2000), (57, 3, NULL, NULL), (3, 2, b'0', 0)
CREATE CACHE c FROM SELECT IF(a.yr <> a.yr, 0, a.b1), a.id FROM p2 AS a WHERE a.k = ?
SELECT IF(a.yr <> a.yr, 0, a.b1), a.id FROM p2 AS a WHERE a.k = 2
SELECT IF(a.yr <> a.yr, 0, a.b1), a.id FROM p2 AS a WHERE a.k = 3
UPDATE p2 SET k = 3
SELECT IF(a.yr <> a.yr, 0, a.b1), a.id FROM p2 AS a WHERE a.k = 3
