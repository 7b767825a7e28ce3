-- Every read of the Lobsters pages as a query template, in two variants; `queries.py` reads this file.
--
-- Variant D (ids that end in -D) reads the denormalised columns, as the site did. Variant N computes the same from
-- votes; its published form is wrong on MySQL (NULL scores, comment votes never counted, the coldest stories first), so
-- this is the corrected one, written inline. Ids without a suffix belong to both. A `?` is one parameter, `IN (?)` a list.
--
-- Above each query: id | the page steps that send it (S story, F front page, R recent, U user, C comments, NT on nearly
-- every page, W on the pages that write, - on no page) | how its parameters are drawn | how two answers are compared
-- (ordered: row by row; bag: MySQL may order rows or ties as it likes; one_of: any row of the query that follows under
-- "allowed" is right) | title

-- S2 | S2 W | user | ordered | a user
SELECT * FROM users WHERE id = ?;

-- S3 | S3 | user story | bag | the reader's ribbon on a story
SELECT * FROM read_ribbons WHERE user_id = ? AND story_id = ?;

-- S4 | S4 W | story | bag | stories merged into one
SELECT id FROM stories WHERE merged_story_id = ?;

-- S6 | S6 F5 R5 C3 C6 | users | bag | users
SELECT * FROM users WHERE id IN (?);

-- S8 | S8 W | user story | bag | the reader's vote for a story
SELECT * FROM votes WHERE user_id = ? AND story_id = ? AND comment_id IS NULL;

-- S9 | S9 | user story | ordered | whether a story is hidden
SELECT * FROM hidden_stories WHERE user_id = ? AND story_id = ?;

-- S10 | S10 | user story | ordered | whether a story is saved
SELECT * FROM saved_stories WHERE user_id = ? AND story_id = ?;

-- S11 | S11 | story | bag | taggings of a story
SELECT * FROM taggings WHERE story_id = ?;

-- S12 | S12 F9 R9 | tags | bag | tags
SELECT * FROM tags WHERE id IN (?);

-- NT2 | NT2 U3 U4 W | counter | ordered | a counter
SELECT * FROM keystores WHERE `key` = ?;

-- F3 | F3 R3 | user | bag | the reader's tag filters
SELECT * FROM tag_filters WHERE user_id = ?;

-- F6 | F6 R6 | stories | bag | suggested titles of a list
SELECT * FROM suggested_titles WHERE story_id IN (?);

-- F7 | F7 R7 | stories | bag | suggested taggings of a list
SELECT * FROM suggested_taggings WHERE story_id IN (?);

-- F8 | F8 R8 | stories | bag | taggings of a list
SELECT * FROM taggings WHERE story_id IN (?);

-- F10 | F10 R10 | user stories | bag | the reader's votes for a list
SELECT * FROM votes WHERE user_id = ? AND story_id IN (?) AND comment_id IS NULL;

-- F11 | F11 R11 | user stories | bag | which of a list are hidden
SELECT * FROM hidden_stories WHERE user_id = ? AND story_id IN (?);

-- F12 | F12 R12 | user stories | bag | which of a list are saved
SELECT * FROM saved_stories WHERE user_id = ? AND story_id IN (?);

-- U1 | U1 | username | ordered | a user by name
SELECT * FROM users WHERE username = ?;

-- U5 | U5 | user | ordered | whether a user has a hat
SELECT 1 AS one FROM hats WHERE user_id = ? LIMIT 1;

-- C2 | C2 | user stories | bag | which stories of comments are hidden
SELECT 1 FROM hidden_stories WHERE user_id = ? AND story_id IN (?);

-- C5 | C5 S7-N | user comments | bag | the reader's votes for comments
SELECT * FROM votes WHERE user_id = ? AND comment_id IN (?);

-- W2 | W | comment_short_id | ordered | a comment by its short id
SELECT * FROM comments WHERE short_id = ?;

