"""The bracket of an upquery: what can it have seen?

Stock MySQL does not tell at which position a SELECT was answered. Two readings on the same connection enclose it:
everything in
`lower` (gtid_executed, read before the snapshot) was visible to it; everything visible is in `lower`, or in `owned`
(gtid_owned, read
after the snapshot), or in `executed` (gtid_executed, read after that, in this order).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gtid_tracker.gtid import GtidSet


@dataclass(frozen=True)
class Bracket:
    """lower <= snapshot <= lower + uncertain."""

    server_uuid: str
    lower: GtidSet
    owned: GtidSet
    executed: GtidSet

    @cached_property
    def uncertain(self) -> GtidSet:
        """Q: the transactions that may or may not be in the answer. Empty when the source was quiet."""
        if not self.owned and (self.executed is self.lower or self.executed == self.lower):
            return GtidSet.empty()
        return self.executed.union(self.owned).difference(self.lower)

    @cached_property
    def needed(self) -> GtidSet:
        """All that the position must contain before the answer's transactions are resolved."""
        return self.lower.union(self.uncertain) if self.uncertain else self.lower
