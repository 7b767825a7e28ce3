"""The shares of connections: how many the jobs for one table may have, or for one shard of several. Pure.

A locked table and a hanging shard keep the connections of their jobs. So the jobs of one table take a connection only
while more are free than they have. The next table may share the rest in the same way, and one connection is left for a
table that has none.

    connections | one hangs: it has | a second one | left
    ------------+-------------------+--------------+-----
              3 |                 2 |            1 |    0
              4 |                 2 |            1 |    1
              8 |                 4 |            2 |    2
             16 |                 8 |            4 |    4

A job of several tables (a join) or of all shards waits for an unknown one of them. It takes a connection only while
more are free than the jobs of any of them have, and never the last one. It does not count for jobs of a single table:
those would wait for a lock of another table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

Kind = tuple[str, ...]
"""What a job asks for: the names of tables or shards, in order."""

FEWEST = 3
"""With fewer connections nothing is kept for others: there would be none left for jobs of several shards or tables."""
ANY: Kind = ()
"""The kind of a job that waits for nothing of that sort: it takes what is free."""
UNKNOWN: Kind = ("?",)
"""The kind of jobs whose tables nobody has looked for: texts of clients."""


def kind_of(asked: Iterable[str]) -> Kind:
    """
    >>> kind_of(()), kind_of(["-80"]), kind_of(["shop.u", "shop.t", "shop.u"])
    ((), ('-80',), ('shop.t', 'shop.u'))
    """
    found = tuple(asked)
    return found if len(found) < 2 else tuple(sorted(set(found)))


class Shares:
    """Invariants:
    1. `taken` is the number of jobs, and at most `most`.
    2. `_had` counts them by their kinds, `_asked` by each that they ask for; neither has one that is not asked for.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._had: dict[Kind, int] = {}  # no Counter, which counts in Python: each miss goes through here
        self._asked: dict[str, int] = {}

    def may_have(self, kind: Kind) -> bool:
        """Whether a job of that kind may take one more, where one is free."""
        if not kind or self.most < FEWEST:
            return True
        free = self.most - self.taken
        if len(kind) == 1:
            return self._had.get(kind, 0) < free
        return all(self._asked.get(one, 0) < free - 1 for one in kind)

    def asked(self, one: str) -> int:
        """How many jobs ask for this table or shard, alone or beside others."""
        return self._asked.get(one, 0)

    def took(self, kind: Kind) -> None:
        self.taken += 1
        had, asked = self._had, self._asked
        had[kind] = had.get(kind, 0) + 1
        for one in kind:
            asked[one] = asked.get(one, 0) + 1

    def gave(self, kind: Kind) -> None:
        self.taken -= 1
        had, asked = self._had, self._asked
        if (left := had[kind] - 1) > 0:
            had[kind] = left
        else:
            del had[kind]
        for one in kind:
            if (left := asked[one] - 1) > 0:
                asked[one] = left
            else:
                del asked[one]

    def check_invariants(self) -> None:
        """Raises AssertionError. For tests."""
        assert self.taken == sum(self._had.values()) and 0 <= self.taken <= self.most
        assert all(count > 0 for count in (*self._had.values(), *self._asked.values()))
        asked: Counter[str] = Counter()
        for kind, count in self._had.items():
            asked.update(dict.fromkeys(kind, count))
        assert asked == self._asked
