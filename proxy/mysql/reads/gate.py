"""Whether a session's read may be answered by a cache, and the hits of a transaction. No sockets and no waiting.

read -> gate -> HIT    : a cache may answer
             -> Ask    : that must be asked of MySQL, or waited for, first; then the read is looked at again
             -> Pass   : MySQL answers, for that reason, in the client's own session

A hit shows the newest state that the stream has brought. Outside of a transaction that is what MySQL promises. READ
COMMITTED shows each statement the newest state. REPEATABLE READ shows all statements of a transaction one state. That
transaction stands at the newest position at which all that it was shown is the answer (`Shown`). A hit is given where
the answer is known to be the same there: it was shown before, or nothing of it has changed since. Once MySQL has opened
its own snapshot for the transaction (a read that was passed through), only what was shown before is shown from memory.
Once the transaction has written or locked rows, all of it is MySQL's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from enum import Enum
from typing import NamedTuple, Protocol

from gtid_tracker.gtid import GtidSet
from planner.session.needs import LOCAL, SENT
from proxy.mysql.reads.announced import Announced
from proxy.mysql.reads.cached_read import CachedRead
from proxy.mysql.reads.shown import SHOWN_BYTES, SHOWN_KEYS, Command, Said, Shown
from proxy.mysql.reads.trackerless import before_vtgate
from proxy.mysql.state.recoding import MOST as MOST_RECODED
from proxy.mysql.state.recoding import ONE_BYTE, Recode, recoded
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.state.session_variables import BINARY
from proxy.mysql.state.targets import elsewhere
from proxy.mysql.text.statement_kind import READS_ONLY
from proxy.mysql.wire.packets import count_packets
from proxy.port.api import ParameterValue
from proxy.port.position import Position
from proxy.port.reasons import NO_REASON, Reason, Why
from proxy.port.session import SessionCache
from proxy.settings.quantities import Transactions

AGAIN = "the REPEATABLE READ transaction was shown this before"
UNCHANGED = "in a REPEATABLE READ transaction: unchanged since the state that it was shown"
OPEN = Reason.TRANSACTION.why("the REPEATABLE READ transaction has its snapshot at MySQL", other_state=True)
CHANGED = Reason.TRANSACTION.why("what the REPEATABLE READ transaction was shown has changed", other_state=True)
FULL = Reason.TRANSACTION.why(
    "the REPEATABLE READ transaction was shown all that is remembered of one,"
    f" {SHOWN_KEYS} keys or {SHOWN_BYTES} bytes",
    other_state=True,
)
COUNTS = Reason.TRANSACTION.why(
    "the query has SQL_CALC_FOUND_ROWS, and all that the REPEATABLE READ transaction is shown must be one state"
)
UNSETTLED = Reason.TRANSACTION.why(
    "the kind of transactions was changed in one, and MySQL has not ended a statement outside of it since"
)
MISFLAGGED = Reason.SETTING.why(
    "the session began with autocommit off, of which MySQL's flags do not tell until it is set"
)
LOCKED = Reason.SETTING.why("the session has locked tables")
ONE_SHOT = Reason.TRANSACTION.why("SET TRANSACTION is in force for the next transaction")
OFF = Reason.TRANSACTION.why("in a transaction, and --transactions=off")
IS_STRICT = Reason.TRANSACTION.why("in a REPEATABLE READ transaction, and --transactions=strict")
IS_SERIALIZABLE = Reason.TRANSACTION.why("in a SERIALIZABLE transaction")
HAS_WRITTEN = Reason.TRANSACTION.why("in a transaction that has written")
MAY_HAVE_WRITTEN = Reason.TRANSACTION.why("the transaction may have written or locked rows")
SAVED = Reason.TRANSACTION.why("a savepoint may have been set, and no transaction has begun at MySQL since")
NOT_BROUGHT = Reason.LATE.why("the stream has not brought what the session was shown")
NOT_TOLD = Reason.LATE.why("MySQL does not tell what its answers may have shown the session")
ELSEWHERE = Reason.SETTING.why("prepared in another database than the session's, where MySQL cannot be asked about it")
NARROW = "the session's character sets lack characters of the text or its values: they have those of"
READ_OTHERWISE = Reason.SETTING.why(
    "this session's sql_mode changes what a double quote or a backslash of the text means"
)
NAMED_BY_QUOTES = Reason.SETTING.why(
    "double quotes make names in this session, and a column is named by the letters of such a text"
)
TELLS = Reason.SETTING.why(
    "the text tells a collation, as those of Upwell's own fills do, which counts in this session for nothing"
)
OTHER_MODE = Reason.SETTING.why("sql_mode, or the collation of literals, is another in this session by now")
OTHER_CLOCKS = Reason.SETTING.why("the session's time zone is another than when the read came")
ROW_LIMIT = "sql_select_limit is {} in this session, and the answer has more rows, or is a long one"
MOST_LOOKED_AT = 256 * 1024  # bytes of an answer whose characters or rows are looked at: about 1 ms
OTHER_CACHES = Reason.PLANNED_ANEW.why(
    "the cache was planned again, or dropped, while the read waited", other_state=True
)
TRANSACTION_INFO = "session_track_transaction_info"
BEGINS_LATER = frozenset({READS_ONLY})  # options of START TRANSACTION that are as good later
SERIALIZABLE = "SERIALIZABLE"
COMMITTED = frozenset({"READ-COMMITTED", "READ-UNCOMMITTED"})
NOTHING = GtidSet.empty()


class Step(Enum):
    """What must be done before it can be said whether a read may be a hit."""

    REFRESH = "ask MySQL what the session is like"
    RIGHTS = "ask MySQL whether the account may run the query, and how its columns are announced"
    COLUMNS = "learn from an answer of MySQL how it announces the columns"
    OWN_WRITES = "wait until the stream has brought what the session has written"
    SHOWN = "ask MySQL what its answers may have shown"
    BROUGHT = "wait until the stream has brought what the session was shown"
    CHARACTERS = "ask MySQL which characters the set of results has"
    HIDDEN = "ask MySQL whether a temporary table hides one of the query's"


class Hit(Enum):
    """A cache may answer."""

    HIT = "a cache may answer"


class Ask(NamedTuple):
    """It depends on this."""

    step: Step


class Pass(NamedTuple):
    """MySQL is to answer. `learns`: its answer shows how it announces the columns of such reads, so that the next one
    may be a hit."""

    why: Why
    learns: bool = False


Verdict = Hit | Ask | Pass
HIT = Hit.HIT
_ASK = {step: Ask(step) for step in Step}


class Around(Protocol):
    """What the gate must know beyond the session."""

    @property
    def transactions(self) -> Transactions: ...

    @property
    def read_your_writes(self) -> bool: ...

    def has(self, gtids: GtidSet) -> bool:
        """Whether the position has these transactions."""
        ...

    @property
    def character_sets(self) -> Mapping[str, object]:
        """Those whose characters MySQL has told."""
        ...

    def refusal(self, state: SessionState, cache: SessionCache) -> Why | None:
        """Why the session's account may not read the cache, "" if it may. None: MySQL must be asked."""
        ...

    @property
    def position(self) -> Position: ...


