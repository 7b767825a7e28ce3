-- a full-text search as a condition is held; its relevance, which was, depends on other rows and on statistics
-- ordered
CREATE TABLE x1 (id INT NOT NULL, k INT, ft VARCHAR(60), PRIMARY KEY (id), KEY (k), FULLTEXT KEY (ft))
REPLACE INTO x1 (id, k, ft) VALUES (1, 1, 'red apple'), (2, 1, 'green apple pie'), (3, 2, 'blue sky'), (4, 1, 'red sky')
CREATE CACHE c2 FROM SELECT a.id FROM x1 a WHERE MATCH(a.ft) AGAINST ('apple -pie' IN BOOLEAN MODE) AND a.k = ?
SELECT a.id FROM x1 a WHERE MATCH(a.ft) AGAINST ('apple -pie' IN BOOLEAN MODE) AND a.k = 1
CREATE CACHE c3 FROM SELECT a.id FROM x1 a WHERE NOT MATCH(a.ft) AGAINST ('apple pie') AND a.k = ? ORDER BY a.id
SELECT a.id FROM x1 a WHERE NOT MATCH(a.ft) AGAINST ('apple pie') AND a.k = 1 ORDER BY a.id
UPDATE x1 SET ft = 'another apple' WHERE id = 3
SELECT a.id FROM x1 a WHERE MATCH(a.ft) AGAINST ('apple -pie' IN BOOLEAN MODE) AND a.k = 1
SELECT a.id FROM x1 a WHERE NOT MATCH(a.ft) AGAINST ('apple pie') AND a.k = 1 ORDER BY a.id
UPDATE x1 SET ft = 'another pie', k = 1 WHERE id IN (1, 3)
SELECT a.id FROM x1 a WHERE MATCH(a.ft) AGAINST ('apple -pie' IN BOOLEAN MODE) AND a.k = 1
SELECT a.id FROM x1 a WHERE NOT MATCH(a.ft) AGAINST ('apple pie') AND a.k = 1 ORDER BY a.id
