"""The change stream's sink: hands each event to the engine, then to who must know of it."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from dataflow.messages import Ddl, Gap, Progress, Restarted, StreamEvent, Transaction
from proxy.catalog.catalog import Catalog
from proxy.fills.restart import Restart
from proxy.source.zones import SourceZones
from proxy.system.system import Router
from sqltypes.schema import ZONE_TABLES
from vstream.source import Busy

log = structlog.get_logger("upwell")

ZONES_ANEW = "MySQL was started anew: maybe in another time zone, and it reads its tables of time zones again"
ZONES = frozenset(table.qualified for table in ZONE_TABLES)


class StreamEvents:
    """The stream's sink: hands each event to the engine, then tells the catalog of schema changes."""

    def __init__(self, restart: Restart) -> None:
        """`restart`: has the stream wait until it may go on from where another process had come to."""
        self._restart = restart
        self.busy = Busy(self._is_busy, self._when_free)
        self._when: list[Callable[[], None]] = []  # to be called when it is not busy any more
        restart.on_going_on = self._free
        self.on_doubt: Callable[[], None] | None = None  # who is told, too
        self._early: list[StreamEvent] = []
        self._router: Router | None = None
        self._catalog: Catalog | None = None
        self._zones: SourceZones | None = None

    def connect(self, router: Router, catalog: Catalog, zones: SourceZones) -> None:
        """The stream is begun before what takes its events is made, which begins at its position. Until now it can have
        told of its source alone, for its tables are wanted only by caches."""
        self._router, self._catalog, self._zones = router, catalog, zones
        router.pump.change.on_end = self._free
        for event in self._early:
            self(event)
        self._early.clear()

    def doubted(self) -> None:
        """What was held may not have been true, and no stream tells that: as `State.doubt` says."""
        self._restart.forget()
        if self.on_doubt is not None:
            self.on_doubt()

    def _is_busy(self) -> bool:
        """Whether a transaction is worked out in slices, or none may come yet."""
        if self._restart.waits:
            return True
        return self._router is not None and self._router.pump.change.event is not None

    def _when_free(self, call: Callable[[], None]) -> None:
        self._when.append(call)

    def _free(self) -> None:
        """One of both is over."""
        if self._when and not self._is_busy():
            calls, self._when = self._when, []
            for call in calls:
                call()

    def __call__(self, event: StreamEvent) -> None:
        if self._router is None or self._catalog is None or self._zones is None:
            if isinstance(event, Gap | Restarted):
                self._early.append(event)
            return
        pump = self._router.pump
        pump.on_stream(event)
        if event.__class__ is Transaction or (isinstance(event, Progress) and not event.accounts):
            return
        if isinstance(event, Gap | Progress):
            self._router.accounts.changed()
        if isinstance(event, Gap):
            self._router.gate.empty()
        if isinstance(event, Ddl) and event.schema:
            self._catalog.schema_changed(event.tables)
        elif isinstance(event, Gap):
            log.warning("stream_gap", reason=event.reason, position=str(event.position))
            self._catalog.schema_changed(None)
            self._zones.forget()
        elif isinstance(event, Restarted):
            self._zones.forget()
            pump.on_stream(Ddl(None, ZONES_ANEW, ZONES, schema=False))
            self._catalog.check_anew()
