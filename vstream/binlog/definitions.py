"""Whether the known definition of a wanted table fits the rows that come: for a binlog that does not name columns.

With `binlog_row_metadata=MINIMAL`, MySQL's default, row events tell types, signs and character sets of columns. Column
names, and the members of ENUM and SET, come from the reflected definition, which is of another moment than the rows.
Two columns of one type that have swapped names look the same. So this is the rule:

1. Whatever had changed a table before it was reflected is among what the source owns or has executed later. Rows behind
   all of that are laid out as it was reflected.
2. So are all rows until the next DDL statement on the table comes in the stream. Then it must be reflected anew.

Rows that come before 1 holds are not decoded. The source is asked once each time such a table is wanted. It need not be
where another process has followed the stream up to here, and knew the same definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gtid_tracker.gtid import GtidSet
from sqltypes.schema import Table

NOT_KNOWN = "the binlog does not name columns, and rows from before the table was looked at may still come"


@dataclass(slots=True, eq=False)
class Waiting:
    """A reflected definition. `needed`: the GTIDs that must have come; None: the source was not asked yet."""

    needed: GtidSet | None = None


class Definitions:
    """Of the wanted tables, by qualified name.

    Invariants:
    1. A name is in `_known` or in `_waiting`, or in neither: not wanted, or a DDL statement came since.
    2. `_before` has what was known where the stream was taken up, of tables on which no DDL statement came since.
    """

    def __init__(self, on_waiting: Callable[[], None] = lambda: None) -> None:
        """`on_waiting`: is told that the source is to be asked (`waiting`, `told`)."""
        self.named = True  # the binlog names columns, as far as is known
        # Whether the stream has brought all of these, but for the transaction that is being read.
        self.passed: Callable[[GtidSet], bool] = lambda needed: False
        self._on_waiting = on_waiting
        self._tables: dict[str, Table] = {}
        self._known: set[str] = set()
        self._waiting: dict[str, Waiting] = {}
        self._before: dict[str, Table] = {}

    @property
    def known(self) -> tuple[Table, ...]:
        """The tables of which `is_known` holds."""
        self.waiting()
        return tuple(self._tables[name] for name in sorted(self._known))

    def take_up(self, known: Iterable[Table]) -> None:
        """The stream goes on where another process has come to, which knew these. Requires: nothing was read yet."""
        self._before = {table.qualified: table for table in known}

    def want(self, table: Table) -> None:
        """The table was reflected, after any DDL statement that has come."""
        name = table.qualified
        before = self._tables.get(name)
        if name in self._known and before is not None and before.columns == table.columns:
            return
        self._known.discard(name)
        self._tables[name] = table
        taken_up = self._before.get(name)
        if taken_up is not None and taken_up.columns == table.columns:
            self._known.add(name)
            self._waiting.pop(name, None)
            return
        self._waiting[name] = Waiting()
        if not self.named:
            self._on_waiting()

    def unwant(self, name: str) -> None:
        self._tables.pop(name, None)
        self._known.discard(name)
        self._waiting.pop(name, None)

    def changed(self, meant: Callable[[str], bool]) -> bool:
        """A DDL statement on these has come. Whether there are any."""
        for name in [name for name in self._before if meant(name)]:
            del self._before[name]
        changed = [name for name in self._tables if meant(name)]
        for name in changed:
            self.unwant(name)
        return bool(changed)

    def note(self, *, named: bool) -> None:
        """Whether the binlog names columns."""
        self.named = named
        if self._waiting and not named:
            self._on_waiting()

    def is_known(self, name: str) -> bool:
        """Whether the rows that come now are laid out as the table was reflected. Requires: they do not say it."""
        if self.named:
            self.note(named=False)
        waiting = self._waiting.get(name)
        if waiting is not None and waiting.needed is not None and self.passed(waiting.needed):
            self._settle(name)
        return name in self._known

    def _settle(self, name: str) -> None:
        del self._waiting[name]
        self._known.add(name)

    # -- asking the source --------------------------------------------------------------------------------------------

    def waiting(self) -> list[Waiting]:
        """Those of which it is not known yet."""
        for name, waiting in list(self._waiting.items()):
            if waiting.needed is not None and self.passed(waiting.needed):
                self._settle(name)
        return list(self._waiting.values())

    @property
    def unasked(self) -> bool:
        """Whether there are some for which the source was not asked yet."""
        return any(waiting.needed is None for waiting in self._waiting.values())


def told(asked: Iterable[Waiting], possible: GtidSet) -> None:
    """The source's owned and executed GTIDs, read after these began to wait. A GTID that was owned before and is in
    neither set now was rolled back."""
    for waiting in asked:
        waiting.needed = possible if waiting.needed is None else possible.intersection(waiting.needed)
