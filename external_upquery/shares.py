"""How many connections the jobs of each shard may have. Pure.

A shard that hangs keeps what its jobs have. So jobs of one shard take a connection only while more are free than they
have: what one shard leaves the next one may share likewise, and a free one is left to a shard that has none.

    connections | one shard hangs: it has | a second one | left
    ------------+-------------------------+--------------+-----
              3 |                       2 |            1 |    0
              4 |                       2 |            1 |    1
              8 |                       4 |            2 |    2
             16 |                       8 |            4 |    4

Of a job of several shards nobody knows which of them it waits for. Such jobs are one kind, beside the shards: else
those that wait for a shard that hangs would count for the others, too. They never take the last connection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

FEWEST = 3
"""With fewer connections nothing is kept for others: there would be none left for jobs of several shards."""
ANY = ""
"""The kind of a job that waits for no shard, or where there are no others: it takes what is free."""
SEVERAL = "*"


def kind_of(shards: Sequence[str]) -> str:
    """`shards`: those that a job waits for, where there are others.

    >>> kind_of(()), kind_of(("-80",)), kind_of(("-80", "80-"))
    ('', '-80', '*')
    """
    if not shards:
        return ANY
    return shards[0] if len(shards) == 1 else SEVERAL


class Shares:
    """Invariants:
    1. `taken` is the sum of what the kinds have, and at most `most`.
    2. No kind is known that has nothing.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._had: Counter[str] = Counter()

    def may_have(self, kind: str) -> bool:
        """Whether a job of that kind may take one more, where one is free."""
        if kind == ANY or self.most < FEWEST:
            return True
        free = self.most - self.taken
        return self._had[kind] < (free - 1 if kind == SEVERAL else free)

    def took(self, kind: str) -> None:
        self.taken += 1
        self._had[kind] += 1

    def gave(self, kind: str) -> None:
        self.taken -= 1
        self._had[kind] -= 1
        if not self._had[kind]:
            del self._had[kind]

    def check_invariants(self) -> None:
        """Raises AssertionError. For tests."""
        assert self.taken == sum(self._had.values()) and 0 <= self.taken <= self.most
        assert all(count > 0 for count in self._had.values())
