"""Names of tables without a database, in sessions that have selected none: vtgate finds such a table where only one
keyspace has it. MySQL refuses the text."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

MOST = 1000  # names that are asked for


class BareNames:
    """`asked`: names that texts have had, the last ones. `found`: those that mean the source's own tables, as far as is
    known. `on_change` is told when these are others."""

    def __init__(self) -> None:
        self.asked: OrderedDict[str, None] = OrderedDict()
        self.found: frozenset[str] = frozenset()
        self.on_change: Callable[[], None] = lambda: None

    def are_ours(self, names: Iterable[str]) -> bool:
        for name in (wanted := list(names)):
            self.asked[name] = None
            self.asked.move_to_end(name)
        while len(self.asked) > MOST:
            self.asked.popitem(last=False)
        return bool(wanted) and self.found.issuperset(wanted)

    def told(self, found: frozenset[str]) -> None:
        if found != self.found:
            self.found = found
            self.on_change()
