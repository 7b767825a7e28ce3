<?php
// Writes pages, talk pages, categories, a template, redirects and a user: php fill.php PAGES (MW_INSTALL_PATH is set).
require_once getenv('MW_INSTALL_PATH') . '/maintenance/Maintenance.php';

use MediaWiki\MediaWikiServices;

class Fill extends Maintenance {
    public function __construct() {
        parent::__construct();
        $this->addArg('pages', 'how many');
    }

    public function execute() {
        $user = User::newFromName('Ann');
        $user->addToDatabase();
        $user->changeAuthenticationData(['username' => 'Ann', 'password' => 'secret of ann', 'retype' => 'secret of ann']);
        $this->write('Template:Box', "'''{{{1}}}''' in a box. [[Category:Boxed]]", $user);
        $pages = (int) $this->getArg(0);
        for ($n = 1; $n <= $pages; $n++) {
            $links = '';
            foreach ([$n * 7, $n * 3 + 1, $n + 1] as $other) {
                $links .= '* [[Page ' . ($other % $pages + 1) . "]]\n";
            }
            $text = "== First ==\n{{Box|Page $n}}\n$links\n== Second: Água, 石 ==\n" . str_repeat("Words of page $n. ", 20)
                . "\n[[Category:Category " . ($n % 7) . "]]\n" . ($n % 9 == 0 ? "[[Missing page $n]]\n" : '');
            $this->write("Page $n", $text, $user);
            if ($n % 4 == 0) {
                $this->write("Page $n", $text . "\nEdited once more.", $user);
                $this->write("Talk:Page $n", "Is this right? ~~~~", $user);
            }
            if ($n % 10 == 0) {
                $this->write("Old name $n", "#REDIRECT [[Page $n]]", $user);
            }
        }
        $all = '';
        for ($n = 1; $n <= $pages; $n++) {
            $all .= "* [[Page $n]]\n";
        }
        $this->write('Main Page', $all, $user);
        MediaWikiServices::getInstance()->getJobRunner()->run(['maxJobs' => 10 * $pages + 100, 'maxTime' => 120]);
        $this->output("filled\n");
    }

    private function write($title, $text, $user) {
        $page = MediaWikiServices::getInstance()->getWikiPageFactory()->newFromTitle(Title::newFromText($title));
        $page->doUserEditContent(ContentHandler::makeContent($text, $page->getTitle()), $user, 'filled');
    }
}

$maintClass = Fill::class;
require_once RUN_MAINTENANCE_IF_MAIN;
