"""Whether a session's read may be answered by a cache: the gate, without a session, a cache or MySQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtid_tracker.gtid import GtidSet
from planner.session.needs import LOCAL
from proxy.mysql.reads.announced import Heads
from proxy.mysql.reads.cached_read import CachedRead
from proxy.mysql.reads.gate import (
    AGAIN,
    CHANGED,
    COUNTS,
    ELSEWHERE,
    HIT,
    NARROW,
    NOT_BROUGHT,
    NOT_TOLD,
    NOTHING,
    OTHER_CACHES,
    OTHER_CLOCKS,
    UNCHANGED,
    Ask,
    Pass,
    Step,
    Verdict,
    gate,
)
from proxy.mysql.reads.shown import Shown
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.state.session_variables import PINNED_VALUES, TRACKED, switched_on
from proxy.port.reasons import NO_REASON, Reason, Why
from proxy.settings.quantities import Transactions
from sqltypes.zone import Zone, fixed
from tests.support.fake_position import FakePosition
from tests.support.session_states import hold

GTIDS = GtidSet.parse("00000000-0000-0000-0000-00000000000a:1-3")
RR, RC, SERIALIZABLE = "REPEATABLE-READ", "READ-COMMITTED", "SERIALIZABLE"


@dataclass(eq=False)
class Cache:
    """Holds `body` for every key; `since`: whether it is the same since any number of the stream."""

    generation: int = 1
    name: str = "c"
    needs: frozenset[str] = frozenset()
    relations: frozenset[tuple[str, str]] = frozenset({("d", "t")})
    counts: bool = False
    tells: tuple[int, ...] = ()
    clocks: Zone | None = None
    body: bytes = b"rows"
    since: bytes | None = b"rows"

    @property
    def moments(self) -> Cache:
        return self

    def peek(self, values: object) -> bytes:
        return self.body

    def peek_since(self, values: object, sequence: int) -> bytes | None:
        return self.since


def why(text: str) -> Why:
    return Reason.OTHER.why(text)


@dataclass
class Around:
    """`has_all`: whether the position has all transactions. `rights`: what is known of the account's."""

    transactions: Transactions = Transactions.ON
    read_your_writes: bool = True
    has_all: bool = False
    rights: Why | None = NO_REASON
    character_sets: dict[str, object] = field(default_factory=dict)
    position: FakePosition = field(default_factory=FakePosition)

    def has(self, gtids: GtidSet) -> bool:
        return self.has_all

    def refusal(self, state: object, cache: object) -> Why | None:
        return self.rights


@dataclass
class Case:
    """A read of a session that may be given a hit, but for what a test changes."""

    state: SessionState = field(default_factory=lambda: plain_state())
    around: Around = field(default_factory=Around)
    shown: Shown = field(default_factory=Shown)
    cache: Cache = field(default_factory=Cache)
    unknown: str = ""  # why it is not known how MySQL announces the columns
    prepared: bool = True  # MySQL has prepared such a text for such a session
    connected: bool = True
    read: CachedRead = field(init=False)

    def __post_init__(self) -> None:
        announced = SimpleNamespace(why="", filled=None, unknown=lambda itself: self.unknown)
        announced.of = lambda shown: announced
        heads, cache = Heads(), cast(Any, self.cache)
        if self.prepared:
            heads.learn(self.state.variables.announces, cache, cache.generation, cast(Any, announced))
        kind = cast(Any, SimpleNamespace(heads=heads))
        self.read = CachedRead(
            b"", 1, cast(Any, self.cache), (1,), b"SELECT \xc3\xa4 FROM t", "d", cast(Any, None), kind
        )

    def answer(self) -> tuple[bytes | None, str]:
        """Of a hit, where it is not the one at the position, and by which rule."""
        assert self.verdict() is HIT
        return self.read.body, self.read.rule

    def verdict(self) -> Verdict:
        return gate(self.read, self.state, self.shown, self.around, connected=self.connected)


def plain_state(**held: Any) -> SessionState:
    state = SessionState(database="d", known=True)
    state.variables.values = {**PINNED_VALUES, **switched_on({}), "session_track_system_variables": ",".join(TRACKED)}
    state.variables.values["transaction_isolation"] = RR
    return hold(state, **held)


