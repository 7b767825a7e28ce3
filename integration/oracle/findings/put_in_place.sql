-- a date that must equal a text, beside numbers: MySQL compares the text, or the date, as the constant is written
CREATE TABLE x1 (id INT NOT NULL, d DATE, m DATETIME, n BIGINT, PRIMARY KEY (id))
REPLACE INTO x1 (id, d, m, n) VALUES (1, '2024-02-29', '2024-02-29 12:34:56', 20240229), (2, '2024-02-29', NULL, 5)
CREATE CACHE c FROM SELECT a.id FROM x1 a WHERE (20240229123456 IN (a.m, TIMESTAMP'2024-02-29 00:00:00')) AND a.m = ?
SELECT a.id FROM x1 a WHERE (20240229123456 IN (a.m, TIMESTAMP'2024-02-29 00:00:00')) AND a.m = TIMESTAMP'2024-02-29 12:34:56'
SELECT a.id FROM x1 a WHERE (20240229123456 IN (a.m, TIMESTAMP'2024-02-29 00:00:00')) AND a.m = '2024-02-29 12:34:56'
CREATE CACHE c2 FROM SELECT a.id FROM x1 a WHERE a.n = a.d AND a.d = ?
SELECT a.id FROM x1 a WHERE a.n = a.d AND a.d = DATE'2024-02-29'
SELECT a.id FROM x1 a WHERE a.n = a.d AND a.d = '2024-02-29'
