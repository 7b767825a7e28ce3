"""What vtgate's errors to statements mean. Pure."""

from __future__ import annotations

from sqltypes.errors import SourceError

PASSING = frozenset({1041, 1053, 1203, 1317, 2006, 2013})
AWAY = (
    *("no healthy tablet", "is not serving", "NOT_SERVING", "SHUTTING_DOWN", "being resharded", "buffer", "VT14"),
    "either down or nonexistent",
)
"""What it says, and by which errors, where a shard cannot be asked for a moment. Most have the number 1105."""


def passes(error: SourceError) -> bool:
    """Whether vtgate refuses it for a moment only, as a shard cannot be asked just then. A session that has met it may
    go on asking a tablet that is no more: measured with v24.0.4, for ever."""
    return error.errno in PASSING or (error.errno == 1105 and any(word in error.message for word in AWAY))
