-- rows differ (hit, evict); found by make oracle SEED=9800338
-- whether a FLOAT(m,d) equals a number depends on MySQL's plan: nothing about its rows follows from the condition
-- free
CREATE TABLE p2 (id INT NOT NULL, ff FLOAT(7,2), PRIMARY KEY (id))
REPLACE INTO p2 (id, ff) VALUES (20, 1.1)
CREATE CACHE c FROM SELECT DATE'2024-03-01' FROM p2 a WHERE a.ff = 1.1e0
SELECT DATE'2024-03-01' FROM p2 a WHERE a.ff = 1.1e0
REPLACE INTO p2 (id, ff) VALUES (20, NULL), (11, -0.0e0), (10, -0.0e0)
SELECT DATE'2024-03-01' FROM p2 a WHERE a.ff = 1.1e0
