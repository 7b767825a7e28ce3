"""What a session asks of MySQL about itself, unseen by its client: the trackers switched on, and what they do not tell.

Each of these leaves the session as it was: none touches a table's rows, opens a snapshot, or ends a transaction, unless
by a deadlock over a table's name (`unless_ended`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple, Protocol

from gtid_tracker.gtid import GtidSet, parse_owned
from proxy.mysql.reads.grants import NO_RIGHT
from proxy.mysql.reads.trackerless import FLAGS_AT_ONCE, WORKLOAD, Positions, learned
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.state.session_variables import (
    ASK,
    ASK_COLUMNS,
    TRACKS,
    asked_values,
    question,
    switched_on,
    track_statement,
    untracked,
)
from proxy.mysql.wire.packets import CLIENT_QUERY_ATTRIBUTES, Malformed, packet, read_lenenc_int
from proxy.mysql.wire.responses import Kind, Outcome
from proxy.mysql.wire.tracker_entries import gtid_set
from sqltypes.errors import DeadlinePassed, Overloaded, SourceDown, SourceError

ASK_TRACKS = question(*(f"@@session.{name}" for name in TRACKS))
ASK_EXECUTED = question("@@GLOBAL.gtid_executed")
ASK_COMING = question("@@GLOBAL.gtid_owned", "@@GLOBAL.gtid_executed")  # in this order
NOT_IN_TRANSACTION = 1766  # MySQL's error: session_track_gtids cannot be set while one is under way
HIDES_NONE = NO_RIGHT | {1049, 1146}  # MySQL's errors of a table that is no temporary one: the session may drop those
DEADLOCK = 1213  # MySQL's error: the whole transaction is rolled back
INTERRUPTED = 1317
ASK_WORKLOAD = f"SELECT @@{WORKLOAD}"  # of vtgate alone
ROWS = 64  # answers to ASK that are remembered, of some 1.5 KiB each
Table = tuple[str, str]  # schema, name


class Server(Protocol):
    def ask(self, packets: bytes, kind: Kind) -> asyncio.Future[Outcome]: ...


class Asking(Protocol):
    """The part of a session that this module needs."""

    state: SessionState

    @property
    def server(self) -> Server: ...

    @property
    def positions(self) -> Positions | None:
        """Where the session's server does not tell of its own: how far the source has come."""
        ...

    def query(self, sql: str) -> bytes: ...


def query(sql: str, *, attributes: bool) -> bytes:
    """The packet of a COM_QUERY of our own. `attributes`: commands have them in this session."""
    prefix = b"\x03\0\x01" if attributes else b"\x03"
    return packet(prefix + sql.encode(), 0)


class FirstQuestions:
    """What each session is asked first: ASK, and to switch the trackers on. `tracks`: the values of session_track_...
    with which it is expected to begin; `ours`: what they are set to."""

    def __init__(self, tracks: dict[str, str]) -> None:
        self.tracks = tracks
        self.ours = switched_on(tracks)
        self.statement = track_statement(tracks)
        self._packets = [
            query(ASK, attributes=attributes) + query(self.statement, attributes=attributes)
            for attributes in (False, True)
        ]

    def packets(self, capabilities: int) -> bytes:
        """Both, for a client with these capabilities."""
        return self._packets[bool(capabilities & CLIENT_QUERY_ATTRIBUTES)]


class NewSessions:
    """What MySQL gives to a session that begins: `first` expects what the last one was given."""

    def __init__(self) -> None:
        self.first = FirstQuestions({})


class Asked(NamedTuple):
    """A session's first questions, and the answers that are to come."""

    first: FirstQuestions
    found: asyncio.Future[Outcome]
    switched: asyncio.Future[Outcome]


def asked_first(session: Asking, first: FirstQuestions, packets: bytes = b"") -> Asked:
    """Asks a session that has just begun. `packets`: b"" where they are written already. Raises SourceDown."""
    return Asked(first, session.server.ask(packets, Kind.RESULT), session.server.ask(b"", Kind.RESULT))


