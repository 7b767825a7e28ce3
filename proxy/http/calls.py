"""`/v1/caches`: reads, subscriptions, and caches made and dropped, for curl and the page's button.

They are gRPC's calls by other words: the service of the gRPC listener has the same rules, limits and answers.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from proxy.grpc.errors import as_upwell_error
from proxy.grpc.rows import FORMAT, length_delimited
from proxy.grpc.service import UpwellService, check_keys
from proxy.http.errors import error_of, failed
from proxy.http.kept import check_room
from proxy.http.pieces import STEP, Cut, cut, in_pieces, rows_written, spelled_rows
from proxy.http.rights import Rights
from proxy.http.spelled import Spelling, key_of_json, key_of_texts, of_wire, seconds, text
from proxy.http.streams import Streams
from proxy.loop.slices import in_slices, run_in_slices
from proxy.port.api import SubscriptionEvent, System
from proxy.port.tracing import CALLER, Trace
from sqltypes.errors import BadParameters, MalformedRequest
from upwell.v1 import upwell_pb2 as pb

SERVED = {pb.HIT: "hit", pb.MISS: "miss", pb.PASSED: "passed", pb.SERVED_UNSPECIFIED: ""}
FRESHNESS: Mapping[str, tuple[Callable[[Any], object], str]] = {
    "min_gtid": (str, "a text"),
    "not_before": (str, "a text"),
    "max_staleness": (seconds, "a number"),
    "wait": (seconds, "a number"),
    "otherwise": ({"pass": pb.PASS, "fail": pb.FAIL}.__getitem__, "pass or fail"),
}
"""What makes them of a text or of JSON, and what that is to be."""
KEY = "key"
JSON = "application/json"
TRACE = ("traceparent", "tracestate")
KEYS = length_delimited(0x12)  # those of an ExecuteBatchRequest

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Within:
    """How long a call may take, as the service asks for it."""

    seconds: float = 30.0

    def time_remaining(self) -> float:
        return self.seconds


class Calls:
    def __init__(self, system: System, service: UpwellService, streams: Streams, rights: Rights) -> None:
        self._system, self._service, self._streams, self._rights = system, service, streams, rights

    def routes(self) -> list[Route]:
        """Those that are read by name come behind `/v1/caches/NAME/...`."""
        return [
            Route("/v1/caches", self._guarded(self._create), methods=["POST"]),
            Route("/v1/caches/{name:path}/changes", self._guarded(self._changes, {KEY})),
            Route("/v1/caches/{name:path}", self._guarded(self._one, {KEY, *FRESHNESS})),
            Route("/v1/caches/{name:path}", self._guarded(self._many), methods=["POST"]),
            Route("/v1/caches/{name:path}", self._guarded(self._drop), methods=["DELETE"]),
        ]

    def _guarded(self, endpoint: Endpoint, names: Collection[str] = ()) -> Endpoint:
        """With the token, and with errors as the service has them. `names`: of parameters that its address may have."""

        async def guarded(request: Request) -> Response:
            try:
                self._rights.check(request)
                _check_names([name for name, _ in request.query_params.multi_items()], names)
                CALLER.set(partial(_trace_of, request))
                return await endpoint(request)
            except HTTPException:
                raise
            except Exception as error:  # noqa: BLE001 - a call's top level; logged by as_upwell_error
                return failed(error)

        return guarded

    # -- reads ---------------------------------------------------------------------------------------------------------

    async def _one(self, request: Request) -> Response:
        """`?key=7`, with a `key` for each parameter."""
        name = request.path_params["name"]
        key = self._key(request, name)
        message = pb.ExecuteRequest(cache=name, key=key, freshness=_freshness(request.query_params))
        answer = await self._service.within_size(self._service.execute, message.SerializeToString(), Within())
        size, found = len(answer), await run_in_slices(cut(answer))
        head = pb.Answer.FromString(found.rest)
        told: dict[str, object] = {"cache": head.cache, "served": SERVED[head.served], "position": head.position}
        told |= {name: value for name, value in (("why", head.why), ("horizon", head.horizon)) if value}
        told["columns"] = _columns(head.columns)
        return await _json(request, size, _around(told, "rows", rows_written(found.parts)))

    def _key(self, request: Request, name: str) -> pb.Key:
        given = request.query_params.getlist("key")
        return key_of_texts(given, self._system.caches.open(name, FORMAT).parameters)

    async def _many(self, request: Request) -> Response:
        """`{"keys": [...]}`."""
        asked = await _object(request, {"keys": list, "freshness": dict})
        name = request.path_params["name"]
        given, freshness = asked.get("keys", []), asked.get("freshness", {})
        check_keys(len(given))
        _check_names(freshness, FRESHNESS)
        message = pb.ExecuteBatchRequest(cache=name, freshness=_freshness(freshness)).SerializeToString()
        keys = [key_of_json(key).SerializeToString() async for key in in_slices(given)]
        message += b"".join([KEYS[len(key)] + key for key in keys])
        answer = await self._service.within_size(self._service.execute_batch, message, Within())
        size, found = len(answer), await run_in_slices(cut(answer))
        head = pb.BatchAnswer.FromString(found.rest)
        told = {"cache": head.cache, "position": head.position, "columns": _columns(head.columns)}
        return await _json(request, size, _around(told, "answers", _answers(found.parts)))

    # -- subscriptions -------------------------------------------------------------------------------------------------

    async def _changes(self, request: Request) -> Response:
        name = request.path_params["name"]
        key = self._key(request, name)
        self._streams.check()
        events = await self._service.followed(pb.SubscribeRequest(cache=name, key=key).SerializeToString())
        first = await anext(events, None)  # what cannot be subscribed to fails here
        return self._streams.response(request, self._told(name, first, events))

    async def _told(
        self, name: str, first: SubscriptionEvent | None, events: AsyncGenerator[SubscriptionEvent, None]
    ) -> AsyncGenerator[Sequence[bytes], None]:
        spelling, event = Spelling(()), first
        async with aclosing(events):
            try:
                while event is not None:
                    if event.snapshot:
                        spelling = Spelling(self._system.caches.open(name, FORMAT).columns)
                    parts = [part async for part in in_pieces(_event(event, spelling))]
                    self._service.check_size(sum(map(len, parts)), "event")
                    yield parts
                    event = await anext(events, None)
            except Exception as error:  # noqa: BLE001 - the stream's top level; logged by as_upwell_error
                yield [_end(error_of(as_upwell_error(error)))]

    # -- caches --------------------------------------------------------------------------------------------------------

    async def _create(self, request: Request) -> Response:
        """`{"sql": ..., "name": ..., "database": ...}`."""
        asked = await _object(request, {"sql": str, "name": str, "database": str})
        message = pb.CreateCacheRequest(**asked)
        made = pb.CreateCacheResponse.FromString(
            await self._service.create_cache(message.SerializeToString(), Within())
        ).cache
        shown = {name: getattr(made, name) for name in ("name", "sql", "database", "mode", "state", "why")}
        return JSONResponse(shown, 201)

    async def _drop(self, request: Request) -> Response:
        message = pb.DropCacheRequest(name=request.path_params["name"])
        await self._service.drop_cache(message.SerializeToString(), Within())
        return Response(status_code=204)


async def _json(request: Request, size: int, written: Iterator[bytes]) -> Response:
    """An answer of one piece as it is; one of more is written piece by piece, as its client takes it. `size`: bytes of
    what it is made of, which are kept meanwhile."""
    pieces = in_pieces(written)
    first = await anext(pieces)
    if (second := await anext(pieces, None)) is None:
        return Response(first, media_type=JSON)
    check_room(request, size)

    async def all_of_it() -> AsyncGenerator[bytes, None]:
        yield first
        yield second
        async for piece in pieces:
            yield piece

    return StreamingResponse(all_of_it(), media_type=JSON)


def _around(told: Mapping[str, object], name: str, listed: Iterator[bytes]) -> Iterator[bytes]:
    """An object with one more member: a list."""
    yield f'{text(told)[:-1]},"{name}":['.encode()
    yield from listed
    yield b"]}"


def _answers(answers: deque[memoryview]) -> Iterator[bytes]:
    comma = b""
    while answers:
        answer = answers.popleft()
        yield comma
        yield from _small_answer(answer) if len(answer) <= STEP else _large_answer(answer)
        comma = b","


def _small_answer(answer: memoryview) -> Iterator[bytes]:
    found = pb.KeyAnswer.FromString(bytes(answer))
    if found.HasField("failure"):
        failure = found.failure
        told = {"reason": failure.reason, "message": failure.message}
        yield text({"error": told | {"errno": failure.errno, "sqlstate": failure.sqlstate}}).encode()
    else:
        rows = (b"," * (at > 0) + text(of_wire(row)).encode() for at, row in enumerate(found.rows))
        yield from _around(_of_key(found), "rows", rows)


def _large_answer(answer: memoryview) -> Iterator[bytes]:
    """Without a failure, which is short."""
    cutting: Generator[None, None, Cut] = cut(answer)
    while True:
        try:
            next(cutting)
        except StopIteration as ended:
            found: Cut = ended.value
            break
        yield b""
    yield from _around(_of_key(pb.KeyAnswer.FromString(found.rest)), "rows", rows_written(found.parts))


def _of_key(answer: pb.KeyAnswer) -> dict[str, object]:
    told: dict[str, object] = {"served": SERVED[answer.served]}
    more = (("position", answer.position), ("why", answer.why), ("horizon", answer.horizon))
    return told | {name: value for name, value in more if value}


def _trace_of(request: Request) -> Trace:
    """A request that has one of them several times has a list, as W3C says."""
    given = {name: ",".join(request.headers.getlist(name)) for name in TRACE}
    return {name: value for name, value in given.items() if value}


def _columns(columns: Any) -> list[dict[str, str]]:
    return [{"name": column.name, "type": column.type.name} for column in columns]


def _freshness(given: Mapping[str, Any]) -> pb.Freshness | None:
    """As texts or as JSON. Raises BadParameters."""
    found = pb.Freshness()
    for name, (make, accepted) in FRESHNESS.items():
        if name in given:
            try:
                setattr(found, name, make(given[name]))
            except (TypeError, ValueError, ArithmeticError, LookupError):
                raise BadParameters(f"{name} {given[name]!r:.200} is not accepted: {accepted} is") from None
    return found if found.ByteSize() else None


def _check_names(given: Iterable[str], accepted: Collection[str]) -> None:
    """Each once; of a key there are several. A name that is misspelled would ask for nothing. Raises BadParameters."""
    seen = set()
    for name in given:
        if name not in accepted or name in seen:
            why = "given twice" if name in seen else f"not known: {', '.join(sorted(accepted)) or 'none'} would be"
            raise BadParameters(f"the parameter {name!r:.200} is {why}")
        if name != KEY:
            seen.add(name)


async def _object(request: Request, accepted: Mapping[str, type]) -> dict[str, Any]:
    """The body, which is a JSON object of such members. Its type must say so: a browser does not let a page of another
    site send that. Raises MalformedRequest."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise MalformedRequest(f"a body of type {kind!r:.100} is not accepted: application/json is")
    try:
        given = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise MalformedRequest(f"the body is no JSON: {error}") from None
    if not isinstance(given, dict) or not all(isinstance(given[name], accepted.get(name, _Unknown)) for name in given):
        shown = ", ".join(f"{name} ({kind.__name__})" for name, kind in accepted.items())
        raise MalformedRequest(f"the body is to be an object with {shown}, or some of these")
    return given


class _Unknown:
    """Nothing is of this type."""


def _event(event: SubscriptionEvent, spelling: Spelling) -> Iterator[bytes]:
    if event.end:
        yield _end({"reason": "subscription_ended", "message": event.end})
        return
    kind, told = "change", f'"position":{text(event.position)}'
    if event.snapshot:
        kind, told = "snapshot", f'{told},"columns":{text(spelling.columns)},"rows":['
    else:
        yield f'event: change\ndata: {{{told},"removed":['.encode()
        yield from spelled_rows(event.removed, spelling)
        told = '],"added":['
    yield (f"event: {kind}\ndata: {{{told}" if event.snapshot else told).encode()
    yield from spelled_rows(event.added, spelling)
    yield b"]}\n\n"


def _end(told: Mapping[str, object]) -> bytes:
    return _written("end", text(told))


def _written(kind: str, data: str) -> bytes:
    return f"event: {kind}\ndata: {data}\n\n".encode()
