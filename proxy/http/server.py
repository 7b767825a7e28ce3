"""The HTTP listener: `/`, `/metrics`, `/healthz`, `/readyz`, and nothing else.

Four pages of plain text need no framework: asyncio's streams, one request a connection, limits on the head and on a
client's time. It reads no body and speaks no TLS. It shows the texts of queries on loopback, or to a caller with the
gRPC listener's token.

A listener on loopback shows `/` and `/metrics` only to requests whose Host is this machine. A page of another site can
make a browser believe that the site's name is 127.0.0.1 (DNS rebinding); then the Host is that name.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from external_upquery.address import is_loopback
from proxy.http.metrics import CONTENT_TYPE_LATEST, Metrics
from proxy.loop.slices import in_slices
from proxy.port.api import System
from proxy.settings.config import Config
from sqltypes.errors import ConfigError

log = structlog.get_logger("upwell.http")

HEAD_BYTES = 16 << 10
CLIENT_SECONDS = 10.0
"""How long a client may take to send its request, and then to take the answer."""
LINGER_SECONDS = 1.0
LINGER_READS = 64
CONNECTIONS = 256
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
PROBES = frozenset({"/healthz", "/readyz"})
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """A request's head. Header names are lower case; the last of equal ones counts."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Page:
    status: int
    body: bytes
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()
    head_only: bool = False


