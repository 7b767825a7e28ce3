<?php
// As the installer writes it; what differs between two sites of one database is in the environment.
if (!defined('MEDIAWIKI')) {
    exit;
}
$wgSitename = 'A wiki';
$wgMetaNamespace = 'A_wiki';
$wgScriptPath = '';
$wgServer = getenv('SITE_URL');
$wgDBtype = 'mysql';
$wgDBserver = getenv('SITE_MYSQL');
$wgDBname = getenv('SITE_DATABASE');
$wgDBuser = getenv('SITE_USER');
$wgDBpassword = getenv('SITE_PASSWORD');
$wgDBTableOptions = 'ENGINE=InnoDB, DEFAULT CHARSET=binary';
$wgMainCacheType = CACHE_ACCEL; // APCu, which the package recommends
$wgSessionCacheType = CACHE_DB; // who is logged in at one site is at the other
$wgCacheDirectory = getenv('SITE_CACHE');
$wgSecretKey = str_repeat('a1b2c3d4', 8);
$wgUpgradeKey = 'a1b2c3d4a1b2c3d4';
$wgAuthenticationTokenVersion = '1';
$wgCookiePrefix = 'site'; // cookies of one site are good at the other
$wgJobRunRate = 0; // no job runs behind a page, now and then
$wgEnableUploads = false;
$wgPingback = false;
$wgUseInstantCommons = false;
$wgEmailAuthentication = false;
$wgPasswordPolicy['policies']['default'] = [];
$wgPasswordAttemptThrottle = [];
$wgLanguageCode = 'en';
$wgLocaltimezone = 'UTC';
$wgDefaultSkin = 'vector';
wfLoadSkin('Vector');
