"""The hot path of the proxy over the simulation's engine, without a proxy: caches opened by name, answers as bytes."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

from dataflow.engine import Engine
from dataflow.held.arrangement import MOST_ROWS
from dataflow.messages import Effect, UpqueryRequest
from dataflow.readers.derivation import TooLong
from dataflow.readers.in_steps import Steps
from proxy.cache.key_binder import KeyBinder
from proxy.cache.named_cache import NamedCache
from proxy.checking.comparison import Comparer
from proxy.checking.sampler import Sampler
from proxy.port.api import WireFormat
from proxy.pump.wire_formats import WireFormats
from proxy.read.host import ReadHost
from proxy.read.literals import substituted
from proxy.read.open_cache import OpenCache
from sqltypes.expression import Row
from sqltypes.schema import ResultColumn
from tests.simulation.queries import Query
from tests.simulation.source import VIEW
from tests.simulation.sql_side import DATABASE
from tests.support.fake_position import FakePosition


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


class ToldPosition(FakePosition):
    """`told`: of the answers that are told."""

    def __init__(self) -> None:
        self.told: Callable[[], str] = str

    def text(self) -> str:
        return self.told()


class DeskHost(ReadHost):
    """Memory is short early."""

    @property
    def memory_is_short(self) -> bool:
        return self.engine.memory.used > self.engine.limit.bytes // 2


class Desk:
    """The caches, and what they have around them."""

    def __init__(self, engine: Engine, wire: WireFormat | None = None) -> None:
        self._engine = engine
        self.caches: dict[str, OpenCache] = {}
        self.position = ToldPosition()
        formats = WireFormats()
        formats.register("packed", wire or self._packed())
        # None is taken: the simulation judges every hit itself.
        sampler = Sampler(engine, Comparer(engine, _unasked, str, lambda: 0.0), substituted)
        pump: Any = SimpleNamespace(formats=formats, faults=Untold())
        nothing: Any = None
        self.host = DeskHost(engine, pump, self.position, nothing, sampler, nothing, lambda cache, parameters: None)

    def _packed(self) -> WireFormat:
        return WireFormat(lambda columns: packed, join_short=self._join_short, join_in_steps=_join_in_steps)

    def open(self, query: Query) -> None:
        reader = self._engine.install(query.plan)
        reader.encodings.encoders = [packed]
        cache = Announced(query.name, query.sql, DATABASE, plan=query.plan, reader=reader, state="ready")
        cache.names = frozenset(table.qualified.lower() for table in query.plan.tables) | {f"{DATABASE}.{VIEW}"}
        cache.binder = KeyBinder(query.plan, reader)
        self.caches[query.name] = OpenCache(self.host, cache, 0)
        self.caches[query.name].moments.note()  # where answers reach, it is asked how far

    def drop(self, name: str) -> list[Effect]:
        reader = self.caches.pop(name).named.reader
        assert reader is not None
        return self._engine.remove(reader)

    def _join_short(self, parts: Sequence[bytes]) -> bytes:
        if self._engine.memory.most_rows < MOST_ROWS and len(parts) > 2:
            raise TooLong
        return b"".join(parts)


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
