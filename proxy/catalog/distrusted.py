"""Caches that have lost their trust, kept over a restart: one small JSON file per source in the state directory.

A doubt holds until its cache is dropped or another version of Upwell runs: the fault may be mended there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

import upwell
from planner.tree.plan import Caution, Mode
from proxy.state_dir.folder import digest_of
from proxy.state_dir.writing import Writing
from proxy.state_dir.written_behind import WrittenBehind

log = structlog.get_logger("upwell.trust")

VERSION = 1
CLOSED = Caution.TABLES + 1
"""The level at which not even the answers that MySQL gave are held: every read is passed through."""
MOST = 1000  # doubts that are kept, the newest


@dataclass(frozen=True, slots=True)
class Doubt:
    """`every_need`: what a session with variables of its own was told has differed, so each variable counts."""

    name: str
    sql: str  # in its one spelling, as `QueryPlan.sql`
    database: str
    level: int  # a `Caution`, or CLOSED
    reason: str
    version: str = upwell.__version__
    every_need: bool = False

    @property
    def told(self) -> str:
        """The reason as SHOW CACHES prints it."""
        return f"{self.reason}: {LEVELS[self.level]}, until it is made anew or another version of Upwell runs"


LEVELS = {
    Caution.KEYS: "it holds MySQL's own answers now (evict mode)",
    Caution.TABLES: "it holds MySQL's own answers now, until any change of their tables (evict mode)",
    CLOSED: "every read is passed to MySQL now",
}


def next_level(mode: Mode, before: Doubt | None) -> int:
    """How little is believed after one more difference."""
    if before is not None:
        return min(before.level + 1, CLOSED)
    return Caution.KEYS if mode is Mode.MAINTAIN else Caution.TABLES


def doubt_of(more: Mapping[str, object]) -> Doubt | None:
    """What another process says of a cache; None where it is none, or of another version of Upwell."""
    try:
        doubt = Doubt(**more)  # type: ignore[arg-type]  # looked at below
    except TypeError:
        return None
    texts = all(isinstance(text, str) for text in (doubt.name, doubt.sql, doubt.database, doubt.reason))
    understood = texts and doubt.level in LEVELS and isinstance(doubt.every_need, bool)
    return doubt if understood and doubt.version == upwell.__version__ else None


class Doubts:
    """The doubts about caches of one source, by query and database.

    A doubt counts at once; the disk may take its time (`WrittenBehind`). A doubt that a crash loses causes no wrong
    answer: after the crash each cache is checked again before it is trusted.

    Invariants: 1. After `load` and `written`, the file holds exactly the doubts in memory, where it can be written.
    """

    def __init__(self, folder: Path, source: str, writing: Writing | None = None) -> None:
        self.path = folder / f"doubts-{digest_of(source)}.json"
        self._doubts: dict[tuple[str, str], Doubt] = {}
        self._file = WrittenBehind(self.path, writing)
        self.on_put: Callable[[Doubt], None] | None = None  # who is told, too

    def load(self) -> None:
        """Reads the file. One that cannot be read does not keep the proxy from starting: trust is earned anew."""
        try:
            document = json.loads(self.path.read_text())
            found = [Doubt(**item) for item in document["doubts"]] if document["version"] == VERSION else []
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("doubts_not_read", file=str(self.path), why=repr(error))
            return
        self._doubts = {(doubt.sql, doubt.database): doubt for doubt in found if doubt.version == upwell.__version__}

    def about(self, sql: str, database: str) -> Doubt | None:
        return self._doubts.get((sql, database))

    def put(self, doubt: Doubt) -> None:
        key = (doubt.sql, doubt.database)
        self._doubts.pop(key, None)
        self._doubts[key] = doubt
        while len(self._doubts) > MOST:
            del self._doubts[next(iter(self._doubts))]
        self._write()
        if self.on_put is not None:
            self.on_put(doubt)

    def remove(self, name: str, sql: str, database: str) -> None:
        """Forgets the doubt about a cache that was dropped. `sql`: "" where its query has no plan."""
        kept = {
            key: doubt
            for key, doubt in self._doubts.items()
            if key != (sql, database) and (doubt.name, doubt.database) != (name, database)
        }
        if len(kept) < len(self._doubts):
            self._doubts = kept
            self._write()

    def __len__(self) -> int:
        return len(self._doubts)

    def written(self) -> None:
        """Waits until the file holds what is in memory. Not for the event loop."""
        self._file.written()

    def close(self) -> None:
        """As `written`; later changes are written at once."""
        self._file.close()

    def _write(self) -> None:
        self._file.put({"version": VERSION, "doubts": [asdict(doubt) for doubt in self._doubts.values()]})
