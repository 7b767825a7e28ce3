"""Whether the source's history is still the one that was followed. Pure.

Several things can have happened. Another server answers. The server was set back: to an older copy of its data, or by a
crash that lost the last commits. It began another history (RESET BINARY LOGS AND GTIDS). Since then it may have
committed as many transactions as before, so GTIDs alone tell nothing. Or changes went by without being in a binlog
(gtid_purged set by hand).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gtid_tracker.gtid import Gtid, GtidSet
from sqltypes.schema import Table
from sqltypes.source_checks import Finding

PLANNED_BY = ("version", "innodb_native_foreign_keys")
"""Variables that plans were made by, and that another start may change."""
ANOTHER = "another server answers"
SAME_START = 1.5  # seconds by which two tellings of one start may differ: MySQL tells whole seconds


@dataclass(frozen=True, slots=True)
class Known:
    """What a server told of itself at a login. `started`: when it was started, by its own clock. `settings`: of
    `PLANNED_BY`, "" what it does not have. `skew`: seconds by which its clock is ahead of ours. `resets`: RESET
    statements that it had executed since its start. `findings`: what it should be and is not."""

    server_uuid: str
    executed: GtidSet
    purged: GtidSet
    started: float
    settings: tuple[str, ...] = ()
    skew: float = 0.0
    resets: int = 0
    findings: Sequence[Finding] = ()

    def restarted(self, later: Known) -> bool:
        """Whether the server was started anew since. If its clock was set, it seems so."""
        return abs(self.started - later.started) > SAME_START


@dataclass(frozen=True, slots=True)
class Followed:
    """How far a stream has come: where another process takes it up again, as after a lost connection. `last`: as
    `why_lost` has it. `tables`: whose definitions are known to be those of the rows that come next."""

    position: GtidSet
    last: tuple[Gtid, bytes] | None
    known: Known
    tables: tuple[Table, ...] = ()


def why_lost(position: GtidSet, last: tuple[Gtid, bytes] | None, before: Known | None, now: Known) -> str:
    """Why the position does not belong to the server's present history; "" if nothing says so.

    `last`: the last transaction read, which can be asked for again and compared. None: there was none since the start,
    so nothing can be compared, and only an untouched server is believed.
    """
    if not position.issubset(now.executed):
        return "the source does not have all of our position: it lost transactions, or another server answers"
    if not now.purged.issubset(position):
        return "the source has purged binlogs that were not read yet"
    if before is None:
        return ""
    if before.server_uuid != now.server_uuid:
        # It has all of our position; but who fills from it compares with what was read of another.
        return f"{ANOTHER}: {now.server_uuid} instead of {before.server_uuid}"
    for name, old, new in zip(PLANNED_BY, before.settings, now.settings, strict=False):
        if old != new:
            return f"the source was started anew with {name}={new}, and caches were planned for {name}={old}"
    if last is not None and last[0] in now.purged:
        return f"{last[0]}, the last transaction that was read, is in no binlog any more: it cannot be compared"
    if last is None and (before.restarted(now) or before.purged != now.purged):
        return "the source was started anew or its binlogs are others, and there is no transaction to compare"
    return ""
