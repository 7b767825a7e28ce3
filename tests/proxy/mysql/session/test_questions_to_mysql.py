"""What a session waits for, and what will never come."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from gtid_tracker.gtid import GtidSet
from proxy.mysql.reads.trackerless import Positions
from proxy.mysql.session import questions_to_mysql
from proxy.mysql.session.questions_to_mysql import (
    ASK_WORKLOAD,
    Asked,
    NewSessions,
    forget_lost,
    hidden_table,
    learn_first,
    refresh,
)
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.state.session_variables import ASK, ASK_COLUMNS, BETWEEN, TOGETHER
from proxy.mysql.wire.packets import STATUS_AUTOCOMMIT, STATUS_IN_TRANS, ErrorAnswer, lenenc, packet
from proxy.mysql.wire.responses import NO_STATUS, Kind, Outcome
from sqltypes.errors import SourceDown, SourceError

A, B = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"


@dataclass
class Answers:
    """A session whose MySQL answers each question in the same way. `sent`: the packets of the questions."""

    outcome: Outcome
    state: SessionState = field(default_factory=SessionState)
    positions: Positions | None = None
    sent: list[bytes] = field(default_factory=list)

    @property
    def server(self) -> Answers:
        return self

    def query(self, sql: str) -> bytes:
        return sql.encode()

    def ask(self, packets: bytes, kind: Kind) -> asyncio.Future[Outcome]:
        self.sent.append(packets)
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        answer.set_result(self.outcome)
        return answer


def row(*values: str) -> Outcome:
    """A result set of one row."""
    values_sent = b"".join(lenenc(value.encode()) for value in values)
    return Outcome(2, None, b"", [bytes((len(values),)), *[b"a column"] * len(values), values_sent, b"its end"])


def failed(errno: int) -> Outcome:
    return Outcome(NO_STATUS, ErrorAnswer(errno, "HY000", "refused"), b"", [])


def waiting(outcome: Outcome) -> Answers:
    session = Answers(outcome)
    session.state.token, session.state.shown = GtidSet.parse(f"{A}:1-5"), GtidSet.parse(f"{A}:1-6,{B}:1-2")
    return session


def test_what_is_neither_owned_nor_executed_is_waited_for_no_more() -> None:
    session = waiting(row(f"{B}:2#77", f"{A}:1-4"))
    asyncio.run(forget_lost(session))
    assert session.state.token == GtidSet.parse(f"{A}:1-4")
    assert session.state.shown == GtidSet.parse(f"{A}:1-4,{B}:2")


def test_a_question_that_mysql_does_not_answer_takes_nothing_away() -> None:
    session = waiting(failed(1227))
    asyncio.run(forget_lost(session))
    assert (session.state.token.count(), session.state.shown.count()) == (5, 8)


@pytest.mark.parametrize("errno", [1213, 1317])
def test_an_error_that_ends_the_clients_transaction_or_statement_is_the_clients(errno: int) -> None:
    session = Answers(failed(errno), SessionState(known=True))
    with pytest.raises(SourceError, match="refused"):
        asyncio.run(hidden_table(session, frozenset({("shop", "item")})))
    assert not session.state.known and not session.state.not_hidden


def test_a_table_that_mysql_does_not_know_is_not_hidden() -> None:
    session = Answers(failed(1146), SessionState(known=True))
    assert asyncio.run(hidden_table(session, frozenset({("shop", "item")}))) == ""
    assert session.state.known and session.state.not_hidden == {("shop", "item")}


@dataclass
class Vtgate:
    """A session at vtgate, which tells nothing by itself. `flags`: in its answers. `asked`: what it was asked."""

    flags: int = STATUS_AUTOCOMMIT
    workload: str = "OLTP"
    asked: list[str] = field(default_factory=list)
    state: SessionState = field(default_factory=lambda: SessionState(tells=False))

    @property
    def server(self) -> Vtgate:
        return self

    async def positions(self) -> tuple[str, GtidSet, GtidSet, str]:
        raise SourceDown("a shard does nothing")

    def query(self, sql: str) -> bytes:
        return packet(sql.encode(), 0)

    def ask(self, packets: bytes, kind: Kind) -> asyncio.Future[Outcome]:
        texts = [text for text in (ASK_WORKLOAD, ASK, "ROLLBACK") if text.encode() in packets]
        self.asked += texts
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if texts[:1] == [ASK_WORKLOAD]:
            answer.set_result(row(self.workload))
        elif texts == ["ROLLBACK"]:
            answer.set_result(Outcome(self.flags & ~STATUS_IN_TRANS, None, b"", []))
        else:
            answer.set_result(Outcome(self.flags, ErrorAnswer(1105, "HY000", "no"), b"", []))
        return answer


@pytest.mark.parametrize(
    ("flags", "rolled_back"),
    [
        (STATUS_AUTOCOMMIT, False),
        (STATUS_IN_TRANS, True),  # the question has begun it
        (STATUS_AUTOCOMMIT | STATUS_IN_TRANS, False),  # the client has, in a text that has ended with an error
    ],
)
def test_what_a_question_begins_is_ended_and_nothing_else(flags: int, rolled_back: bool) -> None:
    session = Vtgate(flags)
    asyncio.run(refresh(session))
    assert ("ROLLBACK" in session.asked) is rolled_back
    if flags == STATUS_AUTOCOMMIT | STATUS_IN_TRANS:
        assert session.state.transaction.wrote and session.state.transaction.in_transaction and not session.state.known
    assert not session.state.flags_lag


@pytest.mark.parametrize("flags", [STATUS_AUTOCOMMIT, STATUS_IN_TRANS])
def test_a_session_may_begin_with_a_workload_in_which_flags_lag(flags: int) -> None:
    session = Vtgate(flags, "OLAP")
    asyncio.run(refresh(session))
    assert session.state.flags_lag and "ROLLBACK" not in session.asked


def test_what_cannot_be_asked_in_a_transaction_is_not_known() -> None:
    """Else who waits for it would ask for ever."""
    session = Vtgate()
    session.state.forget_values()
    session.state.transaction.in_transaction, session.state.token_known = True, False
    asyncio.run(refresh(session))
    assert session.asked == [] and not session.state.known


def test_sessions_that_begin_otherwise_at_once_have_the_trackers_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is told of all GTIDs by MySQL's own setting; the one that begins behind it is not."""
    monkeypatch.setattr(questions_to_mysql, "_learn", lambda state, found: None)  # the rest of the answer is none here

    def begins_with(gtids: str) -> Outcome:
        together = BETWEEN.join(gtids if name == "session_track_gtids" else "" for name in TOGETHER)
        return row(*[""] * (ASK_COLUMNS - 1), together)

    async def scenario() -> None:
        new = NewSessions()
        loop = asyncio.get_running_loop()
        sessions = [Answers(begins_with(gtids)) for gtids in ("ALL_GTIDS", "OFF")]
        asked = []
        for session in sessions:
            found, switched = loop.create_future(), loop.create_future()
            found.set_result(session.outcome)
            asked.append(Asked(new.first, found, switched))
        learning = [
            loop.create_task(learn_first(session, new, one)) for session, one in zip(sessions, asked, strict=True)
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for one in asked:
            one.switched.set_result(Outcome(STATUS_AUTOCOMMIT, None, b"", []))
        await asyncio.gather(*learning)
        first, second = sessions
        assert any(b"ALL_GTIDS" in sent for sent in first.sent), "it is switched on once more, to what it had"
        assert first.state.variables.values.get("session_track_gtids") == "ALL_GTIDS"
        assert second.state.variables.values.get("session_track_gtids") == "OWN_GTID"

    asyncio.run(scenario())
