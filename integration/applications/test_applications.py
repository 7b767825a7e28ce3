"""Whole applications, as they are packaged: each page is the same through Upwell, with automatic caching and nothing
else set, and their reads are hits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integration.applications.application import Application
from integration.applications.crawl import crawl, different, visit
from integration.applications.django.installed import DJANGO
from integration.applications.ghost.installed import GHOST
from integration.applications.redmine.installed import REDMINE
from integration.applications.run import APPLICATIONS, both_sites
from integration.applications.sides import reads
from integration.clients.tools import NotObtainable
from integration.servers.mysql_server import Server
from integration.support.served import Reads

SIZE, PAGES, MOST_ROUNDS = 40, 14, 40
SHARE = 0.8  # of SELECTs that are hits; what a page asks at its login and about itself is MySQL's
# Django asks with the time of the request; where that stands beside an expression that Upwell does not compute, each
# request is a miss.
SHARES = {application.name: 0.7 for application in DJANGO}
WORDS = "Written through Upwell."
# A page of Ruby's takes half a second, Ghost's packages some minutes: left out unless REQUIRE_APPLICATIONS names them.
SLOW = {REDMINE.name, GHOST.name}
REQUIRED = os.environ.get("REQUIRE_APPLICATIONS", "").split()


ALL = [application for group in APPLICATIONS.values() for application in group]
LIMIT, LIMIT_OF_SLOW = 900, 2400
"""Seconds. Redmine's tables take a minute of the processor, five where others want it, and so do its two servers."""


@pytest.mark.parametrize(
    "application",
    [
        pytest.param(each, marks=pytest.mark.timeout(LIMIT_OF_SLOW if each.name in SLOW else LIMIT), id=each.name)
        for each in ALL
    ],
)
def test_pages_are_the_same_and_reads_are_hits(application: Application, mysql: Server, tmp_path: Path) -> None:
    if application.name in SLOW and application.name not in REQUIRED:
        pytest.skip(f"{application.name} takes minutes: make applications, or REQUIRE_APPLICATIONS={application.name}")
    database = f"t{os.getpid()}_application"
    noise = application.noise
    try:
        with both_sites(application, mysql, database, SIZE, tmp_path) as (direct, through, proxy):
            for who, part in (("anonymous", application.public), ("a user", application.users)):
                if who != "anonymous":
                    application.log_in(direct)
                    through.cookies |= direct.cookies
                paths = crawl(direct, part, PAGES)
                assert len(paths) == PAGES
                share, enough = 0.0, SHARES.get(application.name, SHARE)
                for _ in range(MOST_ROUNDS):
                    before = reads(mysql, proxy.mysql_port)
                    wrong = different(visit(direct, paths), visit(through, paths), noise)
                    assert not wrong, (who, wrong)
                    share = reads(mysql, proxy.mysql_port).since(before).share
                    if share >= enough:
                        break
                assert share >= enough, f"{share:.0%} of {who}'s SELECTs were hits"
            page = next(path for path in paths if path.startswith(application.written))
            application.write(through, page, WORDS)
            again = Reads("same")
            while not again.done("other" if different(visit(direct, paths), visit(through, paths), noise) else "same"):
                pass  # other pages tell of it, too
            assert WORDS in visit(through, [page]).texts[page]
    except NotObtainable as reason:
        assert not any(map(application.name.startswith, os.environ.get("REQUIRE_APPLICATIONS", "").split())), reason
        pytest.skip(f"{application.name} cannot be had here: {reason}")
