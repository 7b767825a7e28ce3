"""Responses that go on: how many there are, and that nothing is left of one whose client has gone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

MOST = 64  # connections are left for others


class Streams:
    """Those of a listener that are open."""

    def __init__(self) -> None:
        self.open = 0

    def check(self) -> None:
        """Raises HTTPException where there are too many."""
        if self.open >= MOST:
            raise HTTPException(503, f"more than {MOST} streams are open")

    def response(self, events: AsyncGenerator[bytes, None]) -> StreamingResponse:
        """A stream of server-sent events."""
        return StreamingResponse(self._counted(events), media_type="text/event-stream")

    async def _counted(self, events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        self.open += 1
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
        finally:
            self.open -= 1
