"""Keeps the held keys over a restart, and fills them again at the start.

It keeps the keys, never their answers: these come from MySQL, as with any large fill. It writes them every few minutes
and at the end (`bulk/hot_file.py`, in the state directory), the recently read ones first.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic

import structlog

from dataflow.engine import Engine
from dataflow.entries import Held
from dataflow.readers.reader import ReaderNode
from proxy.catalog.catalog import Catalog
from proxy.fills.fills import Bulk
from proxy.loop.slices import Slices, emptied, taken
from proxy.port.api import ParameterValue
from proxy.port.fill_progress import FillBy, FillProgress
from proxy.settings.machine import APP_DIR
from proxy.state_dir.folder import digest_of
from proxy.state_dir.writing import Writing
from sqltypes.errors import CannotFill, DoesNotFit, UpwellError
from upwell.extras import how_to_install
from upwell.key_text import read, written

log = structlog.get_logger("upwell.warm_up")

MOST_KEYS = 200_000  # that are kept, of all caches together
SAVED_EVERY = 300.0  # seconds
LINES_AT_ONCE = 500  # of the file, which is given to its process in parts
READ_AT_ONCE = 1 << 16  # bytes
PATIENCE = 60.0  # seconds that reading or writing the file may take

Parameters = tuple[ParameterValue, ...]


class WarmUp:
    """`source` names the MySQL: keys of others do not mix with its. `enabled`: whether keys are kept and filled."""

    def __init__(
        self,
        catalog: Catalog,
        engine: Engine,
        bulk: Bulk,
        folder: Path,
        source: str,
        *,
        enabled: bool,
        writing: Writing | None = None,
    ) -> None:
        digest = digest_of(source)
        self.path = folder / f"hot-keys-{digest}.zst"
        self.old = folder / f"hot-keys-{digest}.parquet"  # of earlier versions; read where there is no other
        self._catalog = catalog
        self._engine = engine
        self._bulk = bulk
        self.enabled = enabled
        self._writing = writing or Writing()
        self._saved_at = monotonic()
        self._saving: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        self.before: dict[tuple[str, str, str], list[Parameters]] = {}  # by (cache, sql, database), the hottest first

    def start(self, after: Callable[[], Awaitable[None]]) -> None:
        """Fills the keys of the last run in the background, each cache once it is planned. `after`: waits for what
        holds keys without a fill."""
        if self.enabled:
            self._warming = asyncio.get_running_loop().create_task(self._warm(after))

    def tick(self) -> None:
        """To be called now and then."""
        saving = self._saving is not None and not self._saving.done()
        if self.enabled and not self._writing.why_not and not saving and monotonic() - self._saved_at >= SAVED_EVERY:
            self._saving = asyncio.get_running_loop().create_task(self.save())

    async def close(self) -> None:
        """Writes the keys that are held now. If the start was still filling, writes the keys that it was to fill."""
        for task in (self._warming, self._saving):
            if task is not None and not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        await self.saved()

    async def saved(self) -> None:
        """Writes the keys that are held now, if they are kept."""
        if self.enabled and not self._writing.why_not:
            await self.save()

    async def save(self) -> None:
        self._saved_at = monotonic()
        parts: list[bytes] = []
        lines: list[str] = []
        async for line in self._lines():
            lines.append(line)
            if len(lines) == LINES_AT_ONCE:
                parts.append("".join(lines).encode())
                lines.clear()
        parts.append("".join(lines).encode())
        if not parts[0]:
            return  # what was hot before is better than nothing
        if (problem := await _run("write", self.path, parts)) is not None:
            log.warning("hot_keys_not_kept", why=problem, file=str(self.path))
            return
        await asyncio.to_thread(self.old.unlink, missing_ok=True)

    async def _lines(self) -> AsyncIterator[str]:
        turns = Slices()
        left = MOST_KEYS
        for visited in (True, False):
            for cache in list(self._catalog.caches.values()):
                reader = cache.reader
                if reader is None or not left:
                    continue
                head = cache.name, cache.sql, cache.database
                last = await self._last(reader, left)
                for held in (held for some in taken(last) for held in taken(some)):
                    if left and held.alive and held.visited is visited:
                        yield json.dumps((*head, written(reader.params_of(held)))) + "\n"
                        left -= 1
                    await turns.turn()

    async def _last(self, reader: ReaderNode, most: int) -> list[list[Held]]:
        """So many of the keys that the reader holds: those that came last, the newest first."""
        turns = Slices()
        found: list[list[Held]] = []
        for some in self._engine.sieve.keys_of(reader):
            found.append(some[:most])
            most -= len(found[-1])
            if not most:
                break
            await turns.turn()
        return found

    async def fill(
        self, name: str, keys: Sequence[Sequence[ParameterValue]] | None = None, by: FillBy = FillBy.SIZE
    ) -> AsyncGenerator[FillProgress, None]:
        """As `api.Fills` has it. Where all keys are asked for and do not fit, those that were held before, then others,
        as many as fit."""
        try:
            async with aclosing(self._bulk.fill(name, keys, by)) as going_on:
                async for progress in going_on:
                    yield progress
            return
        except DoesNotFit as error:
            if keys is not None:
                raise
            try:
                hottest = await self.hottest(name, error.fits)
            except CannotFill:
                raise error from None
            fits, hot = error.fits, len(hottest)
            only = f"of {error.keys:,} keys only about {fits:,} fit: the {hot:,} that were held before, and others"
        async with aclosing(self._bulk.fill(name, hottest, by)) as going_on:
            async for progress in going_on:
                yield replace(progress, done=False)
        held, reader = progress, self._catalog.get(name).reader
        room = max(0, fits - (len(reader.entries) if reader is not None else 0))
        async with aclosing(self._bulk.fill(name, None, by, first=room)) as going_on:
            async for progress in going_on:
                yield replace(
                    progress,
                    keys=held.keys + progress.keys,
                    held=held.held + progress.held,
                    left=held.left + progress.left,
                    rows=held.rows + progress.rows,
                    why=progress.why or held.why or only,
                )

    async def hottest(self, name: str, most: int) -> list[Parameters]:
        """The keys of a cache that were kept last. Raises UnknownCache, CannotFill where there are none."""
        cache = self._catalog.get(name)
        if not self.enabled:
            raise CannotFill("which keys were held before is not known: --warm-up is off")
        await self._read()
        if not (found := self.before.get((cache.name, cache.sql, cache.database), [])):
            raise CannotFill(f"no keys of cache {name!r} are known from before: they are kept every few minutes")
        return found[:most]

    async def _read(self) -> None:
        path = await asyncio.to_thread(self._file_of_before)
        if path is None:
            return
        found: dict[tuple[str, str, str], list[Parameters]] = {}

        def take(line: bytes) -> None:
            cache, sql, database, key = json.loads(line)
            found.setdefault((cache, sql, database), []).append(read(key))

        if (problem := await _run("read", path, [], take)) is not None:
            log.warning("hot_keys_not_read", why=problem, file=str(path))
            return
        before, self.before = self.before, found
        if self._warming is None or self._warming.done():  # else they are being filled
            for keys in before.values():
                await emptied(keys)

    def _file_of_before(self) -> Path | None:
        """The file that the last run has written; None where there is none that can be read here."""
        if self.path.exists():
            return self.path
        if not self.old.exists():
            return None
        if importlib.util.find_spec("pyarrow") is not None:
            return self.old
        needs = f"pyarrow is not installed ({how_to_install('spark')})"
        why = f"an earlier version of Upwell has written them as Parquet, and {needs}"
        log.warning("hot_keys_not_read", why=why, file=str(self.old))
        return None

    async def _warm(self, after: Callable[[], Awaitable[None]]) -> None:
        await after()
        await self._read()
        if not self.before:
            return
        await self._catalog.settled()
        for (name, sql, database), keys in self.before.items():
            cache = self._catalog.caches.get(name)
            if cache is None or (cache.sql, cache.database) != (sql, database):
                continue
            try:
                async with aclosing(self._bulk.fill(name, keys, FillBy.SIZE)) as going_on:
                    async for _ in going_on:
                        pass
            except UpwellError as error:
                log.warning("not_warmed_up", cache=name, why=error.message)


async def _run(
    what: str, path: Path, given: list[bytes], take: Callable[[bytes], None] = lambda line: None
) -> str | None:
    """What went wrong. `given`: the process's input, in parts that are taken out of the list. `take` gets each line of
    its output."""
    paths = os.pathsep.join([str(APP_DIR), *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "bulk.hot_file", what, str(path), start_new_session=True,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip
    except OSError as error:
        return str(error)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            await _give(process.stdin, given)
            await _take_lines(process.stdout, take)
            complaint = await process.stderr.read()
            await process.wait()
    except BaseException as error:
        with suppress(ProcessLookupError):  # it has ended by itself
            process.kill()
        await process.wait()
        if isinstance(error, TimeoutError):
            return f"it took longer than {PATIENCE:.0f} s"
        raise
    return None if process.returncode == 0 else complaint.decode(errors="replace").strip()


async def _give(stdin: asyncio.StreamWriter, parts: list[bytes]) -> None:
    parts.reverse()
    with suppress(BrokenPipeError, ConnectionResetError):  # it says why
        for part in taken(parts):
            stdin.write(part)
            await stdin.drain()
        stdin.close()
        await stdin.wait_closed()


async def _take_lines(stdout: asyncio.StreamReader, take: Callable[[bytes], None]) -> None:
    """A line may be of any length."""
    turns = Slices()
    begun = b""
    while data := await stdout.read(READ_AT_ONCE):
        *lines, begun = (begun + data).split(b"\n")
        for line in lines:
            take(line)
            await turns.turn()
