"""One connection of the HTTP listener: uvicorn's, within limits of bytes and of a client's time.

uvicorn parses requests and runs the application. It has no limit of time for a head, nor for a client that does not
take its answer, and it answers every broken request alike. That is here.
"""

from __future__ import annotations

import logging
import sys
from asyncio import AbstractEventLoop, TimerHandle, Transport
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from proxy.http.kept import Kept

HEAD_BYTES = 16 << 10
CLIENT_SECONDS = 10.0
"""How long a client may take to send the head of a request, and then to take what is written."""
LINGER_SECONDS = 1.0
LINGER_BYTES = 1 << 20
CONNECTIONS = 256
PIECE = 4 << 10  # bytes of a head that are looked at together: it may be so much longer than HEAD_BYTES
PLAIN = (b"content-type", b"text/plain; charset=utf-8")


class Requests(h11.Connection):
    """Without requests of chunks: each chunk, of one byte maybe, takes h11's time."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        if isinstance(event, h11.Request) and any(name == b"transfer-encoding" for name, _ in event.headers):
            raise h11.RemoteProtocolError("the length of a request's body is to be its Content-Length", 411)
        return event


class Connections:
    """Those of a listener that are open. `silent`: those of them whose request is not whole yet, the oldest first.
    `app`: the ASGI application; `full`: that of a connection for which there is no room. `kept`: what slow clients have
    not taken.

    Invariants: 1. at most CONNECTIONS are open and are not being ended.
    """

    def __init__(self, app: Any, full: Any, loop: AbstractEventLoop, kept: Kept) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what fails is told by those who answer
        self.app, self.full, self.loop, self.kept = app, full, loop, kept
        self.open: dict[Connection, None] = {}
        self.silent: dict[Connection, None] = {}
        self.state = ServerState()
        self.config = Config(
            app, http=Connection, ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False,
            proxy_headers=False, server_header=False, date_header=False, h11_max_incomplete_event_size=HEAD_BYTES,
        )  # fmt: skip
        self.config.load()

    def connection(self) -> Connection:
        """The protocol of one more."""
        return Connection(self)

    def has_room(self) -> bool:
        """Whether one more may be served. The connection that has been silent for the longest ends for it."""
        if len(self.open) < CONNECTIONS:
            return True
        oldest = next(iter(self.silent), None)
        if oldest is None:
            return False
        del self.silent[oldest]
        oldest.transport.abort()
        return True


class Connection(H11Protocol):
    """A connection is silent (it waits for a request), or a request of it is being answered. A head may take
    CLIENT_SECONDS, and so may a body: whoever answers sees to that.
    Whatever is written must be taken in CLIENT_SECONDS.

    Invariants: 1. one timer runs at most: while it is silent, while its client does not take what was written, or while
    it ends.
    """

    def __init__(self, all_: Connections) -> None:
        super().__init__(all_.config, all_.state, {"connection": self}, all_.loop)
        self.conn = Requests(h11.SERVER, HEAD_BYTES)
        self._all = all_
        self._timer: TimerHandle | None = None
        self._lingers = False  # it was refused: what still comes is thrown away
        self._left = LINGER_BYTES
        self.kept = 0  # bytes, as Keeping has it

    @property
    def unsent(self) -> int:
        return 0 if self.transport.is_closing() else self.transport.get_write_buffer_size()

    def keep(self, size: int) -> bool:
        """Keeps so many bytes until the response is complete, if there is room for them."""
        if not self._all.kept.has_room(size, self.loop.time()):
            return False
        self.kept += size
        return True

    def leave(self) -> None:
        self.transport.abort()

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _time(self, seconds: float, ended: Callable[[], object]) -> None:
        self._untimed()
        self._timer = self.loop.call_later(seconds, ended)

    def _untimed(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        if not self._all.has_room():
            self.app = self._all.full
        super().connection_made(transport)
        self._all.open[self] = None
        self._all.kept.open[self] = None
        self._is_silent()

    def connection_lost(self, exc: Exception | None) -> None:
        self._untimed()
        self._all.open.pop(self, None)
        self._all.silent.pop(self, None)
        self._all.kept.forget(self)
        super().connection_lost(exc)

    def _is_silent(self) -> None:
        self._all.silent[self] = None
        self._time(CLIENT_SECONDS, self._too_slow)

    def _too_slow(self) -> None:
        if self.transport.get_write_buffer_size():  # it does not even take the last answer
            self.transport.abort()
        else:
            self.refuse(408, f"the request was not there within {CLIENT_SECONDS:.0f} s")

    def data_received(self, data: bytes) -> None:
        for first in range(0, len(data), PIECE):
            if self._lingers:
                self._left -= len(data) - first
                if self._left < 0:
                    self.transport.close()
                return
            super().data_received(data[first : first + PIECE])

    def handle_events(self) -> None:
        super().handle_events()
        if self._answering and self in self._all.silent:
            if not self.flow.write_paused:  # else its client does not take the answer before
                self._untimed()
            if not self.cycle.more_body:
                del self._all.silent[self]

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn's has no answer to half a request
        """A client that has said all may still wait for the answer."""
        if self._lingers:
            return False
        if self._answering:
            self.cycle.keep_alive = False
            return True
        if self.conn.trailing_data[0]:
            self.refuse(400, "the request ended before its head did")
            return True
        return False

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self.kept = 0
        if self.transport.is_closing():
            self._time(CLIENT_SECONDS, self.transport.abort)
            return
        self._is_silent()
        self.flow.resume_reading()
        if self.conn.our_state is h11.DONE and self.conn.their_state is h11.DONE:
            self.conn.start_next_cycle()
            self.handle_events()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._all.kept.has_stalled(self, self.loop.time())
        if not self._lingers:
            self._time(CLIENT_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._all.kept.goes_on(self)
        if self._answering:
            self._untimed()

    def send_400_response(self, msg: str) -> None:
        """uvicorn calls it where it handles h11's error, which says more."""
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        if status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            self.refuse(status, f"the request's head is longer than the {HEAD_BYTES} bytes that are accepted")
        elif status == HTTPStatus.LENGTH_REQUIRED:
            self.refuse(status, str(error))
        else:
            self.refuse(status, f"that is no request of HTTP/1.1: {error}")

    def refuse(self, status: int, sentence: str) -> None:
        """Answers what is no request, and ends the connection. Not at once: closing over unread bytes would reset it,
        answer and all."""
        if self._answering or self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        body = f"{sentence}\n".encode()
        head = [PLAIN, (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
        phrase = HTTPStatus(status).phrase.encode()
        for event in (
            h11.Response(status_code=status, headers=head, reason=phrase),
            h11.Data(body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self._lingers = True
        self._all.silent[self] = None
        self._time(LINGER_SECONDS, self.transport.close)
        self.transport.write_eof()
