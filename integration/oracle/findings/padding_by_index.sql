-- a string under a padding collation of bytes finds fewer rows by the index of a column that does not pad
CREATE TABLE x1 (id INT NOT NULL, k INT NOT NULL, w VARCHAR(9) COLLATE utf8mb4_bin, PRIMARY KEY (id), KEY (k))
REPLACE INTO x1 (id, k, w) VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'a ')
CREATE TABLE x2 (id INT NOT NULL, v VARCHAR(9) COLLATE utf8mb4_0900_ai_ci, PRIMARY KEY (id), KEY (v))
REPLACE INTO x2 (id, v) VALUES (1, 'a'), (2, 'a '), (3, 'A'), (4, 'b')
CREATE CACHE c FROM SELECT b.id FROM x1 a JOIN x2 b ON a.w = b.v WHERE a.k = ?
SELECT b.id FROM x1 a JOIN x2 b ON a.w = b.v WHERE a.k = 1
REPLACE INTO x2 (id, v) VALUES (5, 'b ')
SELECT b.id FROM x1 a JOIN x2 b ON a.w = b.v WHERE a.k = 1
