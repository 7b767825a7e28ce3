"""Caches opened for gRPC, by name: hits with a kept header, and reads that survive a cache being made again."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.grpc.rows import FORMAT, column_messages, columns_id
from proxy.port.api import ANSWERED_BY_MYSQL, Answer, Cache, Demand, ParameterValue, System
from sqltypes.errors import UnknownCache
from sqltypes.schema import ResultColumn
from upwell.v1 import upwell_pb2 as pb

Parameters = tuple[ParameterValue, ...]

KEY_HIT = b"\x10\x01"  # `served: HIT`, of an Answer or a KeyAnswer


class OpenCache:
    """A cache as opened for this service, with the part of its answers that does not depend on the key.

    Invariants:
    1. `_full` and `_bare` (without columns) are the headers of a hit for `_columns` at `_position`; both are compared
       by identity.
    """

    __slots__ = ("_bare", "_columns", "_full", "_id", "_name", "_position", "_system", "cache", "hit")

    def __init__(self, system: System, name: str, cache: Cache) -> None:
        self._system = system
        self._name = name
        self.cache = cache
        self.hit = cache.hit
        self._position: str | None = None
        self._columns: tuple[ResultColumn, ...] = ()
        self._id = 0
        self._full = self._bare = b""

    def header(self, known_columns: int) -> bytes:
        """What stands before the rows of a hit; `known_columns` is the id that the caller has. Fit for Answer and
        BatchAnswer.
        """
        if self._system.position.text() is not self._position or self.cache.columns is not self._columns:
            self._renew()
        return self._bare if known_columns == self._id else self._full

    def batch_header(self, known_columns: int) -> bytes:
        """As `header` without `served`, which each key of a batch has for itself."""
        return self.header(known_columns)[len(KEY_HIT) :]

    def header_of(self, columns: Sequence[ResultColumn], known_columns: int) -> bytes:
        """As `batch_header`, for a batch without hits whose answers have other columns."""
        messages = column_messages(columns)
        id = columns_id(messages)
        shown = messages if id != known_columns else ()
        return pb.Answer(
            cache=self._name, position=self._system.position.text(), columns_id=id, columns=shown
        ).SerializeToString()

    def _renew(self) -> None:
        if self.cache.columns is not self._columns:
            self._columns = self.cache.columns
            self._id = columns_id(column_messages(self._columns))
        self._position = self._system.position.text()
        # Field 2 comes first when serialised, so that a batch cuts it off.
        common = {"cache": self._name, "position": self._position, "columns_id": self._id}
        self._bare = KEY_HIT + pb.Answer(**common).SerializeToString()  # type: ignore[arg-type]  # a str and an int
        self._full = self._bare + pb.Answer(columns=column_messages(self._columns)).SerializeToString()


class OpenCaches:
    """Opened caches by name. Each call raises UnknownCache if there is none."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._open: dict[str, OpenCache] = {}

    def of(self, name: str) -> OpenCache:
        """As it was opened, even if it was dropped since: then its calls raise UnknownCache."""
        opened = self._open.get(name)
        if opened is None:
            opened = self._open[name] = OpenCache(self._system, name, self._system.caches.open(name, FORMAT))
        return opened

    def anew(self, name: str) -> OpenCache:
        """The one that has the name now."""
        self._open.pop(name, None)
        return self.of(name)

    async def fill_first(self, name: str, keys: Sequence[Parameters]) -> bool:
        """As `Fills.fill_first`."""
        return await self._system.fills.fill_first(name, keys)

    def forget(self, name: str) -> None:
        self._open.pop(name, None)

    def hit(self, name: str, parameters: Parameters) -> bytes | None:
        """`Cache.hit`, also where the cache was dropped and made anew since it was opened."""
        try:
            try:
                return self.of(name).hit(parameters)
            except UnknownCache:
                return self.anew(name).hit(parameters)
        except ANSWERED_BY_MYSQL:
            return None

    async def read(self, name: str, parameters: Parameters, demand: Demand | None) -> Answer:
        """As `Cache.read`."""
        try:
            return await self.of(name).cache.read(parameters, demand)
        except UnknownCache:
            return await self.anew(name).cache.read(parameters, demand)
