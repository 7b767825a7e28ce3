"""How fresh an answer must be, and what a session has seen so far.

A session's reads show its writes and never go back in time. It keeps the GTIDs of its writes: every answer must contain
them. It keeps the GTIDs that its answers may have contained: no later answer may be older.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from upwell.errors import BadParameters
from upwell.v1 import upwell_pb2 as pb

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_INTERVAL = re.compile(r"([1-9][0-9]{0,18})(?:\s*-\s*([1-9][0-9]{0,18}))?")


@dataclass(frozen=True, slots=True)
class Freshness:
    """What to ask of an answer. `min_gtid`: a GTID set that it must contain. `max_staleness`: seconds before the read
    came; all that was committed until then must be in it. `wait`: seconds that the proxy may wait to get there, the
    proxy's default if None. `fail`: raise TooStale after that wait, rather than have MySQL answer.
    """

    min_gtid: str = ""
    max_staleness: float | None = None
    wait: float | None = None
    fail: bool = False

    def message(self) -> pb.Freshness:
        return pb.Freshness(
            min_gtid=self.min_gtid,
            max_staleness=self.max_staleness,
            wait=self.wait,
            otherwise=pb.FAIL if self.fail else pb.PASS,
        )


def union(sets: Iterable[str]) -> str:
    """One GTID set of several, merged. Raises BadParameters."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for text in sets:
        for chunk in filter(None, (piece.strip().lower() for piece in text.split(","))):
            _read(chunk, spans)
    return ",".join(f"{source}:{_intervals(found)}" for source, found in sorted(spans.items()) if found)


def _read(chunk: str, spans: dict[str, list[tuple[int, int]]]) -> None:
    """`uuid:1-5:7:tag:3`: intervals belong to the tag before them."""
    uuid, *parts = (part.strip() for part in chunk.split(":"))
    source = uuid
    for part in parts:
        interval = _INTERVAL.fullmatch(part)
        if interval is not None:
            first, last = int(interval[1]), int(interval[2] or interval[1])
            if first <= last:
                spans.setdefault(source, []).append((first, last))
        elif _TAG.fullmatch(part):
            source = f"{uuid}:{part}"
        else:
            uuid = ""
    if not parts or not _UUID.fullmatch(uuid):
        raise BadParameters(f"{chunk!r:.200} is no GTID set: UUID:1-5, UUID:7, UUID:tag:1-5 and the like are accepted")


def _intervals(spans: list[tuple[int, int]]) -> str:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return ":".join(str(first) if first == last else f"{first}-{last}" for first, last in merged)


class Token:
    """What a session asks of its next read. May be used from several threads.

    Invariants:
    1. `shown` has all that may have been in any answer taken. An answer that was asked for after all others had been
       taken is not older than they: what may have been in it replaces the rest, so that a transaction that was on its
       way and was then rolled back is not asked for again.
    """

    def __init__(self, base: Freshness) -> None:
        self.written = union([base.min_gtid])
        self.shown = ""
        self._base = base
        self._taken = 0  # answers
        self._lock = threading.Lock()

    def wrote(self, gtids: str) -> None:
        """The session has written these. Raises BadParameters."""
        with self._lock:
            self.written = union([self.written, gtids])

    def ask(self, fresh: Freshness | None) -> tuple[pb.Freshness | None, int]:
        """What the next read asks for, with `fresh` beside; and a number to give to `took` with its answer."""
        with self._lock:
            message = (fresh or self._base).message()
            message.min_gtid = union([self.written, fresh.min_gtid]) if fresh is not None else self.written
            message.not_before = self.shown
            return message if message.ByteSize() else None, self._taken

    def took(self, asked: int, horizon: str) -> None:
        """An answer has come. `horizon`: all that may be in it."""
        with self._lock:
            if horizon:
                self.shown = horizon if asked == self._taken else union([self.shown, horizon])
            self._taken += 1


class NoToken(Token):
    """For reads outside of sessions: each states its own demand."""

    def __init__(self) -> None:
        super().__init__(Freshness())

    def ask(self, fresh: Freshness | None) -> tuple[pb.Freshness | None, int]:
        return (fresh.message() if fresh is not None else None), 0

    def took(self, asked: int, horizon: str) -> None:
        """Nothing is kept."""


ANY = Freshness()
NO_TOKEN = NoToken()
