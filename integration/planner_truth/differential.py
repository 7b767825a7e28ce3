"""One case of the differential test: random tables behind a running proxy, random queries cached, random writes, misses
and evictions in between; at rest every answer equals MySQL's.

The writes, queries and parameters come from the seed; how they fall together in time does not.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pymysql

from gtid_tracker.gtid import GtidSet
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy
from integration.support.random_queries import SHAPES, RandomQuery, random_query, views
from integration.support.random_tables import RandomTable, first_rows, one_transaction, random_tables
from proxy.grpc.rows import FORMAT, column_messages, encoder_for
from proxy.read.literals import substituted
from proxy.read.open_cache import OpenCache
from sqltypes.collation import key_function, supported
from sqltypes.errors import BadParameters, SourceError, UpwellError
from sqltypes.schema import ResultColumn
from upwell import errors as client_errors
from upwell.rows import Answer, row_type, rows_from_wire
from upwell.v1 import upwell_pb2 as pb

Rows = list[tuple[Any, ...]]


@dataclass
class Tally:
    """What was seen, for the printed summary and to tell a test that checked nothing from one that did."""

    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))


@dataclass
class Cached:
    name: str
    query: RandomQuery
    mode: str
    asked: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # by their repr: 1, 1.0 and True are different


class Case:
    """One seed. `database` is empty when it begins."""

    def __init__(self, proxy: Proxy, seed: int, tally: Tally) -> None:
        self.proxy = proxy
        self.seed = seed
        self.rng = random.Random(seed)
        self.tally = tally
        self.tables: list[RandomTable] = []
        self.caches: list[Cached] = []
        self.log: list[str] = []
        self._writer = _connect(proxy.mysql, proxy.database)

    def close(self) -> None:
        self._writer.close()

    # -- setting up --------------------------------------------------------------------------------------------------

    async def prepare(self, queries: int) -> None:
        self.tables = random_tables(self.rng)
        statements = [table.ddl() for table in self.tables]
        statements += views(self.tables) + first_rows(self.rng, self.tables)
        await asyncio.to_thread(self._write, statements)
        for number in range(queries):
            await self._create(random_query(self.rng, self.tables, self.rng.choice(SHAPES)), f"c{self.seed}_{number}")

    async def _create(self, query: RandomQuery, name: str) -> None:
        router = self.proxy.app.router
        try:
            info = await router.caches.create(name, query.sql, self.proxy.database)
        except UpwellError as error:
            if isinstance(error, SourceError):  # such as a zero date as a literal
                self.tally.counts["refused by MySQL"] += 1
                self.tally.reasons[f"MySQL: {error.message}"] += 1
                return
            self.tally.counts["refused"] += 1
            self.tally.reasons[f"refused {getattr(error, 'code', error.reason)}"] += 1
            return
        if any(cache.name == info.name for cache in self.caches):
            return
        self.tally.counts[info.mode] += 1
        if info.mode == "evict":
            plan = router._catalog.get(info.name).plan
            self.tally.reasons[f"evict {plan.notes[0].split(':')[1].strip() if plan else ''}"] += 1
        self.caches.append(Cached(info.name, query, info.mode))

    def _write(self, statements: Sequence[str]) -> None:
        with self._writer.cursor() as cursor:
            for statement in statements:
                self.log.append(statement)
                try:
                    cursor.execute(statement)
                except pymysql.MySQLError as error:
                    self.log.append(f"-- {error}")
                    if statement.startswith(("CREATE", "ALTER")):
                        raise

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self, rounds: int, writes: int, reads: int) -> None:
        for number in range(rounds):
            burst = [one_transaction(self.rng, self.tables) for _ in range(self.rng.randint(1, writes))]
            if self.rng.random() < 0.15:
                burst.insert(self.rng.randrange(len(burst)), [self._ddl(number)])
            writing = asyncio.create_task(asyncio.to_thread(self._write, [line for each in burst for line in each]))
            for _ in range(reads):
                await self._read()
                if self.rng.random() < 0.05:
                    self._evict()
            await writing
            await self.at_rest()
            await self._check()

    def _ddl(self, number: int) -> str:
        table = self.rng.choice(self.tables)
        return self.rng.choice(
            (
                f"ALTER TABLE {table.name} ADD COLUMN extra{number} INT DEFAULT {number}",
                f"ALTER TABLE {table.name} ADD COLUMN first{number} INT DEFAULT {number} FIRST",
                f"TRUNCATE TABLE {table.name}",
                f"ALTER TABLE {table.name} ADD INDEX ({table.columns[0].name})",
            )
        )

    async def _read(self) -> None:
        """One read of a random key, whatever it meets: only its failure would be wrong here."""
        cache = self.rng.choice(self.caches)
        parameters = (
            self.rng.choice(list(cache.asked.values()))
            if cache.asked and self.rng.random() < 0.4
            else cache.query.parameters(self.rng)
        )
        if await self._get(cache, parameters) is not None:
            cache.asked[repr(parameters)] = parameters

    async def _get(self, cache: Cached, parameters: tuple[Any, ...]) -> Answer | None:
        """The answer through gRPC, or None where MySQL or the proxy refuses the parameters with a reason."""
        try:
            answer = await self.proxy.client.cache(cache.name).get(*parameters)
        except (client_errors.BadParameters, client_errors.SourceError) as error:
            self.tally.counts[f"read refused: {error.reason}"] += 1
            return None
        except client_errors.UpwellError as error:
            self._differs(cache, parameters, f"error {type(error).__name__} {error.reason}: {error}")
            return None
        self.tally.counts[answer.served] += 1
        return answer

    def _evict(self) -> None:
        """Drops some held keys of a random reader, as the memory limit would."""
        engine = self.proxy.app.engine
        readers = [reader for reader in engine.graph.readers.values() if reader.entries]
        if not readers:
            return
        reader = self.rng.choice(readers)
        for held in list(reader.entries.values()):
            if self.rng.random() < 0.5:
                reader.drop(held)
                self.tally.counts["evicted"] += 1

    async def at_rest(self) -> None:
        """Returns when the proxy has applied all that MySQL has committed and every cache is planned."""
        executed = (await asyncio.to_thread(self.proxy.mysql.execute, "SELECT @@GLOBAL.gtid_executed"))[0][0]
        wanted = GtidSet.parse(executed)
        app = self.proxy.app
        while not wanted.issubset(app.engine.state.ring.position.freeze()) or app.engine.inserting.waiting:
            await self.proxy.client.status()
        await app.catalog.settled()
        app.engine.check_invariants()

    # -- comparing ---------------------------------------------------------------------------------------------------

    async def _check(self) -> None:
        """Every held key's answer equals MySQL's; of those that are holes some are asked for, and compared too."""
        router = self.proxy.app.router
        for cache in self.caches:
            opened = router.caches.open(cache.name, FORMAT)
            for parameters in list(cache.asked.values()):
                await self._check_key(cache, opened, parameters)

    async def _check_key(self, cache: Cached, opened: OpenCache, parameters: tuple[Any, ...]) -> None:
        held = hit(opened, parameters)
        answer = await self._get(cache, parameters) if held or self.rng.random() < 0.3 else None
        if answer is None or answer.served == "passed":
            return
        if held:
            assert answer.served == "hit", (answer.served, parameters)
        self.tally.counts[f"compared {answer.served} {cache.mode}"] += 1
        try:
            columns, wanted = await truth(self.proxy, cache.query.sql, parameters)
        except SourceError as error:
            self._differs(cache, parameters, f"{answer.served} {list(answer)}, where MySQL says: {error}")
            return
        self._compare(cache, parameters, answer.served, columns, [tuple(row) for row in answer], wanted)

    def _compare(
        self, cache: Cached, parameters: Any, served: str, columns: Sequence[ResultColumn], got: Rows, wanted: Rows
    ) -> None:
        query = cache.query
        shown = _shown(columns, query.spelling_free)
        mine, theirs = [shown(row) for row in got], [shown(row) for row in wanted]
        if query.order == "total":
            equal = mine == theirs
        elif query.order == "prefix":
            ordered = _shown(columns[: query.prefix], frozenset(range(query.prefix)))
            equal = [ordered(row[: query.prefix]) for row in got] == [ordered(row[: query.prefix]) for row in wanted]
            equal = equal and (query.cut or Counter(mine) == Counter(theirs))
        else:
            equal = Counter(mine) == Counter(theirs)
        if not equal:
            extra, missing = Counter(map(repr, got)), Counter(map(repr, wanted))
            rows = f"  too many {dict(extra - missing)}\n  missing {dict(missing - extra)}"
            self._differs(cache, parameters, f"{served}\n{rows}\n  got {got[:20]}\n  wanted {wanted[:20]}")

    def _differs(self, cache: Cached, parameters: Any, what: str) -> None:
        self.tally.differences.append(
            f"seed {self.seed}, {cache.mode}: {what}\n  {cache.query.sql}\n  parameters {parameters!r}"
        )


async def truth(proxy: Proxy, sql: str, parameters: tuple[Any, ...]) -> tuple[tuple[ResultColumn, ...], Rows]:
    """MySQL's answer to the same text and parameters, in the client's types, and its columns."""
    rows = await true_rows(proxy, sql, parameters)
    own, _ = await proxy.app.executor.describe(_text(sql, parameters), proxy.database)
    return own, rows


async def true_rows(proxy: Proxy, sql: str, parameters: tuple[Any, ...]) -> Rows:
    """The rows of `truth`."""
    columns, rows = await proxy.app.executor.query(_text(sql, parameters), proxy.database)
    message = pb.Answer.FromString(encoder_for(columns)(rows))
    return [tuple(row) for row in rows_from_wire(message.rows, row_type(column_messages(columns)))]


def _text(sql: str, parameters: tuple[Any, ...]) -> str:
    return substituted(sql, tuple(tuple(value) if isinstance(value, list) else value for value in parameters))


def hit(opened: OpenCache, parameters: tuple[Any, ...]) -> bool:
    """Whether the key is held now."""
    given = tuple(tuple(value) if isinstance(value, list) else value for value in parameters)
    try:
        return opened.hit(given) is not None
    except (BadParameters, UpwellError):
        return False


def _shown(columns: Sequence[ResultColumn], free: frozenset[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Values with their Python types, so that 1, 1.0 and True are different; those of which MySQL may choose the
    spelling by their collation's key."""
    keys: dict[int, Callable[[str], Any]] = {}
    for at in free:
        type_ = columns[at].type
        if type_.is_string and supported(type_.collation):
            keys[at] = key_function(type_.collation)

    def shown(row: tuple[Any, ...]) -> tuple[Any, ...]:
        out: list[Any] = []
        for at, value in enumerate(row):
            if isinstance(value, str) and at in keys:
                out.append(("str", keys[at](value)))
            elif isinstance(value, float) and at in free:
                out.append(("float", repr(value + 0.0)))
            else:
                out.append((type(value).__name__, repr(value)))
        return tuple(out)

    return shown


def _connect(server: Server, database: str) -> pymysql.Connection[Any]:
    """A writer's connection that takes every value of the pools."""
    connection = server.connect(database=database)
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
    return connection
