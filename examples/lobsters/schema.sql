-- The tables of Lobsters as of 2018, those that its pages touch, in the form that the published benchmark uses.
-- Variant D of the queries reads the denormalised columns (upvotes, downvotes, hotness, confidence, comments_count,
-- karma); variant N computes them from votes. Both share these tables.
--
-- The secondary keys stand at the end: the loader adds them when the rows are in, which is several times faster.

CREATE TABLE users (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  username VARCHAR(50) COLLATE utf8mb4_general_ci,
  karma INT NOT NULL DEFAULT 0,
  PRIMARY KEY (id)
);

CREATE TABLE stories (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  created_at DATETIME,
  user_id INT UNSIGNED,
  url VARCHAR(250) DEFAULT '',
  title VARCHAR(150) NOT NULL DEFAULT '',
  description MEDIUMTEXT,
  short_id VARCHAR(6) NOT NULL DEFAULT '',
  is_expired TINYINT(1) NOT NULL DEFAULT 0,
  upvotes INT UNSIGNED NOT NULL DEFAULT 0,
  downvotes INT UNSIGNED NOT NULL DEFAULT 0,
  is_moderated TINYINT(1) NOT NULL DEFAULT 0,
  hotness DECIMAL(20,10) NOT NULL DEFAULT 0,
  markeddown_description MEDIUMTEXT,
  story_cache MEDIUMTEXT,
  comments_count INT NOT NULL DEFAULT 0,
  merged_story_id INT,
  unavailable_at DATETIME,
  twitter_id VARCHAR(20),
  user_is_author TINYINT(1) DEFAULT 0,
  PRIMARY KEY (id)
);

CREATE TABLE comments (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  created_at DATETIME NOT NULL,
  updated_at DATETIME,
  short_id VARCHAR(10) NOT NULL DEFAULT '',
  story_id INT UNSIGNED NOT NULL,
  user_id INT UNSIGNED NOT NULL,
  parent_comment_id INT UNSIGNED,
  thread_id INT UNSIGNED,
  comment MEDIUMTEXT NOT NULL,
  upvotes INT NOT NULL DEFAULT 0,
  downvotes INT NOT NULL DEFAULT 0,
  confidence DECIMAL(20,19) NOT NULL DEFAULT 0,
  markeddown_comment MEDIUMTEXT,
  is_deleted TINYINT(1) DEFAULT 0,
  is_moderated TINYINT(1) DEFAULT 0,
  is_from_email TINYINT(1) DEFAULT 0,
  hat_id INT,
  PRIMARY KEY (id)
);

-- A vote for a story has no comment_id; a vote for a comment has both.
CREATE TABLE votes (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  user_id INT UNSIGNED NOT NULL,
  story_id INT UNSIGNED NOT NULL,
  comment_id INT UNSIGNED,
  vote TINYINT NOT NULL,
  reason VARCHAR(1),
  PRIMARY KEY (id)
);

CREATE TABLE tags (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  tag VARCHAR(25) NOT NULL DEFAULT '',
  description VARCHAR(100),
  privileged TINYINT(1) DEFAULT 0,
  is_media TINYINT(1) DEFAULT 0,
  inactive TINYINT(1) DEFAULT 0,
  hotness_mod FLOAT DEFAULT 0,
  PRIMARY KEY (id)
);

CREATE TABLE taggings (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  story_id INT UNSIGNED NOT NULL,
  tag_id INT UNSIGNED NOT NULL,
  PRIMARY KEY (id)
);

CREATE TABLE read_ribbons (
  id BIGINT NOT NULL AUTO_INCREMENT,
  is_following TINYINT(1) DEFAULT 1,
  created_at DATETIME NOT NULL,
  updated_at DATETIME NOT NULL,
  user_id BIGINT,
  story_id BIGINT,
  PRIMARY KEY (id)
);

