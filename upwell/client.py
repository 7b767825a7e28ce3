"""The synchronous client.

    with Client("127.0.0.1:50051") as upwell:
        upwell.create_cache("SELECT id, title FROM stories WHERE id = ?", name="story", database="lobsters")
        story = upwell.cache("story")
        story.get(1).one.title
        story.get_many([1, 2, 3])

Calls raise `upwell.errors`. Every call takes `timeout` in seconds, else the client's own counts. Reads are tried again,
with growing pauses, while nothing answers and the timeout lasts. A client may be used from several threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
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
            channel = grpc.insecure_channel(target, options=wire.CHANNEL_OPTIONS)
        else:
            channel = grpc.secure_channel(target, credentials, options=wire.CHANNEL_OPTIONS)
        super().__init__(channel, target, token, timeout)
        self._wakeup = threading.Event()  # set by close: a pause between attempts ends

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; running calls fail."""
        self._wakeup.set()
        self._channel.close()

    # -- caches --------------------------------------------------------------------------------------------------------

    def cache(self, name: str) -> Cache:
        """A cache by its name. Whether it exists shows at the first read."""
        return Cache(self, name)

    def create_cache(
        self, sql: str = "", *, name: str = "", database: str = "", from_query: str = "", timeout: float | None = None
    ) -> pb.Cache:
        """Makes a cache of a SELECT with `?` for its parameters, or of the query that MySQL has answered with this id
        (SHOW PROXIED QUERIES). The same query again gives the cache that exists; with another name it has that name,
        too. Raises CacheExists where the name is another query's."""
        request = pb.CreateCacheRequest(name=name, sql=sql, database=database, from_query=from_query)
        made: pb.Cache = self._call("CreateCache", request, timeout).cache
        return made

    def drop_cache(self, name: str, *, timeout: float | None = None) -> None:
        self._call("DropCache", pb.DropCacheRequest(name=name), timeout)

    def flush_cache(self, name: str, *, timeout: float | None = None) -> int:
        """Empties a cache, which stays, and what it shares with others. How many keys it has held."""
        keys: int = self._call("FlushCache", pb.FlushCacheRequest(name=name), timeout).keys
        return keys

    def caches(self, *, timeout: float | None = None) -> list[pb.Cache]:
        return list(self._call("ListCaches", pb.ListCachesRequest(), timeout, read=True).caches)

    def explain(
        self, name: str = "", *, sql: str = "", database: str = "", timeout: float | None = None
    ) -> wire.Explanation:
        """The plan of a cache by name, or of a SELECT as it would be cached."""
        request = pb.ExplainCacheRequest(name=name, sql=sql, database=database)
        plan = self._call("ExplainCache", request, timeout, read=True)
        return wire.Explanation(plan.text, plan.graphviz)

    # -- reads ---------------------------------------------------------------------------------------------------------

    def query(
        self,
        sql: str,
        parameters: Iterable[object] = (),
        *,
        database: str = "",
        timeout: float | None = None,
        fresh: Freshness | None = None,
    ) -> Answer:
        """Any single read: from a cache where one fits, else MySQL's own answer (`served` says which)."""
        return self._query(sql, parameters, database, timeout, fresh, NO_TOKEN)

    def _query(
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
        answer = wire.answer_from(self._call("Query", request, timeout, read=True), wire.Shapes())
        token.took(asked, answer.horizon)
        return answer

    def session(self, fresh: Freshness = ANY) -> Session:
        """Reads that show the session's writes and never go back in time. `fresh`: what each read asks for besides."""
        return Session(self, fresh)

    def status(self, *, timeout: float | None = None) -> pb.StatusResponse:
        status: pb.StatusResponse = self._call("Status", pb.StatusRequest(), timeout, read=True)
        return status

    def settings(self, *, timeout: float | None = None) -> list[pb.Setting]:
        """Those of the running proxy, without secrets."""
        return list(self._call("ListSettings", pb.ListSettingsRequest(), timeout, read=True).settings)

    def set(self, name: str, value: str | None, *, timeout: float | None = None) -> pb.Setting:
        """Changes a setting until the proxy ends; None: to what it is without that. Raises BadSetting."""
        request = pb.SetSettingRequest(name=name, value=value)
        setting: pb.Setting = self._call("SetSetting", request, timeout).setting
        return setting

    def audit(
        self, cache: str = "", *, by: str = "size", repair: bool = False, timeout: float | None = None
    ) -> Iterator[wire.Audited]:
        """Compares the answers that one cache or all of them hold with MySQL, each key at one position. Yields its
        progress, and last for each cache a result with `done`. `repair`: a key that differs becomes a hole. `by`: as
        `Cache.fill`."""
        call = self._audit(wire.audit_request(cache, by, repair=repair), timeout)
        with wire.reading(call) as messages:
            for message in messages:
                yield wire.audited_from(message)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _call(self, name: str, request: object, timeout: float | None, read: bool = False) -> Any:
        """One call. A read is tried again while it may help and the timeout lasts."""
        limit = self._timeout if timeout is None else timeout
        deadline = None if limit is None else time.monotonic() + limit
        pauses = wire.backoffs(self._jitter) if read else iter(())
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            try:
                return self._methods[name](request, timeout=left, metadata=self._credentials.metadata())
            except grpc.RpcError as failed:
                error = from_rpc_error(failed)
            pause = next(pauses, None)
            if pause is None or not wire.may_retry(error):
                raise error
            if deadline is not None and time.monotonic() + pause >= deadline:
                raise DeadlinePassed(f"no answer within {limit} s; the last error was: {error}") from error
            self._wakeup.wait(pause)


class Cache:
    """A cache by name. Reads take `fresh`: how fresh the answer must be. Without it they give the held answer."""

    def __init__(self, client: Client, name: str, token: Token = NO_TOKEN) -> None:
        self._client = client
        self.name = name
        self._shapes = wire.Shapes()
        self._token = token

    def get(self, *parameters: object, timeout: float | None = None, fresh: Freshness | None = None) -> Answer:
        """The rows for these parameters, in the order of the query's placeholders."""
        message, asked = self._token.ask(fresh)
        request = wire.execute_request(self.name, parameters, self._shapes, message)
        answer = wire.answer_from(self._client._call("Execute", request, timeout, read=True), self._shapes)
        self._token.took(asked, answer.horizon)
        return answer

    def get_many(
        self, keys: Iterable[object], *, timeout: float | None = None, fresh: Freshness | None = None
    ) -> list[Answer]:
        """An answer for each key, in one call. A key is a list or tuple of parameters, or the only parameter itself."""
        return wire.all_answers(self.try_many(keys, timeout=timeout, fresh=fresh))

    def try_many(
        self, keys: Iterable[object], *, timeout: float | None = None, fresh: Freshness | None = None
    ) -> list[Answer | UpwellError]:
        """As `get_many`, with the error in the place of each key that failed."""
        message, asked = self._token.ask(fresh)
        request = wire.batch_request(self.name, keys, self._shapes, message)
        batch = self._client._call("ExecuteBatch", request, timeout, read=True)
        outcomes = wire.batch_from(batch, self._shapes)
        if self._token is not NO_TOKEN:
            self._token.took(asked, wire.horizon_of(outcomes))
        return outcomes

    def stream(
        self, keys: Iterable[object], *, timeout: float | None = None, fresh: Freshness | None = None
    ) -> Iterator[tuple[int, Answer | UpwellError]]:
        """Pipelined reads: (place of the key, answer or error) as they come, in any order. `keys` is read ahead."""
        asked: dict[int, int] = {}
        unsent: list[tuple[int, UpwellError]] = []
        requests = wire.stream_requests(self.name, keys, self._shapes, self._token, fresh, asked, unsent)
        call = self._client._stream(requests, timeout)
        with wire.reading(call) as messages:
            for message in messages:
                outcome = wire.stream_outcome(message, self._shapes)
                number = asked.pop(message.id)
                if isinstance(outcome, Answer):
                    self._token.took(number, outcome.horizon)
                yield message.id, outcome
        yield from unsent

    def fill(
        self,
        keys: Iterable[object] | None = None,
        *,
        hot: int = 0,
        by: str = "size",
        timeout: float | None = None,
    ) -> Iterator[wire.Progress]:
        """Fills these keys, or `hot` of those held before the proxy's start, or all keys with rows. Yields its
        progress, the last one with `done`. A key is a list or tuple of parameters, or the only parameter itself. `by`:
        direct, spark, or size (Spark for large fills). Closing the iterator ends the fill. Raises CannotFill,
        SparkUnavailable, BadParameters, ..."""
        call = self._client._fill(wire.fill_requests(self.name, keys, by, hot), timeout)
        with wire.reading(call) as messages:
            for message in messages:
                yield wire.progress_from(message)

    def subscribe(self, *parameters: object, timeout: float | None = None) -> Iterator[Event]:
        """The rows for these parameters, then every change of them. Raises SubscriptionEnded; close it to stop."""
        call = self._client._subscribe(pb.SubscribeRequest(cache=self.name, key=key_message(parameters)), timeout)
        shape = row_type(())
        with wire.reading(call) as messages:
            for message in messages:
                event, shape = wire.event_from(message, shape)
                yield event


class Session(wire.SessionParts[Cache]):
    """One user's reads and writes, in order: reads show the user's writes, and never go back in time."""

    def __init__(self, client: Client, fresh: Freshness) -> None:
        super().__init__(fresh, lambda name, token: Cache(client, name, token))
        self._client = client

    def get(self, name: str, *parameters: object, timeout: float | None = None) -> Answer:
        """As `cache(name).get`."""
        return self.cache(name).get(*parameters, timeout=timeout)

    def query(
        self, sql: str, parameters: Iterable[object] = (), *, database: str = "", timeout: float | None = None
    ) -> Answer:
        """As `Client.query`."""
        return self._client._query(sql, parameters, database, timeout, None, self.token)
