"""The service `upwell.v1.Upwell`: bytes in, the system's calls, bytes out. The walk of a hit from gRPC starts here.

Requests and answers are bytes on both sides of these handlers. A hit takes four steps without an await: the request as
its twin (`grpc/requests.py`), the key's bytes in a memo, `Cache.hit`, and a kept header before the rows' bytes.
Everything else goes the slower way through messages. `proxy/grpc/server.py` puts the service on a listener.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any, NoReturn, Protocol, TypeVar

import grpc

from proxy.grpc.answers import (
    answer_bytes,
    cache_message,
    event_bytes,
    stream_answer,
    stream_failure,
    wide_answer_bytes,
)
from proxy.grpc.batch import batch
from proxy.grpc.errors import as_upwell_error, sentence, status_code, trailing_metadata
from proxy.grpc.fills import asked_to_fill, audit_bytes, by_of, progress_bytes, progress_message
from proxy.grpc.opened_caches import OpenCache, OpenCaches, Parameters
from proxy.grpc.requests import (
    AT_ONCE,
    VALUES_AT_ONCE,
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
from proxy.grpc.rows import FORMAT, encoder_for, varint
from proxy.loop.slices import Slices, emptied, in_slices
from proxy.port.api import Demand, SubscriptionEvent, System
from sqltypes.errors import (
    BadParameters,
    DeadlinePassed,
    MessageTooLarge,
    NotPermitted,
    Overloaded,
    Unauthenticated,
    UpwellError,
)
from sqltypes.schema import ResultColumn
from upwell.v1 import upwell_pb2 as pb

SERVICE = "upwell.v1.Upwell"
BATCH_KEYS = 20_000
"""The most keys of one ExecuteBatch."""
KNOWN_REQUESTS, KNOWN_LENGTH = 1 << 15, 256
"""How many requests that were hits are known by their bytes, and of how many bytes at most: 20 MiB at worst."""
COLUMNS_AT_ONCE = 200
"""How many columns of an answer are described in one turn of the loop."""
STREAM_MISSES = 1_000
"""How many misses one ExecuteStream may wait for before it stops reading requests."""
SLOW_SUBSCRIBER_SECONDS = 10.0
"""A subscriber that does not take one event in this time is cut off."""

CARRIED = "a call carries it as `authorization: Bearer TOKEN` in its metadata"

Context = grpc.aio.ServicerContext[Any, Any]
Result = TypeVar("Result")


class Timed(Protocol):
    """A call that may have a deadline."""

    def time_remaining(self) -> float | None:
        """Seconds."""
        ...


async def within_deadline(context: Timed, wait: Awaitable[Result]) -> Result:
    """The answer, or DeadlinePassed if the caller's deadline comes first; the caller's going away cancels this task
    anyway.
    """
    seconds = context.time_remaining()
    try:
        async with asyncio.timeout(seconds):
            return await wait
    except TimeoutError:
        raise DeadlinePassed(f"no answer within the deadline; {seconds:.3f} s were left when MySQL was asked") from None


def check_keys(count: int) -> None:
    """Raises Overloaded where a batch has too many."""
    if count > BATCH_KEYS:
        raise Overloaded(f"{count} keys in one batch: up to {BATCH_KEYS} are accepted")


class UpwellService:
    """The handlers of all methods. `message_limit`: bytes of one request and of one answer. `own_sql`: whether callers
    may send SQL, make caches and drop them; without it they read the caches that exist.

    Requires: the system has the wire format FORMAT, with `encoder_for`, since before its first cache.
    """

    def __init__(self, system: System, message_limit: int, token: str | None = None, *, own_sql: bool = True) -> None:
        self._system = system
        self.own_sql = own_sql
        self.message_limit = message_limit
        self._authorization = None if token is None else f"Bearer {token}"
        self.token_is_in = "the file of the proxy's --grpc-token-file"  # for who calls without it
        self._open = OpenCaches(system)
        self._keys = KeyMemo()
        self._known: dict[bytes, tuple[OpenCache, Parameters, int]] = {}  # requests that were hits; columns_id
        self._freshness = FreshnessMemo()

    # -- hot: caches by name -------------------------------------------------------------------------------------------

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

    async def execute(self, request: bytes, context: Timed) -> bytes:
        message = parse_execute(request)
        name = message.cache
        parameters = self._keys[message.key] if len(message.key) <= AT_ONCE else await long_key_parameters(message.key)
        demand = None
        if message.freshness:
            demand = self._demand(message.freshness)
            body = self._open.hit(name, parameters) if demand.met() else None
        else:
            body = self._open.hit(name, parameters)
            if body is not None and len(request) <= KNOWN_LENGTH:
                if len(self._known) >= KNOWN_REQUESTS:
                    self._known.clear()
                self._known[request] = self._open.of(name), parameters, message.columns_id
        if body is not None:
            return self._open.of(name).header(message.columns_id) + body
        answer = await within_deadline(context, self._open.read(name, parameters, demand))
        return answer_bytes(answer, message.columns_id)

    def _demand(self, freshness: bytes) -> Demand:
        return self._system.freshness.demand(self._freshness[freshness])

    async def execute_batch(self, request: bytes, context: Timed) -> bytes:
        message = parse_batch(request)
        keys = message.keys
        check_keys(len(keys))
        parameters = await self._parameters(keys)
        demand = self._demand(message.freshness) if message.freshness else None
        wait = batch(self._open, message.cache, parameters, demand, message.columns_id)
        return await within_deadline(context, wait)

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
                    self.check_size(len(request), "request")
                    parameters = await self._keys.parsed(message.key)
                    demand = self._demand(message.freshness) if message.freshness else None
                    body = self._open.hit(message.cache, parameters) if demand is None or demand.met() else None
                except UpwellError as error:
                    await send(message.id, stream_failure(error))
                    continue
                if body is not None:
                    await send(
                        message.id, stream_answer(self._open.of(message.cache).header(message.columns_id) + body)
                    )
                    continue
                await waiting.acquire()
                misses.create_task(miss(message, parameters, demand))

    async def _stream_miss(self, message: StreamTwin, parameters: Parameters, demand: Demand | None) -> bytes:
        try:
            answer = await self._open.read(message.cache, parameters, demand)
        except Exception as error:  # noqa: BLE001 - the top level of one request's task; logged by as_upwell_error
            return stream_failure(error)
        return stream_answer(answer_bytes(answer, message.columns_id))

    async def followed(self, request: bytes) -> AsyncGenerator[SubscriptionEvent, None]:
        """What happens to the key that a SubscribeRequest names. Raises MalformedRequest, BadParameters,
        MessageTooLarge."""
        self.check_size(len(request), "request")
        message = parse_subscribe(request)
        return self._system.subscribe(message.cache, await long_key_parameters(message.key))

    async def subscribe(self, request: bytes, context: Context) -> None:
        name = parse_subscribe(request).cache
        columns: tuple[ResultColumn, ...] = ()
        encode = encoder_for(columns)
        async with aclosing(await self.followed(request)) as events:
            async for event in events:
                if event.snapshot:  # the cache may be another one than when it was last opened here
                    columns = self._system.caches.open(name, FORMAT).info.columns
                    encode = encoder_for(columns)
                data = await event_bytes(event, columns, encode)
                self.check_size(len(data), "event")
                try:
                    async with asyncio.timeout(SLOW_SUBSCRIBER_SECONDS):
                        await context.write(data)
                except TimeoutError:
                    raise Overloaded(
                        f"slow subscriber: one event was not taken in {SLOW_SUBSCRIBER_SECONDS:.0f} s; subscribe again"
                    ) from None

    # -- large fills ---------------------------------------------------------------------------------------------------

    async def fill(self, requests: AsyncIterator[bytes], context: Context) -> None:
        self.check_own_sql("Fill")
        asked = await asked_to_fill(requests, self.check_size)
        keys = await self._system.fills.held_before(asked.cache, asked.hot) if asked.hot else asked.keys
        try:
            async with aclosing(self._system.fills.fill(asked.cache, keys, asked.by)) as going_on:
                async for progress in going_on:
                    await context.write(progress_bytes(progress))
        finally:
            await emptied(keys or [])

    async def audit(self, request: bytes, context: Context) -> None:
        self.check_own_sql("Audit")
        message = pb.AuditRequest.FromString(request)
        asked = self._system.fills.audit(message.cache, by_of(message.by), repair=message.repair)
        async with aclosing(asked) as going_on:
            async for progress in going_on:
                await context.write(audit_bytes(progress))

    # -- the rest ------------------------------------------------------------------------------------------------------

    def check_own_sql(self, what: str) -> None:
        if not self.own_sql:
            raise NotPermitted(f"{what} is switched off here (--grpc-query=off): caches that exist can be read by name")

    async def query(self, request: bytes, context: Context) -> bytes:
        self.check_own_sql("Query")
        message = parse_query(request)
        parameters = await long_parameters(message.parameters)
        freshness = freshness_asked(message.freshness) if message.HasField("freshness") else None
        wait = self._system.query(message.sql, message.database, parameters, FORMAT, freshness)
        answer = await within_deadline(context, wait)
        if len(answer.columns) >= COLUMNS_AT_ONCE:
            return await wide_answer_bytes(answer, COLUMNS_AT_ONCE)
        return answer_bytes(answer, 0)

    async def create_cache(self, request: bytes, context: Timed) -> bytes:
        self.check_own_sql("CreateCache")
        message = pb.CreateCacheRequest.FromString(request)
        sql, database = message.sql, message.database
        if message.from_query:
            sql, database = await self._system.passed_query(message.from_query)
        info = await self._system.caches.create(message.name, sql, database)
        return pb.CreateCacheResponse(cache=cache_message(info)).SerializeToString()

    async def drop_cache(self, request: bytes, context: Timed) -> bytes:
        self.check_own_sql("DropCache")
        name = pb.DropCacheRequest.FromString(request).name
        await self._system.caches.drop(name)
        self._open.forget(name)
        return pb.DropCacheResponse().SerializeToString()

    async def flush_cache(self, request: bytes, context: Timed) -> bytes:
        self.check_own_sql("FlushCache")
        keys = await self._system.caches.flush(pb.FlushCacheRequest.FromString(request).name)
        return pb.FlushCacheResponse(keys=keys).SerializeToString()

    async def list_caches(self, request: bytes, context: Context) -> bytes:
        pb.ListCachesRequest.FromString(request)
        caches = [cache_message(info) async for info in in_slices(await self._system.caches.listed())]
        return pb.ListCachesResponse(caches=caches).SerializeToString()

    async def explain_cache(self, request: bytes, context: Context) -> bytes:
        message = pb.ExplainCacheRequest.FromString(request)
        if message.sql:
            self.check_own_sql("ExplainCache of a text")
        text, graphviz = await self._system.caches.explain(message.name, message.sql, message.database)
        return pb.ExplainCacheResponse(text=text, graphviz=graphviz).SerializeToString()

    async def status(self, request: bytes, context: Context) -> bytes:
        pb.StatusRequest.FromString(request)
        status = self._system.status()
        fields = {
            name: getattr(status, name) for name in pb.StatusResponse.DESCRIPTOR.fields_by_name if name != "fills"
        }
        fills = [progress_message(progress) for progress in status.fills]
        return pb.StatusResponse(**fields, fills=fills).SerializeToString()

    async def list_settings(self, request: bytes, context: Timed) -> bytes:
        self.check_own_sql("ListSettings")
        pb.ListSettingsRequest.FromString(request)
        settings = [pb.Setting(**asdict(info)) for info in self._system.settings.listed()]
        return pb.ListSettingsResponse(settings=settings).SerializeToString()

    async def set_setting(self, request: bytes, context: Timed) -> bytes:
        self.check_own_sql("SetSetting")
        message = pb.SetSettingRequest.FromString(request)
        info = self._system.settings.set(message.name, message.value if message.HasField("value") else None)
        return pb.SetSettingResponse(setting=pb.Setting(**asdict(info))).SerializeToString()

    # -- around every call ---------------------------------------------------------------------------------------------

    def handlers(self) -> grpc.GenericRpcHandler[bytes, bytes]:
        """All methods, taking and giving bytes."""
        unary = {
            "CreateCache": self.create_cache,
            "DropCache": self.drop_cache,
            "FlushCache": self.flush_cache,
            "ListCaches": self.list_caches,
            "ExplainCache": self.explain_cache,
            "Query": self.query,
            "ExecuteBatch": self.execute_batch,
            "Status": self.status,
            "ListSettings": self.list_settings,
            "SetSetting": self.set_setting,
        }
        methods = {name: grpc.unary_unary_rpc_method_handler(self._unary(call)) for name, call in unary.items()}
        methods["Execute"] = grpc.unary_unary_rpc_method_handler(self._unary(self.execute, self.known_hit))
        methods["ExecuteStream"] = grpc.stream_stream_rpc_method_handler(self._streaming(self.execute_stream))
        methods["Fill"] = grpc.stream_stream_rpc_method_handler(self._streaming(self.fill))
        methods["Audit"] = grpc.unary_stream_rpc_method_handler(self._streaming(self.audit))
        methods["Subscribe"] = grpc.unary_stream_rpc_method_handler(self._streaming(self.subscribe))
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def _unary(
        self,
        call: Callable[[bytes, Context], Awaitable[bytes]],
        at_once: Callable[[bytes], bytes | None] = lambda request: None,
    ) -> Callable[[bytes, Context], Awaitable[bytes]]:
        """A handler around a call; `at_once` may have the answer without it."""
        limit = self.message_limit
        authorization = self._authorization

        async def handler(request: bytes, context: Context) -> bytes:
            try:
                if authorization is not None:
                    self._check_token(context)
                if len(request) > limit:
                    self.check_size(len(request), "request")
                answer = at_once(request)
                if answer is None:
                    answer = await call(request, context)
                if len(answer) > limit:
                    self.check_size(len(answer), "answer")
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
                    self.check_size(len(request), "request")
                await call(request, context)
            except ExceptionGroup as group:  # of execute_stream's tasks and its reading
                await abort(context, group.exceptions[0])
            except Exception as error:  # noqa: BLE001 - a call's top level; logged by as_upwell_error
                await abort(context, error)

        return handler

    def check_size(self, size: int, what: str) -> None:
        if size > self.message_limit:
            raise MessageTooLarge(
                f"{what} of {size} bytes: up to {self.message_limit} are accepted (--max-message-size)"
            )

    async def within_size(
        self, call: Callable[[bytes, Timed], Awaitable[bytes]], request: bytes, context: Timed
    ) -> bytes:
        """The answer, where request and answer are as long as messages may be. Raises as the call, and
        MessageTooLarge."""
        self.check_size(len(request), "request")
        answer = await call(request, context)
        self.check_size(len(answer), "answer")
        return answer

    def _check_token(self, context: Context) -> None:
        found = (value for key, value in context.invocation_metadata() or () if key == "authorization")
        given = next(found, None)
        self.check_token(given.encode() if isinstance(given, str) else given, CARRIED)

    def check_token(self, given: bytes | None, carried: str) -> None:
        """`given`: what a call carries as its authorization; `carried`: how one does that. Raises Unauthenticated."""
        if self.is_open or self.has_token(given):
            return
        wrong = "the token is not this proxy's, which is" if given else "no token: it is"
        raise Unauthenticated(f"{wrong} in {self.token_is_in}; {carried}")

    def has_token(self, given: bytes | None) -> bool:
        """Whether this authorization has the token. Requires: there is one."""
        return given is not None and hmac.compare_digest(given, str(self._authorization).encode())

    @property
    def is_open(self) -> bool:
        """Whether anybody may call, without a token."""
        return self._authorization is None


async def abort(context: Context, error: Exception) -> NoReturn:
    """Ends the call with the error's status."""
    shown = as_upwell_error(error)
    await context.abort(status_code(shown), sentence(shown), trailing_metadata(shown))
    raise AssertionError("abort returns never")
