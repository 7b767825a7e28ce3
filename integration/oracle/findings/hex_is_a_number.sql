-- a binary string that a column must equal, in a condition that computes with the column: x'61' is a number there
-- free
CREATE TABLE x1 (id INT NOT NULL, bv VARBINARY(6), va VARCHAR(6), PRIMARY KEY (id), KEY (bv), KEY(va))
REPLACE INTO x1 (id, bv, va) VALUES (22, x'6120', 'a'), (23, x'31', '1'), (24, x'61', 'a')
CREATE CACHE c FROM SELECT q.n FROM (SELECT i.bv, TIMESTAMP'2024-03-01 00:00:00.4' AS n FROM x1 i GROUP BY i.bv) q WHERE q.bv = ? AND (q.bv = (FLOOR(q.bv)))
-- bound: fd=026120
SELECT q.n FROM (SELECT i.bv, TIMESTAMP'2024-03-01 00:00:00.4' AS n FROM x1 i GROUP BY i.bv) q WHERE q.bv = ? AND (q.bv = (FLOOR(q.bv)))
SELECT q.n FROM (SELECT i.bv, TIMESTAMP'2024-03-01 00:00:00.4' AS n FROM x1 i GROUP BY i.bv) q WHERE q.bv = 'a ' AND (q.bv = (FLOOR(q.bv)))
SELECT q.n FROM (SELECT i.bv, TIMESTAMP'2024-03-01 00:00:00.4' AS n FROM x1 i GROUP BY i.bv) q WHERE q.bv = x'6120' AND (q.bv = (FLOOR(q.bv)))
