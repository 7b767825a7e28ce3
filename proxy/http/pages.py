"""What the HTTP listener answers: the page, metrics, probes and `/v1` (docs/http.md). An ASGI application.

It shows the texts of queries on loopback, or to a caller with the gRPC listener's token.

A listener on loopback shows all but the two probes only to requests whose Host is this machine. A page of another site
can make a browser believe that the site's name is 127.0.0.1 (DNS rebinding); then the Host is that name.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from functools import cache
from pathlib import Path

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from proxy.access.watch import MISS, PASSED
from proxy.grpc.service import UpwellService
from proxy.http.calls import Calls
from proxy.http.connection import CLIENT_SECONDS, CONNECTIONS
from proxy.http.errors import failed, refused
from proxy.http.live import Live
from proxy.http.metrics import CONTENT_TYPE_LATEST, Metrics
from proxy.http.rights import Rights, is_for_this_machine
from proxy.http.streams import Streams
from proxy.loop.slices import in_slices
from proxy.port.api import System
from proxy.port.overview import ACCESS_HOURS, NotTold
from sqltypes.errors import UnknownCache

log = structlog.get_logger("upwell.http")

BODY_BYTES = 128 << 10  # so much JSON is read in 3 ms, in one step
OUTCOMES = ("", MISS, PASSED)
PROBES = frozenset({"/healthz", "/readyz"})
PAGE = Path(__file__).with_name("page")
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)
"""A browser loads nothing from elsewhere for the page, and sends nothing elsewhere."""
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


def application(system: System, service: UpwellService, streams: Streams, *, loopback: bool) -> ASGIApp:
    """All pages, and what is around each of them. `service`: of the gRPC listener. `loopback`: whether this listener is
    there."""
    rights = Rights(service, loopback)
    pages, looks = Pages(system, rights), Looks(system, rights, Live(system.overviews), streams)
    routes = [
        Route("/", pages.index),
        Route("/page/{file}", part_of_page),
        Route("/metrics", pages.metrics),
        Route("/healthz", pages.alive),
        Route("/readyz", pages.ready),
        Route("/v1/overview", looks.overview),
        Route("/v1/live", looks.live),
        Route("/v1/reads", looks.reads),
        Route("/v1/access", looks.access),
        Route("/v1/caches/{name:path}/plan", looks.plan),
        *Calls(system, service, streams, rights).routes(),
    ]
    there = ", ".join(dict.fromkeys(route.path.replace(":path", "") for route in routes))

    async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
        raise HTTPException(404, f"there is no {scope['path']}: there are {there}")

    return Around(Router(routes, redirect_slashes=False, default=not_found), loopback=loopback)


async def full(scope: Scope, receive: Receive, send: Send) -> None:
    """The application of a connection for which there is no room."""
    response = told(503, f"more than {CONNECTIONS} connections are open")
    response.headers["connection"] = "close"
    await response(scope, receive, send)


def told(status: int, sentence: str, **headers: str) -> Response:
    return PlainTextResponse(f"{sentence}\n", status, headers)


def printable(text: str) -> str:
    """Lines without what a terminal would obey."""
    return "".join(letter if letter == "\n" or letter.isprintable() else " " for letter in text)


class Around:
    """What holds for every request: its Host, its body, the headers of its answer, and what failures tell."""

    def __init__(self, inner: ASGIApp, *, loopback: bool) -> None:
        self._inner, self._loopback = inner, loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # so Starlette's routes raise what they refuse
        begun = False

        async def answer(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        try:
            body = await _body(receive)
            if self._loopback and scope["path"] not in PROBES and not is_for_this_machine(Request(scope)):
                raise HTTPException(421, "this listener is on loopback: requests for localhost are answered")
            await self._inner(scope, _first(body, receive), answer)
        except ClientDisconnect:
            return
        except Exception as error:
            if begun:
                log.info("connection_failed", why=repr(error))
                raise
            await refusal(error, as_json=scope["path"].startswith("/v1/"))(scope, receive, answer)


def refusal(error: Exception, *, as_json: bool) -> Response:
    if as_json and not isinstance(error, HTTPException):
        return failed(error)
    if isinstance(error, HTTPException):
        sentence = error.detail
        if error.status_code == 405:
            sentence = f"accepted are {', '.join(sorted((error.headers or {}).get('Allow', '').split(', ')))}"
        make = refused if as_json else told
        return make(error.status_code, sentence, **dict(error.headers or {}))
    log.error("a page could not be made", exc_info=error)
    return told(500, "an internal error; the proxy's log has it")


async def _body(receive: Receive) -> bytes:
    """The request's body, read whole before anything is answered: a connection that closes over unread bytes would be
    reset, answer and all. Raises ClientDisconnect, HTTPException."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(CLIENT_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                size += len(message["body"])
                if size <= BODY_BYTES:
                    parts.append(message["body"])
                if not message["more_body"]:
                    break
    except TimeoutError:
        raise HTTPException(408, f"the request was not there within {CLIENT_SECONDS:.0f} s") from None
    if size > BODY_BYTES:
        raise HTTPException(413, f"a body of {size} bytes: up to {BODY_BYTES} are accepted")
    return b"".join(parts)


