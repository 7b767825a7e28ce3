"""Which shard of a keyspace the rows of a key are on, as vtgate itself says: each vindex can be asked like a table.

    SELECT shard FROM `keyspace`.`vindex` WHERE id = value

The answer holds until the shards or the VSchema change. An answer under one VSchema is not kept for another: the
tables' routes (`vitess/routes.py`) are asked for before and after, and `Places.era` tells whether everything was
forgotten since.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dataflow.fills.shards import MOST_KEYS
from dataflow.messages import Keyed, Statement
from external_upquery.protocol import Answer, ResultSet, query
from sqltypes.schema import INTEGER_TYPES, SqlType, Table
from sqltypes.values import sql_literal

REMEMBERED = 200_000  # keys
Key = tuple[str, str]  # the vindex, the value as a literal


@dataclass(frozen=True, slots=True)
class Vindex:
    """The vindex that distributes a table's rows. `columns`: in lower case. `kind`: its type and parameters, which tell
    it from an earlier vindex of the same name."""

    name: str
    columns: tuple[str, ...]
    kind: tuple[str, ...] = ()


class Places:
    """Invariants:
    1. At most REMEMBERED keys are known, and each is on one of `shards`."""

    def __init__(self, keyspace: str) -> None:
        self._keyspace = keyspace
        self._vindexes: dict[str, Vindex] = {}
        self._found: OrderedDict[Key, str] = OrderedDict()
        self.shards: tuple[str, ...] = ()
        self.era = 0  # how often all was forgotten

    def distributed(self, table: str, vindex: Vindex | None) -> None:
        """Notes how a table, by its qualified name, is distributed; None: it is not known how. If that differs from
        before, for this or another table with that vindex, the VSchema has changed: everything known of keys is
        forgotten."""
        if self._vindexes.get(table, vindex) != vindex or (vindex is not None and self._redefines(vindex)):
            self._forget()
        if vindex is None:
            self._vindexes.pop(table, None)
        else:
            self._vindexes[table] = vindex

    def _redefines(self, vindex: Vindex) -> bool:
        return any(one.name == vindex.name and one.kind != vindex.kind for one in self._vindexes.values())

    def become(self, shards: Sequence[str]) -> None:
        """Those that the keyspace has now: where they are others, nothing is known of keys any more."""
        if tuple(shards) != self.shards:
            self.shards = tuple(shards)
            self._forget()

    def _forget(self) -> None:
        self._found.clear()
        self.era += 1

    def of(self, statements: Iterable[Statement]) -> tuple[str, ...]:
        """The shards that these can be answered from: all, where it is not known that they are fewer."""
        keys = self._keys(statements)
        if keys is None or not all(key in self._found for key in keys):
            return self.shards
        for key in keys:
            self._found.move_to_end(key)
        return tuple(sorted({self._found[key] for key in keys}))

    def of_keyed(self, keyed: Keyed) -> tuple[str, ...] | None:
        """The shards that these rows are on; () where that can be asked; None where it cannot."""
        keys = self._keys((Statement("", keyed=keyed),))
        if not keys or len(self.shards) < 2:
            return None
        if not all(key in self._found for key in keys):
            return ()
        return tuple(sorted({self._found[key] for key in keys}))

    def unknown(self, statements: Iterable[Statement]) -> list[Key]:
        """What is to be asked, to say on which shards these are. None where that would not help."""
        if len(self.shards) < 2:
            return []
        return [key for key in self._keys(statements) or () if key not in self._found]

    def questions(self, keys: Sequence[Key]) -> list[bytes]:
        """A command for each."""
        return [query(f"SELECT shard FROM `{self._keyspace}`.`{name}` WHERE id = {value}") for name, value in keys]

    def told(self, keys: Sequence[Key], answers: Sequence[Answer], era: int | None = None) -> None:
        """The answers to `questions`, which were made in this era. What vtgate refuses to say stays unknown."""
        if era is not None and era != self.era:
            return
        for key, answer in zip(keys, answers, strict=True):
            if isinstance(answer, ResultSet) and len(answer.rows) == 1:
                (shard,) = answer.rows[0]
                name = shard.decode() if isinstance(shard, bytes) else str(shard)
                if name in self.shards:
                    self._found[key] = name
        while len(self._found) > REMEMBERED:
            self._found.popitem(last=False)

    def _keys(self, statements: Iterable[Statement]) -> list[Key] | None:
        """By the values of which the statements' rows are distributed; None where a statement reads others, too."""
        found: dict[Key, None] = {}
        for statement in statements:
            keyed = statement.keyed
            if keyed is None or (vindex := self._vindexes.get(keyed.table.qualified)) is None:
                return None
            names = [name.lower() for name in keyed.columns]
            if len(vindex.columns) != 1 or vindex.columns[0] not in names or len(keyed.values) > MOST_KEYS:
                return None
            at = names.index(vindex.columns[0])
            type_ = keyed.table.column(vindex.columns[0]).type
            for values in keyed.values:
                if values[at] is None:
                    return None
                found[vindex.name, sql_literal(values[at], type_)] = None
        return list(found) if 0 < len(found) <= MOST_KEYS else None

    def check_invariants(self) -> None:
        """Raises AssertionError. For tests."""
        assert len(self._found) <= REMEMBERED and set(self._found.values()) <= set(self.shards)


def spelled_apart(table: Table, vindex: Vindex) -> frozenset[str]:
    """The columns where a vindex may tell values apart that are equal for MySQL. Rows of equal values could then be on
    several shards, and vtgate asks one of them. Whole numbers have one spelling. A CHAR loses its trailing spaces when
    it is stored; `unicode_loose_...` ignores them."""
    loose = bool(vindex.kind) and vindex.kind[0].startswith("unicode_loose")

    def exact(type_: SqlType) -> bool:
        if type_.name in INTEGER_TYPES or type_.name == "varbinary":
            return True
        of_bytes = type_.is_string and not type_.members and (type_.collation or "").endswith("_bin")
        return of_bytes and (loose or (type_.collation == "utf8mb4_0900_bin" and type_.name != "char"))

    return frozenset(name for name in vindex.columns if not exact(table.column(name).type))
