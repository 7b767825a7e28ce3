-- error differ (passed no cache for this query, maintain); found by make oracle SEED=1081
-- MySQL:  2 rows [(b'1', b'1', b'1'), (b'1', b'1', b'1')]
-- Upwell: error 1105: the source's answer does not fit the plan
-- ordered
-- free
CREATE TABLE p1 (id INT NOT NULL, ca CHAR(5) COLLATE utf8mb4_0900_ai_ci, tt TINYTEXT COLLATE utf8mb4_general_ci NOT NULL, PRIMARY KEY (id))
REPLACE INTO p1 (id, ca, tt) VALUES (4, 'A', 'a%'), (21, 'ä', 'a%')
CREATE CACHE c FROM SELECT 1 AS g0, 1, 1 FROM p1 a GROUP BY a.tt, a.ca ORDER BY g0 DESC, 1 DESC, 2 DESC
SELECT 1 AS g0, 1, 1 FROM p1 a GROUP BY a.tt, a.ca ORDER BY g0 DESC, 1 DESC, 2 DESC
