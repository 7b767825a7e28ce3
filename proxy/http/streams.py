"""Responses that go on: how many there are, that they end with the listener, and that nothing is left of one whose
client has gone."""

from __future__ import annotations

import asyncio
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncGenerator, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse

from proxy.http.connection import Connection

MOST = 64  # connections are left for others
SILENCE = 5.0  # seconds without an event, after which a client is looked for
NOTHING = b":\n\n"  # a comment


class Streams:
    """Those of a listener that are open."""

    def __init__(self) -> None:
        self.open = 0
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Ends all of them."""
        self._stopping.set()

    def check(self) -> None:
        """Raises HTTPException where there are too many."""
        if self.open >= MOST:
            raise HTTPException(503, f"more than {MOST} streams are open")

    def response(
        self, request: Request, events: AsyncGenerator[Sequence[bytes], None], first: Sequence[bytes] = ()
    ) -> StreamingResponse:
        """A stream of server-sent events, each in one piece or more. They are closed with it. `first`: what comes
        before them. It ends where there is no room to keep an event until its client takes it."""
        going_on = self._going_on(request.state.connection, events, first)
        return StreamingResponse(going_on, media_type="text/event-stream")

    async def _going_on(
        self, connection: Connection, events: AsyncGenerator[Sequence[bytes], None], first: Sequence[bytes]
    ) -> AsyncGenerator[bytes, None]:
        self.open += 1
        ending = asyncio.ensure_future(self._stopping.wait())
        coming = asyncio.ensure_future(anext(events, None))
        try:
            for piece in first:
                yield piece
            while not ending.done():
                waited, _ = await asyncio.wait((coming, ending), timeout=SILENCE, return_when=FIRST_COMPLETED)
                if not waited:
                    yield NOTHING
                elif coming in waited:
                    if (event := coming.result()) is None or not connection.keep(size := sum(map(len, event))):
                        return
                    for piece in event:
                        yield piece
                    connection.kept -= size
                    coming = asyncio.ensure_future(anext(events, None))
        finally:
            self.open -= 1
            ending.cancel()
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)  # what is asked for an event cannot be closed
            await events.aclose()
