"""Whole applications, as they are packaged: each page is the same through Upwell, with automatic caching and nothing
else set, and their reads are hits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integration.applications.crawl import crawl, different, visit
from integration.applications.run import both_sites
from integration.applications.sides import reads
from integration.applications.wordpress import installed as wordpress
from integration.clients.tools import NotObtainable
from integration.mysql_server import Server
from integration.served import Reads

POSTS, PAGES, MOST_ROUNDS = 40, 14, 40
SHARE = 0.8  # of SELECTs that are hits; what a page asks at its login and about itself is MySQL's


def test_wordpress(mysql: Server, tmp_path: Path) -> None:
    database = f"t{os.getpid()}_wordpress"
    try:
        with both_sites(mysql, database, POSTS, tmp_path) as (direct, through, port):
            paths = crawl(direct, "/", PAGES, lambda path: wordpress.PUBLIC.match(path) is not None)
            assert len(paths) == PAGES
            for who in ("anonymous", "a user"):
                if who != "anonymous":
                    through.cookies |= wordpress.log_in(direct)
                share = 0.0
                for _ in range(MOST_ROUNDS):
                    before = reads(mysql, port)
                    wrong = different(visit(direct, paths), visit(through, paths))
                    assert not wrong, (who, wrong)
                    share = reads(mysql, port).since(before).share
                    if share >= SHARE:
                        break
                assert share >= SHARE, f"{share:.0%} of {who}'s SELECTs were hits"
            post = next(path for path in paths if path.startswith("/?p="))
            wordpress.comment(through, int(post.removeprefix("/?p=")), "Written through Upwell.")
            again = Reads("same")
            while not again.done("other" if different(visit(direct, [post]), visit(through, [post])) else "same"):
                pass
            assert "Written through Upwell." in visit(through, [post]).texts[post]
    except NotObtainable as reason:
        pytest.skip(f"WordPress cannot be had here: {reason}")
