"""The service where spans are made: a call's metadata tells to which trace its reads belong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from proxy.grpc.service import Context, UpwellService
from proxy.port.tracing import CALLER, Trace

NAMES = ("traceparent", "tracestate")


class TracedService(UpwellService):
    """Hits of requests that were hits before are answered as without spans."""

    def _unary(
        self,
        call: Callable[[bytes, Context], Awaitable[bytes]],
        at_once: Callable[[bytes], bytes | None] = lambda request: None,
    ) -> Callable[[bytes, Context], Awaitable[bytes]]:
        return super()._unary(_of_caller(call), at_once)

    def _streaming(self, call: Any) -> Any:
        return super()._streaming(_of_caller(call))


def _of_caller(call: Callable[[Any, Context], Awaitable[Any]]) -> Callable[[Any, Context], Awaitable[Any]]:
    async def called(request: Any, context: Context) -> Any:
        CALLER.set(partial(_trace_of, context))
        return await call(request, context)

    return called


def _trace_of(context: Context) -> Trace:
    found = dict(context.invocation_metadata() or ())
    return {name: str(found[name]) for name in NAMES if name in found}
