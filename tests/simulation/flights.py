"""What is under way in the simulation: upqueries, reads, subscribers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from dataflow.engine import Engine
from dataflow.fills.read import Read
from dataflow.messages import UpqueryAnswer, UpqueryFailed, UpqueryRequest
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import GtidSet
from sqltypes.expression import Row
from tests.simulation.queries import Parameters
from tests.simulation.source import Source
from tests.simulation.sql_side import Rows

MOST_TRIES = 4  # to lock
NOTHING = GtidSet.empty()
Deliver = Callable[[UpqueryAnswer | UpqueryFailed], None]


@dataclass(eq=False, slots=True)
class Flight:
    """An upquery under way. `stage`: how many of its moments have passed (`Simulation.moments`). `deliver`: who is told
    of its answer, where that is not the engine."""

    request: UpqueryRequest
    sent: int  # the answers that had come before it was sent
    stage: int = 0
    server: str = ""
    incarnation: int = 0
    lower: GtidSet = NOTHING
    owned: GtidSet = NOTHING
    executed: GtidSet = NOTHING
    results: list[list[Row]] = field(default_factory=list)
    still_owned: GtidSet = NOTHING  # of an exact one: read after `owned`
    locked: frozenset[str] = frozenset()  # tables that nobody may change, from the SQL of an exact one to its X
    tries: int = 0  # to lock
    seen: Rows = field(default_factory=dict)  # what the snapshot was
    seen_gtids: GtidSet = NOTHING
    own: list[list[Row]] = field(default_factory=list)  # what the request's checks gave
    deliver: Deliver | None = None

    def ask(self, moment: str, source: Source) -> None:
        """What the source says of its transactions at one of the upquery's moments."""
        match moment:
            case "lower":
                self.lower = self.request.lower if self.request.lower is not None else source.executed()
            case "owned":
                self.owned = source.owned()
            case "still owned":
                self.still_owned = source.owned()
            case _:
                self.executed = source.executed()
                self.locked = frozenset()

    def lock(self, source: Source) -> bool:
        """The locks of an exact upquery; where they do not come, it is sent without."""
        tables = [name.split("`")[-2] for name in self.request.tables]
        if source.lockable(tables):
            self.locked = frozenset(tables)
            return True
        self.tries += 1
        if self.tries == MOST_TRIES:
            self.request.exact = False
        return False

    @property
    def torn(self) -> bool:
        """Are its readings those of two servers?"""
        return not self.lower.issubset(self.executed)

    def lacks(self, past: Flight) -> bool:
        """Does it lack what another had told before it was sent?"""
        return not past.lower.issubset(self.lower)

    def bracket(self) -> Bracket:
        if self.request.exact:
            return Bracket.exact(self.server, self.owned, self.still_owned, self.executed)
        return Bracket(self.server, self.lower, self.owned, self.executed)


@dataclass(frozen=True)
class Asked:
    """A demand of these GTIDs."""

    engine: Engine
    needed: GtidSet

    def met(self) -> bool:
        return self.engine.state.ring.position.covers(self.needed)

    def met_by(self, lower: GtidSet, sent_at: float) -> bool:
        return self.needed.issubset(lower)


@dataclass(eq=False, slots=True)
class Waiting:
    """A read that waits: who asks what, and the position when it began."""

    name: str
    parameters: Parameters
    read: Read
    position: GtidSet


@dataclass(eq=False, slots=True)
class Subscriber:
    name: str
    parameters: Parameters
    rows: Counter[Row] | None = None


class Told:
    """What answers have told of the source since history last began anew; says when that must be a contradiction."""

    def __init__(self) -> None:
        self.answers = 0
        self._told: list[tuple[Flight, int]] = []

    def forget(self) -> None:
        self._told.clear()

    def must_contradict(self, flight: Flight) -> bool:
        """Takes an answer in: is it of another server than the ones before, or of one that has lost what it had told
        before this upquery was sent?"""
        self.answers += 1
        wrong = flight.torn or any(
            past.server != flight.server or (at <= flight.sent and flight.lacks(past)) for past, at in self._told
        )
        self._told.append((flight, self.answers))
        return wrong

    def incarnations(self) -> set[int]:
        return {flight.incarnation for flight, _ in self._told}
