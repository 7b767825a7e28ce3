<?php
// As an administrator would write it; what differs between two sites of one database is in the environment.
define('DB_NAME', getenv('SITE_DATABASE'));
define('DB_USER', getenv('SITE_USER'));
define('DB_PASSWORD', getenv('SITE_PASSWORD'));
define('DB_HOST', getenv('SITE_MYSQL'));
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
define('WP_HOME', getenv('SITE_URL'));
define('WP_SITEURL', getenv('SITE_URL'));
foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $name) { // cookies of one site are good at the other
    define($name . '_KEY', 'key of ' . $name);
    define($name . '_SALT', 'salt of ' . $name);
}
define('DISABLE_WP_CRON', true); // it would ask the site itself over HTTP, now and then
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('COOKIEHASH', 'site');
$table_prefix = 'wp_';
// A user may comment again at once.
$GLOBALS['wp_filter'] = ['comment_flood_filter' => [100 => [['function' => fn() => false, 'accepted_args' => 1]]]];
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/');
}
require_once ABSPATH . 'wp-settings.php';
