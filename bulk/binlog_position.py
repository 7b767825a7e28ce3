"""A position of the change stream on Spark: the offset that a checkpoint holds. It lies between transactions."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from gtid_tracker.gtid import GtidSet


@dataclass(frozen=True, slots=True)
class Position:
    """`gtids`: all transactions before this place. `prepared`: those of them that prepared an XA transaction which is
    still open. They are read again, because their rows count from the XA COMMIT on. `transactions`: how many the stream
    has passed.

    `last`: the last transaction passed, "" at a beginning. `committed`: its commit time in microseconds since the
    epoch, the same on every server that has it. `server`: the server that told. These three identify a history.
    """

    gtids: GtidSet
    prepared: GtidSet = field(default_factory=GtidSet)
    transactions: int = 0
    last: str = ""
    committed: int = 0
    server: str = ""

    def as_offset(self) -> dict[str, Any]:
        return asdict(self) | {"gtids": _one_line(self.gtids), "prepared": _one_line(self.prepared)}

    @classmethod
    def from_offset(cls, offset: dict[str, Any]) -> Position:
        """Raises ValueError for what no `as_offset` gave."""
        try:
            sets = {name: GtidSet.parse(offset[name]) for name in ("gtids", "prepared")}
            return cls(**{**offset, **sets})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an offset of this source: {offset!r}") from error


def _one_line(gtids: GtidSet) -> str:
    return str(gtids).replace("\n", "")
