"""The asyncio client: `upwell.client` with `await`.

    async with Client("127.0.0.1:50051") as upwell:
        story = upwell.cache("story")
        (await story.get(1)).one.title
        async for event in story.subscribe(1):
            ...

Make and use a client on one running event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from types import TracebackType
from typing import Any

import grpc

from upwell import wire
from upwell.errors import DeadlinePassed, UpwellError, from_rpc_error
from upwell.freshness import ANY, NO_TOKEN, Freshness, Token
from upwell.rows import Answer, Event, key_message, row_type
from upwell.token_file import DEFAULT_TARGET, DEFAULT_TIMEOUT
from upwell.v1 import upwell_pb2 as pb

__all__ = ["Answer", "Cache", "Client", "Event", "Freshness", "Session", "UpwellError"]


class Client(wire.Connection):
    """A connection to a proxy: `target` is HOST:PORT, `tls` as `upwell.wire.Tls`, `timeout` in seconds or None.

    `token`: the proxy's token; None: read it from the token file of a proxy that the same user runs on this machine
    (`upwell.token_file`).
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        token: str | None = None,
        tls: wire.Tls = None,
        timeout: float | None = DEFAULT_TIMEOUT,
    ) -> None:
        credentials = wire.credentials(tls)
        if credentials is None:
            channel = grpc.aio.insecure_channel(target, options=wire.CHANNEL_OPTIONS)
        else:
            channel = grpc.aio.secure_channel(target, credentials, options=wire.CHANNEL_OPTIONS)
        super().__init__(channel, target, token, timeout)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection; running calls fail."""
        await self._channel.close(None)

    # -- caches --------------------------------------------------------------------------------------------------------

    def cache(self, name: str) -> Cache:
        """A cache by its name. Whether it exists shows at the first read."""
        return Cache(self, name)

    async def create_cache(
        self, sql: str = "", *, name: str = "", database: str = "", from_query: str = "", timeout: float | None = None
    ) -> pb.Cache:
        """Makes a cache of a SELECT with `?` for its parameters, or of the query that MySQL has answered with this id
        (SHOW PROXIED QUERIES). The same query again gives the cache that exists; with another name it has that name,
        too. Raises CacheExists where the name is another query's."""
        request = pb.CreateCacheRequest(name=name, sql=sql, database=database, from_query=from_query)
        made: pb.Cache = (await self._call("CreateCache", request, timeout)).cache
        return made

    async def drop_cache(self, name: str, *, timeout: float | None = None) -> None:
        await self._call("DropCache", pb.DropCacheRequest(name=name), timeout)

    async def flush_cache(self, name: str, *, timeout: float | None = None) -> int:
        """Empties a cache, which stays, and what it shares with others. How many keys it has held."""
        keys: int = (await self._call("FlushCache", pb.FlushCacheRequest(name=name), timeout)).keys
        return keys

    async def caches(self, *, timeout: float | None = None) -> list[pb.Cache]:
        return list((await self._call("ListCaches", pb.ListCachesRequest(), timeout, read=True)).caches)

    async def explain(
        self, name: str = "", *, sql: str = "", database: str = "", timeout: float | None = None
    ) -> wire.Explanation:
        """The plan of a cache by name, or of a SELECT as it would be cached."""
        request = pb.ExplainCacheRequest(name=name, sql=sql, database=database)
        plan = await self._call("ExplainCache", request, timeout, read=True)
        return wire.Explanation(plan.text, plan.graphviz)

    # -- reads ---------------------------------------------------------------------------------------------------------

    async def query(
        self,
        sql: str,
        parameters: Iterable[object] = (),
        *,
        database: str = "",
        timeout: float | None = None,
        fresh: Freshness | None = None,
    ) -> Answer:
        """Any single read: from a cache where one fits, else MySQL's own answer (`served` says which)."""
        return await self._query(sql, parameters, database, timeout, fresh, NO_TOKEN)

    async def _query(
        self,
        sql: str,
        parameters: Iterable[object],
        database: str,
        timeout: float | None,
        fresh: Freshness | None,
        token: Token,
    ) -> Answer:
        message, asked = token.ask(fresh)
        request = wire.query_request(sql, parameters, database, message)
        answer = wire.answer_from(await self._call("Query", request, timeout, read=True), wire.Shapes())
        token.took(asked, answer.horizon)
        return answer

    def session(self, fresh: Freshness = ANY) -> Session:
        """Reads that show the session's writes and never go back in time. `fresh`: what each read asks for besides."""
        return Session(self, fresh)

    async def status(self, *, timeout: float | None = None) -> pb.StatusResponse:
        status: pb.StatusResponse = await self._call("Status", pb.StatusRequest(), timeout, read=True)
        return status

    async def settings(self, *, timeout: float | None = None) -> list[pb.Setting]:
        """Those of the running proxy, without secrets."""
        return list((await self._call("ListSettings", pb.ListSettingsRequest(), timeout, read=True)).settings)

    async def set(self, name: str, value: str | None, *, timeout: float | None = None) -> pb.Setting:
        """Changes a setting until the proxy ends; None: to what it is without that. Raises BadSetting."""
        request = pb.SetSettingRequest(name=name, value=value)
        setting: pb.Setting = (await self._call("SetSetting", request, timeout)).setting
        return setting

    async def audit(
        self, cache: str = "", *, by: str = "size", repair: bool = False, timeout: float | None = None
    ) -> AsyncGenerator[wire.Audited, None]:
        """Compares the answers that one cache or all of them hold with MySQL, each key at one position. Yields its
        progress, and last for each cache a result with `done`. `repair`: a key that differs becomes a hole. `by`: as
        `Cache.fill`."""
        call = self._audit(wire.audit_request(cache, by, repair=repair), timeout)
        with wire.reading(call) as messages:
            async for message in messages:
                yield wire.audited_from(message)

    # -- calls ---------------------------------------------------------------------------------------------------------

    async def _call(self, name: str, request: object, timeout: float | None, read: bool = False) -> Any:
        """One call. A read is tried again while it may help and the timeout lasts."""
        clock = asyncio.get_running_loop().time
        limit = self._timeout if timeout is None else timeout
        deadline = None if limit is None else clock() + limit
        pauses = wire.backoffs(self._jitter) if read else iter(())
        while True:
            left = None if deadline is None else deadline - clock()
            try:
                return await self._methods[name](request, timeout=left, metadata=self._credentials.metadata())
            except grpc.RpcError as failed:
                error = from_rpc_error(failed)
            pause = next(pauses, None)
            if pause is None or not wire.may_retry(error):
                raise error
            if deadline is not None and clock() + pause >= deadline:
                raise DeadlinePassed(f"no answer within {limit} s; the last error was: {error}") from error
            await asyncio.sleep(pause)


