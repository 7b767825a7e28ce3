"""An application as a small site has it: a page a second, now and then a change, and nothing done to warm up.

Spans of the same pace follow each other on the same database. Before Upwell is started: MySQL idles, then one site asks
it. Then another site asks Upwell, which begins with nothing; each page is compared with the first site's. Behind that
comes the span that counts, in which only the site before Upwell is asked. At the end all pages are compared, and MySQL
idles once more, for Upwell asks it things of its own.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from time import monotonic

from integration.applications.application import Application, installed, serving
from integration.applications.crawl import Round, crawl, different, visit
from integration.applications.shapes import busy, shapes
from integration.applications.sides import processor_seconds, reads
from integration.applications.sites import Site
from integration.clients.world import upwell_beside
from integration.servers.mysql_server import Server

DATABASE = "upwell_application"
PAGES_A_WRITE = 10
SEED = 7


@dataclass(frozen=True, slots=True)
class Both:
    """One site, as it is for who is not logged in and for a user."""

    anonymous: Site
    user: Site

    def page(self, is_user: bool, path: str) -> Round:
        return visit(self.user if is_user else self.anonymous, [path])


@dataclass(frozen=True, slots=True)
class Spent:
    """In a span: seconds of MySQL's processor, and of the clock, which are more where the machine is too slow."""

    processor: float
    clock: float

    def beyond(self, idle: Spent) -> float:
        """What MySQL took, less what it takes in such a span when nobody asks."""
        return self.processor - idle.processor / idle.clock * self.clock


class Visitors:
    """Who asks for what next: the same each time, pages that are found early more often than those behind them."""

    def __init__(self, application: Application, public: list[str], users: list[str]) -> None:
        self.application = application
        pairs = [[(False, path) for path in public], [(True, path) for path in users]]
        self.pages = sorted((page for part in pairs for page in part), key=lambda page: pairs[page[0]].index(page))
        self.written = [path for path in users if path.startswith(application.written)]
        self.random = random.Random(SEED)
        self.weights = [1 / (rank + 2) for rank in range(len(self.pages))]

    def next(self) -> tuple[bool, str]:
        (page,) = self.random.choices(self.pages, self.weights)
        return page

    def write(self, site: Both) -> None:
        words = f"Written as number {self.random.randrange(10**9)}."
        self.application.write(site.user, self.random.choice(self.written), words)

    def pace(self, site: Both, given: argparse.Namespace) -> Iterator[tuple[bool, str, Round]]:
        """Each page of a span, right behind its visit."""
        began = monotonic()
        for number in range(round(given.span / given.pace)):
            until(began + number * given.pace)
            is_user, path = self.next()
            yield is_user, path, site.page(is_user, path)
            if number % PAGES_A_WRITE == PAGES_A_WRITE - 1:
                self.write(site)


def until(moment: float) -> None:
    """The pace itself, which is no wait for something."""
    Event().wait(max(0.0, moment - monotonic()))


def both(site: Site) -> Both:
    return Both(replace(site, cookies={}), site)


def spent(server: Server, visitors: Visitors, site: Both, given: argparse.Namespace) -> Spent:
    """By one span of visits."""
    listed = busy(server)
    began, before = monotonic(), processor_seconds(server)
    for _ in visitors.pace(site, given):
        pass
    until(began + given.span)
    took = Spent(processor_seconds(server) - before, monotonic() - began)
    if given.shapes:
        print(*busy(server).since(listed), sep="\n", flush=True)
    return took


def idle(server: Server, given: argparse.Namespace) -> Spent:
    """In a span in which nobody asks."""
    listed, began, before = busy(server), monotonic(), processor_seconds(server)
    until(began + given.span)
    took = Spent(processor_seconds(server) - before, monotonic() - began)
    if given.shapes:
        print(*busy(server).since(listed), sep="\n", flush=True)
    return took


def paced(application: Application, server: Server, folder: Path, given: argparse.Namespace) -> int:
    """Prints; how many pages differ."""
    environment = installed(application, server, DATABASE, given.size)
    with serving(application, environment, f"{server.host}:{server.port}", folder / "direct.log") as site:
        direct = both(site)
        public = crawl(direct.anonymous, application.public, given.pages)
        application.log_in(site)
        visitors = Visitors(application, public, crawl(site, application.users, given.pages))
        visitors.write(direct)
        idles = idle(server, given)
        alone = spent(server, visitors, direct, given)
        with (
            upwell_beside(server, folder, "--auto-cache=on") as port,
            serving(application, environment, f"127.0.0.1:{port}", folder / "through.log") as site_through,
        ):
            site_through.cookies |= site.cookies
            wrong = beside(application, server, port, visitors, (direct, both(site_through)), given, (idles, alone))
    server.execute(f"DROP DATABASE `{DATABASE}`")
    return wrong


def beside(
    application: Application,
    server: Server,
    port: int,
    visitors: Visitors,
    sites: tuple[Both, Both],
    given: argparse.Namespace,
    before: tuple[Spent, Spent],
) -> int:
    """The spans with Upwell, whose port that is. `before`: the spans without it, idle and not."""
    direct, through = sites
    wrong, began = 0, reads(server, port)

    def differs(is_user: bool, path: str, page: Round) -> int:
        found = different(direct.page(is_user, path), page, application.noise)
        for how in found.values():
            print(f"{path}: {how}", flush=True)
        return len(found)

    for is_user, path, page in visitors.pace(through, given):
        wrong += differs(is_user, path, page)
    first, listed = reads(server, port), shapes(server, port)
    took = spent(server, visitors, through, given)
    seen = reads(server, port).since(first)
    if given.shapes:
        print(*shapes(server, port).since(listed), sep="\n", flush=True)
    for one, other in ((through.anonymous, direct.anonymous), (through.user, direct.user)):
        one.cookies.clear()  # what a browser has seen last is in its session, and some pages show it
        one.cookies.update(other.cookies)
    for is_user, path in visitors.pages:
        wrong += differs(is_user, path, through.page(is_user, path))
    (idles, alone), beside = before, idle(server, given)
    used, usual = took.beyond(beside), alone.beyond(idles)
    print(
        f"{application.name}, one of {len(visitors.pages)} pages each {given.pace:g} s, a write each {PAGES_A_WRITE}:"
        f" {wrong} different; {seen.share:.1%} of {seen.hits + seen.misses + seen.passed:,} SELECTs were hits"
        f" ({first.since(began).share:.1%} in the span before); with Upwell MySQL takes {used / max(0.001, usual):.2f}"
        f" of its processor time: {used:.2f} s in {took.clock:.0f} s beside {usual:.2f} s in {alone.clock:.0f} s, less"
        f" what it takes when nobody asks, {beside.processor:.2f} s and {idles.processor:.2f} s in {idles.clock:.0f} s",
        flush=True,
    )
    return wrong
