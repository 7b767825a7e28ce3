-- rows differ (miss, maintain); found by make oracle SEED=107
-- NOT LIKE was computed as LIKE
-- free
CREATE TABLE x2 (id INT NOT NULL, b1 BIT(1), PRIMARY KEY (id), KEY (b1))
REPLACE INTO x2 (id, b1) VALUES (11, b'1')
CREATE CACHE c FROM SELECT q.n FROM (SELECT i.b1, 1 AS n FROM x2 i GROUP BY i.b1) q WHERE q.b1 = ? AND ('10' NOT LIKE '%b')
SELECT q.n FROM (SELECT i.b1, 1 AS n FROM x2 i GROUP BY i.b1) q WHERE q.b1 = 1 AND ('10' NOT LIKE '%b')
