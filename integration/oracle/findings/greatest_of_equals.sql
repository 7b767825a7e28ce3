-- rows differ (miss, maintain); found by make oracle SEED=32
-- GREATEST gives the last of 0.0 and -0.0
-- ordered
CREATE TABLE p1 (id INT NOT NULL, k INT, a VARCHAR(5), b VARCHAR(5), f DOUBLE, g DOUBLE, h FLOAT, PRIMARY KEY (id))
REPLACE INTO p1 VALUES (1, 1, 'a', 'A', 0.0e0, -0.0e0, -0.0e0), (2, 1, 'A', 'a', -0.0e0, 0.0e0, 0.0e0), (3, 1, 'b', 'B ', 1, 2, NULL)
CREATE CACHE c FROM SELECT GREATEST(a, b), LEAST(a, b), GREATEST(f, g), LEAST(f, g), GREATEST(f, g, h), LEAST(f, h, g), GREATEST(0.0e0, h) FROM p1 WHERE k = ? ORDER BY id
SELECT GREATEST(a, b), LEAST(a, b), GREATEST(f, g), LEAST(f, g), GREATEST(f, g, h), LEAST(f, h, g), GREATEST(0.0e0, h) FROM p1 WHERE k = 1 ORDER BY id
-- bound: 8=0100000000000000
SELECT GREATEST(a, b), LEAST(a, b), GREATEST(f, g), LEAST(f, g), GREATEST(f, g, h), LEAST(f, h, g), GREATEST(0.0e0, h) FROM p1 WHERE k = ? ORDER BY id
