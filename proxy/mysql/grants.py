"""Who may read which cache: asked of MySQL once for each account, remembered for a while.

What MySQL announced about the columns is remembered with it, for it depends on the session (its character sets), and
an answer begins with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from external_upquery.columns import parse_column, to_result_column
from proxy.api import SessionCache
from proxy.mysql.rows import head
from proxy.mysql.session_state import SessionState
from sqltypes.schema import ResultColumn

REMEMBERED = 60.0
"""Seconds after which MySQL is asked again, by `forget`. A change of rights that is in the binlog ends it at once."""
REFUSED = "MySQL refuses the query to this account"
OTHER_COLUMNS = "MySQL announces other columns than the cache has"
KEPT = 100_000  # entries; then all are forgotten


@dataclass(slots=True)
class Grant:
    """`definitions`: payloads of the column definitions. `refusal`: why there are none, "" where there are."""

    definitions: tuple[bytes, ...]
    refusal: str = ""
    _heads: dict[bool, bytes] = field(default_factory=dict)

    def head(self, *, eof: bool) -> bytes:
        """What stands before the rows of an answer."""
        found = self._heads.get(eof)
        if found is None:
            found = self._heads[eof] = head(self.definitions, eof=eof)
        return found


Key = tuple[SessionCache, str, str, str]


class Grants:
    """Invariants:
    1. A grant is of one cache's text, one account with its roles, and one way of announcing columns.
    """

    def __init__(self, version: Callable[[], tuple[int, int]]) -> None:
        self._version = version
        self._of_version = (-1, -1)
        self._grants: dict[Key, Grant] = {}

    def granted(self, state: SessionState, cache: SessionCache) -> Grant | None:
        """None: MySQL must be asked."""
        if self._of_version != self._version():
            self.forget()
            self._of_version = self._version()
        return self._grants.get(_key(state, cache))

    def allow(self, state: SessionState, cache: SessionCache, definitions: tuple[bytes, ...]) -> None:
        # MySQL may have changed the tables, and the stream has still to tell; then the rows are of the old ones.
        same = announce(definitions, cache.columns)
        self._put(state, cache, Grant(definitions) if same else Grant((), OTHER_COLUMNS))

    def refuse(self, state: SessionState, cache: SessionCache) -> None:
        self._put(state, cache, Grant((), REFUSED))

    def _put(self, state: SessionState, cache: SessionCache, grant: Grant) -> None:
        if len(self._grants) >= KEPT:
            self.forget()
        self._grants[_key(state, cache)] = grant

    def forget(self) -> None:
        """Rights, accounts, or the caches have changed."""
        self._grants.clear()


def announce(definitions: Sequence[bytes], columns: Sequence[ResultColumn]) -> bool:
    """Whether column definitions (their payloads) are of a cache's columns."""
    if len(definitions) != len(columns):
        return False
    announced = (to_result_column(parse_column(payload)) for payload in definitions)
    return all(_shape(one) == _shape(other) for one, other in zip(announced, columns, strict=True))


def _shape(column: ResultColumn) -> tuple[object, ...]:
    return column.name, column.type.name, column.type.unsigned, column.type.scale


def _key(state: SessionState, cache: SessionCache) -> Key:
    values = state.values
    return cache, state.identity, values.get("character_set_results", ""), values.get("collation_connection", "")
