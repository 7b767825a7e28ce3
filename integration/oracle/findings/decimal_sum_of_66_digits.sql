-- rows differ (miss, maintain): SUM is clamped to 65 digits in the fill, not within MySQL's own expression
-- free
CREATE TABLE p2 (id INT NOT NULL, k INT NOT NULL, dl DECIMAL(65,30), d6 DATETIME(6), PRIMARY KEY (id))
REPLACE INTO p2 (id, k, dl, d6) VALUES (17, 3, 2, '2024-03-01 00:00:00.4'), (8, 2, 99999999999999999999999999999999999.999999999999999999999999999999, '2024-03-01 00:00:00.4')
CREATE CACHE c FROM SELECT (SELECT (SUM(s1.dl) / COUNT(*)) FROM p2 s1 WHERE a.d6 = s1.d6) FROM p2 a WHERE a.k = ?
SELECT (SELECT (SUM(s1.dl) / COUNT(*)) FROM p2 s1 WHERE a.d6 = s1.d6) FROM p2 a WHERE a.k = 3
