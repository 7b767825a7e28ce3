"""The service `upwell.v1.Upwell`: bytes in, the system's calls, bytes out. The walk of a hit from gRPC starts here.

Requests and answers are bytes on both sides of these handlers. A hit is: the request as its twin (`grpc_values.py`),
the key's bytes in a memo, `Cache.hit`, and a header kept per cache before the rows' bytes. There is no await in it.
Everything else goes the slower way through messages. `proxy/grpc_server.py` puts the service on a listener.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, nullcontext
from typing import Any, NoReturn, TypeVar

import grpc

from proxy.api import (
    ANSWERED_BY_MYSQL,
    Answer,
    Cache,
    Demand,
    ParameterValue,
    System,
)
from proxy.grpc_answers import (
    ANSWER_HEADS,
    SERVED,
    answer_bytes,
    cache_message,
    event_bytes,
    stream_answer,
    stream_failure,
    wide_answer_bytes,
)
from proxy.grpc_errors import as_upwell_error, failure, sentence, status_code, trailing_metadata
from proxy.grpc_rows import FORMAT, column_messages, columns_id, encoder_for, varint
from proxy.grpc_values import (
    AT_ONCE,
    VALUES_AT_ONCE,
    BatchTwin,
    FreshnessMemo,
    KeyMemo,
    StreamTwin,
    freshness_asked,
    long_key_parameters,
    long_parameters,
    parse_batch,
    parse_execute,
    parse_query,
    parse_stream,
    parse_subscribe,
)
from proxy.memo import Memo
from proxy.slices import Slices, in_slices
from sqltypes.errors import (
    BadParameters,
    DeadlinePassed,
    MessageTooLarge,
    NotPermitted,
    Overloaded,
    Unauthenticated,
    UnknownCache,
    UpwellError,
)
from sqltypes.schema import ResultColumn
from upwell.v1 import upwell_pb2 as pb

SERVICE = "upwell.v1.Upwell"
BATCH_KEYS = 20_000
"""The most keys of one ExecuteBatch."""
KNOWN_REQUESTS, KNOWN_LENGTH = 1 << 15, 256
"""How many requests that were hits are known by their bytes, and of how many bytes at most: 20 MiB at worst."""
BATCH_TRIES, BATCH_PAUSE = 100, 0.05
"""How often, and after how many seconds, a batch is answered anew whose cache has become another one meanwhile."""
PARTS_AT_ONCE = 1_000
"""How many answers of one ExecuteBatch are put together from one look at the clock to the next."""
COLUMNS_AT_ONCE = 200
"""How many columns of an answer are described in one turn of the loop."""
MISSES_AT_ONCE = 50
"""How many misses of one ExecuteBatch are begun in one turn of the loop."""
LISTS_AT_ONCE = 100  # misses with lists that one ExecuteBatch waits for; each may take ten upqueries
STREAM_MISSES = 1_000
"""How many misses one ExecuteStream may wait for before it stops reading requests."""
SLOW_SUBSCRIBER_SECONDS = 10.0
"""A subscriber that does not take one event in this time is cut off."""

WHO_MAY_CALL = (
    "clients that run on its machine as its own user find the token by themselves, all others send that of"
    " --grpc-token-file (`authorization: Bearer TOKEN` in the metadata)"
)

Context = grpc.aio.ServicerContext[Any, Any]
Result = TypeVar("Result")
Parameters = tuple[ParameterValue, ...]

# A KeyAnswer of a hit inside a BatchAnswer: the field's head, then `served: HIT`, then the rows' bytes.
_KEY_HIT = b"\x10\x01"
_hit_heads: Memo[int] = Memo(lambda length: b"\x0a" + varint(length + len(_KEY_HIT)) + _KEY_HIT)


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
        if self._system.position() is not self._position or self.cache.columns is not self._columns:
            self._renew()
        return self._bare if known_columns == self._id else self._full

    def batch_header(self, known_columns: int) -> bytes:
        """As `header` without `served`, which each key of a batch has for itself."""
        return self.header(known_columns)[len(_KEY_HIT) :]

    def _renew(self) -> None:
        if self.cache.columns is not self._columns:
            self._columns = self.cache.columns
            self._id = columns_id(column_messages(self._columns))
        self._position = self._system.position()
        # Field 2 comes first when serialised, so that a batch cuts it off.
        common = {"cache": self._name, "position": self._position, "columns_id": self._id}
        self._bare = _KEY_HIT + pb.Answer(**common).SerializeToString()  # type: ignore[arg-type]  # a str and an int
        self._full = self._bare + pb.Answer(columns=column_messages(self._columns)).SerializeToString()


async def within_deadline(context: Context, wait: Awaitable[Result]) -> Result:
    """The answer, or DeadlinePassed if the caller's deadline comes first; the caller's going away cancels this task
    anyway.
    """
    seconds = context.time_remaining()
    try:
        async with asyncio.timeout(seconds):
            return await wait
    except TimeoutError:
        raise DeadlinePassed(f"no answer within the deadline; {seconds:.3f} s were left when MySQL was asked") from None


class UpwellService:
    """The handlers of all methods. `message_limit`: bytes of one request and of one answer. `own_sql`: whether callers
    may send SQL, make caches and drop them; without it they read the caches that exist.

    Requires: the system has the wire format FORMAT, with `encoder_for`, since before its first cache.
    """

    def __init__(self, system: System, message_limit: int, token: str | None = None, *, own_sql: bool = True) -> None:
        self._system = system
        self._own_sql = own_sql
        self._limit = message_limit
        self._authorization = None if token is None else f"Bearer {token}"
        self._open: dict[str, OpenCache] = {}
        self._keys = KeyMemo()
        self._known: dict[bytes, tuple[OpenCache, Parameters, int]] = {}  # requests that were hits; columns_id
        self._freshness = FreshnessMemo()

    # -- hot: caches by name -------------------------------------------------------------------------------------------

    def _opened(self, name: str) -> OpenCache:
        opened = self._open.get(name)
        if opened is None:
            opened = self._open[name] = OpenCache(self._system, name, self._system.open_cache(name, FORMAT))
        return opened

    def _hit(self, name: str, parameters: Parameters) -> bytes | None:
        """`Cache.hit`, also where the cache was dropped and made anew since it was opened."""
        try:
            try:
                return self._opened(name).hit(parameters)
            except UnknownCache:
                self._open.pop(name, None)
                return self._opened(name).hit(parameters)
        except ANSWERED_BY_MYSQL:
            return None

    def known_hit(self, request: bytes) -> bytes | None:
        """The answer to a request that was a hit before and is one again; None: `execute` has to look at it.

        Equal requests have (from one client library) equal bytes, so that nothing needs to be parsed.
        """
        known = self._known.get(request) if len(request) <= KNOWN_LENGTH else None
        if known is None:
            return None
        opened, parameters, columns_id = known
        try:
            body = opened.hit(parameters)
        except UpwellError:  # the cache was dropped, the source is down: `execute` tells
            del self._known[request]
            return None
        return None if body is None else opened.header(columns_id) + body

    async def execute(self, request: bytes, context: Context) -> bytes:
        message = parse_execute(request)
        name = message.cache
        parameters = self._keys[message.key] if len(message.key) <= AT_ONCE else await long_key_parameters(message.key)
        demand = None
        if message.freshness:
            demand = self._demand(message.freshness)
            body = self._hit(name, parameters) if demand.met() else None
        else:
            body = self._hit(name, parameters)
            if body is not None and len(request) <= KNOWN_LENGTH:
                if len(self._known) >= KNOWN_REQUESTS:
                    self._known.clear()
                self._known[request] = self._open[name], parameters, message.columns_id
        if body is not None:
            return self._open[name].header(message.columns_id) + body
        answer = await within_deadline(context, self._read(name, parameters, demand))
        return answer_bytes(answer, message.columns_id)

    def _demand(self, freshness: bytes) -> Demand:
        return self._system.demand(self._freshness[freshness])

    async def _read(self, name: str, parameters: Parameters, demand: Demand | None) -> Answer:
        """`Cache.read`, also where the cache was dropped and made anew since it was opened."""
        try:
            return await self._opened(name).cache.read(parameters, demand)
        except UnknownCache:
            self._open.pop(name, None)
            return await self._opened(name).cache.read(parameters, demand)

    async def execute_batch(self, request: bytes, context: Context) -> bytes:
        message = parse_batch(request)
        keys = message.keys
        if len(keys) > BATCH_KEYS:
            raise Overloaded(f"{len(keys)} keys in one batch: up to {BATCH_KEYS} are accepted")
        parameters = await self._parameters(keys)
        demand = self._demand(message.freshness) if message.freshness else None
        for _ in range(BATCH_TRIES):
            answer = await self._batch(message, parameters, demand, context)
            if answer is not None:
                return answer
            await asyncio.sleep(BATCH_PAUSE)  # what has changed the tables is on its way through the stream
        raise Overloaded(f"cache {message.cache!r} was made or planned anew during each of {BATCH_TRIES} attempts")

    async def _batch(
        self, message: BatchTwin, parameters: Sequence[Parameters], demand: Demand | None, context: Context
    ) -> bytes | None:
        """The whole answer; None where the cache, or its columns, became others meanwhile: one header is for all."""
        try:
            opened = self._opened(message.cache)
            met = demand is None or demand.met()
            bodies = await opened.cache.hit_batch(parameters) if met else [None] * len(parameters)
        except UnknownCache:
            self._open.pop(message.cache, None)
            opened = self._opened(message.cache)
            bodies = await opened.cache.hit_batch(parameters)
        # Nothing has run since the answers were looked up: the header tells their position.
        # First the header, then two parts for each key.
        parts = [opened.batch_header(message.columns_id)]
        columns = names_of(opened.cache.columns)
        missed: list[int] = []
        append = parts.append
        slices = Slices()
        for index, body in enumerate(bodies):
            if index % PARTS_AT_ONCE == 0:
                await slices.turn()
            if body is None:
                missed.append(index)
                body = b""
            append(_hit_heads[len(body)])
            append(body)
        if missed:
            reads = [(message.cache, parameters[index], demand) for index in missed]
            answers = await within_deadline(context, self._key_answers(reads, columns))
            if None in answers or self._opened(message.cache) is not opened:
                return None
            for index, answer in zip(missed, answers, strict=True):
                assert answer is not None
                parts[2 * index + 1] = ANSWER_HEADS[len(answer)]
                parts[2 * index + 2] = answer
        return b"".join(parts)

    async def _parameters(self, keys: Sequence[bytes]) -> list[Parameters]:
        memo = self._keys
        parameters: list[Parameters] = []
        slices = Slices()
        try:
            for first in range(0, len(keys), VALUES_AT_ONCE):
                await slices.turn()
                some = keys[first : first + VALUES_AT_ONCE]
                short = sum(map(len, some)) <= AT_ONCE
                for raw in some:
                    parameters.append(memo[raw] if short else await memo.parsed(raw))
                    if not short:
                        await slices.turn()
        except BadParameters as error:
            raise BadParameters(f"key {len(parameters) + 1} of {len(keys)}: {error}") from error
        return parameters

    async def _key_answers(
        self, reads: Sequence[tuple[str, Parameters, Demand | None]], columns: Sequence[str]
    ) -> list[bytes | None]:
        """The answers of many misses. Some are begun at a time: others have their turn in between."""
        tasks: list[asyncio.Task[bytes | None]] = []
        lists = asyncio.Semaphore(LISTS_AT_ONCE)

        async def answer(cache: str, parameters: Parameters, demand: Demand | None) -> bytes | None:
            async with lists if any(isinstance(value, tuple) for value in parameters) else nullcontext():
                return await self._key_answer(cache, parameters, demand, columns)

        async with asyncio.TaskGroup() as group:
            for number, read in enumerate(reads, 1):
                tasks.append(group.create_task(answer(*read)))
                if number % MISSES_AT_ONCE == 0:
                    await asyncio.sleep(0)
        return [task.result() for task in tasks]

    async def _key_answer(
        self, cache: str, parameters: Parameters, demand: Demand | None, columns: Sequence[str]
    ) -> bytes | None:
        """A serialised KeyAnswer of one miss: its failure fails no other key. None where it has other columns."""
        try:
            answer = await self._read(cache, parameters, demand)
        except Exception as error:  # noqa: BLE001 - the top level of one key's task; logged by as_upwell_error
            return pb.KeyAnswer(failure=failure(as_upwell_error(error))).SerializeToString()
        if names_of(answer.columns) != columns:
            return None
        served, position, horizon = SERVED[answer.served], answer.position, answer.horizon
        head = pb.KeyAnswer(served=served, position=position, why=answer.why, horizon=horizon)
        return head.SerializeToString() + answer.body

    # -- streams -------------------------------------------------------------------------------------------------------

    async def execute_stream(self, requests: AsyncIterator[bytes], context: Context) -> None:
        writing = asyncio.Lock()  # gRPC takes one write of a call at a time
        waiting = asyncio.Semaphore(STREAM_MISSES)

        async def send(id: int, outcome: bytes) -> None:
            async with writing:
                await context.write(b"\x08" + varint(id) + outcome)

        async def miss(message: StreamTwin, parameters: Parameters, demand: Demand | None) -> None:
            try:
                outcome = await self._stream_miss(message, parameters, demand)
            finally:
                waiting.release()
            await send(message.id, outcome)

        async with asyncio.TaskGroup() as misses:
            async for request in requests:
                message = parse_stream(request)
                try:
                    self._check_size(len(request), "request")
                    parameters = await self._keys.parsed(message.key)
                    demand = self._demand(message.freshness) if message.freshness else None
                    body = self._hit(message.cache, parameters) if demand is None or demand.met() else None
                except UpwellError as error:
                    await send(message.id, stream_failure(error))
                    continue
                if body is not None:
                    await send(message.id, stream_answer(self._open[message.cache].header(message.columns_id) + body))
                    continue
                await waiting.acquire()
                misses.create_task(miss(message, parameters, demand))

    async def _stream_miss(self, message: StreamTwin, parameters: Parameters, demand: Demand | None) -> bytes:
        try:
            answer = await self._read(message.cache, parameters, demand)
        except Exception as error:  # noqa: BLE001 - the top level of one request's task; logged by as_upwell_error
            return stream_failure(error)
        return stream_answer(answer_bytes(answer, message.columns_id))

    async def subscribe(self, request: bytes, context: Context) -> None:
        message = parse_subscribe(request)
        parameters = await long_key_parameters(message.key)
        columns: tuple[ResultColumn, ...] = ()
        encode = encoder_for(columns)
        async with aclosing(self._system.subscribe(message.cache, parameters)) as events:
            async for event in events:
                if event.snapshot:  # the cache may be another one than when it was last opened here
                    columns = self._system.open_cache(message.cache, FORMAT).info.columns
                    encode = encoder_for(columns)
                data = await event_bytes(event, columns, encode)
                self._check_size(len(data), "event")
                try:
                    async with asyncio.timeout(SLOW_SUBSCRIBER_SECONDS):
                        await context.write(data)
                except TimeoutError:
                    raise Overloaded(
                        f"slow subscriber: one event was not taken in {SLOW_SUBSCRIBER_SECONDS:.0f} s; subscribe again"
                    ) from None

    # -- the rest ------------------------------------------------------------------------------------------------------

    def _check_own_sql(self, what: str) -> None:
        if not self._own_sql:
            raise NotPermitted(f"{what} is switched off here (--grpc-query=off): caches that exist can be read by name")

    async def query(self, request: bytes, context: Context) -> bytes:
        self._check_own_sql("Query")
        message = parse_query(request)
        parameters = await long_parameters(message.parameters)
        freshness = freshness_asked(message.freshness) if message.HasField("freshness") else None
        wait = self._system.query(message.sql, message.database, parameters, FORMAT, freshness)
        answer = await within_deadline(context, wait)
        if len(answer.columns) >= COLUMNS_AT_ONCE:
            return await wide_answer_bytes(answer, COLUMNS_AT_ONCE)
        return answer_bytes(answer, 0)

    async def create_cache(self, request: bytes, context: Context) -> bytes:
        self._check_own_sql("CreateCache")
        message = pb.CreateCacheRequest.FromString(request)
        info = await self._system.create_cache(message.name, message.sql, message.database)
        return pb.CreateCacheResponse(cache=cache_message(info)).SerializeToString()

    async def drop_cache(self, request: bytes, context: Context) -> bytes:
        self._check_own_sql("DropCache")
        name = pb.DropCacheRequest.FromString(request).name
        await self._system.drop_cache(name)
        self._open.pop(name, None)
        return pb.DropCacheResponse().SerializeToString()

    async def list_caches(self, request: bytes, context: Context) -> bytes:
        pb.ListCachesRequest.FromString(request)
        caches = [cache_message(info) async for info in in_slices(await self._system.list_caches())]
        return pb.ListCachesResponse(caches=caches).SerializeToString()

    async def explain_cache(self, request: bytes, context: Context) -> bytes:
        message = pb.ExplainCacheRequest.FromString(request)
        if message.sql:
            self._check_own_sql("ExplainCache of a text")
        text, graphviz = await self._system.explain(message.name, message.sql, message.database)
        return pb.ExplainCacheResponse(text=text, graphviz=graphviz).SerializeToString()

    async def status(self, request: bytes, context: Context) -> bytes:
        pb.StatusRequest.FromString(request)
        status = self._system.status()
        fields = {name: getattr(status, name) for name in pb.StatusResponse.DESCRIPTOR.fields_by_name}
        return pb.StatusResponse(**fields).SerializeToString()

    # -- around every call ---------------------------------------------------------------------------------------------

    def handlers(self) -> grpc.GenericRpcHandler[bytes, bytes]:
        """All methods, taking and giving bytes."""
        unary = {
            "CreateCache": self.create_cache,
            "DropCache": self.drop_cache,
            "ListCaches": self.list_caches,
            "ExplainCache": self.explain_cache,
            "Query": self.query,
            "ExecuteBatch": self.execute_batch,
            "Status": self.status,
        }
        methods = {name: grpc.unary_unary_rpc_method_handler(self._unary(call)) for name, call in unary.items()}
        methods["Execute"] = grpc.unary_unary_rpc_method_handler(self._unary(self.execute, self.known_hit))
        methods["ExecuteStream"] = grpc.stream_stream_rpc_method_handler(self._streaming(self.execute_stream))
        methods["Subscribe"] = grpc.unary_stream_rpc_method_handler(self._streaming(self.subscribe))
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def _unary(
        self,
        call: Callable[[bytes, Context], Awaitable[bytes]],
        at_once: Callable[[bytes], bytes | None] = lambda request: None,
    ) -> Callable[[bytes, Context], Awaitable[bytes]]:
        """A handler around a call; `at_once` may have the answer without it."""
        limit = self._limit
        authorization = self._authorization

        async def handler(request: bytes, context: Context) -> bytes:
            try:
                if authorization is not None:
                    self._check_token(context)
                if len(request) > limit:
                    self._check_size(len(request), "request")
                answer = at_once(request)
                if answer is None:
                    answer = await call(request, context)
                if len(answer) > limit:
                    self._check_size(len(answer), "answer")
                return answer
            except Exception as error:  # noqa: BLE001 - a call's top level; logged by as_upwell_error
                return await abort(context, error)

        return handler

    def _streaming(self, call: Any) -> Any:
        async def handler(request: Any, context: Context) -> None:
            try:
                if self._authorization is not None:
                    self._check_token(context)
                if isinstance(request, bytes):
                    self._check_size(len(request), "request")
                await call(request, context)
            except ExceptionGroup as group:  # of execute_stream's tasks and its reading
                await abort(context, group.exceptions[0])
            except Exception as error:  # noqa: BLE001 - a call's top level; logged by as_upwell_error
                await abort(context, error)

        return handler

    def _check_size(self, size: int, what: str) -> None:
        if size > self._limit:
            raise MessageTooLarge(f"{what} of {size} bytes: up to {self._limit} are accepted (--max-message-size)")

    def _check_token(self, context: Context) -> None:
        for key, value in context.invocation_metadata() or ():
            if key == "authorization":
                given = value if isinstance(value, bytes) else value.encode()
                if hmac.compare_digest(given, str(self._authorization).encode()):
                    return
                raise Unauthenticated(f"the token is not this proxy's: {WHO_MAY_CALL}")
        raise Unauthenticated(f"no credentials: {WHO_MAY_CALL}")


def names_of(columns: Sequence[ResultColumn]) -> list[str]:
    """By which the values of rows are told, each of which says its type itself. What is computed is named by its text,
    values included: nothing of it counts but its place."""
    return [column.name if column.table else "" for column in columns]


async def abort(context: Context, error: Exception) -> NoReturn:
    """Ends the call with the error's status."""
    shown = as_upwell_error(error)
    await context.abort(status_code(shown), sentence(shown), trailing_metadata(shown))
    raise AssertionError("abort returns never")
