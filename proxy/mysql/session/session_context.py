"""What the parts of one session know in common: what it is, what is known of it, and what it was answered."""

from __future__ import annotations

from dataclasses import dataclass, field

from proxy.mysql.login.logged_in import LoggedIn
from proxy.mysql.reads.gate import hit_rule
from proxy.mysql.reads.last_hit import LastHit
from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.reads.routes import Target
from proxy.mysql.reads.shown import Shown, ShownKind
from proxy.mysql.session.shared import Shared
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.state.targets import keyspace_of
from proxy.mysql.state.variable_values import VariableValues
from proxy.mysql.text.own_sql_syntax import Command, LastStatement
from proxy.mysql.wire.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_QUERY_ATTRIBUTES,
    CLIENT_SESSION_TRACK,
    COM_STMT_EXECUTE,
)
from proxy.port.api import Served
from proxy.port.session import SessionCache

EXECUTES = bytes([COM_STMT_EXECUTE])


@dataclass(slots=True, eq=False, weakref_slot=True)
class SessionContext:
    """Of one session, from its login on."""

    shared: Shared
    capabilities: int  # in effect with the client
    state: SessionState
    last_hit: LastHit = field(default_factory=LastHit)
    shown: Shown = field(default_factory=Shown)
    statements: dict[bytes, PreparedStatement] = field(default_factory=dict)  # by their ids at MySQL
    own: dict[bytes, Command] = field(default_factory=dict)  # prepared statements that are Upwell's, by ids of ours
    # How the last statement was answered that was no quick hit: served, cache, reason, position.
    last: tuple[str, str, str, str] | None = None
    active_at: float = 0.0  # when the client has last sent a command, as of the last tick
    server_used_at: float = 0.0  # when MySQL has last been sent one
    _seen: bytes = b""  # the last command, as of the last tick
    eof: bool = field(init=False)  # its rows end with EOF
    attributes: bool = field(init=False)  # its commands have query attributes
    tracks: bool = field(init=False)  # it is told what MySQL's session trackers say

    def __post_init__(self) -> None:
        self.eof = not self.capabilities & CLIENT_DEPRECATE_EOF
        self.attributes = bool(self.capabilities & CLIENT_QUERY_ATTRIBUTES)
        self.tracks = bool(self.capabilities & CLIENT_SESSION_TRACK)
        self.active_at = self.server_used_at = self.shared.clock()

    def note_use(self, now: float) -> None:
        """A tick. Quick hits leave nothing but their command."""
        command = self.last_hit.command
        if command is not self._seen:
            self._seen = command
            self.active_at = now

    def note(self, served: str, cache: str = "", reason: str = "", position: str = "") -> None:
        """How a statement was answered that was no quick hit."""
        self.last_hit.cache = None
        self.last = served, cache, reason, position

    @property
    def rights(self) -> tuple[object, ...]:
        """What the account may do is the same while this is."""
        return self.shared.grants.version, self.state.identity, self.state.rights

    def shown_kind(self, cache: SessionCache, head: bytes, target: Target | None, by_clock: bool) -> ShownKind:
        """Of a hit that is given to a transaction now."""
        needs, relations, state = cache.needs, cache.relations, self.state
        of_session = state.database, state.variables.told_as, self.rights
        return ShownKind(cache, cache.generation, needs, relations, head, target, *of_session, by_clock)

    def text_of(self, data: bytes) -> bytes:
        """What holds the text of a command, b"" of none."""
        executed = self.statements.get(data[5:9]) if data[4:5] == EXECUTES else None
        return data if executed is None else executed.text

    @property
    def last_statement(self) -> LastStatement | None:
        """What EXPLAIN LAST STATEMENT tells."""
        cache = self.last_hit.cache
        if cache is not None:
            position = self.shared.system.position.text_at(self.last_hit.moment)
            return LastStatement(Served.HIT.value, cache.name, hit_rule(self.state), position)
        return LastStatement(*self.last) if self.last is not None else None

    def begin_anew(self) -> None:
        """MySQL has begun a new session on the connection."""
        self.statements.clear()
        self.own.clear()
        self.shown.clear()
        self.last_hit.begun_anew()
        self.state.renew()


def context_of(shared: Shared, logged_in: LoggedIn) -> SessionContext:
    """Of a session whose client has just logged in."""
    capabilities, tells = logged_in.capabilities, shared.positions is None
    variables = VariableValues(
        zone_of=shared.zone_of, packet_of=shared.packet_of, eof=not capabilities & CLIENT_DEPRECATE_EOF
    )
    state = SessionState(
        variables=variables,
        database=logged_in.database if tells else keyspace_of(logged_in.database),
        accounts=shared.system.accounts,
        set_names=shared.set_names,
        login=logged_in.user,
        tells=tells,
    )
    state.note_rights(login=True)
    return SessionContext(shared, capabilities, state)
