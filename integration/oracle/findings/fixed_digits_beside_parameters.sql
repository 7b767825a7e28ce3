-- rows differ (hit, evict); found by make oracle SEED=160001504
-- MySQL puts a literal that a FLOAT(m,d) must be equal to in the column's place, and a bound value not
CREATE TABLE p2 (id INT NOT NULL, en ENUM('b','a','c','1',''), ff FLOAT(7,2) NOT NULL, PRIMARY KEY (id))
REPLACE INTO p2 (id, en, ff) VALUES (9, '', 0.3)
CREATE CACHE c FROM SELECT a.id, l.n FROM p2 a, LATERAL (SELECT l0.en AS n FROM p2 AS l0) l WHERE a.ff NOT IN (?) AND a.ff = ?
-- bound: f6=03302e33 f6=03302e31 f6=03302e31 f6=03302e33
SELECT a.id, l.n FROM p2 a, LATERAL (SELECT l0.en AS n FROM p2 AS l0) l WHERE a.ff NOT IN (?, ?, ?) AND a.ff = ?
