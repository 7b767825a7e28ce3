-- rows differ (hit, evict); found by make oracle SEED=13701915
-- by the index of a TIMESTAMP MySQL finds '12:34:56' for '12:34:56.789', without it none: more rows change its plan
CREATE TABLE x2 (id INT NOT NULL, k INT NOT NULL, ts TIMESTAMP NULL, d0 DATETIME NOT NULL, PRIMARY KEY (id), KEY (k), KEY (ts), KEY (d0))
REPLACE INTO x2 (id, k, ts, d0) VALUES (0, 1, '2024-02-29 12:34:56', '1999-12-31')
CREATE CACHE c FROM SELECT a.d0 FROM x2 a WHERE a.k = ? AND (TIMESTAMP'2024-02-29 12:34:56.789' = a.ts)
SELECT a.d0 FROM x2 a WHERE a.k = 1 AND (TIMESTAMP'2024-02-29 12:34:56.789' = a.ts)
REPLACE INTO x2 (id, k, ts, d0) VALUES (6, 1, '2024-02-29 12:34:56.789', '2024-02-29 12:34:56'), (8, 2, '2024-02-29 12:34:56', '2024-02-29 12:34:56'), (12, 3, '2001-01-01', '0000-00-00')
SELECT a.d0 FROM x2 a WHERE a.k = 1 AND (TIMESTAMP'2024-02-29 12:34:56.789' = a.ts)
REPLACE INTO x2 (id, k, ts, d0) VALUES (20, 2, '2024-02-29 12:34:56.789', '2024-02-29 12:34:56')
SELECT a.d0 FROM x2 a WHERE a.k = 1 AND (TIMESTAMP'2024-02-29 12:34:56.789' = a.ts)
