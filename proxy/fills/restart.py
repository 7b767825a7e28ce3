"""What is held outlives the process: a snapshot every few minutes and at the end, which the next start takes up.

    1. `resume` finds the snapshot once the stream has logged in. The stream begins at the snapshot's position, as after
       a lost connection, with the same tests whether the history is still the same one.
    2. The stream waits while the caches are planned, and for HEAD_START more. A cache takes its plan of the snapshot
       where the definitions that it was made from, what MySQL announces and the planner's code are as they were. What
       of the snapshot is of other plans is dropped.
    3. Blocks are held (`dataflow/fills/restoring.py`), those of keys first that were read lately. The stream goes on
       beside it.
    4. Hits are served once the position has all that the source had executed at the start
       (`proxy/system/source_gate.py`).

A snapshot is of what was true when it was written, and the binlog has what came after. What no binlog has (a write
without it, history that was lost) makes it untrue: then the files are taken away at once. None is written while
something is open that only this process can see the end of (`Source.followed`).

Invariants:
1. A file is there only if nothing has happened since that no binlog tells (`State.doubt`), as far as is known.
2. While the last snapshot is being restored no other is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, time
from typing import Protocol

import structlog

from dataflow.engine import Engine
from dataflow.fills.keeping import Keeping
from dataflow.fills.restoring import NOTHING, Restoring
from dataflow.losses import FAULT, emptied
from dataflow.messages import StreamEvent
from dataflow.readers.reader import ReaderNode
from gtid_tracker.bracket import History
from gtid_tracker.gtid import GtidSet
from planner.tree.plan import Mode, QueryPlan
from planner.tree.same import same
from proxy.cache.named_cache import NamedCache
from proxy.cache.planned import Planned, planned_of
from proxy.catalog.catalog import Catalog
from proxy.fills.snapshot_file import (
    WRITTEN_BY,
    Footer,
    KeptCache,
    Reader,
    Unusable,
    Writer,
    flush_folder,
    packed,
    pickled,
    unpickled,
)
from proxy.loop.slices import Slices, in_slices
from proxy.planning.code_identity import code_identity
from proxy.port.faults import Faults
from proxy.source.source import Source
from proxy.state_dir.folder import digest_of
from proxy.state_dir.writing import Writing
from sqltypes.errors import OtherTypes, UpwellError
from sqltypes.schema import ResultColumn
from vstream.history import Followed

log = structlog.get_logger("upwell.restart")

REST = 50.0  # by how much the time from one snapshot to the next is longer than a snapshot takes
BLOCKS_AT_ONCE = 16  # that a thread writes or reads
HEAD_START = 0.3  # seconds for which the stream waits while blocks are held
PATIENCE = 30.0  # seconds that planning the caches may take
FIXED = 5.0  # seconds that a position may take that is the stream's, too
PAUSE = 0.05  # seconds between two questions to a source that does not answer


def nothing() -> None:
    """Nobody waits."""


class Gate(Protocol):
    """What keeps hits back (`proxy/system/source_gate.py`)."""

    def begins(self, until: GtidSet | None = None) -> None: ...

    def empty(self) -> None: ...


class Restart:
    """Of one source. `begin` follows `resume`, once there is what holds answers. `waits`: is the stream to wait?
    `on_going_on`: is called when it is to wait no more."""

    def __init__(
        self,
        folder: Path,
        source_of: Callable[[History], str],
        every: float | None,
        writing: Writing | None = None,
    ) -> None:
        """`source_of`: from a history to the source's name in the folder. `every`: seconds, at least, from one snapshot
        to the next; None: nothing is written, or read."""
        self.noting: list[Restoring] = []  # who is told of each event of the stream
        self.waits = False
        self.on_going_on: Callable[[], None] = nothing
        self._folder = folder
        self._writing = writing or Writing()
        self._source_of = source_of
        self._enabled = every is not None
        self._every = self._least = every or 0.0
        self._reader: Reader | None = None  # of the snapshot that is to be restored
        self._plans: dict[str, QueryPlan] = {}  # of its caches, by name
        self._restoring: asyncio.Task[None] | None = None
        self._saving: asyncio.Task[None] | None = None
        self._saved_at = monotonic()

    def _file_of(self, source: str) -> Path:
        return self._folder / f"held-{digest_of(source)}.snapshot"

    # -- the start -----------------------------------------------------------------------------------------------------

    async def resume(self, history: History) -> Followed | None:
        """As `vstream.source.Resume`: from where the stream is to go on."""
        source = self._source_of(history)
        path = self._file_of(source)
        if not self._enabled:
            return None
        try:
            self._reader = await asyncio.to_thread(Reader, path, source)
        except FileNotFoundError:
            return None
        except (OSError, Unusable) as error:
            log.warning("snapshot_not_used", file=str(path), why=str(error))
            return None
        self.waits = True
        return self._reader.footer.followed

    async def plans(self) -> dict[tuple[str, str], Planned]:
        """Those of the caches of the snapshot, by text and database, as far as this planner made them. To be called
        before they are planned. Raises nothing."""
        reader = self._reader
        if reader is None:
            return {}
        found: dict[tuple[str, str], Planned] = {}
        try:
            of_this_planner = reader.footer.planner == await asyncio.to_thread(code_identity)
            for kept in reader.footer.caches:
                parts = await asyncio.to_thread(unpickled, kept.plan)
                if isinstance(parts, tuple):
                    planned = planned_of(parts)
                    self._plans[kept.name] = planned.plan
                    if of_this_planner:
                        found[kept.sql, kept.database] = planned
                else:
                    self._plans[kept.name] = parts
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the bytes: what is of them is planned anew
            log.warning("plans_of_snapshot_not_used", file=reader.path, why=repr(error))
            return {}
        return found

    def note(self, event: StreamEvent) -> None:
        """An event of the stream has been processed."""
        for restoring in self.noting:
            restoring.note(event)

    def begin(self, engine: Engine, catalog: Catalog, source: Source, faults: Faults) -> bool:
        """Whether there is something to restore: then `restore` is to be called. Requires: nothing is held yet."""
        self._engine, self._catalog, self._now, self._faults = engine, catalog, source, faults
        reader = self._reader
        if reader is not None and not (source.stream.taken_up is reader.footer.followed and self._is_at(reader)):
            self._end()  # the stream has found another history, and has said so
        return self._reader is not None

    def _is_at(self, reader: Reader) -> bool:
        """Is the engine where the snapshot is, and has nothing come that no stream will tell again?"""
        state = self._engine.state
        return not state.doubts and state.ring.position.freeze() == reader.footer.followed.position

    def restore(self, gate: Gate) -> None:
        """Begins. `gate`: is told what the position must have for hits."""
        self._restoring = asyncio.get_running_loop().create_task(self._restore(gate))

    async def restored(self) -> None:
        """Waits until all is held that is in the snapshot."""
        if self._restoring is not None:
            await asyncio.shield(self._restoring)

    async def _restore(self, gate: Gate) -> None:
        began, reader = monotonic(), self._reader
        assert reader is not None
        restoring: Restoring | None = None
        why = ""
        try:
            executed = await self.executed()
            if self._engine.state.doubts:
                raise Unusable("the history of the source was lost meanwhile")
            gate.begins(executed)
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._catalog.settled()
            readers = [await self._found(kept) for kept in reader.footer.caches]
            if not self._is_at(reader):
                raise Unusable("the history of the source was lost meanwhile")
            restoring = Restoring(self._engine.state, readers)
            self.noting.append(restoring)
            await self._hold(reader, restoring)
        except (Unusable, OSError) as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - an edge: what may be wrong is emptied
            why = "a fault of ours"
            self._faults.note("restart", reader.path, error)
            for node in restoring.nodes if restoring is not None else ():
                with emptied(node.memory, FAULT):
                    node.clear()
        finally:
            if restoring is None:
                gate.empty()  # nothing of it is held
            self._end()
        held = restoring.held if restoring is not None else 0
        log.info("held_again", keys=held, of=reader.footer.keys, seconds=round(monotonic() - began, 2))
        if why:
            log.warning("rest_of_snapshot_dropped", file=reader.path, why=why)

    async def executed(self) -> GtidSet:
        """What the source has executed by now."""
        while True:
            try:
                return await self._now.upqueries.executed()
            except UpwellError:
                await asyncio.sleep(PAUSE)

    async def _found(self, kept: KeptCache) -> ReaderNode | None:
        """The reader of a cache, if it is still planned as it was."""
        cache = self._catalog.caches.get(kept.name)
        await asyncio.sleep(0)  # to compare plans is a step
        if cache is None or cache.reader is None or (cache.sql, cache.database) != (kept.sql, kept.database):
            return None
        plan = self._plans.get(kept.name)
        if cache.reader is None or not same(plan, cache.plan):
            log.info("kept_of_another_plan", cache=kept.name)
            return None
        if kept.columns and cache.reader.on_columns is not None:
            try:
                cache.reader.on_columns(kept.columns)
            except OtherTypes:
                return None
        return cache.reader

    async def _hold(self, reader: Reader, restoring: Restoring) -> None:
        """Raises Unusable, and whatever a block does that is none."""
        until = monotonic() + HEAD_START
        footer, turns = reader.footer, Slices()
        parts = reader.blocks(BLOCKS_AT_ONCE)
        coming = asyncio.ensure_future(asyncio.to_thread(next, parts, None))
        memory, limit = self._engine.memory, self._engine.limit
        try:
            while (part := await coming) is not None:
                coming = asyncio.ensure_future(asyncio.to_thread(next, parts, None))
                for number, block in part:
                    while not restoring.may_hold:
                        await asyncio.sleep(0)
                    if memory.used > limit.bytes:
                        raise Unusable("the memory limit is reached")
                    void = footer.void_of(number) if number in footer.void else NOTHING
                    restoring.hold(block, void, hot=bool(footer.hot[number]))
                    if self.waits and monotonic() > until:
                        self._let_go()
                    await turns.turn()
        finally:
            await asyncio.gather(coming, return_exceptions=True)

    def _let_go(self) -> None:
        self.waits = False
        self.on_going_on()

    def _end(self) -> None:
        """The stream goes on, and nothing is restored any more."""
        self._let_go()
        self.noting.clear()
        self._plans.clear()
        self._catalog.texts.before.clear()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def save_every(self, seconds: float | None) -> None:
        """As `every` of the constructor, from now on."""
        self._enabled, self._least = seconds is not None, seconds or 0.0
        self._every = self._least
        if not self._enabled:
            self.forget()

    def tick(self) -> None:
        """To be called now and then."""
        if not self._enabled or self._writing.why_not or self._restores:
            return
        if (self._saving is None or self._saving.done()) and monotonic() - self._saved_at >= self._every:
            self._saving = asyncio.get_running_loop().create_task(self.save())

    def forget(self) -> None:
        """What was written is not true any more, of whichever source it is."""
        for path in self._folder.glob("held-*.snapshot"):
            gone = path.with_suffix(".untrue")
            try:
                path.rename(gone)
            except OSError as error:
                log.error("snapshot_not_taken_away", file=str(path), why=error.strerror)
            else:
                asyncio.get_running_loop().run_in_executor(None, _remove, gone)

    @property
    def _restores(self) -> bool:
        return self._restoring is not None and not self._restoring.done()

    async def saved(self) -> None:
        """Writes what is held now, if snapshots are written, and none is being restored."""
        if self._saving is not None:
            await asyncio.gather(self._saving, return_exceptions=True)
        if self._enabled and not self._restores and not self._writing.why_not:
            self._saving = asyncio.get_running_loop().create_task(self.save())
            await asyncio.shield(self._saving)

    async def close(self) -> None:
        """Writes what is held now. If the start was still restoring, the file stays as it is."""
        restoring = self._restores
        for task in (self._restoring, self._saving):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._enabled and not restoring and not self._writing.why_not:
            await self.save()

    async def save(self) -> None:
        """Writes a snapshot, if there is something to be kept, and the stream can be taken up again. Raises nothing."""
        began = self._saved_at = monotonic()
        caches = [
            (cache, cache.reader) for cache in self._catalog.caches.values() if cache.reader is not None and _may(cache)
        ]
        if not any(reader.entries for _, reader in caches):
            return
        writer: Writer | None = None
        keys = size = 0
        path = self._file_of(source := self._source_of(self._now.stream.history))
        try:
            writer = await asyncio.to_thread(Writer, path)
            keys, size = await self._write(writer, caches, source)
        except (OSError, UpwellError) as error:
            log.warning("snapshot_not_written", file=str(path), why=str(error))
        except Exception as error:  # noqa: BLE001 - an edge: who stops goes on to stop
            self._faults.note("a snapshot", str(path), error)
        finally:
            if writer is not None:
                await asyncio.to_thread(writer.abandon)
        took = monotonic() - began
        self._every = max(self._least, REST * took)
        if size:
            log.info("snapshot", keys=keys, bytes=size, seconds=round(took, 2))

    async def _write(
        self, writer: Writer, caches: Sequence[tuple[NamedCache, ReaderNode]], source: str
    ) -> tuple[int, int]:
        """How many keys and bytes the file has; none: it was not put in its place. Raises OSError."""
        turns, some, doubts = Slices(), list[bytes](), self._engine.state.doubts
        keeping = Keeping(self._engine.state, [reader for _, reader in caches])
        for block in keeping.blocks():
            if block is not None:
                some.append(block)
                if len(some) == BLOCKS_AT_ONCE:
                    await asyncio.to_thread(writer.add, some)
                    some = []
            await turns.turn()
        await asyncio.to_thread(writer.add, some)
        plans = []
        for cache, reader in caches:
            planned = cache.planned
            parts = planned.parts() if planned is not None and planned.plan is reader.plan else None
            plans.append(pickled(reader.plan if parts is None else parts))
            await turns.turn()
        followed = await self._fixed(keeping)
        if followed is None:
            return 0, 0
        kept = [_kept(cache, reader, plan) for (cache, reader), plan in zip(caches, plans, strict=True)]
        void: dict[int, list[int]] = {}
        for found in keeping.settle():
            void = found or {}
            await turns.turn()
        numbers = {block: packed(entries) async for block, entries in in_slices(void.items())}
        planner = await asyncio.to_thread(code_identity)
        footer = Footer(WRITTEN_BY, source, followed, kept, void=numbers, keys=keeping.keys, at=time(), planner=planner)
        size = await asyncio.to_thread(writer.finish, footer, keeping.hot)
        if self._engine.state.doubts != doubts or not self._enabled or self._writing.why_not:
            return 0, 0
        writer.put()
        await asyncio.to_thread(flush_folder, self._folder)
        return keeping.keys, size

    async def _fixed(self, keeping: Keeping) -> Followed | None:
        """Fixes the snapshot's position where it is the stream's, too. None: the stream could not be taken up again
        there."""
        until = monotonic() + FIXED
        while monotonic() < until:
            followed, position = self._now.followed, self._engine.state.ring.position.freeze()
            if followed is None:
                await self._now.look_for_open()
            elif self._engine.under_way is None and followed.position == position:
                keeping.fix()
                return followed
            await asyncio.sleep(PAUSE)
        return None


def _may(cache: NamedCache) -> bool:
    """Not keys by the clock, nor what is being compared because it may be wrong."""
    trust = cache.trust
    return not cache.by_clock and (trust is None or not (trust.suspicions or trust.unproved))


def _kept(cache: NamedCache, reader: ReaderNode, plan: bytes) -> KeptCache:
    """As it is in the step in which the position was fixed. One that is closed, because its tables are defined anew,
    has no name: nothing of it is found again."""
    name = cache.name if reader.installed and _may(cache) else ""
    return KeptCache(name, cache.sql, cache.database, plan, _columns(cache))


def _columns(cache: NamedCache) -> Sequence[ResultColumn] | None:
    """With which columns MySQL has answered, where answers are held as they came and it has told."""
    if cache.plan is None or cache.plan.mode is not Mode.EVICT or cache.encoding is None:
        return None
    return cache.columns if cache.encoding.held is not None else None


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
        flush_folder(path.parent)