-- W3 | W | user story comment | bag | the reader's vote for a comment
SELECT * FROM votes WHERE user_id = ? AND story_id = ? AND comment_id = ?;

-- W7 | W | story comment_short_id | ordered | the comment that is replied to
SELECT * FROM comments WHERE story_id = ? AND short_id = ?;

-- W8 | W | comment_short_id | ordered | whether a comment's short id is taken
SELECT 1 AS one FROM comments WHERE short_id = ?;

-- W9 | W | short_id | ordered | whether a story's short id is taken
SELECT 1 AS one FROM stories WHERE short_id = ?;

-- W10 | W | tag_names | bag | active tags by name
SELECT * FROM tags WHERE inactive = 0 AND tag IN (?);

-- W11 | W | username | ordered | whether a user exists
SELECT 1 AS one FROM users WHERE username = ?;

-- S1-D | S1 W | short_id | ordered | a story
SELECT * FROM stories WHERE short_id = ?;

-- S5-D | S5 W | story | bag | comments of a story, best first
SELECT * FROM comments WHERE story_id = ?
ORDER BY (CAST(upvotes AS SIGNED) - CAST(downvotes AS SIGNED)) < 0 ASC, confidence DESC;

-- S7-D | S7 | comments | bag | all votes for comments
SELECT * FROM votes WHERE comment_id IN (?);

-- NT1-D | NT1 | user | ordered | number of unread replies
SELECT COUNT(*)
FROM read_ribbons r JOIN stories s ON s.id = r.story_id JOIN comments c ON c.story_id = r.story_id
LEFT JOIN comments p ON p.id = c.parent_comment_id
WHERE r.user_id = ? AND r.is_following = 1 AND c.user_id <> r.user_id AND c.is_deleted = 0 AND c.is_moderated = 0
AND c.upvotes - c.downvotes >= 0
AND r.updated_at < c.created_at
AND ((p.user_id = r.user_id
AND p.upvotes - p.downvotes >= 0)
OR (p.id IS NULL AND s.user_id = r.user_id))
GROUP BY r.user_id;

-- F1-D | F1 | - | bag | the 51 hottest stories
SELECT * FROM stories
WHERE merged_story_id IS NULL AND is_expired = 0 AND CAST(upvotes AS SIGNED) - CAST(downvotes AS SIGNED) >= 0
ORDER BY hotness LIMIT 51 OFFSET 0;

-- F2-D | F2 R2 | user | bag | stories that the reader hides
SELECT story_id FROM hidden_stories WHERE user_id = ?;

-- F4-D | F4 R4 | stories tags | bag | which of a list have a filtered tag
SELECT story_id FROM taggings WHERE story_id IN (?) AND tag_id IN (?);

-- R1-D | R1 | - | ordered | the 51 newest stories
SELECT * FROM stories
WHERE merged_story_id IS NULL AND is_expired = 0 AND CAST(upvotes AS SIGNED) - CAST(downvotes AS SIGNED) <= 5
ORDER BY id DESC LIMIT 51;

-- U2-D | U2 | user | one_of | a user's most used tag
SELECT t.* FROM tags t JOIN taggings g ON g.tag_id = t.id JOIN stories s ON s.id = g.story_id
WHERE t.inactive = 0 AND s.user_id = ? GROUP BY t.id ORDER BY COUNT(*) DESC LIMIT 1;
-- allowed
SELECT x.id, x.tag, x.description, x.privileged, x.is_media, x.inactive, x.hotness_mod FROM (
SELECT t.*, COUNT(*) AS n FROM tags t JOIN taggings g ON g.tag_id = t.id JOIN stories s ON s.id = g.story_id
WHERE t.inactive = 0 AND s.user_id = ? GROUP BY t.id) x
WHERE x.n = (
SELECT COUNT(*) AS n FROM tags t JOIN taggings g ON g.tag_id = t.id JOIN stories s ON s.id = g.story_id
WHERE t.inactive = 0 AND s.user_id = ? GROUP BY t.id ORDER BY n DESC LIMIT 1);

