"""MySQL's answers to reads, from which is learned how it announces their columns."""

from __future__ import annotations

from collections.abc import Callable

from proxy.mysql.reads.cached_read import CachedRead
from proxy.mysql.session.shared import Shared
from proxy.mysql.wire.responses import NO_STATUS, Exchange, Kind, Outcome


def watching(shared: Shared, read: CachedRead, done: Callable[[Outcome], None]) -> Exchange:
    """The exchange in which MySQL answers the read; `done` is called behind what is learned. Requires:
    `read.announced`."""

    def ended(outcome: Outcome) -> None:
        exchange.done = done  # no cycle stays behind
        try:
            learn(shared, read, exchange, outcome)
        except Exception as error:  # noqa: BLE001 - an edge: the answer has been the client's already
            shared.note_fault(read.cache.name, error, text=repr(read.text)[:2000])
        done(outcome)

    exchange = Exchange(Kind.RESULT, ended, definitions=[])
    return exchange


def learn(shared: Shared, read: CachedRead, exchange: Exchange, outcome: Outcome) -> None:
    """MySQL has answered the read. Not where the tables may have changed meanwhile."""
    announced, system = read.announced, shared.system
    if outcome.status == NO_STATUS or announced is None or read.replanned:
        return
    if announced.learn(exchange.definitions or (), read.itself, rows=exchange.rows):
        system.changes.note()  # sessions have it at hand
    if announced.why:
        system.count("columns_not_announced")
