-- rows differ (hit, maintain); found by make oracle SEED=11011089
-- of a DATETIME that is no plain column 0000-00-00 is NULL to MIN and MAX
-- free
CREATE TABLE a1 (id INT NOT NULL, k INT NOT NULL, bo INT NOT NULL, PRIMARY KEY (id), KEY (k))
CREATE TABLE b1 (id INT NOT NULL, bo INT NOT NULL, n INT, d0 DATETIME, d3 DATETIME(3), da DATE, ts TIMESTAMP NULL, PRIMARY KEY (id), KEY (bo))
REPLACE INTO a1 VALUES (1, 7, 1), (2, 7, 2), (3, 7, 3)
REPLACE INTO b1 VALUES (1, 1, 1, '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00'), (2, 2, 1, '0000-00-00', NULL, '0000-00-00', '0000-00-00'), (3, 2, 0, '2024-01-02', '2024-01-02 03:04:05.678', '2024-01-02', '2024-01-02')
CREATE CACHE c0_0 FROM SELECT a.id, (SUM(FALSE) / COUNT(*)), MIN(IFNULL(b.d0, b.d0)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c0_1 FROM SELECT a.id, COUNT(*), MAX(IFNULL(b.d0, b.d0)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c0_2 FROM SELECT MIN(IFNULL(b.d0, b.d0)) FROM b1 b WHERE b.bo = ?
CREATE CACHE c0_3 FROM SELECT b.n, MAX(IFNULL(b.d0, b.d0)) FROM b1 b WHERE b.bo = ? GROUP BY b.n
CREATE CACHE c1_0 FROM SELECT a.id, (SUM(FALSE) / COUNT(*)), MAX(COALESCE(b.d0, b.d3)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c1_1 FROM SELECT a.id, COUNT(*), MIN(COALESCE(b.d0, b.d3)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c1_2 FROM SELECT MAX(COALESCE(b.d0, b.d3)) FROM b1 b WHERE b.bo = ?
CREATE CACHE c1_3 FROM SELECT b.n, MIN(COALESCE(b.d0, b.d3)) FROM b1 b WHERE b.bo = ? GROUP BY b.n
CREATE CACHE c2_0 FROM SELECT a.id, (SUM(FALSE) / COUNT(*)), MIN(IF(b.n > 0, b.d0, b.d3)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c2_1 FROM SELECT a.id, COUNT(*), MAX(IF(b.n > 0, b.d0, b.d3)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c2_2 FROM SELECT MIN(IF(b.n > 0, b.d0, b.d3)) FROM b1 b WHERE b.bo = ?
CREATE CACHE c2_3 FROM SELECT b.n, MAX(IF(b.n > 0, b.d0, b.d3)) FROM b1 b WHERE b.bo = ? GROUP BY b.n
CREATE CACHE c3_0 FROM SELECT a.id, (SUM(FALSE) / COUNT(*)), MAX(CASE WHEN b.n > 0 THEN b.d0 ELSE b.d3 END) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c3_1 FROM SELECT a.id, COUNT(*), MIN(CASE WHEN b.n > 0 THEN b.d0 ELSE b.d3 END) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c3_2 FROM SELECT MAX(CASE WHEN b.n > 0 THEN b.d0 ELSE b.d3 END) FROM b1 b WHERE b.bo = ?
CREATE CACHE c3_3 FROM SELECT b.n, MIN(CASE WHEN b.n > 0 THEN b.d0 ELSE b.d3 END) FROM b1 b WHERE b.bo = ? GROUP BY b.n
CREATE CACHE c4_0 FROM SELECT a.id, (SUM(FALSE) / COUNT(*)), MIN(NULLIF(b.d0, '2024-01-02')) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c4_1 FROM SELECT a.id, COUNT(*), MAX(NULLIF(b.d0, '2024-01-02')) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c4_2 FROM SELECT MIN(NULLIF(b.d0, '2024-01-02')) FROM b1 b WHERE b.bo = ?
CREATE CACHE c4_3 FROM SELECT b.n, MAX(NULLIF(b.d0, '2024-01-02')) FROM b1 b WHERE b.bo = ? GROUP BY b.n
CREATE CACHE c5_0 FROM SELECT a.id, (SUM(FALSE) / COUNT(*)), MAX(GREATEST(b.d0, b.d3)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c5_1 FROM SELECT a.id, COUNT(*), MIN(GREATEST(b.d0, b.d3)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c5_2 FROM SELECT MAX(GREATEST(b.d0, b.d3)) FROM b1 b WHERE b.bo = ?
CREATE CACHE c5_3 FROM SELECT b.n, MIN(GREATEST(b.d0, b.d3)) FROM b1 b WHERE b.bo = ? GROUP BY b.n
CREATE CACHE c6_0 FROM SELECT a.id, (SUM(FALSE) / COUNT(*)), MIN(IFNULL(b.ts, b.ts)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c6_1 FROM SELECT a.id, COUNT(*), MAX(IFNULL(b.ts, b.ts)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c6_2 FROM SELECT MIN(IFNULL(b.ts, b.ts)) FROM b1 b WHERE b.bo = ?
CREATE CACHE c6_3 FROM SELECT b.n, MAX(IFNULL(b.ts, b.ts)) FROM b1 b WHERE b.bo = ? GROUP BY b.n
CREATE CACHE c7_0 FROM SELECT a.id, (SUM(FALSE) / COUNT(*)), MAX(IFNULL(b.da, b.da)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c7_1 FROM SELECT a.id, COUNT(*), MIN(IFNULL(b.da, b.da)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c7_2 FROM SELECT MAX(IFNULL(b.da, b.da)) FROM b1 b WHERE b.bo = ?
CREATE CACHE c7_3 FROM SELECT b.n, MIN(IFNULL(b.da, b.da)) FROM b1 b WHERE b.bo = ? GROUP BY b.n
CREATE CACHE c8_0 FROM SELECT a.id, (SUM(FALSE) / COUNT(*)), MIN(IFNULL(b.da, b.d0)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c8_1 FROM SELECT a.id, COUNT(*), MAX(IFNULL(b.da, b.d0)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c8_2 FROM SELECT MIN(IFNULL(b.da, b.d0)) FROM b1 b WHERE b.bo = ?
CREATE CACHE c8_3 FROM SELECT b.n, MAX(IFNULL(b.da, b.d0)) FROM b1 b WHERE b.bo = ? GROUP BY b.n
CREATE CACHE c9_0 FROM SELECT a.id, (SUM(FALSE) / COUNT(*)), MAX(IFNULL(b.d0, b.ts)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c9_1 FROM SELECT a.id, COUNT(*), MIN(IFNULL(b.d0, b.ts)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c9_2 FROM SELECT MAX(IFNULL(b.d0, b.ts)) FROM b1 b WHERE b.bo = ?
CREATE CACHE c9_3 FROM SELECT b.n, MIN(IFNULL(b.d0, b.ts)) FROM b1 b WHERE b.bo = ? GROUP BY b.n
CREATE CACHE c10_0 FROM SELECT a.id, (SUM(FALSE) / COUNT(*)), MIN(b.d0) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c10_1 FROM SELECT a.id, COUNT(*), MAX(b.d0) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c10_2 FROM SELECT MIN(b.d0) FROM b1 b WHERE b.bo = ?
CREATE CACHE c10_3 FROM SELECT b.n, MAX(b.d0) FROM b1 b WHERE b.bo = ? GROUP BY b.n
CREATE CACHE c11_0 FROM SELECT a.id, (SUM(FALSE) / COUNT(*)), MAX(b.ts) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c11_1 FROM SELECT a.id, COUNT(*), MIN(b.ts) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = ? GROUP BY a.id
CREATE CACHE c11_2 FROM SELECT MAX(b.ts) FROM b1 b WHERE b.bo = ?
CREATE CACHE c11_3 FROM SELECT b.n, MIN(b.ts) FROM b1 b WHERE b.bo = ? GROUP BY b.n
SELECT a.id, (SUM(FALSE) / COUNT(*)), MIN(IFNULL(b.d0, b.d0)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT a.id, COUNT(*), MAX(IFNULL(b.d0, b.d0)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT MIN(IFNULL(b.d0, b.d0)) FROM b1 b WHERE b.bo = 1
SELECT MIN(IFNULL(b.d0, b.d0)) FROM b1 b WHERE b.bo = 2
SELECT b.n, MAX(IFNULL(b.d0, b.d0)) FROM b1 b WHERE b.bo = 1 GROUP BY b.n
SELECT b.n, MAX(IFNULL(b.d0, b.d0)) FROM b1 b WHERE b.bo = 2 GROUP BY b.n
SELECT a.id, (SUM(FALSE) / COUNT(*)), MAX(COALESCE(b.d0, b.d3)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT a.id, COUNT(*), MIN(COALESCE(b.d0, b.d3)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT MAX(COALESCE(b.d0, b.d3)) FROM b1 b WHERE b.bo = 1
SELECT MAX(COALESCE(b.d0, b.d3)) FROM b1 b WHERE b.bo = 2
SELECT b.n, MIN(COALESCE(b.d0, b.d3)) FROM b1 b WHERE b.bo = 1 GROUP BY b.n
SELECT b.n, MIN(COALESCE(b.d0, b.d3)) FROM b1 b WHERE b.bo = 2 GROUP BY b.n
SELECT a.id, (SUM(FALSE) / COUNT(*)), MIN(IF(b.n > 0, b.d0, b.d3)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT a.id, COUNT(*), MAX(IF(b.n > 0, b.d0, b.d3)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT MIN(IF(b.n > 0, b.d0, b.d3)) FROM b1 b WHERE b.bo = 1
SELECT MIN(IF(b.n > 0, b.d0, b.d3)) FROM b1 b WHERE b.bo = 2
SELECT b.n, MAX(IF(b.n > 0, b.d0, b.d3)) FROM b1 b WHERE b.bo = 1 GROUP BY b.n
SELECT b.n, MAX(IF(b.n > 0, b.d0, b.d3)) FROM b1 b WHERE b.bo = 2 GROUP BY b.n
SELECT a.id, (SUM(FALSE) / COUNT(*)), MAX(CASE WHEN b.n > 0 THEN b.d0 ELSE b.d3 END) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT a.id, COUNT(*), MIN(CASE WHEN b.n > 0 THEN b.d0 ELSE b.d3 END) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT MAX(CASE WHEN b.n > 0 THEN b.d0 ELSE b.d3 END) FROM b1 b WHERE b.bo = 1
SELECT MAX(CASE WHEN b.n > 0 THEN b.d0 ELSE b.d3 END) FROM b1 b WHERE b.bo = 2
SELECT b.n, MIN(CASE WHEN b.n > 0 THEN b.d0 ELSE b.d3 END) FROM b1 b WHERE b.bo = 1 GROUP BY b.n
SELECT b.n, MIN(CASE WHEN b.n > 0 THEN b.d0 ELSE b.d3 END) FROM b1 b WHERE b.bo = 2 GROUP BY b.n
SELECT a.id, (SUM(FALSE) / COUNT(*)), MIN(NULLIF(b.d0, '2024-01-02')) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT a.id, COUNT(*), MAX(NULLIF(b.d0, '2024-01-02')) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT MIN(NULLIF(b.d0, '2024-01-02')) FROM b1 b WHERE b.bo = 1
SELECT MIN(NULLIF(b.d0, '2024-01-02')) FROM b1 b WHERE b.bo = 2
SELECT b.n, MAX(NULLIF(b.d0, '2024-01-02')) FROM b1 b WHERE b.bo = 1 GROUP BY b.n
SELECT b.n, MAX(NULLIF(b.d0, '2024-01-02')) FROM b1 b WHERE b.bo = 2 GROUP BY b.n
SELECT a.id, (SUM(FALSE) / COUNT(*)), MAX(GREATEST(b.d0, b.d3)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT a.id, COUNT(*), MIN(GREATEST(b.d0, b.d3)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT MAX(GREATEST(b.d0, b.d3)) FROM b1 b WHERE b.bo = 1
SELECT MAX(GREATEST(b.d0, b.d3)) FROM b1 b WHERE b.bo = 2
SELECT b.n, MIN(GREATEST(b.d0, b.d3)) FROM b1 b WHERE b.bo = 1 GROUP BY b.n
SELECT b.n, MIN(GREATEST(b.d0, b.d3)) FROM b1 b WHERE b.bo = 2 GROUP BY b.n
SELECT a.id, (SUM(FALSE) / COUNT(*)), MIN(IFNULL(b.ts, b.ts)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT a.id, COUNT(*), MAX(IFNULL(b.ts, b.ts)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT MIN(IFNULL(b.ts, b.ts)) FROM b1 b WHERE b.bo = 1
SELECT MIN(IFNULL(b.ts, b.ts)) FROM b1 b WHERE b.bo = 2
SELECT b.n, MAX(IFNULL(b.ts, b.ts)) FROM b1 b WHERE b.bo = 1 GROUP BY b.n
SELECT b.n, MAX(IFNULL(b.ts, b.ts)) FROM b1 b WHERE b.bo = 2 GROUP BY b.n
SELECT a.id, (SUM(FALSE) / COUNT(*)), MAX(IFNULL(b.da, b.da)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT a.id, COUNT(*), MIN(IFNULL(b.da, b.da)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT MAX(IFNULL(b.da, b.da)) FROM b1 b WHERE b.bo = 1
SELECT MAX(IFNULL(b.da, b.da)) FROM b1 b WHERE b.bo = 2
SELECT b.n, MIN(IFNULL(b.da, b.da)) FROM b1 b WHERE b.bo = 1 GROUP BY b.n
SELECT b.n, MIN(IFNULL(b.da, b.da)) FROM b1 b WHERE b.bo = 2 GROUP BY b.n
SELECT a.id, (SUM(FALSE) / COUNT(*)), MIN(IFNULL(b.da, b.d0)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT a.id, COUNT(*), MAX(IFNULL(b.da, b.d0)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT MIN(IFNULL(b.da, b.d0)) FROM b1 b WHERE b.bo = 1
SELECT MIN(IFNULL(b.da, b.d0)) FROM b1 b WHERE b.bo = 2
SELECT b.n, MAX(IFNULL(b.da, b.d0)) FROM b1 b WHERE b.bo = 1 GROUP BY b.n
SELECT b.n, MAX(IFNULL(b.da, b.d0)) FROM b1 b WHERE b.bo = 2 GROUP BY b.n
SELECT a.id, (SUM(FALSE) / COUNT(*)), MAX(IFNULL(b.d0, b.ts)) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT a.id, COUNT(*), MIN(IFNULL(b.d0, b.ts)) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT MAX(IFNULL(b.d0, b.ts)) FROM b1 b WHERE b.bo = 1
SELECT MAX(IFNULL(b.d0, b.ts)) FROM b1 b WHERE b.bo = 2
SELECT b.n, MIN(IFNULL(b.d0, b.ts)) FROM b1 b WHERE b.bo = 1 GROUP BY b.n
SELECT b.n, MIN(IFNULL(b.d0, b.ts)) FROM b1 b WHERE b.bo = 2 GROUP BY b.n
SELECT a.id, (SUM(FALSE) / COUNT(*)), MIN(b.d0) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT a.id, COUNT(*), MAX(b.d0) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT MIN(b.d0) FROM b1 b WHERE b.bo = 1
SELECT MIN(b.d0) FROM b1 b WHERE b.bo = 2
SELECT b.n, MAX(b.d0) FROM b1 b WHERE b.bo = 1 GROUP BY b.n
SELECT b.n, MAX(b.d0) FROM b1 b WHERE b.bo = 2 GROUP BY b.n
SELECT a.id, (SUM(FALSE) / COUNT(*)), MAX(b.ts) FROM a1 a LEFT JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT a.id, COUNT(*), MIN(b.ts) FROM a1 a JOIN b1 b ON b.bo = a.bo WHERE a.k = 7 GROUP BY a.id
SELECT MAX(b.ts) FROM b1 b WHERE b.bo = 1
SELECT MAX(b.ts) FROM b1 b WHERE b.bo = 2
SELECT b.n, MIN(b.ts) FROM b1 b WHERE b.bo = 1 GROUP BY b.n
SELECT b.n, MIN(b.ts) FROM b1 b WHERE b.bo = 2 GROUP BY b.n
UPDATE b1 SET d0 = '2024-05-06', d3 = '2024-05-06', da = '2024-05-06', ts = '2024-05-06' WHERE id = 1
-- again
UPDATE IGNORE b1 SET d0 = '0000-00-00', d3 = '0000-00-00', da = '0000-00-00', ts = '0000-00-00' WHERE id IN (1, 3)
-- again