-- C1-D | C1 | - | ordered | the 40 newest comments
SELECT * FROM comments WHERE is_deleted = 0 AND is_moderated = 0 ORDER BY id DESC LIMIT 40 OFFSET 0;

-- C4-D | C4 | stories | bag | stories
SELECT * FROM stories WHERE id IN (?);

-- W4-D | W | story | ordered | a story by its id
SELECT * FROM stories WHERE id = ?;

-- W5-D | W | story | bag | tags of a story
SELECT t.* FROM tags t JOIN taggings g ON g.tag_id = t.id WHERE g.story_id = ?;

-- W6-D | W | story | bag | votes for others' comments on a story
SELECT c.upvotes, c.downvotes FROM comments c JOIN stories s ON s.id = c.story_id
WHERE c.story_id = ? AND c.user_id <> s.user_id;

-- S1-N | S1 | short_id | ordered | a story with its votes
SELECT s.id, s.short_id, s.title, s.url, s.user_id, s.created_at, COALESCE(SUM(v.vote = 1), 0) AS upvotes,
  COALESCE(SUM(v.vote = 0), 0) AS downvotes
FROM stories s LEFT JOIN votes v ON v.story_id = s.id AND v.comment_id IS NULL WHERE s.short_id = ?
GROUP BY s.id;

-- S5-N | S5 | story | ordered | comments of a story with scores
SELECT c.id, c.short_id, c.user_id, c.parent_comment_id, c.comment,
  COALESCE(SUM(CASE v.vote WHEN 1 THEN 1 WHEN 0 THEN -1 END), 0) AS score
FROM comments c LEFT JOIN votes v ON v.comment_id = c.id WHERE c.story_id = ? GROUP BY c.id
ORDER BY score DESC, c.id;

-- NT1-N | NT1 | user | ordered | number of unread replies
SELECT COUNT(*)
FROM read_ribbons r JOIN stories s ON s.id = r.story_id JOIN comments c ON c.story_id = r.story_id
LEFT JOIN comments p ON p.id = c.parent_comment_id
WHERE r.user_id = ? AND r.is_following = 1 AND c.user_id <> r.user_id AND c.is_deleted = 0 AND c.is_moderated = 0
AND (SELECT COALESCE(SUM(CASE v.vote WHEN 1 THEN 1 WHEN 0 THEN -1 END), 0) FROM votes v WHERE v.comment_id = c.id) >= 0
AND r.updated_at < c.created_at
AND ((p.user_id = r.user_id
AND (SELECT COALESCE(SUM(CASE v.vote WHEN 1 THEN 1 WHEN 0 THEN -1 END), 0) FROM votes v WHERE v.comment_id = p.id) >= 0)
OR (p.id IS NULL AND s.user_id = r.user_id))
GROUP BY r.user_id;

-- F1a-N | F1 | - | ordered | the 51 hottest stories' ids
SELECT h.id FROM (
SELECT g.story_id AS id, SUM(t.hotness_mod) AS score FROM taggings g JOIN tags t ON t.id = g.tag_id GROUP BY g.story_id
UNION ALL
SELECT v.story_id, SUM(CASE v.vote WHEN 1 THEN 1 ELSE -1 END) FROM votes v
WHERE v.comment_id IS NULL GROUP BY v.story_id
UNION ALL
SELECT m.merged_story_id, SUM(CASE v.vote WHEN 1 THEN 1 ELSE -1 END) FROM votes v JOIN stories m ON m.id = v.story_id
WHERE v.comment_id IS NULL AND m.merged_story_id IS NOT NULL GROUP BY m.merged_story_id
UNION ALL
SELECT c.story_id, SUM(CASE v.vote WHEN 1 THEN 1 ELSE -1 END) FROM votes v JOIN comments c ON c.id = v.comment_id
JOIN stories s ON s.id = c.story_id WHERE c.user_id <> s.user_id GROUP BY c.story_id
) h JOIN stories st ON st.id = h.id
WHERE st.merged_story_id IS NULL AND st.is_expired = 0
GROUP BY h.id ORDER BY SUM(h.score) DESC, h.id LIMIT 51;

