"""A site after a pause: nobody asks for ten minutes, writes go on, and then it is asked as before.

The minutes pass on a clock that the test sets: automatic caching looks each second of them. The load is what a web
application of Django's and one of SQLAlchemy's has sent, each SELECT as it was recorded, beside MySQL's own answers.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from unittest.mock import patch

import pytest

from integration.oracle.answers import difference
from integration.orm_statements.judge import Place, Session, session
from integration.orm_statements.kinds import is_select, why_not_deterministic
from integration.orm_statements.record import made
from integration.orm_statements.script import SCRIPTS, Script, Step, read
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from proxy.auto.decisions import AutoCache
from proxy.auto.made_cache import Made
from proxy.port.api import CacheInfo
from tests.support.waiting import until

SCRIPT_NAMES = ("django", "sqlalchemy")
PAUSE = 600
BEFORE = 30  # rounds, one every two seconds, until the hit rate is that of a warm site
NIGHTLY = (
    "UPDATE posts SET views = views + 1",
    "UPDATE products SET stock = stock + 1 WHERE id % 3 = 0",
    "DELETE FROM comments WHERE id = 7",
    "INSERT INTO tags (id, name) VALUES (99, 'night')",
    "UPDATE users SET last_seen_at = last_seen_at + INTERVAL 1 DAY, balance = balance + 1",
    "UPDATE orders SET total = total + 1",
    "UPDATE order_lines SET quantity = quantity + 1",
    "UPDATE categories SET position = position + 1",
    "DELETE FROM posts_tags WHERE post_id = 3",
)
"""What is written while nobody asks, to the tables of most reads."""


DIRECT_US, MISS_US = 300.0, 400.0
count = Made.count


def counted_as_measured(made: Made, info: CacheInfo, decay: float, now: float) -> None:
    """As if a read took these times, however busy the machine is: by them it is judged whether a cache pays."""
    made.direct_us = DIRECT_US
    count(made, replace(info, miss_p50_us=MISS_US), decay, now)


@dataclass
class Clock:
    """The proxy's, which the test sets forward."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return monotonic() + self.ahead


@dataclass
class Round:
    """`hits` of `asked`; `wrong`: what differs from MySQL's answers."""

    asked: int = 0
    hits: int = 0
    wrong: list[str] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)  # how those were answered that are no hits

    @property
    def rate(self) -> float:
        return self.hits / self.asked


@dataclass
class Site:
    """The reads of the scripts, with a session each at MySQL and through Upwell."""

    scripts: Sequence[Script]
    pairs: Sequence[tuple[Session, Session]]

    def round(self) -> Round:
        found = Round()
        for script, (direct, through) in zip(self.scripts, self.pairs, strict=True):
            for step in script.steps:
                if is_select(step.sql) and not why_not_deterministic(step.sql):
                    self._ask(found, step, direct, through)
        return found

    def _ask(self, found: Round, step: Step, direct: Session, through: Session) -> None:
        wanted, answer = direct.ask(step), through.ask(step)
        found.asked += 1
        served, why = through.served()
        found.hits += served == "hit"
        if served != "hit":
            found.missed[f"{served}: {why}"] += 1
        if kind := difference(wanted, answer, ordered="order by" in step.sql.lower(), free=True):
            found.wrong.append(f"{kind}: {step.sql}")


@pytest.fixture
def origin(mysql: Server) -> Iterator[str]:
    name = f"t{os.getpid()}_pause"
    made(mysql, name)
    yield name
    mysql.execute(f"DROP DATABASE {name}")


async def seconds_pass(clock: Clock, auto: AutoCache, seconds: int) -> None:
    """One after the other, with the looks that come in them."""
    for _ in range(seconds):
        clock.ahead += 1
        await auto.look()


async def warm(site: Site, clock: Clock, auto: AutoCache, proxy: Proxy) -> float:
    """The hit rate of the last round."""
    for _ in range(BEFORE):
        found = await asyncio.to_thread(site.round)
        assert not found.wrong, found.wrong
        await seconds_pass(clock, auto, 2)
        await proxy.app.catalog.settled()
    return found.rate


@pytest.mark.parametrize("writes", [(), NIGHTLY], ids=["nothing is written", "writes go on"])
def test_after_ten_minutes_the_second_read_of_each_kind_is_a_hit_again(
    mysql: Server, origin: str, tmp_path: Path, writes: tuple[str, ...]
) -> None:
    clock = Clock()

    async def scenario() -> None:
        # A shape is cached once it is read twice: what is judged is what becomes of the caches.
        options = {"auto_cache": "on", "auto_cache_reads": "2", "auto_cache_time": "0ms"}
        async with proxy_beside(mysql, origin, tmp_path, **options) as proxy:
            auto = proxy.unhurried()
            scripts = [read(SCRIPTS / f"{name}.jsonl") for name in SCRIPT_NAMES]
            places = (
                Place(mysql.host, mysql.port, origin, mysql.user, mysql.password),
                Place("127.0.0.1", proxy.app.mysql_port, origin, mysql.user, mysql.password),
            )

            def opened() -> Site:
                pairs = [(session(places[0], one.header), session(places[1], one.header)) for one in scripts]
                return Site(scripts, pairs)

            site = await asyncio.to_thread(opened)
            before = await warm(site, clock, auto, proxy)
            caches = {info.name for info in await proxy.app.router.caches.listed()}
            assert before > 0.5 and len(caches) > 50

            for number in range(10):
                await seconds_pass(clock, auto, PAUSE // 10)
                if writes:
                    await proxy.write(writes[number % len(writes)] if number < len(writes) else writes[0])
            await proxy.caught_up()

            first = await asyncio.to_thread(site.round)
            await seconds_pass(clock, auto, 5)
            executor = proxy.app.executor  # the seconds take no time, fills do
            await until(lambda: not executor.in_flight and not executor.queued)
            second = await asyncio.to_thread(site.round)
            await seconds_pass(clock, auto, 300)
            last = await asyncio.to_thread(site.round)
            assert not first.wrong + second.wrong + last.wrong
            assert second.rate >= 0.9 * before and last.rate >= 0.9 * before, (before, first, second)
            if not writes:
                assert first.rate >= 0.9 * before
            kept = {info.name for info in await proxy.app.router.caches.listed()}
            assert len(caches - kept) <= len(caches) // 10
            for pair in site.pairs:
                for one in pair:
                    one.client.close()

    with patch("proxy.app.monotonic", clock), patch.object(Made, "count", counted_as_measured):
        run(scenario)
