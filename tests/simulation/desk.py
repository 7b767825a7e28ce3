"""The hot path of the proxy over the simulation's engine, without a proxy: caches opened by name, answers as bytes."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from typing import NoReturn, cast

from dataflow.engine import Engine
from dataflow.entries import Held
from dataflow.held.arrangement import MOST_ROWS
from dataflow.messages import Effect, UpqueryRequest
from dataflow.readers.derivation import Params, TooLong
from dataflow.readers.in_steps import Steps
from dataflow.readers.reader import ReaderNode
from proxy.cache.key_binder import KeyBinder
from proxy.cache.named_cache import NamedCache
from proxy.checking.sampler import Sampler
from proxy.loop.histogram import Histogram
from proxy.loop.slices import Encoder, Join
from proxy.port.api import Served, WireFormat
from proxy.read.literals import substituted
from proxy.read.open_cache import OpenCache
from proxy.system.system import Router
from sqltypes.expression import Key, Row
from sqltypes.schema import ResultColumn
from tests.simulation.queries import Query
from tests.simulation.source import VIEW
from tests.simulation.sql_side import DATABASE


class Announced(NamedCache):
    """MySQL announces what was planned."""

    @property
    def columns(self) -> tuple[ResultColumn, ...]:
        output = self.plan.reader.output if self.plan is not None else ()
        return tuple(ResultColumn(column.name, column.type, column.nullable) for column in output)


class Untold:
    """Faults are not noted here, they are what is looked for."""

    def note(self, edge: str, what: str, error: Exception, **facts: object) -> NoReturn:
        raise error


class Desk:
    """What an `OpenCache` needs of a router, and the caches."""

    closed = ""
    access_log = None
    budget = None

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.sampler = Sampler(engine, _unasked, substituted)  # it takes none: the simulation judges every hit itself
        self.faults = Untold()
        self.times = {served.value: Histogram() for served in Served}
        self.caches: dict[str, OpenCache] = {}
        self.position: Callable[[], str] = str  # of the answers that are told

    def open(self, query: Query) -> None:
        reader = self._engine.install(query.plan)
        reader.encoders = [packed]
        cache = Announced(query.name, query.sql, DATABASE, plan=query.plan, reader=reader, state="ready")
        cache.names = frozenset(table.qualified.lower() for table in query.plan.tables) | {f"{DATABASE}.{VIEW}"}
        cache.binder = KeyBinder(query.plan, reader)
        self.caches[query.name] = OpenCache(cast(Router, self), cache, 0)
        self.caches[query.name].moments.note()  # where answers reach, it is asked how far

    def drop(self, name: str) -> list[Effect]:
        reader = self.caches.pop(name).named.reader
        assert reader is not None
        return self._engine.remove(reader)

    # -- as the router does it

    def encoder(self, format_: int, columns: tuple[ResultColumn, ...]) -> Encoder:
        return packed

    def join(self, format_: int) -> Join:
        return b"".join

    def wire(self, format_: int) -> WireFormat:
        return WireFormat(lambda columns: packed, join_short=self._join_short, join_in_steps=_join_in_steps)

    def _join_short(self, parts: Sequence[bytes]) -> bytes:
        if self._engine.memory.most_rows < MOST_ROWS and len(parts) > 2:
            raise TooLong
        return b"".join(parts)

    def hold(self, reader: ReaderNode, key: Key, params: Params) -> Held | None:
        return self._engine.hold(reader, key, params)

    def count(self, name: str) -> None:
        self._engine.memory.count(name)

    @property
    def memory_is_short(self) -> bool:
        return self._engine.memory.used > self._engine.limit // 2

    def keep_limit(self) -> None:
        if self._engine.memory.used > self._engine.limit:
            self._engine.keep_limit()


def _unasked(request: UpqueryRequest, deliver: object, deadline: float) -> None:
    raise AssertionError(f"a sample was taken: {request}")


def _join_in_steps(parts: Sequence[bytes]) -> Steps[bytes]:
    joined = b""
    for part in parts:
        yield
        joined += part
    return joined


def packed(rows: Sequence[Row]) -> bytes:
    """An encoding that may be joined byte by byte, as the listeners' may."""
    return b"".join(map(pickle.dumps, rows))


def unpacked(body: bytes) -> list[Row]:
    source = io.BytesIO(body)
    rows: list[Row] = []
    while source.tell() < len(body):
        rows.append(pickle.load(source))
    return rows
