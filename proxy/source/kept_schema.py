"""The source's relations as of a moment ago: for plans made one after the other, and for caches that nobody has named.

They are as good as a fresh answer, because the change stream tells of each DDL statement on any table. A plan that was
made before such a statement is made again when its event comes (`Catalog.plan`, `Catalog.schema_changed`). So the
source may be asked right before the plan or earlier, if no event has come since.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from sqltypes.schema import SchemaSnapshot

LONGEST = 10.0  # seconds: how many rows a table has is told of by nobody

Name = tuple[str, str]  # (schema, name)


class Schema(Protocol):
    """The source's tables and views."""

    async def snapshot(self, names: Iterable[Name]) -> SchemaSnapshot:
        """The relations of these names, keyed as the source spells them, with the facts about the server that planning
        needs. Raises SourceDown, SourceError."""
        ...


class KeptSchema:
    """Invariants:
    1. All of `_asked` was asked after the last `forget`, and within LONGEST. All of `_found` is in `_asked`."""

    def __init__(self, source: Schema, clock: Callable[[], float] = time.monotonic) -> None:
        self._source, self._clock = source, clock
        self._times = 0  # that it was forgotten
        self._asked: set[Name] | None = None  # None: nothing, not even the facts about the server
        self._found = SchemaSnapshot()
        self._since = 0.0

    def forget(self) -> None:
        """A DDL statement has come, or what may hide one."""
        self._times += 1
        self._asked, self._found = None, SchemaSnapshot()

    async def snapshot(self, names: Iterable[Name]) -> SchemaSnapshot:
        """As `Schema.snapshot`."""
        wanted = set(names)
        while True:
            if self._asked is not None and self._clock() - self._since > LONGEST:
                self.forget()
            if self._asked is not None and wanted <= self._asked:
                return self._of(wanted)
            times, since = self._times, self._clock()
            asked = self._asked or set()
            found = await self._source.snapshot(wanted - asked)
            if times != self._times:  # what was known may be of before, and what was found of either
                continue
            if self._asked is None:
                self._asked, self._since = set(), since
            self._asked |= wanted
            self._found = replace(found, relations=self._found.relations | found.relations)

    def _of(self, wanted: Iterable[Name]) -> SchemaSnapshot:
        """A plan rests on the relations that it has asked for, and on no others."""
        known, fold = self._found, self._found.lower_case_table_names != 0
        names = {(name[0].lower(), name[1].lower()) if fold else name for name in wanted}
        return replace(
            known,
            relations={
                name: relation
                for name, relation in known.relations.items()
                if ((name[0].lower(), name[1].lower()) if fold else name) in names
            },
        )

    def check_invariants(self) -> None:
        assert self._of(self._asked or ()) == self._found
