"""Decides whether a difference from MySQL's answer counts: only once the stream has brought every change that may
explain it.

MySQL computes a text with its views and collations of that moment. The cache's plan is older until the stream brings
the DDL statement that changed them. No bracket tells of that: a view may be replaced after the snapshot was taken. So
MySQL is asked what it owns and has executed by now, and the position must come to contain all of it. If a DDL statement
on a relation of the cache comes until then, the difference tells nothing. (A statement that came before the answer has
closed the cache's reader.) If the server was restarted meanwhile, it may have lost that statement, so the difference
tells nothing either. Otherwise it is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from dataflow.engine import Engine
from dataflow.messages import Ddl, Gap, Restarted, Statement, StreamEvent, UpqueryAnswer, UpqueryFailed, UpqueryRequest
from gtid_tracker.gtid import Gtid, GtidSet

PATIENCE = 5.0  # seconds that MySQL has to answer, and then the stream to bring what it says
AGAIN = 1.0  # seconds until MySQL is asked once more: what it owned may have been rolled back
UPTIME = Statement("SHOW GLOBAL STATUS LIKE 'Uptime'")  # seconds, whole; who may log in may ask
STARTING = 2.0  # seconds by which the uptime may be off
Submit = Callable[[UpqueryRequest, Callable[[UpqueryAnswer | UpqueryFailed], None], float], None]


@dataclass(slots=True, eq=False)
class Suspicion:
    """`server`: the one that answered; `asked_for`: when it was asked for. `names`: `NamedCache.names`. `ended` is
    called once, with whether it is a fault. `needed`: what the position must contain; None: MySQL has not said yet."""

    server: str
    names: frozenset[str]
    asked_for: float
    since: float
    ended: Callable[[bool], None]
    needed: GtidSet | None = None
    asked_at: float = 0.0
    lacks: Gtid | None = None  # the last of it that the position has not


class Suspicions:
    """The differences that are not explained yet. `numbers`: of requests.

    Invariants:
    1. A suspicion is in `running` until its `ended` is called.
    """

    def __init__(self, engine: Engine, submit: Submit, clock: Callable[[], float], numbers: Iterator[int]) -> None:
        self.running: dict[Suspicion, None] = {}
        self._engine = engine
        self._submit = submit
        self._clock = clock
        self._numbers = numbers

    def explain(self, server: str, names: frozenset[str], asked_for: float, ended: Callable[[bool], None]) -> None:
        """Calls `ended` once it is known whether a difference is a fault, or cannot be known."""
        suspicion = Suspicion(server, names, asked_for, self._clock(), ended)
        self.running[suspicion] = None
        self._ask(suspicion)

    def _ask(self, suspicion: Suspicion) -> None:
        suspicion.asked_at = self._clock()
        # What is executed is read after it: that is later than the answer.
        request = UpqueryRequest(-next(self._numbers), (UPTIME,), (), lower=GtidSet.empty())
        self._submit(request, partial(self._on_answer, suspicion), suspicion.asked_at + PATIENCE)

    def _on_answer(self, suspicion: Suspicion, result: UpqueryAnswer | UpqueryFailed) -> None:
        if suspicion not in self.running:
            return
        if (
            isinstance(result, UpqueryFailed)
            or result.bracket.history != suspicion.server
            or self._restarted(suspicion, result)
        ):
            self._end(suspicion, fault=False)
            return
        now = result.bracket.needed
        # What was owned before and is in neither now was rolled back.
        suspicion.needed = now if suspicion.needed is None else suspicion.needed.intersection(now)
        self._look(suspicion, suspicion.needed)

    def _restarted(self, suspicion: Suspicion, answer: UpqueryAnswer) -> bool:
        """May the server have been started anew since the answer that differs was asked for?"""
        if answer.connected_at < suspicion.asked_for:
            return False
        try:
            ((_, seconds),) = answer.results[0]
            return float(str(seconds)) <= self._clock() - suspicion.asked_for + STARTING
        except (ValueError, IndexError):
            return True

    def on_stream(self, event: StreamEvent) -> None:
        """The engine has processed the event."""
        for suspicion in list(self.running):
            if isinstance(event, Gap | Restarted) or (isinstance(event, Ddl) and concerns(event, suspicion.names)):
                self._end(suspicion, fault=False)
            elif suspicion.needed is not None and event.gtid == suspicion.lacks:
                self._look(suspicion, suspicion.needed)

    def tick(self) -> None:
        """To be called now and then: gives up what the position does not come to contain."""
        now = self._clock()
        for suspicion in list(self.running):
            if now > suspicion.since + 2 * PATIENCE:
                self._end(suspicion, fault=False)
            elif suspicion.needed is not None and now > suspicion.asked_at + AGAIN:
                self._ask(suspicion)

    def _look(self, suspicion: Suspicion, needed: GtidSet) -> None:
        missing = needed.difference(self._engine.state.ring.position.freeze())
        if missing:
            suspicion.lacks = missing.last()
        else:
            self._end(suspicion, fault=True)

    def _end(self, suspicion: Suspicion, *, fault: bool) -> None:
        del self.running[suspicion]
        suspicion.ended(fault)


def concerns(event: Ddl, names: frozenset[str]) -> bool:
    """May the statement have changed what the cache of these names computes?"""
    tables = event.tables
    return event.schema and (tables is None or not names or not names.isdisjoint(name.lower() for name in tables))
