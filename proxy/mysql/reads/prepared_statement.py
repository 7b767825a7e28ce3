"""Prepared statements as the proxy sees them: what MySQL announced, and what the session was like. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from external_upquery.mysql.other_session import Settings
from planner.session.needs import SESSION_NEEDS
from proxy.mysql.reads.announced import Heads
from proxy.mysql.reads.bound_types import BoundTypes
from proxy.mysql.state.announces import Announces
from proxy.mysql.state.session_state import SessionState
from sqltypes.zone import Zone


class PreparedStatement:
    """A prepared statement of one session. `bound`: how its parameters are bound."""

    marks = b""  # that were read as the session's sql_mode has it, and are written otherwise in `text`
    # What `answer` is of: VariableValues.announces, caches' version.
    announced: tuple[Announces | None, int] = (None, -1)
    target: object = None  # the `Target` (routes.py) of the text without what the clock says
    hinted = b""  # the session's hint as of which that is, and its clocks
    clocks: Zone | None = None
    headed: object = None  # the cache that `heads` are of, and its plan
    # MySQL may have read it otherwise than where caches are filled (`changes_marks`).
    misread = False
    # Session variables that were not as in the sessions that fill caches when MySQL resolved the text, or executed
    # it: where a table has changed, it resolves it anew.
    differed: frozenset[str] = frozenset()
    # What the session was like when MySQL resolved it, where it asks about that alone (`questions.py`).
    asked_as: Hashable | None = None
    # With which hint the text means elsewhere what it did whenever MySQL may have resolved it (`hint_for`); None:
    # that was not always one.
    hint: bytes | None = None
    # What the session had set whenever MySQL may have resolved it; None: that was not always the same, or not known.
    settings: Settings | None = None
    # MySQL has answered with an error, and goes on so where it could not convert a string for a column.
    failed = False

    def __init__(self, text: bytes, database: str, answer: Sequence[bytes], *, attributes: bool) -> None:
        """`answer`: the packets of MySQL's answer to COM_STMT_PREPARE. `attributes`: with CLIENT_QUERY_ATTRIBUTES."""
        self.id, self.parameters = answer[0][1:5], int.from_bytes(answer[0][7:9], "little")
        self.text = self.sent = text  # as a session that fills caches would be sent it; as it was sent
        self.database = database
        self.answer = answer
        self.attributes = attributes
        # What stands before the rows of an answer, by how the session is told of columns (`VariableValues.announces`).
        self.heads = Heads()
        self.bound = BoundTypes(self.parameters, attributes=attributes)

    @property
    def resolved(self) -> object:
        """How the session was told of columns when MySQL resolved the text; the statement where that is not known."""
        return self.announced[0] if self.announced[0] is not None else self

    def note_session(self, state: SessionState) -> None:
        """MySQL executes it in a session that is so, and may resolve it anew."""
        self.misread |= state.variables.marks_of(self.sent) != self.marks
        if state.variables.narrow or state.variables.differing(SESSION_NEEDS):
            self.differed |= state.variables.differences(self.text)
        if state.hint != self.hint:
            self.hint = None
        if state.settings is not self.settings:
            self.settings = None

    def is_as_new(self, settings: Settings) -> bool:
        """Whether MySQL would resolve it in the same way if it were prepared now, in a session with these settings, and
        bound as it was last."""
        return not (self.bound.turned or self.misread) and self.settings is settings and self.sent == self.text
