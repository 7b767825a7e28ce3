-- rows differ (miss, evict); found by make oracle SEED=9110961
-- of a ZEROFILL that equals a constant MySQL puts a padded text in its place
CREATE TABLE x2 (id INT NOT NULL, tx VARCHAR(9), bz BIGINT UNSIGNED ZEROFILL, PRIMARY KEY (id), KEY (bz))
REPLACE INTO x2 VALUES (1, 'e', 18446744073709551615), (2, 'f', 18446744073709551615), (3, 'a', 18446744073709551615)
CREATE CACHE c FROM SELECT a.id FROM x2 AS a WHERE a.bz = ? AND (a.tx BETWEEN 'e' AND a.bz) ORDER BY a.id
SELECT a.id FROM x2 AS a WHERE a.bz = 18446744073709551615 AND (a.tx BETWEEN 'e' AND a.bz) ORDER BY a.id
SELECT a.id FROM x2 AS a WHERE a.bz = 18446744073709551615.0 AND (a.tx BETWEEN 'e' AND a.bz) ORDER BY a.id
