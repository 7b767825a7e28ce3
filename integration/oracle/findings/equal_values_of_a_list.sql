-- rows differ (hit, evict); found by make oracle SEED=7900201
-- MySQL compares with one value of a list otherwise than with several, though they be equal
CREATE TABLE p1 (id INT NOT NULL, ts TIMESTAMP NULL, ff FLOAT(7,2), PRIMARY KEY (id))
REPLACE INTO p1 (id, ts, ff) VALUES (2, '2024-03-01 00:00:00.4', 0.1)
CREATE CACHE c FROM SELECT a.ts FROM p1 AS a WHERE a.ff NOT IN (?)
-- bound: f6=03302e31 f6=03302e31 f6=03302e31
SELECT a.ts FROM p1 AS a WHERE a.ff NOT IN (?, ?, ?)

