-- What the clients' programs read. Everything follows from numbers, so that every run has the same rows.

CREATE TABLE author (
  id INT PRIMARY KEY AUTO_INCREMENT,
  name VARCHAR(100) NOT NULL,
  country CHAR(2),
  UNIQUE KEY author_name (name)
);

CREATE TABLE article (
  id INT PRIMARY KEY AUTO_INCREMENT,
  author_id INT NOT NULL,
  title VARCHAR(200) NOT NULL,
  score INT NOT NULL DEFAULT 0,
  price DECIMAL(10, 2),
  published DATETIME NOT NULL,
  KEY article_author (author_id),
  CONSTRAINT article_author FOREIGN KEY (author_id) REFERENCES author (id)
);

CREATE TABLE comment (
  id INT PRIMARY KEY AUTO_INCREMENT,
  article_id INT NOT NULL,
  body TEXT NOT NULL,
  KEY comment_article (article_id),
  CONSTRAINT comment_article FOREIGN KEY (article_id) REFERENCES article (id)
);

CREATE TABLE digit (d INT PRIMARY KEY);

CREATE TABLE number (n INT PRIMARY KEY, label VARCHAR(40) NOT NULL);

CREATE TABLE every_type (
  id INT PRIMARY KEY,
  a_tinyint TINYINT,
  a_bool BOOL,
  a_smallint SMALLINT UNSIGNED,
  a_mediumint MEDIUMINT,
  an_int INT,
  a_bigint BIGINT,
  an_unsigned BIGINT UNSIGNED,
  a_decimal DECIMAL(20, 6),
  a_long_decimal DECIMAL(65, 30),
  a_float FLOAT,
  a_double DOUBLE,
  a_bit BIT(10),
  a_char CHAR(10),
  a_varchar VARCHAR(50),
  a_latin1 VARCHAR(50) CHARACTER SET latin1,
  a_text TEXT,
  a_binary BINARY(4),
  a_varbinary VARBINARY(50),
  a_blob BLOB,
  a_date DATE,
  a_time TIME,
  a_fine_time TIME(6),
  a_datetime DATETIME,
  a_fine_datetime DATETIME(6),
  a_timestamp TIMESTAMP NULL,
  a_year YEAR,
  an_enum ENUM('small', 'größer', ''),
  a_set SET('a', 'b', 'ç'),
  a_json JSON,
  a_point POINT
);

SET time_zone = '+00:00';
INSERT INTO every_type VALUES
  (1, 7, TRUE, 300, -70000, 123456, 9007199254740993, 42, 1234.5, 0.1, 1.5, 0.1, b'1000000001', 'char', 'varchar 🐬', 'café',
   'text\n\'quoted\' "twice" \\ 日本語', X'00010203', X'FF00FE', X'C328', '2024-02-29', '-12:34:56', '01:02:03.000456',
   '2024-02-29 23:59:59', '2024-02-29 23:59:59.123456', '2001-09-09 01:46:40', 2024, 'größer', 'a,ç', '{"b": [1, 2.5, "ü🐬"], "a": null}',
   ST_GeomFromText('POINT(1 2)')),
  (2, 127, FALSE, 65535, 8388607, 2147483647, 9223372036854775807, 18446744073709551615, 99999999999999.999999,
   99999999999999999999999999999999999.999999999999999999999999999999, 3.40282e38, 1.7976931348623157e308, b'1111111111', '', '', '', '',
   X'00000000', X'', X'', '9999-12-31', '838:59:59', '838:59:58.999999', '9999-12-31 23:59:59', '9999-12-31 23:59:59.999999',
   '2038-01-19 03:14:07', 2155, '', '', '""', ST_GeomFromText('POINT(-0.5 1e10)')),
  (3, -128, NULL, 0, -8388608, -2147483648, -9223372036854775808, 0, -99999999999999.999999,
   -0.000000000000000000000000000001, -1e-30, -2.2250738585072014e-308, b'0', ' lead', ' ', ' ', ' ',
   X'20202020', X'20', X'00', '1000-01-01', '00:00:00', '-838:59:58.999999', '1000-01-01 00:00:00', '1000-01-01 00:00:00.000001',
   '1970-01-01 00:00:01', 1901, 'small', 'a,b,ç', '[]', ST_GeomFromText('POINT(0 0)')),
  (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

INSERT INTO digit VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);

INSERT INTO number
  SELECT n, CONCAT('number ', n, ' ', REPEAT('x', n MOD 20))
  FROM (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d AS n FROM digit a, digit b, digit c, digit d, digit e) numbers;

INSERT INTO author (id, name, country)
  SELECT n + 1, CONCAT('author ', n + 1, IF(n MOD 3 = 0, ' 🐬', '')), ELT(1 + n MOD 4, 'NZ', 'IS', 'UY', NULL) FROM number WHERE n < 20;

INSERT INTO article (id, author_id, title, score, price, published)
  SELECT n + 1, 1 + n MOD 20, CONCAT('article ', n + 1), n * 7 MOD 31, IF(n MOD 5 = 0, NULL, n / 4), '2024-01-01' + INTERVAL n HOUR
  FROM number WHERE n < 200;

INSERT INTO comment (id, article_id, body)
  SELECT n + 1, 1 + n MOD 200, CONCAT('comment ', n + 1) FROM number WHERE n < 600;

CREATE VIEW articles_of AS
  SELECT author.id AS author_id, COUNT(*) AS articles, SUM(article.score) AS score
  FROM author JOIN article ON article.author_id = author.id GROUP BY author.id;

CREATE PROCEDURE two_results (IN wanted INT, OUT found INT, INOUT twice INT)
BEGIN
  SELECT id, name FROM author WHERE id <= wanted ORDER BY id;
  SELECT COUNT(*) AS articles FROM article WHERE author_id <= wanted;
  SET found = wanted + 1, twice = twice * 2;
END;

CREATE PROCEDURE fails_midway ()
BEGIN
  SELECT 'before';
  SIGNAL SQLSTATE '45001' SET MYSQL_ERRNO = 5001, MESSAGE_TEXT = 'as asked for';
END;
