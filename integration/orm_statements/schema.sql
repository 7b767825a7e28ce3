-- A plausible application: a blog with a shop. Every program and every script works on these tables.

CREATE TABLE users (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  email VARCHAR(190) NOT NULL UNIQUE,
  name VARCHAR(100) NOT NULL,
  role ENUM('reader', 'editor', 'admin') NOT NULL DEFAULT 'reader',
  active TINYINT(1) NOT NULL DEFAULT 1,
  balance DECIMAL(12, 2) NOT NULL DEFAULT '0.00',
  settings JSON,
  uuid CHAR(36) NOT NULL UNIQUE,
  born DATE,
  last_seen_at DATETIME(6),
  created_at DATETIME(6) NOT NULL,
  updated_at DATETIME(6) NOT NULL,
  deleted_at DATETIME(6)
);

CREATE TABLE categories (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  parent_id BIGINT UNSIGNED,
  name VARCHAR(100) NOT NULL,
  position INT NOT NULL DEFAULT 0,
  KEY (parent_id),
  FOREIGN KEY (parent_id) REFERENCES categories (id)
);

CREATE TABLE posts (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  user_id BIGINT UNSIGNED NOT NULL,
  category_id BIGINT UNSIGNED,
  title VARCHAR(200) NOT NULL,
  slug VARCHAR(190) NOT NULL UNIQUE,
  body TEXT NOT NULL,
  status ENUM('draft', 'published', 'archived') NOT NULL DEFAULT 'draft',
  views INT NOT NULL DEFAULT 0,
  rating DOUBLE,
  meta JSON,
  published_at DATETIME(6),
  created_at DATETIME(6) NOT NULL,
  updated_at DATETIME(6) NOT NULL,
  deleted_at DATETIME(6),
  KEY (user_id),
  KEY (category_id),
  KEY (created_at, id),
  FULLTEXT KEY (title, body),
  FOREIGN KEY (user_id) REFERENCES users (id),
  FOREIGN KEY (category_id) REFERENCES categories (id)
);

CREATE TABLE tags (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(60) NOT NULL UNIQUE
);

CREATE TABLE posts_tags (
  post_id BIGINT UNSIGNED NOT NULL,
  tag_id BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (post_id, tag_id),
  KEY (tag_id),
  FOREIGN KEY (post_id) REFERENCES posts (id),
  FOREIGN KEY (tag_id) REFERENCES tags (id)
);

CREATE TABLE comments (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  commentable_type VARCHAR(40) NOT NULL,
  commentable_id BIGINT UNSIGNED NOT NULL,
  user_id BIGINT UNSIGNED NOT NULL,
  body TEXT NOT NULL,
  approved TINYINT(1) NOT NULL DEFAULT 1,
  created_at DATETIME(6) NOT NULL,
  updated_at DATETIME(6) NOT NULL,
  KEY (commentable_type, commentable_id),
  KEY (user_id),
  FOREIGN KEY (user_id) REFERENCES users (id)
);

CREATE TABLE products (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  category_id BIGINT UNSIGNED NOT NULL,
  public_id BINARY(16) NOT NULL UNIQUE,
  sku VARCHAR(40) NOT NULL UNIQUE,
  name VARCHAR(120) NOT NULL,
  price DECIMAL(10, 2) NOT NULL,
  stock INT NOT NULL,
  attributes JSON,
  created_at DATETIME(6) NOT NULL,
  updated_at DATETIME(6) NOT NULL,
  deleted_at DATETIME(6),
  KEY (category_id),
  FOREIGN KEY (category_id) REFERENCES categories (id)
);

CREATE TABLE orders (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  user_id BIGINT UNSIGNED NOT NULL,
  number VARCHAR(20) NOT NULL UNIQUE,
  status ENUM('open', 'paid', 'sent', 'cancelled') NOT NULL,
  total DECIMAL(12, 2) NOT NULL,
  placed_at DATETIME(6) NOT NULL,
  paid_at DATETIME(6),
  created_at DATETIME(6) NOT NULL,
  updated_at DATETIME(6) NOT NULL,
  KEY (user_id, placed_at),
  FOREIGN KEY (user_id) REFERENCES users (id)
);

CREATE TABLE order_lines (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  order_id BIGINT UNSIGNED NOT NULL,
  product_id BIGINT UNSIGNED NOT NULL,
  quantity INT NOT NULL,
  price DECIMAL(10, 2) NOT NULL,
  KEY (order_id),
  KEY (product_id),
  FOREIGN KEY (order_id) REFERENCES orders (id),
  FOREIGN KEY (product_id) REFERENCES products (id)
);

CREATE TABLE sessions (
  id VARCHAR(64) NOT NULL PRIMARY KEY,
  user_id BIGINT UNSIGNED,
  payload TEXT NOT NULL,
  expires_at DATETIME(6) NOT NULL,
  KEY (user_id),
  FOREIGN KEY (user_id) REFERENCES users (id)
);

CREATE TABLE tokens (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  user_id BIGINT UNSIGNED NOT NULL,
  token CHAR(64) NOT NULL UNIQUE,
  abilities JSON,
  last_used_at DATETIME(6),
  expires_at DATETIME(6),
  KEY (user_id),
  FOREIGN KEY (user_id) REFERENCES users (id)
);