class BadRequest(Exception):
    """A request that cannot be understood: `status` and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def parse_head(head: bytes) -> Request:
    """The head of a request, up to and with its empty line. Raises BadRequest."""
    try:
        lines = head.decode("ascii").split("\r\n")
    except UnicodeDecodeError:
        raise BadRequest(400, "the request's head is not ASCII") from None
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[0].isalpha():
        raise BadRequest(400, f"{lines[0][:100]!r} is no request line of HTTP/1.1")
    headers = {}
    for line in lines[1:-2]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequest(400, f"{line[:100]!r} is no header")
        headers[name.lower()] = value.strip()
    return Request(words[0], words[1].partition("?")[0], headers)


class HttpListener:
    """The listener from `start` to `stop`.

    Invariants:
    1. Every connection ends within twice CLIENT_SECONDS, and at most CONNECTIONS are open and are not being ended.
    2. `_silent` are those of `_open` whose request is not there yet, the oldest first.
    """

    def __init__(self, system: System, config: Config) -> None:
        self._system = system
        self._listen = config.http_listen
        self._token = config.grpc_token
        self._metrics = Metrics(system)
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._silent: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """Listens; the port. Raises ConfigError where it cannot."""
        host, port = self._listen.host, self._listen.port
        try:
            self._server = await asyncio.start_server(self._connected, host, port, limit=HEAD_BYTES)
        except OSError as error:
            raise ConfigError(f"cannot listen for HTTP on {host}:{port}: {error.strerror}") from None
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self, grace: float) -> None:
        """Takes no new connections, lets answers be taken for `grace` seconds, then ends what is open."""
        if self._server is not None:
            self._server.close()
        for writer in self._silent.values():  # who has asked nothing waits for nothing
            writer.transport.abort()
        if self._open:
            _, late = await asyncio.wait(self._open, timeout=grace)
            # Not cancelled: asyncio's own callback on these tasks trips over a cancelled one.
            for task in late:
                self._open[task].transport.abort()
            await asyncio.gather(*late, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        busy = len(self._open) >= CONNECTIONS and not self._end_silent()
        self._open[task] = self._silent[task] = writer
        try:
            with suppress(ConnectionError, TimeoutError):
                page = await self._page(reader)
                self._silent.pop(task, None)  # not there any more if room was made
                if writer.is_closing():  # the client has gone, or was made to
                    return
                if busy:
                    page = Page(503, f"more than {CONNECTIONS} connections are open\n".encode())
                async with asyncio.timeout(CLIENT_SECONDS):
                    writer.write(render(page))
                    await writer.drain()
                if page.status >= 400:
                    await _discard(reader, writer)
        except Exception as error:  # noqa: BLE001 - a connection's top level
            log.info("connection_failed", why=repr(error))
        finally:
            del self._open[task]
            self._silent.pop(task, None)
            # Not wait_closed: it would wait for a client that does not read.
            writer.close()

    def _end_silent(self) -> bool:
        """Ends the connection that has been silent for the longest, to make room; whether there was one."""
        oldest = next(iter(self._silent), None)
        if oldest is None:
            return False
        self._silent.pop(oldest).transport.abort()
        return True

    async def _page(self, reader: asyncio.StreamReader) -> Page:
        """The answer to the one request of this connection."""
        try:
            async with asyncio.timeout(CLIENT_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            request = parse_head(head)
            page = await self.answer(request)
        except BadRequest as error:
            return Page(error.status, f"{error}\n".encode())
        except asyncio.LimitOverrunError:
            return Page(431, f"the request's head is longer than the {HEAD_BYTES} bytes that are accepted\n".encode())
        except asyncio.IncompleteReadError:
            return Page(400, b"the request ended before its head did\n")
        except TimeoutError:
            return Page(408, f"the request was not there within {CLIENT_SECONDS:.0f} s\n".encode())
        except Exception as error:
            log.error("a page could not be made", exc_info=error)
            return Page(500, b"an internal error; the proxy's log has it\n")
        return replace(page, head_only=request.method == "HEAD")

    async def answer(self, request: Request) -> Page:
        """The page of a request."""
        pages: dict[str, Callable[[Request], Awaitable[Page]]] = {
            "/": self._index, "/metrics": self._metrics_page, "/healthz": _alive, "/readyz": self._ready,
        }  # fmt: skip
        page = pages.get(request.path)
        if page is None:
            return Page(404, f"there is no {request.path}: there are {', '.join(pages)}\n".encode())
        if request.method not in ("GET", "HEAD"):
            return Page(
                405, f"{request.method} is not accepted: GET and HEAD are\n".encode(), headers=(("Allow", "GET, HEAD"),)
            )
        if self._listen.is_loopback and request.path not in PROBES and not _is_for_this_machine(request):
            return Page(421, b"this listener is on loopback: requests for localhost are answered\n")
        return await page(request)

    async def _metrics_page(self, request: Request) -> Page:
        return Page(200, await self._metrics.text(), CONTENT_TYPE_LATEST)

    async def _ready(self, request: Request) -> Page:
        why = self._system.not_ready()
        return Page(503, f"not ready: {why}\n".encode()) if why else Page(200, b"ready\n")

    async def _index(self, request: Request) -> Page:
        """The start page. It shows the texts of queries only to callers that may read them."""
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
        may_read = self._may_read(request)
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
        return Page(200, ("\n".join(lines) + "\n").encode())

    def _may_read(self, request: Request) -> bool:
        if self._listen.is_loopback:
            return True
        given = request.headers.get("authorization", "").encode()
        return self._token is not None and hmac.compare_digest(given, f"Bearer {self._token}".encode())


async def _discard(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads what a refused client still sends: closing over unread bytes would reset the connection, answer and all."""
    async with asyncio.timeout(LINGER_SECONDS):
        writer.write_eof()
        for _ in range(LINGER_READS):
            if not await reader.read(HEAD_BYTES):
                return


def _is_for_this_machine(request: Request) -> bool:
    """By its Host header, if it has one: a browser always sends it."""
    host = request.headers.get("host", "localhost")
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return is_loopback(name)


async def _alive(request: Request) -> Page:
    return Page(200, b"ok\n")


def render(page: Page) -> bytes:
    """The whole answer; the connection closes after it."""
    lines = [
        f"HTTP/1.1 {page.status} {REASONS[page.status]}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *(f"{name}: {value}" for name, value in page.headers),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if page.head_only else page.body)
