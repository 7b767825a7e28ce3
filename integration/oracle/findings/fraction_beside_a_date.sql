-- rows differ (hit, maintain); found by make bindings SEED=300188
-- through an index MySQL finds a DATE between fractions of a second behind its midnight that were bound
CREATE TABLE x1 (id INT NOT NULL, da DATE, k INT, PRIMARY KEY (id), KEY (da))
REPLACE INTO x1 (id, da, k) VALUES (1, '2024-03-01', 1), (2, '2024-03-02', 1), (3, '2024-02-29', 1)
CREATE CACHE c1 FROM SELECT a.id FROM x1 a WHERE a.da BETWEEN ? AND ?
SELECT a.id FROM x1 a WHERE a.da BETWEEN '2024-03-01 00:00:00.4' AND '2024-03-01 00:00:00.4'
-- bound: 0c=04e8070301 0c=04e8070301
SELECT a.id FROM x1 a WHERE a.da BETWEEN ? AND ?
-- bound: 0c=0be8070301000000801a0600 0c=0be8070301000000801a0600
SELECT a.id FROM x1 a WHERE a.da BETWEEN ? AND ?
CREATE CACHE c2 FROM SELECT a.id FROM x1 a WHERE a.da = ?
SELECT a.id FROM x1 a WHERE a.da = TIMESTAMP'2024-03-01 00:00:00.4'
SELECT a.id FROM x1 a WHERE a.da = '2024-03-01 00:00:00.4'
