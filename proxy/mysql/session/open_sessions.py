"""The sessions of the listener for MySQL's protocol that are there."""

from __future__ import annotations

from typing import Protocol

from proxy.mysql.session.relay import Relay
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.text.own_sql_syntax import LastStatement


class Member(Protocol):
    """A session, as who looks after all of them sees it."""

    relay: Relay
    state: SessionState

    @property
    def connection_id(self) -> int: ...

    @property
    def active_at(self) -> float:
        """When the client has last sent a command, as of the last tick."""
        ...

    @property
    def server_used_at(self) -> float:
        """When MySQL has last been sent one."""
        ...

    @property
    def last_statement(self) -> LastStatement | None: ...

    def note_use(self, now: float) -> None: ...

    def ping_server(self) -> None: ...

    def forget_rights(self) -> None:
        """What the account may do is to be asked anew."""
        ...

    def interrupt(self) -> None:
        """KILL QUERY has come for it."""
        ...


class OpenSessions(set[Member]):
    """Those that have not ended. `orphans`: of them, those that have lost MySQL, and live by their hits. `closing`:
    those that have ended, whose connections are still open."""

    def __init__(self) -> None:
        super().__init__()
        self.orphans: set[Member] = set()
        self.closing: set[Member] = set()

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

    def ending(self, session: Member) -> None:
        """It is over; its connections may still be open."""
        self.discard(session)
        self.orphans.discard(session)
        self.closing.add(session)

    def ended(self, session: Member) -> None:
        """Both connections are closed."""
        self.closing.discard(session)
