"""Sessions of which something is known, for tests: each value goes to the part that has it."""

from __future__ import annotations

from typing import Any

from proxy.mysql.state.session_state import SessionState


def session_state(**held: Any) -> SessionState:
    """A session of which this is so."""
    return hold(SessionState(), **held)


def hold(state: SessionState, **held: Any) -> SessionState:
    """What is known of the session is this, by the names in its parts."""
    for name, value in held.items():
        part = next(part for part in (state, state.transaction, state.variables, state.tracks) if hasattr(part, name))
        setattr(part, name, value)
    return state