def in_transaction(isolation: str = RR, **held: Any) -> SessionState:
    state = plain_state(in_transaction=True, **held)
    state.variables.values["transaction_isolation"] = isolation
    return state


def test_a_session_in_which_nothing_stands_in_the_way_has_hits() -> None:
    assert Case().verdict() is HIT


def test_what_must_be_known_first_is_asked_for_in_this_order() -> None:
    case = Case(plain_state(known=False), unknown="not known", prepared=False)
    assert case.verdict() == Ask(Step.REFRESH)
    case.state.known = True
    assert case.verdict() == Ask(Step.RIGHTS), "so that it is learned from MySQL's answer, if it has to answer"
    case = Case(unknown="not known")
    assert case.verdict() == Pass(why("not known"), learns=True)
    case.read.forced = True
    assert case.verdict() == Ask(Step.COLUMNS)


def test_rights_decide_before_columns_do() -> None:
    assert Case(around=Around(rights=None)).verdict() == Ask(Step.RIGHTS)
    assert Case(around=Around(rights=why("no right")), unknown="not known").verdict() == Pass(why("no right"))
    refused = Case(prepared=False)
    refused.read.refused = why("MySQL refuses")
    assert refused.verdict() == Pass(why("MySQL refuses"))


def test_in_another_database_mysql_cannot_be_asked_about_the_text() -> None:
    assert Case(plain_state(database="other"), prepared=False).verdict() == Pass(ELSEWHERE)
    assert Case(plain_state(database="other")).verdict() is HIT, "it need not be asked"


def test_a_cache_that_is_planned_again_is_another_one() -> None:
    case = Case()
    case.cache.generation += 1
    assert case.verdict() == Pass(OTHER_CACHES)


def test_characters_that_the_session_lacks_are_mysqls() -> None:
    assert Case(plain_state(narrow="ascii")).verdict() == Pass(why(f"{NARROW} ascii"))
    assert Case(plain_state(narrow="utf8mb3")).verdict() is HIT


def test_own_writes_are_waited_for_once() -> None:
    case = Case(plain_state(token=GTIDS))
    assert case.verdict() == Ask(Step.OWN_WRITES)
    case.read.waited = True
    assert isinstance(case.verdict(), Pass) and case.state.token == GTIDS
    case.around.has_all = True
    assert case.verdict() is HIT and case.state.token == NOTHING
    assert Case(plain_state(token=GTIDS), Around(read_your_writes=False)).verdict() is HIT


def test_temporary_tables_are_asked_for_once() -> None:
    case = Case(plain_state(hiding=True))
    assert case.verdict() == Ask(Step.HIDDEN)
    case.read.hidden = "t"
    assert case.verdict() == Pass(why("a temporary table hides t"))
    assert Case(plain_state(hiding=True, not_hidden={("d", "t")})).verdict() is HIT


# -- what was shown ----------------------------------------------------------------------------------------------------


def test_what_mysql_has_answered_is_asked_for_once() -> None:
    for state in (plain_state(passed=True), in_transaction(passed=True, shown=GTIDS)):
        case = Case(state)
        assert case.verdict() == Ask(Step.SHOWN)
        case.read.asked = True
        assert case.verdict() == Pass(NOT_TOLD)


def test_what_the_position_has_counts_no_more() -> None:
    case = Case(plain_state(shown=GTIDS), Around(has_all=True))
    assert case.verdict() is HIT and case.state.shown == NOTHING
    case = Case(plain_state(shown=GTIDS))
    assert case.verdict() is HIT and case.state.shown == GTIDS, "a fill may have it"


def test_without_mysql_nothing_more_comes() -> None:
    case = Case(plain_state(shown=GTIDS, passed=True), connected=False)
    assert case.verdict() is HIT and (case.state.passed, case.state.shown) == (False, NOTHING)


def test_a_transaction_of_one_state_waits_and_once() -> None:
    """A fill is of no use to it: its answer is not at the position."""
    case = Case(in_transaction(shown=GTIDS))
    assert case.verdict() == Ask(Step.BROUGHT)
    case.read.behind = True
    assert case.verdict() == Pass(NOT_BROUGHT)
    assert Case(in_transaction(RC, shown=GTIDS)).verdict() is HIT


