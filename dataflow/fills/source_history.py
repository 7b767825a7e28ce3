"""What upqueries have told of the server that answers: which one it is, and what it had executed when.

Every reading of gtid_executed is a lower bound of all snapshots that the server takes later. A server of which that is
not true has lost transactions; what was filled from it is not its history any more.
"""

from __future__ import annotations

from gtid_tracker.bracket import Bracket, History
from gtid_tracker.gtid import GtidSet, MutableGtidSet


class SourceHistory:
    """The readings of one server at a time."""

    def __init__(self) -> None:
        self.history: History = ""  # of who answered last; "" where nobody has since history began anew
        self.floor: GtidSet | None = None  # what the lower bound of every upquery that is sent now must contain
        self._newest_executed: GtidSet | None = None
        # A reading, how many transactions had been received when it was looked at, and whether all were in it.
        self._quiet: tuple[GtidSet | None, int, bool] = (None, -1, False)

    def forget(self) -> None:
        """History begins anew; whoever answers next is the server."""
        self.history = ""
        self.floor = self._newest_executed = None

    def known_lower(self, received: int, position: MutableGtidSet) -> GtidSet | None:
        """A reading that is as good as a new one: nothing has been received since that is not in it.

        An old one would be a lower bound too, but would make Q wide. `received`: transactions so far, all of them in
        `position`.
        """
        reading = self._newest_executed
        if reading is None:
            return None
        if self._quiet[0] is not reading or self._quiet[1] != received:
            self._quiet = (reading, received, position.freeze().issubset(reading))
        return reading if self._quiet[2] else None

    def contradiction(self, bracket: Bracket, floor: GtidSet | None) -> str:
        """Takes a bracket in. Says why it is not of the history known so far, "" if it is.

        `floor`: `self.floor` when the upquery was sent.
        """
        server, lower = bracket.history, bracket.own
        if self.history and server != self.history:
            return f"server {server} answers instead of {self.history}"
        newest = self._newest_executed
        # Connections answer in any order: an older reading that comes later would make the next bracket look like a
        # loss.
        if newest is None or (newest is not bracket.executed and newest.issubset(bracket.executed)):
            self._newest_executed = bracket.executed
        if lower is floor and lower is bracket.executed and self.history:
            return ""
        if floor is not None:
            floor = bracket.asked(floor)
        if not lower.issubset(bracket.executed) or (floor is not None and not floor.issubset(lower)):
            return f"server {server} has lost transactions that it had executed"
        self.history = server
        if self.floor is None or self.floor.issubset(lower):
            self.floor = lower
        elif not lower.issubset(self.floor):  # told before transactions were lost, arrived after
            self.floor = self.floor.union(lower)
        return ""
