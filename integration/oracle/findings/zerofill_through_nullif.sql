-- rows differ (hit, evict); found by make oracle SEED=12000394
-- what NULLIF gives of a ZEROFILL number MySQL shows with zeros, or without, by its plan
-- free
CREATE TABLE p1 (id INT NOT NULL, PRIMARY KEY (id))
REPLACE INTO p1 (id) VALUES (15)
CREATE TABLE p2 (id INT NOT NULL, zf INT(6) ZEROFILL NOT NULL, dw DECIMAL(30,10) NOT NULL, PRIMARY KEY (id))
REPLACE INTO p2 (id, zf, dw) VALUES (15, 0, 2)
CREATE CACHE c FROM SELECT q.n FROM p1 AS a JOIN (SELECT i.id, (NULLIF((CASE WHEN NULL THEN i.dw ELSE i.zf END), NULL)) AS n FROM p2 i) q ON a.id = q.id
-- bound:
SELECT q.n FROM p1 AS a JOIN (SELECT i.id, (NULLIF((CASE WHEN NULL THEN i.dw ELSE i.zf END), NULL)) AS n FROM p2 i) q ON a.id = q.id
-- bound:
SELECT q.n FROM p1 AS a JOIN (SELECT i.id, (NULLIF((CASE WHEN NULL THEN i.dw ELSE i.zf END), NULL)) AS n FROM p2 i) q ON a.id = q.id
-- bound:
SELECT q.n FROM p1 AS a JOIN (SELECT i.id, (NULLIF((CASE WHEN NULL THEN i.dw ELSE i.zf END), NULL)) AS n FROM p2 i) q ON a.id = q.id
