"""A vtgate that says what a test tells it to: a gRPC server of VStream on a free port of loopback.

A script is the steps of one call. What a real vtgate does rarely is a line here:

 step                      | what is done
---------------------------+--------------------------------------------------------
 a response, or its bytes  | it is sent
 an `asyncio.Event`        | it is waited for
 a function                | waits until it says True
 `Abort(code, text)`       | the call ends with that status
 `END`, or nothing more    | the call ends as if all were well
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from tests.support.vitess_events import LEFT, RIGHT, SERVERS, response, told_where
from tests.support.waiting import until
from vstream import vitess_pb2 as pb


@dataclass(frozen=True)
class Abort:
    code: grpc.StatusCode
    text: str = ""


END = None
Step = pb.VStreamResponse | bytes | asyncio.Event | Callable[[], bool] | Abort | None
Answer = Callable[[pb.VStreamRequest], AsyncIterator[Step]]


def forever() -> bool:
    """The step that waits until the client gives the call up."""
    return False


class ScriptedVtgate:
    """`requests`: what it was asked, call by call. `failures`: what is wrong with a script, not with who reads it.

    Calls without heartbeats are those of who looks only where the shards are. They are no part of the scripts: they
    are told `now`, which grows with what is sent, and counted in `looks`.
    """

    def __init__(self, answer: Answer | None = None) -> None:
        """`answer`: makes the steps of a call; not given: the calls are those of `play`, in turn."""
        self.requests: list[pb.VStreamRequest] = []
        self.looks = 0
        self.now: dict[str, int] = {} if answer else {LEFT: 9, RIGHT: 5}
        self.failures: list[Exception] = []
        self.port = 0
        self._answer = answer or self._next_script
        self._scripts: list[list[Step]] = []
        self._played = 0
        self._server: Any = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def play(self, *steps: Step) -> None:
        """The script of the next call that has none."""
        self._scripts.append(list(steps))

    async def _next_script(self, request: pb.VStreamRequest) -> AsyncIterator[Step]:
        """A call for which there is no script waits for one."""
        number, self._played = self._played, self._played + 1
        await until(lambda: number < len(self._scripts))
        for step in self._scripts[number]:
            yield step

    async def _told_now(self) -> AsyncIterator[Step]:
        for shard, number in list(self.now.items()):
            yield response(*told_where(shard, number, dict.fromkeys(self.now, "current")))
        yield forever

    def _note(self, sent: pb.VStreamResponse) -> None:
        """What a shard has told it has executed."""
        for event in sent.events:
            for told in event.vgtid.shard_gtids:
                numbered = re.fullmatch(f"MySQL56/{SERVERS.get(told.shard, '')}:1-([0-9]+)", told.gtid)
                if numbered is not None and isinstance(before := self.now.get(told.shard), int):
                    self.now[told.shard] = max(before, int(numbered.group(1)))

    async def _stream(self, request: pb.VStreamRequest, context: Any) -> AsyncIterator[pb.VStreamResponse | bytes]:
        looks = request.flags.heartbeat_interval == 0
        if looks:
            self.looks += 1
        else:
            self.requests.append(request)
        try:
            async for step in self._told_now() if looks and self.now else self._answer(request):
                if step is END:
                    return
                if isinstance(step, Abort):
                    await context.abort(step.code, step.text)
                elif isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, pb.VStreamResponse | bytes):
                    if isinstance(step, pb.VStreamResponse) and not looks:
                        self._note(step)
                    yield step
                else:
                    await until(step)
        except (grpc.aio.BaseError, asyncio.CancelledError):  # the call is at its end, whoever has ended it
            raise
        except Exception as error:
            self.failures.append(error)
            raise

    async def start(self, port: int = 0) -> None:
        """`port`: not given: a free one. A server that was stopped is started anew where it was."""
        handler = grpc.unary_stream_rpc_method_handler(
            self._stream,
            request_deserializer=pb.VStreamRequest.FromString,
            response_serializer=lambda sent: sent if isinstance(sent, bytes) else sent.SerializeToString(),
        )
        self._server = grpc.aio.server(options=(("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)))
        methods = grpc.method_handlers_generic_handler("vtgateservice.Vitess", {"VStream": handler})
        self._server.add_generic_rpc_handlers((methods,))
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port or self.port}")
        await self._server.start()

    async def stop(self) -> None:
        """All calls are cut off."""
        await self._server.stop(None)

    def check(self) -> None:
        """All that was written in the scripts was possible, and each was begun."""
        assert not self.failures, self.failures
        assert self._played >= len(self._scripts), f"{self._played} calls, {len(self._scripts)} scripts"


def asked(request: pb.VStreamRequest) -> dict[str, str]:
    """The positions of a request, by shard."""
    return {one.shard: one.gtid for one in request.vgtid.shard_gtids}


@asynccontextmanager
async def vtgate(answer: Answer | None = None, *scripts: Iterable[Step]) -> AsyncIterator[ScriptedVtgate]:
    """One that serves, and is checked at its end."""
    found = ScriptedVtgate(answer)
    for script in scripts:
        found.play(*script)
    await found.start()
    try:
        yield found
    finally:
        await found.stop()
    found.check()
