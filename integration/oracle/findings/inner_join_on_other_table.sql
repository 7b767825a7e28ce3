-- rows differ (miss, maintain); found by make oracle SEED=206
-- an inner join's ON that speaks of other tables, or of none, was lost where the aggregates are kept below the join
-- free
CREATE TABLE p1 (id INT NOT NULL, k INT, bu BIGINT UNSIGNED, PRIMARY KEY (id))
REPLACE INTO p1 (id, k, bu) VALUES (19, 5, 1), (20, 6, 1)
CREATE TABLE p2 (id INT NOT NULL, k INT NOT NULL, PRIMARY KEY (id))
REPLACE INTO p2 (id, k) VALUES (18, 5), (1, 6), (2, 6)
CREATE CACHE c FROM SELECT a.id, COUNT(*) FROM p1 a JOIN p2 b ON a.k = b.k AND NULL WHERE a.bu = ? GROUP BY a.id, a.bu
SELECT a.id, COUNT(*) FROM p1 a JOIN p2 b ON a.k = b.k AND NULL WHERE a.bu = 1 GROUP BY a.id, a.bu
CREATE CACHE d FROM SELECT a.id, COUNT(*) FROM p1 a JOIN p2 b ON a.k = b.k AND a.k = 6 WHERE a.bu = ? GROUP BY a.id, a.bu
SELECT a.id, COUNT(*) FROM p1 a JOIN p2 b ON a.k = b.k AND a.k = 6 WHERE a.bu = 1 GROUP BY a.id, a.bu
UPDATE p1 SET k = 6 WHERE id = 19
SELECT a.id, COUNT(*) FROM p1 a JOIN p2 b ON a.k = b.k AND a.k = 6 WHERE a.bu = 1 GROUP BY a.id, a.bu
