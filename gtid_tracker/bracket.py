"""The bracket of an upquery: what it can have seen.

Stock MySQL does not tell at which position a SELECT was answered. Two readings on the same connection enclose it:
everything in `lower` (gtid_executed, read before the snapshot) was visible to it; everything visible is in `lower`, or
in `owned` (gtid_owned, read after the snapshot), or in `executed` (gtid_executed, read after that, in this order).
"""

from __future__ import annotations

from gtid_tracker.gtid import GtidSet

NOTHING = GtidSet.empty()

History = str
"""Whose transactions a source's GTIDs count: who compares two positions, or a bracket with a position, must know that
both are of one history. A value that is compared and shown, and never looked into; "" where it is not known. Of a MySQL
server: its UUID."""


def history_of(keyspace: str) -> History:
    """Of a keyspace of Vitess'. The servers of its shards may be exchanged for their replicas, which go on with it."""
    return f"keyspace {keyspace}"


class Bracket:
    """lower <= snapshot <= lower + uncertain.

    `history`: whose GTIDs these are. `uncertain` is Q: the transactions that may or may not be in the answer, empty
    when the source was quiet. `needed`: all that the position must contain before they are resolved. Treat it as
    immutable.

    `others`: if only some shards gave the answer, the position's GTIDs of the other shards; None: the whole source was
    asked. The answer does not depend on `others`. So they count as seen, and nobody waits for the other shards. `own`:
    the part of `lower` that was read at the asked shards.
    """

    __slots__ = ("executed", "history", "lower", "needed", "others", "own", "owned", "uncertain")

    def __init__(
        self, history: History, lower: GtidSet, owned: GtidSet, executed: GtidSet, others: GtidSet | None = None
    ) -> None:
        self.history = history
        self.own = lower
        self.owned = owned
        self.executed = executed
        self.others = others
        self.uncertain = NOTHING
        self.lower = self.needed = lower if others is None else lower.union(others)
        if executed is not lower or owned:
            self.uncertain = executed.union(owned).difference(lower)
            self.needed = self.lower.union(self.uncertain)

    @classmethod
    def exact(cls, history: History, before: GtidSet, owned: GtidSet, executed: GtidSet) -> Bracket:
        """The bracket of an upquery that kept the rows it read locked until `executed` was read. `before` and `owned`:
        gtid_owned, read after its statements and before `executed`, in this order.

        An executed transaction that touches those rows was visible when they were read, because nobody could change
        them since. A transaction that was visible and is not executed was owned before, and still is.
        """
        return cls(history, executed, before.intersection(owned), executed)

    def asked(self, gtids: GtidSet) -> GtidSet:
        """The part of these that the readings can tell of: GTIDs of servers that the readings name. No two shards share
        a server."""
        if self.others is None:
            return gtids
        return gtids.of_servers(self.own, self.owned, self.executed)

    def __repr__(self) -> str:
        return f"Bracket({self.history!r}, {self.own!r}, {self.owned!r}, {self.executed!r}, {self.others!r})"
