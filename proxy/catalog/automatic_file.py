"""The automatic caches that there are, kept over a restart: one small JSON file per source in the state directory.

Their keys are filled by the warm-up, as those of other caches are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from proxy.auto.decisions import AutoCache
from proxy.catalog.catalog import Catalog
from proxy.port.made_by import MadeBy, Origin
from proxy.state_dir.folder import digest_of
from proxy.state_dir.writing import Writing
from proxy.state_dir.written_behind import WrittenBehind

log = structlog.get_logger("upwell.automatic")

VERSION = 1
SAVED_EVERY = 30.0  # seconds
MOST = 1000


@dataclass(frozen=True, slots=True)
class Saved:
    """One cache. `tables`, `direct_us`, `worth`: as `Made` has them. `reason`: why it was made."""

    name: str
    sql: str
    database: str
    reason: str
    tables: list[str]
    direct_us: float
    worth: float


class SavedAutomatic:
    """Invariants: 1. After `close` the file has the caches that there were, where it can be written."""

    def __init__(
        self, folder: Path, source: str, catalog: Catalog, auto: AutoCache, writing: Writing | None = None
    ) -> None:
        self.path = folder / f"automatic-{digest_of(source)}.json"
        self._file = WrittenBehind(self.path, writing)
        self._catalog = catalog
        self._auto = auto
        self._saved: list[Saved] = []
        self._saved_at = float("-inf")

    def take_back(self) -> None:
        """Makes the caches of the last run, but for those whose name or query is somebody's own by now. They are
        planned as soon as the source answers. A file that cannot be read does not keep the proxy from starting."""
        caches = self._catalog.caches
        own = {(cache.sql, cache.database) for cache in caches.values()}
        for saved in self._read():
            if saved.name in caches or (saved.sql, saved.database) in own:
                continue
            self._catalog.adopt(saved.name, saved.sql, saved.database, MadeBy(Origin.AUTOMATIC, reason=saved.reason))
            entry = self._auto.proxied.entry(saved.sql, saved.database)
            self._auto.take_back(saved.name, entry, saved.direct_us, saved.worth, frozenset(saved.tables))

    def _read(self) -> list[Saved]:
        try:
            document = json.loads(self.path.read_text())
            found = [_saved(item) for item in document["caches"]] if document["version"] == VERSION else []
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("automatic_caches_not_read", file=str(self.path), why=repr(error))
            return []
        self._saved = found[:MOST]
        return self._saved

    def tick(self, now: float) -> None:
        """To be called now and then. `now`: in seconds."""
        if now - self._saved_at >= SAVED_EVERY:
            self._saved_at = now
            self._save()

    def written(self) -> None:
        """Waits until the file has the caches that there are. Not for the event loop."""
        self._save()
        self._file.written()

    def close(self) -> None:
        """As `written`, and the end."""
        self._save()
        self._file.close()

    def _save(self) -> None:
        there = []
        for cache in self._catalog.automatic():
            made = self._auto.made.get(cache.name)
            if made is not None:
                told = cache.name, cache.sql, cache.database, cache.made_by.reason, sorted(made.tables)
                there.append(Saved(*told, made.direct_us, made.worth))
        if there != self._saved:
            self._saved = there
            self._file.put({"version": VERSION, "caches": [asdict(saved) for saved in there]})


def _saved(item: Mapping[str, object]) -> Saved:
    """Raises TypeError for what is none."""
    saved = Saved(**item)  # type: ignore[arg-type]  # looked at below
    texts, numbers = [saved.name, saved.sql, saved.database, saved.reason], (saved.direct_us, saved.worth)
    texts += saved.tables
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(one, int | float) for one in numbers):
        raise TypeError(f"{item!r} is no cache")
    return saved