# -- transactions ------------------------------------------------------------------------------------------------------


def test_a_transaction_is_shown_one_state() -> None:
    case = Case(in_transaction())
    assert case.answer() == (None, ""), "at the position"
    case.shown.note(cast(Any, case.cache), (1,), b"rows")
    case.shown.holds(1, "position 1")
    assert case.answer() == (None, ""), "still at the position: what is held is what was shown"
    case.around.position.number = 2
    assert case.answer() == (b"rows", AGAIN)
    case.cache.body, case.around.position.number = b"others", 2
    case.read.values = (2,)
    assert case.answer() == (b"rows", UNCHANGED)
    case.cache.since = None
    assert case.verdict() == Pass(CHANGED)


def test_what_is_counted_is_mysqls_where_all_must_be_one_state() -> None:
    for state, verdict in ((in_transaction(), Pass(COUNTS)), (in_transaction(RC), HIT), (plain_state(), HIT)):
        case = Case(state)
        case.cache.counts = True
        assert case.verdict() == verdict


@pytest.mark.parametrize("mode", Transactions)
@pytest.mark.parametrize("isolation", [RC, RR, SERIALIZABLE])
def test_rules_of_transactions(mode: Transactions, isolation: str) -> None:
    hit = Case(in_transaction(isolation), Around(mode)).verdict() is HIT
    assert hit == (isolation in {Transactions.ON: (RC, RR), Transactions.STRICT: (RC,), Transactions.OFF: ()}[mode])


BOOLEANS = (
    "known",
    "in_transaction",
    "hiding",
    "locked",
    "unsettled",
    "saved",
    "misflagged",
    "passed",
    "wrote",
)


@given(
    held=st.fixed_dictionaries({name: st.booleans() for name in BOOLEANS}),
    one_shot=st.sampled_from(["", "SET TRANSACTION READ ONLY"]),
    token=st.booleans(),
    shown=st.booleans(),
    isolation=st.sampled_from([RC, RR, SERIALIZABLE]),
    rights=st.sampled_from([NO_REASON, why("no right"), None]),
    unknown=st.sampled_from(["", "not known"]),
    has_all=st.booleans(),
)
def test_a_hit_is_given_only_where_nothing_stands_in_its_way(
    held: dict[str, bool],
    one_shot: str,
    token: bool,
    shown: bool,
    isolation: str,
    rights: Why | None,
    unknown: str,
    has_all: bool,
) -> None:
    """Whatever the session is like. Each condition of a hit is said here on its own."""
    state = plain_state(**held, one_shot=one_shot, token=GTIDS if token else NOTHING, shown=GTIDS if shown else NOTHING)
    state.variables.values["transaction_isolation"] = isolation
    case = Case(state, Around(rights=rights, has_all=has_all), unknown=unknown)
    verdict = case.verdict()
    conditions = (
        held["known"],
        not (held["locked"] or held["unsettled"] or held["saved"] or held["misflagged"]),
        not one_shot,
        not held["hiding"],
        not held["passed"],
        not held["in_transaction"] or (isolation != SERIALIZABLE and not held["wrote"]),
        not token or has_all,
        not (shown and held["in_transaction"] and isolation == RR) or has_all,
        rights == "",
        not unknown,
    )
    assert (verdict is HIT) == all(conditions)
    if isinstance(verdict, Pass):
        assert verdict.why and verdict.learns == (verdict.why == unknown != "")


def test_a_cache_that_was_opened_for_other_clocks_shows_no_instants() -> None:
    """The time zone was another one, or not known, when the read came."""
    east = fixed("+02:00")
    for needs, opened_for, of_session in product((frozenset[str](), frozenset({LOCAL})), (None, east), (None, east)):
        state = plain_state(clocks=of_session)
        verdict = Case(state, cache=Cache(needs=needs, clocks=opened_for)).verdict()
        assert (verdict is HIT) == (not needs or opened_for is of_session)
        assert verdict is HIT or verdict == Pass(OTHER_CLOCKS)