def gate(read: CachedRead, state: SessionState, shown: Shown, around: Around, *, connected: bool) -> Verdict:
    """Whether a cache may answer a read. `connected`: the session is with MySQL.

    Fills in how the read's columns are announced, and the answer of a REPEATABLE READ transaction that does not stand
    at the position (`CachedRead.body`). Notes what has become true meanwhile: what the position has counts no more, and
    without MySQL nothing that it may have shown; a transaction that is over was shown nothing; one of which all is
    still the answer stands at the position (`Shown.holds`, for which caches are peeked into).
    """
    cache, variables = read.cache, state.variables
    read.body, read.rule = None, ""
    if not state.tells and (reason := before_vtgate(read, state)):
        return Pass(reason)
    if not (state.known and state.token_known):
        return _ASK[Step.REFRESH]
    if read.generation != cache.generation:
        return Pass(OTHER_CACHES)
    needs, target = cache.needs, read.target
    reason = (
        refusal(state, needs)
        or (OTHER_MODE if target is not None and target.hint not in (b"", variables.mode_hint) else NO_REASON)
        or (_misread(read, state) if variables.marks or read.marks or variables.narrow else NO_REASON)
        or (OTHER_CLOCKS if LOCAL in needs and cache.moments.clocks is not variables.clocks else NO_REASON)
    )
    if reason:
        return Pass(reason)
    if read.announced is None and not (state.hiding and hides(state, cache)):
        found, given = read.kind.heads.get(variables.announces, cache), read.shows()
        read.announced = found if found is None or given is None else found.of(given)
        if read.announced is None and not read.refused and read.database == state.database:
            return _ASK[Step.RIGHTS]  # first: so it is learned from MySQL's answer, if it has to answer
    if not state.plain:
        obstacle = _obstacle(read, state, shown, around, connected=connected)
        if obstacle is not None:
            return obstacle
    refused = read.refused or around.refusal(state, cache)
    if refused:
        return Pass(refused)
    if refused is None or read.announced is None:
        # In another database the text would be about other tables.
        return _ASK[Step.RIGHTS] if read.database == state.database else Pass(ELSEWHERE)
    results = variables.announces.results
    if results in ONE_BYTE and results not in around.character_sets:
        return _ASK[Step.CHARACTERS]
    return _columns(read, read.announced)


