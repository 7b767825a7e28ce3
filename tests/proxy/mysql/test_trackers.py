"""What a session waits for, and what will never come."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from gtid_tracker.gtid import GtidSet
from proxy.mysql.packets import ErrorAnswer, lenenc
from proxy.mysql.responses import NO_STATUS, Kind, Outcome
from proxy.mysql.session_state import SessionState
from proxy.mysql.trackerless import Positions
from proxy.mysql.trackers import forget_lost, hidden_table
from sqltypes.errors import SourceError

A, B = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"


@dataclass
class Answers:
    """A session whose MySQL answers each question in the same way."""

    outcome: Outcome
    state: SessionState = field(default_factory=SessionState)
    positions: Positions | None = None

    @property
    def server(self) -> Answers:
        return self

    def query(self, sql: str) -> bytes:
        return sql.encode()

    def ask(self, packets: bytes, kind: Kind) -> asyncio.Future[Outcome]:
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
