"""The sessions of the listener for MySQL's protocol that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.mysql.session.relay import Relay
from proxy.mysql.state.session_state import SessionState

if TYPE_CHECKING:
    from proxy.mysql.session.session_context import SessionContext


class Member(Protocol):
    """A session, as who looks after all of them sees it."""

    context: SessionContext
    relay: Relay
    state: SessionState

    @property
    def connection_id(self) -> int: ...

    def ping_server(self) -> None: ...

    def forget_rights(self) -> None:
        """What the account may do is to be asked anew."""
        ...

    def interrupt(self) -> None:
        """KILL QUERY has come for it."""
        ...


class OpenSessions(set[Member]):
    """Those that have not ended. `orphans`: of them, those that have lost MySQL, and live by their hits. `closing`:
    those that have ended, and since when; their connections are still open."""

    def __init__(self) -> None:
        super().__init__()
        self.orphans: set[Member] = set()
        self.closing: dict[Member, float] = {}

    def note_zones(self) -> None:
        """The clocks of a time zone are known that were not."""
        for session in self:
            session.state.variables.note_zone()

    def note_packet(self) -> None:
        for session in self:
            session.state.variables.note_packet()

    def interrupt(self, connection_id: int) -> None:
        """MySQL has accepted a KILL QUERY for the session of this number."""
        for member in self:
            if member.connection_id == connection_id:
                member.interrupt()

    def ending(self, session: Member, now: float) -> None:
        """It is over; its connections may still be open."""
        self.discard(session)
        self.orphans.discard(session)
        self.closing[session] = now

    def ended(self, session: Member) -> None:
        """Both connections are closed."""
        self.closing.pop(session, None)