def _misread(read: CachedRead, state: SessionState) -> Why:
    """Why MySQL reads the text otherwise than where caches are filled; "" if it does not."""
    variables = state.variables
    if reads_otherwise(read, state) or (read.target is not None and variables.escapes(read.data)):
        return READ_OTHERWISE
    if not variables.narrow or not variables.misreads(read.text, read.values) or _is_bytes(read, state):
        return NO_REASON
    return Reason.SETTING.why(f"{NARROW} {variables.narrow}")


def _is_bytes(read: CachedRead, state: SessionState) -> bool:
    """Whether MySQL takes a text for the bytes that it is, and these are characters in UTF-8, as in all that the query
    names."""
    told = state.variables.announces
    if read.target is not None or not (told.client == told.collation == BINARY) or SENT in read.cache.needs:
        return False
    try:
        read.sent.decode()
    except UnicodeDecodeError:
        return False
    return True


def reads_otherwise(read: CachedRead, state: SessionState) -> bool:
    """Whether MySQL may read marks of the text as it was sent otherwise than it was looked up."""
    return read.marks != state.variables.marks_of(read.sent)


def _columns(read: CachedRead, announced: Announced) -> Verdict:
    """Whether it is known how MySQL announces the columns."""
    if announced.why:
        return Pass(announced.why)
    why = announced.unknown(read.itself) if announced.filled is None else NO_REASON
    if why and read.forced:
        return _ASK[Step.COLUMNS]
    return Pass(why, learns=True) if why else HIT


def hides(state: SessionState, cache: SessionCache) -> bool:
    """Whether the query may be about temporary tables."""
    return state.hiding and not cache.relations <= state.not_hidden


def _obstacle(
    read: CachedRead, state: SessionState, shown: Shown, around: Around, *, connected: bool
) -> Ask | Pass | None:
    """The session's own writes, what it was shown, its transaction, its temporary tables."""
    if state.token and lacks_own_writes(state, around):
        if read.waited:
            return Pass(Reason.LATE.why(f"the stream has not brought the session's own writes: {state.token}"))
        return _ASK[Step.OWN_WRITES]
    if not connected:
        state.passed, state.shown = False, NOTHING
    if state.transaction.transactional:
        reason = _transaction(read, state, shown, around)
        if reason:
            return Pass(reason)
    if read.body is None and (state.passed or state.shown):
        obstacle = was_shown(read, state, shown, around)
        if obstacle is not None:
            return obstacle
    if read.hidden:
        return Pass(Reason.SETTING.why(f"a temporary table hides {read.hidden}"))
    return _ASK[Step.HIDDEN] if hides(state, read.cache) else None


