"""What a session was told by a hit, for the comparison with what MySQL tells under its variables. Pure."""

from __future__ import annotations

from proxy.mysql.reads.cached_read import CachedRead
from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.wire.packets import Malformed
from proxy.port.as_told import AsTold


def as_told(read: CachedRead, state: SessionState) -> AsTold | None:
    """None where MySQL would be asked something else: at another moment of the clock, or of a statement that it has
    resolved by other settings, or by what was bound before. Requires: the read was answered by a hit."""
    settings = state.settings
    if not settings.can_be_set or read.is_of_now or read.cache.counts or read.upto is not None:
        return None
    statement, execution, text = read.kind, b"", read.sent
    if isinstance(statement, PreparedStatement):
        if not statement.is_as_new(settings):
            return None
        text = statement.sent
        try:
            execution = statement.bound.execution(read.data)
        except (Malformed, IndexError):
            return None
        if not execution:
            return None
    results = state.variables.values.get("character_set_results", "")
    return AsTold(settings, text, execution, read.database, read.head, read.shown, results)
