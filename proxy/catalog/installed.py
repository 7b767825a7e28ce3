"""Caches in the engine: their readers, the matcher that finds them, and the columns that the stream is to bring."""

from __future__ import annotations

from typing import Protocol

from dataflow.engine import Engine
from dataflow.readers.reader import ReaderNode
from planner.matcher import QueryMatcher
from planner.tree.plan import QueryPlan
from proxy.cache.answer_columns import Encoding, carried
from proxy.cache.key_binder import KeyBinder
from proxy.cache.named_cache import NamedCache, names_of
from proxy.cache.planned import Planned
from proxy.catalog.distrusted import Doubts
from proxy.catalog.removal import Leaving
from proxy.checking.earning import Earning
from proxy.planning.worker import refusing
from proxy.pump.pump import Pump
from sqltypes.schema import Table


class StreamWants(Protocol):
    """The change stream, as far as the catalog sees it."""

    def want(self, table: Table, columns: frozenset[str]) -> None: ...

    def unwant(self, table: str) -> None: ...


class Installed:
    """`leaving`: caches that leave because the schema of their tables has changed.

    Invariants: 1. What the stream is to bring is what the graph reads, but while caches are taken out.
    """

    def __init__(
        self,
        engine: Engine,
        pump: Pump,
        stream: StreamWants,
        matcher: QueryMatcher,
        doubts: Doubts,
        earning: Earning,
    ) -> None:
        self.earning = earning
        self.leaving = Leaving(engine, pump, self._taken_out, self.want)
        self._engine, self._pump, self._stream, self._matcher, self._doubts = engine, pump, stream, matcher, doubts
        self._wanted: dict[str, tuple[Table, frozenset[str]]] = {}

    def check_invariants(self) -> None:
        assert self.leaving or self._wanted == self._engine.graph.wanted(), "the stream brings other columns"

    def outdated(self, plan: QueryPlan) -> frozenset[str]:
        """The tables of which there are caches by another definition than the plan's: a DDL statement is executed, and
        its event has not come. Nothing is installed beside those: the stream delivers rows by one definition."""
        known = {table: self._engine.graph.table(table.qualified) for table in plan.tables}
        return frozenset(
            table.qualified for table, its in known.items() if its is not None and not its.is_defined_as(table)
        )

    def install(self, cache: NamedCache, planned: Planned) -> None:
        """Raises UnsupportedQuery where no reader can be built. Whatever goes wrong, all is as it was."""
        with refusing():
            reader = self._engine.install(planned.plan)
        try:
            self._equip(cache, planned, reader)
        except BaseException:
            cache.reader = reader
            self.uninstall(cache)
            raise

    def _equip(self, cache: NamedCache, planned: Planned, reader: ReaderNode) -> None:
        reader.losses = cache.losses
        output = planned.plan.reader.output
        held = carried(column.type for column in output) if planned.plan.mode.value == "maintain" else None
        cache.encoding = Encoding(reader, planned.columns, held, self._pump.formats.encoders_for)
        reader.encodings.joins = self._pump.formats.joins
        cache.plan, cache.reader, cache.planned = planned.plan, reader, planned
        cache.binder = KeyBinder(planned.plan, reader)
        cache.relations, cache.needs = planned.relations, planned.needs
        cache.names = names_of(cache.relations)
        doubt = self._doubts.about(planned.plan.sql, cache.database)
        cache.state, cache.why = "ready", doubt.told if doubt is not None else ""
        self.earning.begin(cache)
        cache.generation += 1
        self._matcher.add(planned.plan, cache.name, planned.fingerprint, planned.outline)
        self.want()

    def doubt(self) -> None:
        """As `State.doubt`."""
        self._engine.state.doubt()

    def uninstall(self, cache: NamedCache) -> None:
        if cache.reader is not None:
            self._matcher.remove(cache.name)
            self.earning.end(cache)
            self._pump.handle(self._engine.remove(cache.reader))
        cache.reader = cache.binder = None
        cache.generation += 1

    def want(self) -> None:
        """Tells the stream which columns the graph reads now. While caches are taken out, they read some that may be no
        more: it is called again when that is done."""
        if self.leaving:
            return
        wanted = self._engine.graph.wanted()
        for name, (table, columns) in wanted.items():
            if self._wanted.get(name) != (table, columns):
                self._stream.want(table, columns)
        for name in self._wanted.keys() - wanted.keys():
            self._stream.unwant(name)
        self._wanted = wanted

    def close(self, changed: frozenset[str] | None) -> None:
        """Closes the caches that were added to `leaving`. `changed`: the names of the tables, in lower case, and
        `schema.*` for all of a schema; None: any."""
        if not self.leaving.close():
            return
        self._matcher.changed()
        for name in list(self._wanted):
            schema, _, _ = name.lower().partition(".")
            if changed is None or not changed.isdisjoint((name.lower(), f"{schema}.*")):
                self._stream.unwant(name)
                del self._wanted[name]

    def _taken_out(self, cache: NamedCache) -> None:
        self._matcher.remove(cache.name)
        self.earning.end(cache)
