"""`GET /v1/overview` and `GET /v1/live`: what people see of the proxy, once and as it goes on. `GET /v1/reads`:
the reads that are no hits, as they happen.

One look at the system is made in `EVERY` seconds, however many clients there are, and none where there is no client.
The first event of a stream is whole (`overview`). Each further one is the difference (`patch`, a JSON merge patch,
RFC 7386), and the new rows of the last hour (`sample`). A client that has missed a difference gets a whole one again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields, is_dataclass
from time import monotonic
from typing import Any

from starlette.exceptions import HTTPException

from proxy.loop.slices import Slices
from proxy.port.overview import TEXTS, Overview, Overviews
from proxy.port.watching import TEXTS as TEXTS_OF_READS
from proxy.port.watching import ReadView, Watcher

EVERY = 1.0
KEPT = 3.0  # seconds that the last look is kept
READS_EVERY = 0.25
MOST_WATCHERS = 4  # of reads: each brings them into words by itself
MANY = 20  # members of a JSON object that are written in one step


class Moment:
    """One look. `before`: the one before it, whose difference to this one is told.

    Invariants: 1. each form is written once.
    """

    def __init__(self, number: int, overview: Overview, before: Moment | None) -> None:
        self.number = number
        self.at = monotonic()
        self.plain = plain(overview)
        self.rows = overview.history.rows
        self._before = before.plain if before is not None else {}
        told_at = before.rows[-1][0] if before is not None and before.rows else 0.0
        self._new = [row for row in self.rows[-MANY:] if row[0] > told_at]
        self._written: dict[tuple[bool, bool], asyncio.Task[bytes]] = {}

    async def whole(self, *, texts: bool) -> bytes:
        """All of it as JSON. `texts`: with what is for those who may read the texts of queries."""
        return await self._once(True, texts)

    async def event(self, *, texts: bool, whole: bool) -> bytes:
        """As events of a stream."""
        if whole:
            return _event("overview", self.number, await self._once(True, texts))
        found = _event("patch", self.number, await self._once(False, texts))
        if self._new:
            found += _event("sample", self.number, json.dumps(self._new, separators=(",", ":")).encode())
        return found

    async def _once(self, whole: bool, texts: bool) -> bytes:
        task = self._written.get((whole, texts))
        if task is None:
            make = self._whole(texts) if whole else self._patch(texts)
            task = self._written[whole, texts] = asyncio.create_task(make)
        return await asyncio.shield(task)

    async def _whole(self, texts: bool) -> bytes:
        return await written(self.plain, Slices(), texts=texts)

    async def _patch(self, texts: bool) -> bytes:
        slices = Slices()
        changed = await difference(self._before, self.plain, slices)
        changed.pop("history", None)
        return await written(changed, slices, texts=texts)


async def written(tree: Mapping[str, Any], slices: Slices, *, texts: bool) -> bytes:
    """An overview, or a difference, as JSON; its many caches in steps."""
    parts = []
    for name, value in tree.items():
        if name == "queries" and not texts:
            continue
        if name == "caches":
            text = await _caches(value, slices, texts=texts)
        else:
            text = _json(value)
            await slices.turn()
        parts.append(f"{json.dumps(name)}:{text}")
    return ("{" + ",".join(parts) + "}").encode()


async def _caches(caches: Mapping[str, Any], slices: Slices, *, texts: bool) -> str:
    parts = []
    items = list(caches.items())
    for first in range(0, len(items), MANY):
        some = dict(items[first : first + MANY])
        parts.append(_json(some if texts else {name: _without_texts(cache) for name, cache in some.items()})[1:-1])
        await slices.turn()
    return "{" + ",".join(parts) + "}"


def _without_texts(cache: dict[str, Any] | None) -> dict[str, Any] | None:
    """A cache, or what has changed of it. None: it is gone."""
    return cache if cache is None else {name: value for name, value in cache.items() if name not in TEXTS}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _event(kind: str, number: int, data: bytes) -> bytes:
    return b"event: %b\nid: %d\ndata: %b\n\n" % (kind.encode(), number, data)


def plain(value: Any) -> Any:
    """A dataclass as a dictionary, and all within it, without copying what is plain."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {name: vars(one) if is_dataclass(one) else one for name, one in value.items()}
    if isinstance(value, list):
        return [vars(one) if is_dataclass(one) else one for one in value]
    return value


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that makes `after` of `before`."""
    found = {name: value for name, value in after.items() if name not in before or before[name] != value}
    for name, value in found.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            found[name] = changed(old, value)
    return found if before.keys() <= after.keys() else found | dict.fromkeys(before.keys() - after.keys())


async def difference(before: Mapping[str, Any], after: Mapping[str, Any], slices: Slices) -> dict[str, Any]:
    """As `changed`, of an overview: its many caches in steps."""
    found = changed({**before, "caches": None}, {**after, "caches": None})
    old, new = before.get("caches", {}), after.get("caches", {})
    caches: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for name, cache in new.items():
        if one := changed(old.get(name, {}), cache):
            caches[name] = one
        await slices.turn()
    return found | ({"caches": caches} if caches else {})


class Live:
    """The looks of all clients."""

    def __init__(self, overviews: Overviews) -> None:
        self._overviews = overviews
        self._moment: Moment | None = None
        self._making: asyncio.Task[Moment] | None = None
        self._number = 0
        self._watchers = 0

    async def now(self) -> Moment:
        """At most EVERY old."""
        if self._moment is not None and monotonic() - self._moment.at < EVERY:
            return self._moment
        if self._making is None:
            self._making = asyncio.create_task(self._make())
        return await asyncio.shield(self._making)

    async def _make(self) -> Moment:
        try:
            overview = await self._overviews.look()
            self._number += 1
            self._moment = moment = Moment(self._number, overview, self._moment)
            asyncio.get_running_loop().call_later(KEPT, self._forget, moment)
            return moment
        finally:
            self._making = None

    def _forget(self, moment: Moment) -> None:
        """Nobody has looked since: of thousands of caches it is some megabytes."""
        if self._moment is moment:
            self._moment = None
            self._number += 1  # the next one has no difference to it: those who have seen it get a whole one

    async def events(self, *, texts: bool) -> AsyncGenerator[Sequence[bytes], None]:
        """A stream's events, without end."""
        seen = 0
        while True:
            moment = await self.now()
            if moment.number != seen:
                yield [await moment.event(texts=texts, whole=moment.number != seen + 1 or not seen)]
                seen = moment.number
            await asyncio.sleep(max(0.0, moment.at + EVERY - monotonic()))

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1

    async def reads(
        self, watched: AbstractContextManager[Watcher], *, texts: bool
    ) -> AsyncGenerator[Sequence[bytes], None]:
        """A stream of the reads that are no hits, without end. Raises HTTPException where there are too many."""
        if self._watchers >= MOST_WATCHERS:
            raise HTTPException(503, f"more than {MOST_WATCHERS} watch reads")
        number = 0
        with self._counted(), watched as watcher:
            yield [b": from now on\n\n"]
            while True:
                lost, reads = watcher.take()
                if lost or reads:
                    number += 1
                    yield [_event("reads", number, await reads_written(lost, reads, texts=texts))]
                await asyncio.sleep(READS_EVERY)


async def reads_written(lost: int, reads: Sequence[ReadView], *, texts: bool) -> bytes:
    """As JSON, in steps. `lost`: how many reads before are not told."""
    shown = [field.name for field in fields(ReadView) if texts or field.name not in TEXTS_OF_READS]
    slices, parts = Slices(), []
    for first in range(0, len(reads), MANY):
        parts += [_json({name: getattr(read, name) for name in shown}) for read in reads[first : first + MANY]]
        await slices.turn()
    return f'{{"lost":{lost},"reads":[{",".join(parts)}]}}'.encode()
