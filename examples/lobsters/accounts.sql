-- What compose.yaml gives a new MySQL: the sample's database, and two accounts with the rights that they need.

CREATE DATABASE IF NOT EXISTS lobsters;

-- Upwell's own: it reads, and follows the binlog. It has no right to write, and none to lock.
CREATE USER 'upwell'@'%' IDENTIFIED BY 'upwell';
GRANT SELECT ON lobsters.* TO 'upwell'@'%';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'upwell'@'%';

-- The sample's: it loads its rows, and writes as the site's users do.
CREATE USER 'sample'@'%' IDENTIFIED BY 'sample';
GRANT ALL ON lobsters.* TO 'sample'@'%';