def _first(body: bytes, receive: Receive) -> Receive:
    """Gives the body, then what comes behind it."""
    given = False

    async def next_() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_


class Looks:
    """What people see of the proxy, as JSON, once and as it goes on."""

    def __init__(self, system: System, rights: Rights, live: Live, streams: Streams) -> None:
        self._system, self._rights, self._live, self._streams = system, rights, live, streams

    async def overview(self, request: Request) -> Response:
        moment = await self._live.now()
        body = await moment.whole(texts=self._rights.may_read(request))
        return Response(body, media_type="application/json")

    async def live(self, request: Request) -> Response:
        self._streams.check()
        return self._streams.response(request, self._live.events(texts=self._rights.may_read(request)))

    async def reads(self, request: Request) -> Response:
        cache, outcome = (request.query_params.get(name, "") for name in ("cache", "outcome"))
        if outcome not in OUTCOMES:
            raise HTTPException(400, f"outcome={outcome}: miss and passed are accepted")
        if cache and self._system.caches.find(cache) is None:
            raise HTTPException(404, f"there is no cache {cache!r}")
        self._streams.check()
        watched = self._system.watching.watched(cache, outcome)
        told = self._live.reads(watched, texts=self._rights.may_read(request))
        return self._streams.response(request, told, await anext(told))

    async def access(self, request: Request) -> Response:
        """What the access log says. It has keys, which are data: for those who may read texts."""
        hours = request.query_params.get("hours", "24")
        if hours not in map(str, ACCESS_HOURS):
            raise HTTPException(400, f"hours={hours}: {', '.join(map(str, ACCESS_HOURS))} are accepted")
        charts = self._system.overviews.charts
        if charts is None:
            raise HTTPException(404, "no reads are logged: --access-log names the folder of a log")
        if not self._rights.may_read(request):
            raise HTTPException(401, "the access log has keys: it is shown with `Authorization: Bearer TOKEN`")
        try:
            return Response(await charts.look(float(hours)), media_type="application/json")
        except NotTold as error:
            raise HTTPException(503, str(error)) from None

    async def plan(self, request: Request) -> Response:
        if not self._rights.may_read(request):
            raise HTTPException(401, "a plan has the text of its query: it is shown with `Authorization: Bearer TOKEN`")
        try:
            text, graph = self._system.overviews.plan(request.path_params["name"])
        except UnknownCache as error:
            raise HTTPException(404, str(error)) from None
        nodes, edges = ([asdict(one) for one in some] for some in (graph.nodes, graph.edges))
        return JSONResponse({"text": text, "nodes": nodes, "edges": edges})


@cache
def parts() -> dict[str, tuple[bytes, str]]:
    """What the page for browsers is made of, by the name of its file: the bytes and their type."""
    found = [path for path in sorted(PAGE.iterdir()) if path.suffix in TYPES]
    return {path.name: (path.read_bytes(), TYPES[path.suffix]) for path in found}


async def part_of_page(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in parts():
        raise HTTPException(404, f"there is no {request.url.path}")
    body, kind = parts()[name]
    return Response(body, media_type=kind, headers={"content-security-policy": POLICY})


class Pages:
    """The pages for people, scrapers and balancers."""

    def __init__(self, system: System, rights: Rights) -> None:
        self._system, self._rights = system, rights
        self._metrics = Metrics(system)

    async def metrics(self, request: Request) -> Response:
        return Response(await self._metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def alive(self, request: Request) -> Response:
        return told(200, "ok")

    async def ready(self, request: Request) -> Response:
        why = self._system.not_ready()
        return told(503, f"not ready: {why}") if why else told(200, "ready")

    async def index(self, request: Request) -> Response:
        """The start page: for a browser it is drawn (`proxy/http/page/`), for others a text. It shows the texts of
        queries only to callers that may read them."""
        if "text/html" in request.headers.get("accept", ""):
            request.path_params["file"] = "index.html"
            return await part_of_page(request)
        status = self._system.status()
        caches = await self._system.caches.listed()
        lines = [
            f"Upwell {status.version} beside {status.address} ({'up' if status.source_up else 'down'})",
            "",
            "/metrics   for Prometheus",
            "/healthz   200 while the process answers",
            "/readyz    200 while callers can be served",
            "",
            f"{len(caches)} caches; {status.memory_bytes} of {status.memory_limit} bytes held; hits {status.hits},"
            f" misses {status.misses}, passed {status.passed}, hit rate {status.hit_rate:.1%}",
        ]
        may_read = self._rights.may_read(request)
        async for info in in_slices(caches):
            lines += [
                "",
                f"{info.name}  {info.mode}, {info.state}  keys {info.keys}  hits {info.hits}  misses {info.misses}"
                f"  passed {info.passed}{f' ({info.passed_reason})' if info.passed_reason else ''}",
            ]
            if may_read:
                lines += ["    " + line for line in info.sql.splitlines()]
        if caches and not may_read:
            lines += ["", "The queries' texts are shown with `Authorization: Bearer TOKEN`."]
        return told(200, printable("\n".join(lines)))
