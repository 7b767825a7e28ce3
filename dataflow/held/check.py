"""A check of a fill: what a reader derives from it, compared with MySQL's own answer to the client's own text.

Both come from one snapshot: the text runs in the upquery's transaction. So they must be equal, but for what MySQL may
choose. What decides that knows columns and encodings, and lies above the engine (`proxy/cache/trust.py`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from enum import Enum
from typing import Protocol

from dataflow.held.arrangement import Entries
from dataflow.messages import OwnAnswer
from sqltypes.errors import SourceError
from sqltypes.expression import Row


class Finding(Enum):
    AGREES = "agrees"
    DIFFERS = "differs"
    UNKNOWN = "unknown"


class Check(Protocol):
    """The check of one read. `sql`: the client's text, with its values."""

    @property
    def sql(self) -> str: ...

    def compare(self, rows: list[Row] | None, own: OwnAnswer | SourceError, levels: Sequence[Entries]) -> Finding:
        """`rows`: what the reader derives from `levels`, the fill's entries; None where it cannot."""
        ...

    def compare_in_steps(
        self, rows: list[Row] | None, own: OwnAnswer | SourceError, levels: Sequence[Entries]
    ) -> Generator[None, None, Finding]:
        """`compare`, of many rows."""
        ...
