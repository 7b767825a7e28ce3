"""A fault is what Upwell failed to do although MySQL can. MySQL answers in its place, and no client sees the fault.

There is one place at each edge where a fault becomes MySQL's answer:

| edge | where | what becomes of it |
| --- | --- | --- |
| a cache (hits, keys, encoding, fills) | `guarded`, `Misses._filled` | the key is dropped, the read passes |
| the engine | `dataflow/guard.py` | the reader's keys, or the change's tables, are emptied; waiting reads pass |
| a session over MySQL's protocol | `Session.handle`, `CachedReads._attempt` | the command passes as it came |
| gRPC's `Query` | `Router.query` | the text passes |

Each is counted. It is logged once for each cache and place, with the facts that reproduce it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import structlog

from sqltypes.errors import Fault, InvariantViolated, UpwellError

log = structlog.get_logger("upwell.faults")

TOLD = 1000  # kinds of faults that are remembered as logged

P = ParamSpec("P")
R = TypeVar("R")


def is_fault(error: BaseException) -> bool:
    """Whether the exception is a fault: one that no code raises for a client to see."""
    return isinstance(error, Fault | InvariantViolated) or not isinstance(error, UpwellError)


class Faults:
    """Counts and logs."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self.count = count
        self._told: set[tuple[str, ...]] = set()

    def note(self, edge: str, what: str, error: Exception, **facts: object) -> Fault:
        """A fault at one edge. `what`: the cache, or the text; `facts`: what else makes it happen again."""
        self.count("faults")
        place = _place(error)
        kind = edge, what, type(error).__name__, place
        if kind not in self._told:
            if len(self._told) >= TOLD:
                self._told.clear()
            self._told.add(kind)
            log.error("fault", edge=edge, what=what, place=place, error=repr(error), exc_info=error, **facts)
        if isinstance(error, Fault):
            return error
        return Fault(f"MySQL answers, for Upwell has failed: {type(error).__name__} at {place}")


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    return f"{'/'.join(frames[-1].filename.rsplit('/', 2)[-2:])}:{frames[-1].lineno}" if frames else ""


class Guarded(Protocol):
    def fault(self, error: Exception, *given: object) -> Fault:
        """Notes it, and drops what may be wrong."""
        ...


G = TypeVar("G", bound=Guarded)


def guarded(method: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R]:
    """A method whose faults are raised as `Fault`."""

    @wraps(method)
    def called(self: G, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            if not is_fault(error):
                raise
            raise self.fault(error, *args) from error

    return called