def lacks_own_writes(state: SessionState, around: Around) -> bool:
    """Whether a hit would not show what the session has written."""
    if not around.read_your_writes or around.has(state.token):
        state.token = NOTHING
    return bool(state.token)


def _transaction(read: CachedRead, state: SessionState, shown: Shown, around: Around) -> Why:
    """Which rule keeps a read of a transaction from being a hit, "" if none does."""
    if not state.transaction.under_way:
        shown.clear()
    cache, values = read.cache, read.values
    if cache.counts and one_state(state, shown):
        return COUNTS
    mode = around.transactions
    if shown.goes_on(around.position.sequence()) and not transaction_rule(state, mode, shown, values, again=False):
        return (
            NO_REASON  # what is held is what was shown, if it was; `CachedReads` looks where nothing is held any more
        )
    again = shown.again(cache, values)
    reason = transaction_rule(state, mode, shown, values, again=again is not None)
    if reason:
        return reason
    if again is not None:
        read.body, read.rule = again, AGAIN
    elif shown.began and not shown.holds(around.position.sequence(), around.position.text()):
        read.body, read.rule = cache.peek_since(values, shown.sequence), UNCHANGED
        if read.body is None:
            return CHANGED
    return NO_REASON


def was_shown(read: CachedRead, state: SessionState, shown: Shown, around: Around) -> Ask | Pass | None:
    """What the session was shown beyond the position."""
    if state.passed:
        return Pass(NOT_TOLD) if read.asked else _ASK[Step.SHOWN]
    if state.shown and around.has(state.shown):
        state.shown = NOTHING
    if state.shown and one_state(state, shown):
        return Pass(NOT_BROUGHT) if read.behind else _ASK[Step.BROUGHT]
    return None


def refusal(state: SessionState, needs: frozenset[str]) -> Why:
    """What of the session's state, beside transactions, keeps a query from being answered by a cache; "" if nothing
    does. Requires: `state.known`."""
    transaction = state.transaction
    if transaction.locked:
        return LOCKED
    if transaction.one_shot:
        return ONE_SHOT
    if transaction.misflagged:
        return MISFLAGGED
    if transaction.unsettled:
        return UNSETTLED
    if transaction.saved:
        return SAVED
    return (elsewhere(state.database) if not state.tells else NO_REASON) or state.variables.differing(needs)


def unable(state: SessionState, needs: frozenset[str], mode: Transactions) -> Why:
    """Why no read of the session could be a hit as it is now, were there a cache of its query; "" if one could, as far
    as is known. `needs`: the variables on which its answers depend."""
    if state.transaction.transactional:
        isolation = state.variables.values.get("transaction_isolation", "") if state.known else ""
        if isolation == SERIALIZABLE:
            return IS_SERIALIZABLE
        if mode is Transactions.OFF or (mode is Transactions.STRICT and isolation not in COMMITTED):
            return Reason.TRANSACTION.why(f"in a transaction, and --transactions={mode.value}")
        if state.transaction.wrote and state.known:
            return HAS_WRITTEN
    return refusal(state, needs) if state.known else NO_REASON


def transaction_rule(
    state: SessionState, mode: Transactions, shown: Shown, parameters: Sequence[ParameterValue], *, again: bool
) -> Why:
    """Which rule keeps a read of a transaction from being a hit; "" if none does. `again`: it was shown this before.

    Requires: the session has autocommit off or is in a transaction.
    """
    if mode is Transactions.OFF:
        return OFF
    isolation = state.variables.values.get("transaction_isolation", "")
    if isolation == SERIALIZABLE:
        return IS_SERIALIZABLE
    if state.transaction.wrote:
        return MAY_HAVE_WRITTEN
    if isolation in COMMITTED and not shown.began:  # which are of a transaction that began in REPEATABLE READ
        return NO_REASON
    if mode is Transactions.STRICT:
        return IS_STRICT
    if again:
        return NO_REASON
    if state.transaction.touched:
        return OPEN
    return FULL if shown.full(parameters) else NO_REASON