class Cache:
    """A cache by name. Reads take `fresh`: how fresh the answer must be. Without it they give the held answer."""

    def __init__(self, client: Client, name: str, token: Token = NO_TOKEN) -> None:
        self._client = client
        self.name = name
        self._shapes = wire.Shapes()
        self._token = token

    async def get(self, *parameters: object, timeout: float | None = None, fresh: Freshness | None = None) -> Answer:
        """The rows for these parameters, in the order of the query's placeholders."""
        message, asked = self._token.ask(fresh)
        request = wire.execute_request(self.name, parameters, self._shapes, message)
        answer = wire.answer_from(await self._client._call("Execute", request, timeout, read=True), self._shapes)
        self._token.took(asked, answer.horizon)
        return answer

    async def get_many(
        self, keys: Iterable[object], *, timeout: float | None = None, fresh: Freshness | None = None
    ) -> list[Answer]:
        """An answer for each key, in one call. A key is a list or tuple of parameters, or the only parameter itself."""
        return wire.all_answers(await self.try_many(keys, timeout=timeout, fresh=fresh))

    async def try_many(
        self, keys: Iterable[object], *, timeout: float | None = None, fresh: Freshness | None = None
    ) -> list[Answer | UpwellError]:
        """As `get_many`, with the error in the place of each key that failed."""
        message, asked = self._token.ask(fresh)
        request = wire.batch_request(self.name, keys, self._shapes, message)
        batch = await self._client._call("ExecuteBatch", request, timeout, read=True)
        outcomes = wire.batch_from(batch, self._shapes)
        if self._token is not NO_TOKEN:
            self._token.took(asked, wire.horizon_of(outcomes))
        return outcomes

    async def stream(
        self, keys: Iterable[object], *, timeout: float | None = None, fresh: Freshness | None = None
    ) -> AsyncGenerator[tuple[int, Answer | UpwellError], None]:
        """Pipelined reads: (place of the key, answer or error) as they come, in any order. `keys` is read ahead."""
        asked: dict[int, int] = {}
        unsent: list[tuple[int, UpwellError]] = []
        requests = wire.stream_requests(self.name, keys, self._shapes, self._token, fresh, asked, unsent)
        call = self._client._stream(requests, timeout)
        with wire.reading(call) as messages:
            async for message in messages:
                outcome = wire.stream_outcome(message, self._shapes)
                number = asked.pop(message.id)
                if isinstance(outcome, Answer):
                    self._token.took(number, outcome.horizon)
                yield message.id, outcome
        for unsent_key in unsent:
            yield unsent_key

    async def fill(
        self,
        keys: Iterable[object] | None = None,
        *,
        hot: int = 0,
        by: str = "size",
        timeout: float | None = None,
    ) -> AsyncGenerator[wire.Progress, None]:
        """As `upwell.client.Cache.fill`."""
        call = self._client._fill(wire.fill_requests(self.name, keys, by, hot), timeout)
        with wire.reading(call) as messages:
            async for message in messages:
                yield wire.progress_from(message)

    async def subscribe(self, *parameters: object, timeout: float | None = None) -> AsyncGenerator[Event, None]:
        """The rows for these parameters, then every change of them. Raises SubscriptionEnded; close it to stop."""
        call = self._client._subscribe(pb.SubscribeRequest(cache=self.name, key=key_message(parameters)), timeout)
        shape = row_type(())
        with wire.reading(call) as messages:
            async for message in messages:
                event, shape = wire.event_from(message, shape)
                yield event


class Session(wire.SessionParts[Cache]):
    """One user's reads and writes, in order: reads show the user's writes, and never go back in time."""

    def __init__(self, client: Client, fresh: Freshness) -> None:
        super().__init__(fresh, lambda name, token: Cache(client, name, token))
        self._client = client

    async def get(self, name: str, *parameters: object, timeout: float | None = None) -> Answer:
        """As `cache(name).get`."""
        return await self.cache(name).get(*parameters, timeout=timeout)

    async def query(
        self, sql: str, parameters: Iterable[object] = (), *, database: str = "", timeout: float | None = None
    ) -> Answer:
        """As `Client.query`."""
        return await self._client._query(sql, parameters, database, timeout, None, self.token)
