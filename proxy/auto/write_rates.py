"""How often tables were changed lately."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

AT_ONCE = 1000  # tables that are looked at in one step


class WriteRates:
    """Statements that changed rows of a table, weighed by age, of those tables that were changed. `recent`: of the last
    minute; `now`: of about the last second."""

    def __init__(self, total: Mapping[str, int]) -> None:
        """`total`: all such statements until now, by the table's qualified name."""
        self.recent: dict[str, float] = {}
        self.now: dict[str, float] = {}
        self._total = total
        self._marked: dict[str, int] = dict(total)

    async def look(self, decay: float, decay_now: float = 0.0) -> None:
        """Takes the changes since the last look. `decay`: the factor by which older counts shrink; `decay_now`: the
        same for those of the last second."""
        for rates, left in ((self.recent, decay), (self.now, decay_now)):
            for name in list(rates):
                rates[name] *= left
                if rates[name] < 1e-3:
                    del rates[name]
        for number, (name, total) in enumerate(list(self._total.items()), 1):
            marked, self._marked[name] = self._marked.get(name, 0), total
            come = total - marked if total >= marked else total  # it was forgotten, and counted anew
            if come:
                self.recent[name] = self.recent.get(name, 0.0) + come
                self.now[name] = self.now.get(name, 0.0) + come
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        if len(self._marked) > 2 * len(self._total):
            self._marked = dict(self._total)

    def of(self, tables: frozenset[str]) -> float:
        """Of all of these, in the last minute."""
        return sum(self.recent.get(table, 0.0) for table in tables)

    def of_now(self, tables: frozenset[str]) -> float:
        """Of all of these, in about the last second."""
        return sum(self.now.get(table, 0.0) for table in tables)