def said_again(
    state: SessionState, mode: Transactions, shown: Shown, command: Command, rights: tuple[object, ...]
) -> Said | None:
    """What the transaction was answered to the same command, where it may be shown that again; else None. `rights`: of
    now, as in `Said`. Requires: `state.known`."""
    if not state.transaction.under_way:
        shown.clear()
    said = shown.said.get(command)
    if (
        said is None
        or not state.transaction.transactional
        or state.variables.narrow
        or beyond_limit(state, said.body)
        or (state.hiding and not said.relations <= state.not_hidden)
        or said.rights != rights
        or refusal(state, said.needs)
        or transaction_rule(state, mode, shown, (), again=True)
    ):
        return None
    return said


OTHER_CHARACTERS = Reason.SETTING.why(
    "the answer has other bytes in the session's character set of results, or is a long one"
)


def in_results(
    state: SessionState, announced: Announced, body: bytes, sets: Mapping[str, Recode | None], *, binary: bool
) -> bytes | None:
    """An answer in the session's character set of results; None where MySQL must answer. `sets`: how answers are
    recoded for those that are known. `binary`: it is one of the binary protocol."""
    if state.variables.raw and announced.foreign:
        return None  # each column is sent in its own set, which may not even have ASCII's bytes
    outside = state.variables.outside
    if outside is None:
        return body
    if len(body) > MOST_LOOKED_AT:
        return None
    if outside.search(body) is None:
        return body
    recode = sets.get(state.variables.announces.results)
    if binary or announced.shown is None or recode is None or len(body) > MOST_RECODED:
        return None
    return recoded(body, announced.shown, recode)


def beyond_limit(state: SessionState, body: bytes) -> Why:
    """Why MySQL must answer, where an answer has more rows than the session wants; "" if it has not."""
    limit = state.variables.row_limit
    if limit is None or (len(body) <= MOST_LOOKED_AT and count_packets(body) - 1 <= limit):
        return NO_REASON
    return Reason.SETTING.why(ROW_LIMIT.format(limit))


def one_state(state: SessionState, shown: Shown) -> bool:
    """Whether all that the transaction is shown must be one state."""
    return state.transaction.transactional and (
        shown.began != "" or state.variables.values.get("transaction_isolation", "") not in COMMITTED
    )


def ends_here(state: SessionState) -> bool:
    """Whether COMMIT and ROLLBACK have nothing to end at MySQL, and would do nothing else there."""
    vacant, completion = state.transaction.vacant, state.variables.values.get("completion_type")
    return vacant and _bounds_here(state) and completion == "NO_CHAIN"


def begins_here(state: SessionState, options: Set[str]) -> bool:
    """Whether BEGIN, or START TRANSACTION with these options, can wait until MySQL must know of the transaction: it
    would do nothing there but begin one, and that opens no snapshot."""
    now = state.transaction
    return (
        _bounds_here(state)
        and options <= BEGINS_LATER
        and not (now.begun or now.misflagged or now.beyond or now.numbered)
    )


def _bounds_here(state: SessionState) -> bool:
    now, tracks = state.transaction, state.tracks
    told = tracks.wanted.get(TRANSACTION_INFO, "OFF").upper() != "OFF" or tracks.changed
    return (
        state.known
        and state.tells
        and not (now.in_transaction or now.one_shot or now.locked or now.unsettled or now.saved or told)
    )


def hit_rule(state: SessionState) -> str:
    """Which rule let a hit through: the reason that EXPLAIN LAST STATEMENT gives."""
    if not state.transaction.transactional:
        return ""
    if state.variables.values.get("transaction_isolation", "") in COMMITTED:
        return "hit inside a READ COMMITTED transaction that has not written"
    return "hit inside a REPEATABLE READ transaction (same snapshot)"
