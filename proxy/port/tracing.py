"""What is noted of a read on its way, for a span of it. Without spans nobody notes anything, and nobody asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote

from proxy.port.reasons import Why

Trace = Mapping[str, str]
"""`traceparent` and `tracestate`, as W3C has them; empty: none is told."""


@dataclass(slots=True)
class Noted:
    """`rows`: that were read for the answer; None: not known. `mysql_ms`: from the question to MySQL until its answer
    was there, in milliseconds."""

    rows: int | None = None
    mysql_ms: float | None = None


NOTED: ContextVar[Noted | None] = ContextVar("noted", default=None)
"""Of the read that is answered here."""
CALLER: ContextVar[Callable[[], Trace]] = ContextVar("caller", default=dict)
"""Says to which trace the call belongs."""
_LONGEST = 2_000  # bytes of a comment that is looked through
_FIELD = re.compile(rb"\b(traceparent|tracestate)\s*=\s*'([^'\\]*)'")


def trace_of(text: bytes) -> Trace:
    """The trace that a statement belongs to, as sqlcommenter has it: /*traceparent='00-...-01',tracestate='a%3D1'*/"""
    if b"traceparent" not in text:
        return {}
    fields = [field for comment in _comments(text) for field in _FIELD.findall(comment)]
    return {name.decode(): unquote(value.decode("ascii", "replace")) for name, value in fields}


def _comments(text: bytes) -> Iterator[bytes]:
    """Those that are neither hints nor code, as if no string had any. Each byte is looked at once."""
    at = 0
    while (begin := text.find(b"/*", at)) >= 0:
        at = begin + 2
        if text[at : at + 1] not in (b"!", b"+"):
            end = text.find(b"*/", at)
            if end < 0:
                return
            yield text[at : min(end, at + _LONGEST)]
            at = end + 2


class Spans(Protocol):
    """Takes reads that were no hits, as spans."""

    @property
    def texts(self) -> bool:
        """Whether the queries' texts are wanted."""
        ...

    def missed(self, started: int, noted: Noted, trace: Trace, *, cache: str, database: str, query: str = "") -> None:
        """A miss, which ends now. `started`: nanoseconds since 1970."""
        ...

    def passed(
        self,
        started: int,
        noted: Noted,
        trace: Trace,
        why: Why,
        *,
        cache: str,
        database: str,
        query: str = "",
    ) -> None:
        """A read that MySQL has answered itself, which ends now."""
        ...