-- F1b-N | F1 | stories | bag | stories of a list that score 0 or more
SELECT s.id, s.short_id, s.title, s.url, s.user_id, s.created_at,
  COALESCE(SUM(CASE v.vote WHEN 1 THEN 1 WHEN 0 THEN -1 END), 0) AS score
FROM stories s LEFT JOIN votes v ON v.story_id = s.id AND v.comment_id IS NULL
WHERE s.id IN (?) AND s.merged_story_id IS NULL AND s.is_expired = 0 GROUP BY s.id HAVING score >= 0;

-- F4-N | F4 R4 | stories | bag | which of a list have tags
SELECT story_id FROM taggings WHERE story_id IN (?);

-- R1a-N | R1 | - | ordered | the 51 newest stories' ids
SELECT id FROM stories WHERE merged_story_id IS NULL AND is_expired = 0 ORDER BY id DESC LIMIT 51;

-- R1b-N | R1 C4 | stories | bag | stories of a list with scores
SELECT s.id, s.short_id, s.title, s.url, s.user_id, s.created_at,
  COALESCE(SUM(CASE v.vote WHEN 1 THEN 1 WHEN 0 THEN -1 END), 0) AS score
FROM stories s LEFT JOIN votes v ON v.story_id = s.id AND v.comment_id IS NULL
WHERE s.id IN (?) AND s.merged_story_id IS NULL AND s.is_expired = 0 GROUP BY s.id;

-- U2a-N | U2 | user | ordered | a user's most used tag
SELECT t.id, COUNT(*) AS n FROM tags t JOIN taggings g ON g.tag_id = t.id JOIN stories s ON s.id = g.story_id
WHERE t.inactive = 0 AND s.user_id = ? GROUP BY t.id ORDER BY n DESC, t.id LIMIT 1;

-- U2b-N | U2 | tag | ordered | a tag
SELECT * FROM tags WHERE id = ?;

-- U3-N | U3 | user | ordered | a user's numbers of comments and stories
SELECT u.id, (SELECT COUNT(*) FROM comments c WHERE c.user_id = u.id) AS comments,
  (SELECT COUNT(*) FROM stories s WHERE s.user_id = u.id) AS stories
FROM users u WHERE u.id = ?;

-- C1a-N | C1 | - | ordered | the 40 newest comments' ids
SELECT id FROM comments WHERE is_deleted = 0 AND is_moderated = 0 ORDER BY id DESC LIMIT 40;

-- C1b-N | C1 | comments | bag | comments of a list with scores
SELECT c.id, c.short_id, c.user_id, c.story_id, c.comment,
  COALESCE(SUM(CASE v.vote WHEN 1 THEN 1 WHEN 0 THEN -1 END), 0) AS score
FROM comments c LEFT JOIN votes v ON v.comment_id = c.id WHERE c.id IN (?) GROUP BY c.id;

-- W1-N | W | short_id | ordered | a story by its short id
SELECT id, user_id FROM stories WHERE short_id = ?;

-- X1-N | - | user same | ordered | a user's karma
SELECT (SELECT COALESCE(SUM(CASE v.vote WHEN 1 THEN 1 ELSE -1 END), 0)
FROM stories s JOIN votes v ON v.story_id = s.id AND v.comment_id IS NULL WHERE s.user_id = ?)
+ (SELECT COALESCE(SUM(CASE v.vote WHEN 1 THEN 1 ELSE -1 END), 0)
FROM comments c JOIN votes v ON v.comment_id = c.id WHERE c.user_id = ?) AS karma;