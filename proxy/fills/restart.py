"""What is held outlives the process: a snapshot every few minutes and at the end, which the next start takes up.

    1. `resume` finds the snapshot once the stream has logged in. The stream begins at the snapshot's position, as after
       a lost connection, with the same tests whether the history is still the same one.
    2. The stream waits while the caches are planned, and for HEAD_START more. What of the snapshot is of other plans is
       dropped.
    3. Blocks are held (`dataflow/fills/restoring.py`), those of keys first that were read lately. The stream goes on
       beside it.
    4. Hits are served once the position has all that the source had executed at the start
       (`proxy/system/source_gate.py`).

A snapshot is of what was true when it was written, and the binlog has what came after. What no binlog has (a write
without it, history that was lost) makes it untrue: then the file is taken away at once.

Invariants:
1. The file is there only if nothing has happened since that no binlog tells (`State.doubt`), as far as is known.
2. While the last snapshot is being restored no other is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic, time
from typing import Protocol

import structlog

from dataflow.engine import Engine
from dataflow.fills.keeping import Keeping
from dataflow.fills.restoring import NOTHING, Restoring
from dataflow.messages import StreamEvent
from dataflow.readers.reader import ReaderNode
from gtid_tracker.bracket import History
from gtid_tracker.gtid import GtidSet
from planner.tree.plan import Mode
from planner.tree.same import same
from proxy.cache.named_cache import NamedCache
from proxy.catalog.catalog import Catalog
from proxy.fills.snapshot_file import WRITTEN_BY, Footer, KeptCache, Reader, Unusable, Writer, pickled, unpickled
from proxy.loop.slices import Slices
from proxy.port.faults import Faults
from proxy.state_dir.folder import digest_of
from sqltypes.errors import OtherTypes, UpwellError
from sqltypes.schema import ResultColumn
from vstream.history import Followed
from vstream.source import ChangeSource

log = structlog.get_logger("upwell.restart")

REST = 50.0  # by how much the time from one snapshot to the next is longer than a snapshot takes
BLOCKS_AT_ONCE = 16  # that a thread writes or reads
HEAD_START = 0.3  # seconds for which the stream waits while blocks are held
PATIENCE = 30.0  # seconds that planning the caches may take
PAUSE = 0.05  # seconds between two questions to a source that does not answer


class Asked(Protocol):
    """The source, as far as it is asked here."""

    async def executed(self) -> GtidSet: ...


class Restart:
    """Of one source. `begin` follows `resume`, once there is what holds answers."""

    def __init__(self, folder: Path, source_of: Callable[[History], str], every: float | None) -> None:
        """`source_of`: from a history to the source's name in the folder. `every`: seconds, at least, from one snapshot
        to the next; None: nothing is written, or read."""
        self.noting: list[Restoring] = []  # who is told of each event of the stream
        self._folder = folder
        self._source_of = source_of
        self._enabled = every is not None
        self._path = folder
        self._source = ""
        self._reader: Reader | None = None  # of the snapshot that is to be restored
        self.waits = False  # is the stream to wait?
        self._restoring: asyncio.Task[None] | None = None
        self._saving: asyncio.Task[None] | None = None
        self._saved_at = monotonic()
        self._every = self._least = every or 0.0
        self._doubts = self._keys = 0

    # -- the start -----------------------------------------------------------------------------------------------------

    async def resume(self, history: History) -> Followed | None:
        """As `vstream.source.Resume`: from where the stream is to go on."""
        self._source = self._source_of(history)
        self._path = self._folder / f"held-{digest_of(self._source)}.snapshot"
        if not self._enabled:
            return None
        try:
            self._reader = await asyncio.to_thread(Reader, self._path, self._source)
        except FileNotFoundError:
            return None
        except (OSError, Unusable) as error:
            log.warning("snapshot_not_used", file=str(self._path), why=str(error))
            return None
        self.waits = True
        return self._reader.footer.followed

    def note(self, event: StreamEvent) -> None:
        """An event of the stream has been processed."""
        for restoring in self.noting:
            restoring.note(event)

    def begin(self, engine: Engine, catalog: Catalog, stream: ChangeSource, faults: Faults) -> bool:
        """Whether there is something to restore: then `restore` is to be called, and no hit served until the position
        has all that the source has executed."""
        self._engine, self._catalog, self._stream, self._faults = engine, catalog, stream, faults
        self._doubts = engine.state.doubts
        reader = self._reader
        if reader is not None and engine.state.ring.position.freeze() != reader.footer.followed.position:
            self._end()  # the stream has found another history, and has said so
        return self._reader is not None

    def restore(self, asked: Asked, executed: Callable[[GtidSet], None]) -> None:
        """Begins. `executed`: is told what the source had executed at the start."""
        self._restoring = asyncio.get_running_loop().create_task(self._restore(asked, executed))

    async def restored(self) -> None:
        """Waits until all is held that is in the snapshot."""
        if self._restoring is not None:
            await asyncio.shield(self._restoring)

    async def _restore(self, asked: Asked, executed: Callable[[GtidSet], None]) -> None:
        began = monotonic()
        reader = self._reader
        assert reader is not None
        executed(await _executed(asked))
        restoring: Restoring | None = None
        why = ""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._catalog.settled()
            readers = [await self._found(kept) for kept in reader.footer.caches]
            if self._engine.state.doubts != self._doubts:
                raise Unusable("the history of the source was lost meanwhile")
            restoring = Restoring(self._engine.state, readers)
            self.noting.append(restoring)
            await self._hold(reader, restoring)
        except (Unusable, OSError) as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - an edge: what may be wrong is emptied
            why = "a fault of ours"
            self._faults.note("restart", str(self._path), error)
            for node in restoring.nodes if restoring is not None else ():
                node.clear()
        finally:
            self._end()
        held, keys = restoring.held if restoring is not None else 0, reader.footer.keys
        log.info("held_again", keys=held, of=keys, seconds=round(monotonic() - began, 2))
        if why:
            log.warning("rest_of_snapshot_dropped", file=str(self._path), why=why)

    async def _found(self, kept: KeptCache) -> ReaderNode | None:
        """The reader of a cache, if it is still planned as it was."""
        cache = self._catalog.caches.get(kept.name)
        await asyncio.sleep(0)  # to compare plans is a step
        if cache is None or cache.reader is None or (cache.sql, cache.database) != (kept.sql, kept.database):
            return None
        plan = await asyncio.to_thread(unpickled, kept.plan)
        if not same(plan, cache.plan):
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
        void, turns = reader.footer.void, Slices()
        parts = reader.blocks(BLOCKS_AT_ONCE)
        coming = asyncio.ensure_future(asyncio.to_thread(next, parts, None))
        memory, limit = self._engine.memory, self._engine.limit
        while (part := await coming) is not None:
            coming = asyncio.ensure_future(asyncio.to_thread(next, parts, None))
            try:
                for number, block in part:
                    while not restoring.may_hold:
                        await asyncio.sleep(0)
                    if memory.used > limit.bytes:
                        raise Unusable("the memory limit is reached")
                    restoring.hold(block, frozenset(void.get(number, ())) if void else NOTHING)
                    if self.waits and monotonic() > until:
                        self.waits = False
                    await turns.turn()
            except BaseException:
                await asyncio.gather(coming, return_exceptions=True)
                raise

    def _end(self) -> None:
        """The stream goes on, and nothing is restored any more."""
        self.waits = False
        self.noting.clear()
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
        if not self._enabled:
            return
        if self._restoring is not None and not self._restoring.done():
            return
        if (self._saving is None or self._saving.done()) and monotonic() - self._saved_at >= self._every:
            self._saving = asyncio.get_running_loop().create_task(self.save())

    def forget(self) -> None:
        """What was written is not true any more."""
        with suppress(OSError):
            gone = self._path.with_suffix(".untrue")
            self._path.rename(gone)
            asyncio.get_running_loop().run_in_executor(None, partial(gone.unlink, missing_ok=True))

    async def close(self) -> None:
        """Writes what is held now. If the start was still restoring, the file stays as it is."""
        restoring = self._restoring is not None and not self._restoring.done()
        for task in (self._restoring, self._saving):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._enabled and not restoring:
            await self.save()

    async def save(self) -> None:
        """Writes a snapshot, if there is something to be kept, and the stream can be taken up again."""
        began = self._saved_at = monotonic()
        caches = [cache for cache in self._catalog.caches.values() if cache.reader is not None and not cache.by_clock]
        if not any(cache.reader.entries for cache in caches if cache.reader is not None):
            return
        doubts, writer = self._engine.state.doubts, None
        try:
            writer = await asyncio.to_thread(Writer, self._path)
            size = await self._write(writer, caches, doubts)
        except OSError as error:
            log.warning("snapshot_not_written", file=str(self._path), why=error.strerror)
            size = 0
        except UpwellError as error:
            log.warning("snapshot_not_written", file=str(self._path), why=error.message)
            size = 0
        finally:
            if writer is not None:
                await asyncio.to_thread(writer.abandon)
        took = monotonic() - began
        self._every = max(self._least, REST * took)
        if size and self._engine.state.doubts != doubts:
            self.forget()
        elif size:
            log.info("snapshot", keys=self._keys, bytes=size, seconds=round(took, 2))

    async def _write(self, writer: Writer, caches: Sequence[NamedCache], doubts: int) -> int:
        """Raises OSError. How many bytes the file has; 0: none was written."""
        turns, some = Slices(), list[bytes]()
        readers = [cache.reader for cache in caches if cache.reader is not None]
        keeping = Keeping(self._engine.state, readers)
        for block in keeping.blocks():
            if block is not None:
                some.append(block)
                if len(some) == BLOCKS_AT_ONCE:
                    await asyncio.to_thread(writer.add, some)
                    some = []
            await turns.turn()
        await asyncio.to_thread(writer.add, some)
        kept = []
        for cache, reader in zip(caches, readers, strict=True):
            kept.append(KeptCache(cache.name, cache.sql, cache.database, pickled(reader.plan), _columns(cache)))
            await turns.turn()
        followed = await self._fixed(keeping)
        if followed is None:
            return 0
        void: dict[int, list[int]] = {}
        for found in keeping.settle():
            void = found or {}
            await turns.turn()
        if self._engine.state.doubts != doubts:
            return 0
        self._keys = keeping.keys
        footer = Footer(WRITTEN_BY, self._source, followed, kept, void=void, keys=keeping.keys, at=time())
        return await asyncio.to_thread(writer.finish, footer, keeping.hot)

    async def _fixed(self, keeping: Keeping) -> Followed | None:
        """Fixes the snapshot's position where it is the stream's, too. None: the stream cannot be taken up again."""
        while True:
            followed = self._stream.followed
            if followed is None:
                return None
            position = self._engine.state.ring.position.freeze()
            if self._engine.under_way is None and followed.position == position:
                keeping.fix()
                return followed
            await asyncio.sleep(PAUSE)


def _columns(cache: NamedCache) -> Sequence[ResultColumn] | None:
    """With which columns MySQL has answered, where answers are held as they came and it has told."""
    if cache.plan is None or cache.plan.mode is not Mode.EVICT or cache.encoding is None:
        return None
    return cache.columns if cache.encoding.held is not None else None


async def _executed(asked: Asked) -> GtidSet:
    while True:
        try:
            return await asked.executed()
        except UpwellError:
            await asyncio.sleep(PAUSE)
