<?php
// Installs WordPress into its database, and writes posts, pages, comments, categories and tags: php fill.php SITE POSTS
define('WP_INSTALLING', true);
$_SERVER['HTTP_HOST'] = 'localhost';
require $argv[1] . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
$posts = (int) $argv[2];

function wp_new_blog_notification() {} // would send a mail

wp_install('A site', 'admin', 'admin@example.org', true, '', 'secret');
switch_theme('twentytwentythree');
wp_suspend_cache_invalidation(false);
$authors = [1];
foreach (['ann', 'bob', 'cleo'] as $name) {
    $authors[] = wp_insert_user(['user_login' => $name, 'user_pass' => 'secret', 'user_email' => "$name@example.org", 'role' => 'author']);
}
$categories = [];
for ($n = 1; $n <= 8; $n++) {
    $categories[] = wp_insert_term("Category $n", 'category')['term_id'];
}
$begin = strtotime('2023-01-01 08:00:00 UTC');
for ($n = 1; $n <= $posts; $n++) {
    $date = gmdate('Y-m-d H:i:s', $begin + $n * 40000);
    $id = wp_insert_post([
        'post_title' => "Post $n: " . ['Wind', 'Água', 'Feuer', '石', 'O\'Hara "quoted"'][$n % 5],
        'post_content' => str_repeat("<p>Paragraph of post $n, with some words that a search may find: word$n, many.</p>\n", 1 + $n % 7),
        'post_status' => $n % 20 == 0 ? 'draft' : 'publish', 'post_type' => $n % 15 == 0 ? 'page' : 'post',
        'comment_status' => 'open', 'post_author' => $authors[$n % 4], 'post_date' => $date, 'post_date_gmt' => $date,
        'post_category' => [$categories[$n % 8], $categories[($n * 3) % 8]],
        'tags_input' => ["tag" . $n % 11, "tag" . $n % 17],
        'meta_input' => ['mood' => "mood $n", 'length' => $n],
    ]);
    for ($c = 0; $c < $n % 6; $c++) {
        wp_insert_comment([
            'comment_post_ID' => $id, 'comment_author' => "Reader $c", 'comment_author_email' => "reader$c@example.org",
            'comment_content' => "Comment $c on post $n.", 'comment_approved' => $c == 4 ? '0' : '1',
            'comment_date' => $date, 'comment_date_gmt' => $date,
        ]);
    }
}
echo "filled\n";
