-- a partial date by which MySQL looks a row up in an index, where it is 0000-00-00
CREATE TABLE x1 (id INT NOT NULL, da DATE NOT NULL, PRIMARY KEY (id), KEY (da))
REPLACE INTO x1 (id, da) VALUES (1, '2024-00-00'), (2, '0000-00-00'), (3, '2024-01-01'), (4, '2024-00-00'), (5, '2024-03-00'), (6, '2024-01-02'), (7, '2024-01-03'), (8, '2024-01-04'), (9, '2024-01-05'), (10, '2024-01-06'), (11, '2024-01-07'), (12, '2024-01-08'), (13, '2024-01-09'), (14, '2024-01-10')
CREATE TABLE x2 (id INT NOT NULL, k INT, da DATE NOT NULL, PRIMARY KEY (id), KEY (k))
REPLACE INTO x2 (id, k, da) VALUES (15, 1, '1999-12-31'), (6, 1, '2024-00-00'), (4, 1, '0000-00-00'), (5, 1, '2024-01-01'), (7, 2, '2024-01-02'), (8, 2, '2024-01-03')
CREATE CACHE c FROM SELECT a.id, b.id FROM x2 a LEFT JOIN x1 b ON b.da = a.da WHERE a.k = ?
SELECT a.id, b.id FROM x2 a LEFT JOIN x1 b ON b.da = a.da WHERE a.k = 1
SELECT a.id, b.id FROM x2 a LEFT JOIN x1 b ON b.da = a.da WHERE a.k = 2
UPDATE x2 SET da = '2024-03-00' WHERE id = 8
SELECT a.id, b.id FROM x2 a LEFT JOIN x1 b ON b.da = a.da WHERE a.k = 2
