"""BEGIN, COMMIT and ROLLBACK of which MySQL need not hear, or not yet: a session answers them itself."""

from __future__ import annotations

from proxy.mysql.reads.gate import begins_here, ends_here
from proxy.mysql.reads.routes import Route
from proxy.mysql.session.session_context import SessionContext
from proxy.mysql.text.statement_kind import READS_ONLY, Kind
from proxy.mysql.wire.packets import OK, OkAnswer, ok_bytes, packet

ENDED_HERE = "nothing of the transaction has reached MySQL"
BEGUN_HERE = "MySQL is told that the transaction has begun once it must answer in it"
VERSION_COMMENT = b"/*!"  # MySQL may warn of it
MOST = 16  # commands of one session; clients choose their bytes
LONGEST = 100  # bytes of such a command: longer ones are looked at each time


class Bounds:
    """Of one session.

    Invariant: what is at hand is what the session was sent since MySQL was last sent anything that it answers, and a
    prepared statement was last closed or sent a long value. So the same bytes are the same statement. Whether it can
    be answered here is looked at each time.
    """

    def __init__(self, context: SessionContext) -> None:
        self.at_hand: dict[bytes, Route] = {}
        self._context = context
        self._state = context.state
        self._answers: dict[int, bytes] = {}  # by the status flags

    def answer(self, data: bytes, route: Route, *, at_hand: bool = False) -> bytes | None:
        """The answer to a command, whose statement this is; None: MySQL must have it. `at_hand`: the command is."""
        context, state, effects = self._context, self._state, route.effects
        hit = context.last_hit
        if not at_hand and VERSION_COMMENT in context.text_of(data):
            return None
        if effects.ends_only and ends_here(state):
            state.transaction.begun, state.transaction.begun_by = 0, ""
            why = ENDED_HERE
            context.shared.system.count("empty_transactions")
        elif route.statement.kind is Kind.BEGIN and begins_here(state, route.statement.options):
            reads_only = READS_ONLY in route.statement.options
            by = "START TRANSACTION READ ONLY" if reads_only else "BEGIN"
            state.transaction.begin(by, reads_only=reads_only or state.variables.reads_only)
            why = BEGUN_HERE
        else:
            return None
        context.shown.clear()
        if (
            hit.command or not state.transaction.begun
        ):  # MySQL's own BEGIN will stand before what asks about the statement before
            hit.ended_here(data, context.text_of(hit.command))
        context.note("answered", "", why)
        if not at_hand and len(data) <= LONGEST:
            if len(self.at_hand) >= MOST:
                self.at_hand.clear()
            self.at_hand[data] = route
        status = state.transaction.status
        return self._answers.get(status) or self._made(status)

    def forget(self) -> None:
        """The same bytes may be another statement."""
        self.at_hand.clear()

    def _made(self, status: int) -> bytes:
        payload = ok_bytes(OkAnswer(0, 0, status, 0, b""), OK, session_track=self._context.tracks)
        self._answers[status] = made = packet(payload, 1)
        return made
