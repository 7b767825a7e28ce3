"""Definitions of caches made at run time: one small JSON file per source in the state directory, so that they survive a
restart. Contents are never kept.

A file is replaced whole and at once (written beside, flushed to the disk, renamed), so a crash leaves the old or the
new one. A file that cannot be read is an error at start, never silently an empty list.
"""

from __future__ import annotations

import json
from pathlib import Path

from proxy.port.made_by import BY_GRPC, MadeBy, Origin
from proxy.settings.config import CACHE_KEYS, CacheDefinition
from proxy.state_dir.folder import digest_of
from proxy.state_dir.whole_file import write_whole
from proxy.state_dir.writing import Writing
from sqltypes.errors import ConfigError, TakenOver

VERSION = 1


class StateStore:
    """The caches of one source. `source` names it (`proxy/state_dir/folder.py`); others do not mix with it. `address`:
    that leads there, without its password.

    Invariants:
    1. After `load`, `put` and `remove`, the file holds exactly the caches in memory.
    """

    def __init__(self, folder: Path, source: str, address: str = "", writing: Writing | None = None) -> None:
        self.path = folder / f"caches-{digest_of(source)}.json"
        self._source = source
        self._address = address
        self._writing = writing or Writing()
        self._caches: dict[str, CacheDefinition] = {}

    def load(self) -> list[CacheDefinition]:
        """The saved caches, in the order of their making. Raises ConfigError for a file that is not ours to read."""
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--state-dir: {str(self.path)!r} cannot be read: {error}") from None
        try:
            document = json.loads(text)
            if document["version"] != VERSION:
                raise ConfigError(
                    f"--state-dir: {str(self.path)!r} is of version {document['version']!r}: {VERSION} is read"
                )
            saved = [_definition(item) for item in document["caches"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"--state-dir: {str(self.path)!r} is damaged ({error!r}): mend or remove it") from None
        self._caches = {cache.name: cache for cache in saved}
        return list(self._caches.values())

    def put(self, name: str, sql: str, database: str, made_by: MadeBy = BY_GRPC) -> None:
        """Adds or replaces a cache. Raises ConfigError where the folder cannot be written, TakenOver where it is
        another's by now."""
        self._check()
        self._write({**self._caches, name: CacheDefinition(name, sql, database, made_by)})

    def remove(self, name: str) -> None:
        """Forgets a cache; one that was never saved, from the file of settings, is no error. Raises as `put`."""
        self._check()
        if name in self._caches:
            self._write({key: cache for key, cache in self._caches.items() if key != name})

    def _check(self) -> None:
        if self._writing.why_not:
            raise TakenOver(self._writing.why_not)

    def _write(self, caches: dict[str, CacheDefinition]) -> None:
        document: dict[str, object] = {
            "version": VERSION,
            "source": self._source,
            "caches": [_saved(cache) for cache in caches.values()],
        }
        if self._address:
            document["address"] = self._address
        try:
            write_whole(self.path, document)
        except OSError as error:
            raise ConfigError(f"--state-dir: {str(self.path)!r} cannot be written: {error.strerror}") from None
        self._caches = caches


def _saved(cache: CacheDefinition) -> dict[str, str]:
    return {
        "name": cache.name,
        "sql": cache.sql,
        "database": cache.database,
        "origin": cache.made_by.origin.value,
        "account": cache.made_by.account,
    }


def _definition(item: dict[str, object]) -> CacheDefinition:
    """Raises KeyError, ValueError, TypeError for what is no definition. Files of older versions name no origin."""
    name, sql, database = (str(item[key]) for key in CACHE_KEYS)
    made_by = MadeBy(Origin(item.get("origin", BY_GRPC.origin.value)), str(item.get("account", "")))
    return CacheDefinition(name, sql, database, made_by)