async def learn_first(session: Asking, new: NewSessions, asked: Asked) -> None:
    """Takes over what MySQL says to its first questions. If the session has not begun as the last one did, its trackers
    are switched on once more. Raises SourceDown, Malformed."""
    state, wanted = session.state, asked.first
    found = await asked.found
    _learn(state, found)  # while MySQL switches the trackers on
    if found.error is None:
        row = _asked(found)
        tracks = {name: text or "" for name, text in zip(TRACKS, row[-len(TRACKS) :], strict=True)}
        if tracks != new.first.tracks:
            new.first = FirstQuestions(tracks)
        wanted = new.first  # which may be another session's behind each wait
        state.tracks.learn(tracks)
    outcome = await asked.switched
    if wanted.ours != asked.first.ours:
        outcome = await session.server.ask(session.query(wanted.statement), Kind.RESULT)
    _switched(state, outcome)
    if found.error is None and outcome.error is None:
        state.variables.values.update(wanted.ours)
        state.variables.judge_anew()


async def switch_on(session: Asking) -> None:
    """Switches the trackers on in a session whose client has set them, and asks what it is like. A MySQL that cannot
    do that leaves the session unknown: nothing is answered by a cache. Raises SourceDown, Malformed."""
    state = session.state
    if not state.tells:
        await ask_all(session)
        return
    state.variables.own_clock |= not state.tracks.renewed  # nobody has told whether it has one since
    found = await session.server.ask(session.query(ASK_TRACKS), Kind.RESULT)
    if found.error is None:
        values = (text or "" for text in only_row(found.payloads, len(TRACKS)))
        state.tracks.learn(dict(zip(TRACKS, values, strict=True)))
    switched = session.server.ask(session.query(track_statement(state.tracks.wanted)), Kind.RESULT)
    asked = session.server.ask(session.query(ASK), Kind.RESULT)
    outcome = await switched
    found = await asked
    _switched(state, outcome)
    _learn(state, found)


async def refresh(session: Asking) -> None:
    """Asks what the trackers did not tell. Raises SourceDown, Malformed."""
    state = session.state
    if not state.tells:
        await ask_all(session)
        return
    # Errors, and rows that end with EOF, tell nothing: an OK packet brings what has gathered, but for GTIDs, which are
    # lost with the answer that does not tell them.
    gathered = session.server.ask(session.query("DO 0"), Kind.RESULT)
    executed = None if state.token_known else session.server.ask(session.query(ASK_EXECUTED), Kind.RESULT)
    asked = session.server.ask(session.query(ASK), Kind.RESULT)
    state.absorb(await gathered)
    state.tracks.reported = False
    if executed is not None:
        own = await executed
        state.token_known = own.error is None
        if own.error is None:
            state.token = state.token.union(gtid_set(only_row(own.payloads, 1)[0] or ""))
    found = await asked
    if not state.token_known:
        state.forget_values()
        return
    _learn(state, found)
    values = state.variables.values
    if values and untracked(values):  # a session need not be told that it has switched them off
        await switch_on(session)


async def ask_all(session: Asking) -> None:
    """Of a session that is told nothing. It is asked nothing in a transaction of the client; with autocommit off the
    question begins one, which is ended."""
    state = session.state
    asked = not state.known or not state.variables.values
    if asked and not state.askable:
        state.known = False
        return
    workload = asking = None
    if asked:
        workload = session.server.ask(session.query(ASK_WORKLOAD) + session.query(ASK), Kind.RESULT)
        asking = session.server.ask(b"", Kind.RESULT)  # it is written already
    came: GtidSet | None = None
    if not state.token_known and session.positions is not None:
        with suppress(SourceError, SourceDown, DeadlinePassed, Overloaded, TimeoutError):
            _, _, came, _ = await session.positions()
    if came is not None:
        state.token, state.token_known = state.token.union(came), True
    found = None
    if workload is not None and asking is not None:
        told, found = await workload, await asking
        state.flags_lag |= told.error is not None or only_row(told.payloads, 1)[0] not in FLAGS_AT_ONCE
        state.tracks.reported = state.tracks.renewed = state.tracks.changed = False
        state.tracks.set_.clear()
        state.absorb(found)  # vtgate's answer to COM_RESET_CONNECTION has no flags
        if state.transaction.in_transaction and (state.transaction.autocommit or state.flags_lag):
            # It is the client's: what has begun it has ended with an error, which tells nothing.
            state.transaction.touched = state.transaction.wrote = True
            state.known = False
            return
        if state.transaction.in_transaction:
            state.absorb(await session.server.ask(session.query("ROLLBACK"), Kind.RESULT))
    if not state.token_known or (found is not None and found.error is not None):
        state.forget_values()
    elif found is not None:
        _learn(state, found)
        learned(state)


def _switched(state: SessionState, outcome: Outcome) -> None:
    state.tracks.reported = state.tracks.renewed = False
    wait = outcome.error is not None and outcome.error.errno == NOT_IN_TRANSACTION
    state.tracks.changed = state.tracks.wait = wait
    state.tracks.set_.clear()