CREATE TABLE hidden_stories (
  id INT NOT NULL AUTO_INCREMENT,
  user_id INT,
  story_id INT,
  PRIMARY KEY (id)
);

CREATE TABLE saved_stories (
  id BIGINT NOT NULL AUTO_INCREMENT,
  created_at DATETIME NOT NULL,
  updated_at DATETIME NOT NULL,
  user_id INT,
  story_id INT,
  PRIMARY KEY (id)
);

CREATE TABLE tag_filters (
  id INT NOT NULL AUTO_INCREMENT,
  created_at DATETIME NOT NULL,
  updated_at DATETIME NOT NULL,
  user_id INT,
  tag_id INT,
  PRIMARY KEY (id)
);

-- suggested_titles, suggested_taggings and hats have no secondary key in the original either.
CREATE TABLE suggested_titles (
  id INT NOT NULL AUTO_INCREMENT,
  story_id INT,
  user_id INT,
  title VARCHAR(150) NOT NULL DEFAULT '',
  PRIMARY KEY (id)
);

CREATE TABLE suggested_taggings (
  id INT NOT NULL AUTO_INCREMENT,
  story_id INT,
  tag_id INT,
  user_id INT,
  PRIMARY KEY (id)
);

CREATE TABLE hats (
  id INT NOT NULL AUTO_INCREMENT,
  created_at DATETIME,
  updated_at DATETIME,
  user_id INT,
  granted_by_user_id INT,
  hat VARCHAR(255) NOT NULL,
  link VARCHAR(255),
  modlog_use TINYINT(1) DEFAULT 0,
  doffed_at DATETIME,
  PRIMARY KEY (id)
);

CREATE TABLE keystores (
  `key` VARCHAR(50) NOT NULL DEFAULT '',
  `value` BIGINT,
  PRIMARY KEY (`key`)
);

ALTER TABLE users ADD UNIQUE KEY by_username (username);
ALTER TABLE stories
  ADD UNIQUE KEY by_short_id (short_id), ADD KEY by_created_at (created_at), ADD KEY by_hotness (hotness),
  ADD KEY by_expired_moderated (is_expired, is_moderated), ADD KEY by_expired (is_expired),
  ADD KEY by_moderated (is_moderated), ADD KEY by_merged (merged_story_id), ADD KEY by_twitter (twitter_id),
  ADD KEY by_url (url(191)), ADD KEY by_user (user_id);
ALTER TABLE stories ADD FULLTEXT KEY words_of_title (title);
ALTER TABLE stories ADD FULLTEXT KEY words_of_description (description);
ALTER TABLE stories ADD FULLTEXT KEY words_of_cache (story_cache);
-- by_parent is not in the original: variant N needs it.
ALTER TABLE comments
  ADD UNIQUE KEY by_short_id (short_id), ADD KEY by_confidence (confidence), ADD KEY by_story (story_id, short_id),
  ADD KEY by_thread (thread_id), ADD KEY by_user (user_id), ADD KEY by_parent (parent_comment_id);
ALTER TABLE comments ADD FULLTEXT KEY words (comment);
-- by_story is not in the original: without it a story's score reads the whole table.
ALTER TABLE votes
  ADD KEY by_comment (comment_id), ADD KEY by_user_comment (user_id, comment_id),
  ADD KEY by_user_story (user_id, story_id), ADD KEY by_story (story_id, comment_id);
ALTER TABLE tags ADD UNIQUE KEY by_tag (tag);
ALTER TABLE taggings ADD UNIQUE KEY by_story_tag (story_id, tag_id);
ALTER TABLE read_ribbons ADD KEY by_story (story_id), ADD KEY by_user (user_id);
ALTER TABLE hidden_stories ADD UNIQUE KEY by_user_story (user_id, story_id);
ALTER TABLE saved_stories ADD UNIQUE KEY by_user_story (user_id, story_id);
ALTER TABLE tag_filters ADD KEY by_user_tag (user_id, tag_id);
