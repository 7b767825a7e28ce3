"""What a read may ask of its answer, as the engine sees it: a test, and the GTIDs that upqueries must have."""

from __future__ import annotations

from typing import Protocol

from gtid_tracker.gtid import GtidSet


class Demand(Protocol):
    """One read's demand."""

    @property
    def needed(self) -> GtidSet:
        """What the answer must contain."""
        ...

    def met(self) -> bool:
        """Does an answer at the position that the engine has now serve?"""
        ...

    def met_by(self, lower: GtidSet, sent_at: float) -> bool:
        """Does an upquery's answer serve that contains `lower` and was asked for at `sent_at` (the engine's clock)?"""
        ...