def _learn(state: SessionState, found: Outcome) -> None:
    if found.error is None:
        state.learn(_asked(found), found.payloads[1])
    else:
        state.forget_values()


def _asked(found: Outcome) -> Sequence[str | None]:
    """The answer to ASK, value by value. Raises Malformed."""
    payloads = found.payloads
    return _row_as_before(payloads[-2]) if len(payloads) > 2 else asked_values(only_row(payloads, ASK_COLUMNS))


@lru_cache(ROWS)
def _row_as_before(payload: bytes) -> tuple[str | None, ...]:
    """Sessions of an account begin alike, byte for byte: to take the row apart costs a tenth of a login."""
    return asked_values(only_row([b"", payload, b""], ASK_COLUMNS))


async def hidden_table(session: Asking, tables: frozenset[Table]) -> str:
    """The name of a temporary table of the session that hides one of these, or may; "" if there is none, which is
    remembered. MySQL itself does not tell of those that CREATE TEMPORARY TABLE ... SELECT makes. Raises SourceDown,
    Malformed, and as `unless_ended`."""
    state = session.state
    for schema, name in sorted(tables - state.not_hidden):
        quoted = ".".join(f"`{part.replace('`', '``')}`" for part in (schema, name))
        found = await session.server.ask(session.query(f"SHOW CREATE TABLE {quoted}"), Kind.RESULT)
        unless_ended(state, found)  # a view's row has four columns
        if found.error is not None:
            if found.error.errno not in HIDES_NONE:  # a HANDLER has it open, or the question was interrupted
                return name
        elif (only_row(found.payloads, 2, 4)[1] or "").startswith("CREATE TEMPORARY"):
            return name
        state.not_hidden.add((schema, name))
    return ""


async def learn_shown(session: Asking) -> None:
    """MySQL has answered reads itself: all that it has committed or is committing by now they may have shown. Where it
    does not tell, `passed` stays. Raises SourceDown, Malformed."""
    told = await coming(session)
    if told is not None:
        session.state.passed, session.state.shown = False, told


async def forget_lost(session: Asking) -> None:
    """Takes from what the session waits for the transactions that MySQL neither owns nor has executed: they were rolled
    back, or lost with the server's history, and never come. Raises SourceDown, Malformed."""
    told = await coming(session)
    if told is not None:
        state = session.state
        state.token, state.shown = state.token.intersection(told), state.shown.intersection(told)


async def coming(session: Asking) -> GtidSet | None:
    """All transactions that MySQL owns or has executed; None where it does not tell. Raises as `unless_ended`."""
    if session.positions is not None:
        try:
            _, of_source, done, _ = await session.positions()
        except (SourceError, SourceDown, DeadlinePassed, Overloaded, TimeoutError):
            return None
        return of_source.union(done)
    found = await session.server.ask(session.query(ASK_COMING), Kind.RESULT)
    unless_ended(session.state, found)
    if found.error is not None:
        return None
    owned, executed = (text or "" for text in only_row(found.payloads, 2))
    return gtid_set(executed).union(gtid_set(owned, parse_owned))


def unless_ended(state: SessionState, outcome: Outcome) -> None:
    """Raises MySQL's error where a statement of ours has cost the client its transaction, or was interrupted in the
    place of the client's: so it would have been without Upwell, and the client must know."""
    error = outcome.error
    if error is not None and error.errno in (DEADLOCK, INTERRUPTED):
        state.known = False  # whether it is in a transaction, too
        raise SourceError(error.errno, error.sqlstate, error.message)


def only_row(payloads: list[bytes], *columns: int) -> list[str | None]:
    """The row of a result set of one row, from all its packets: the last one ends it. `columns`: how many it may have.
    Raises Malformed."""
    row = text_row(payloads[-2]) if len(payloads) > 2 else []
    if len(row) not in columns:
        raise Malformed(f"a row of {len(row)} columns, expected {columns[0]}")
    return row


def text_row(payload: bytes) -> list[str | None]:
    """The columns of a row in the text protocol. Raises Malformed."""
    row: list[str | None] = []
    at = 0
    while at < len(payload):
        if payload[at] == 0xFB:
            row.append(None)
            at += 1
            continue
        size, start = read_lenenc_int(payload, at)
        at = start + size
        if at > len(payload):
            raise Malformed("a row is cut off")
        row.append(payload[start:at].decode("utf-8", "replace"))
    return row
