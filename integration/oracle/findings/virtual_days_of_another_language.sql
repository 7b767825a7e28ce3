-- rows differ (hit, maintain): a VIRTUAL column is computed for whoever reads it
-- session: 0 SET time_zone = '+02:00', lc_time_names = 'de_DE'
CREATE TABLE x1 (id INT NOT NULL, d0 DATETIME, ts TIMESTAMP NULL, g0 VARCHAR(80) AS (DAYNAME(d0)) VIRTUAL, g1 VARCHAR(80) AS (CONCAT(ts, '')) VIRTUAL, PRIMARY KEY (id))
REPLACE INTO x1 (id, d0, ts) VALUES (1, '2024-02-29 12:00:00', '2024-02-29 23:30:00'), (2, NULL, NULL)
CREATE CACHE c FROM SELECT a.g0, a.g1, a.ts FROM x1 a WHERE a.id = ?
SELECT a.g0, a.g1, a.ts FROM x1 a WHERE a.id = 1
UPDATE x1 SET d0 = '2024-03-01', ts = '2024-07-01 00:30:00'
SELECT a.g0, a.g1, a.ts FROM x1 a WHERE a.id = 1
SELECT a.g0, a.g1, a.ts FROM x1 a WHERE a.id = 2
-- again
