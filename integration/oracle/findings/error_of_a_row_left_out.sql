-- error differ (hit, evict); found by make oracle SEED=19002097
-- MySQL evaluates the conditions in its own order: a row that one of them leaves out raises the error of another
CREATE TABLE p2 (id INT NOT NULL, v3 VARCHAR(12) CHARACTER SET utf8mb3, mu MEDIUMINT UNSIGNED NOT NULL, yr YEAR, si SMALLINT NOT NULL, PRIMARY KEY (id))
CREATE CACHE c FROM SELECT SQL_NO_CACHE a.yr FROM p2 AS a USE INDEX (PRIMARY) WHERE (JSON_PRETTY(a.si)) AND a.mu > 1
-- bound:
SELECT SQL_NO_CACHE a.yr FROM p2 AS a USE INDEX (PRIMARY) WHERE (JSON_PRETTY(a.si)) AND a.mu > 1
REPLACE INTO p2 (id, v3, mu, yr, si) VALUES (12, 'b', 0, NULL, 0)
-- bound:
SELECT SQL_NO_CACHE a.yr FROM p2 AS a USE INDEX (PRIMARY) WHERE (JSON_PRETTY(a.si)) AND a.mu > 1
