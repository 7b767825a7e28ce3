"""A session's questions about itself, answered without MySQL where that is sure (`proxy/mysql/reads/questions.py`).

MySQL resolves the text of a prepared statement once. So its executions are answered here only where the session is what
it was as the text was prepared (`PreparedStatement.asked_as`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from proxy.mysql.reads.last_hit import Warned
from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.reads.questions import Question, reply_of
from proxy.mysql.reads.routes import Route
from proxy.mysql.session.pass_through import PassThrough
from proxy.mysql.session.relay import Relay
from proxy.mysql.session.session_context import SessionContext
from proxy.mysql.session.upstream import Upstream
from proxy.mysql.wire.responses import Exchange, Kind, Outcome
from proxy.port.reasons import Why

ASKED_OF_SESSION = "what the session asks about itself is known"
PLAIN_EXECUTION = b"\0\1\0\0\0"  # no cursor, once; no parameters follow
Watched = Callable[[Callable[[Outcome], None]], Exchange]


class AnsweredHere:
    """Of one session. `connection_id`: as MySQL has told it."""

    def __init__(
        self, context: SessionContext, relay: Relay, upstream: Upstream, passing: PassThrough, connection_id: int
    ) -> None:
        self._context = context
        self._relay = relay
        self._upstream = upstream
        self._passing = passing
        self._connection_id = connection_id

    def look(self, data: bytes, text: bytes, noted: bytes, route: Route, why: Why) -> bool:
        """Answers a text, or has MySQL answer it and learns from that; False where it is none of these. `noted`: the
        text that might have a cache."""
        question = self._context.shared.questions.asked_by(text)
        key = (
            self._key(question)
            if question is not None and not self._context.state.variables.changes_marks(text)
            else None
        )
        if question is None or key is None:
            return False
        number = None
        if question.found:
            last = self._context.last_hit
            number = last.found(self._upstream.text_of(last.command))
            if number is None:
                return False
        if not self._answers(data, text, key, number):
            watched = self._watched(text, key, question)
            self._passing.statement(data, route, why, noted=noted, watched=watched)
        return True

    def prepared(self, statement: PreparedStatement) -> None:
        """MySQL has prepared it, in the session as it is."""
        shared = self._context.shared
        try:
            question = self._prepared_question(statement)
        except Exception as error:  # noqa: BLE001 - an edge: MySQL has answered
            shared.note_fault("a prepared question", error, text=repr(statement.text)[:2000])
            return
        if question is not None and not question.found and not question.shows:
            statement.asked_as = self._context.state.known_whole

    def _prepared_question(self, statement: PreparedStatement) -> Question | None:
        shared = self._context.shared
        asks = not statement.marks and shared.texts.route(statement.text, statement.database).asks
        return shared.questions.asked_by(statement.text) if asks else None

    def look_execution(self, statement: PreparedStatement, data: bytes, route: Route, why: Why) -> bool:
        """As `look`, of an execution (its packet with the header). Where it is not known what the session is like, that
        is asked first, which takes as long as the execution would."""
        if statement.asked_as is None or data[9:] != PLAIN_EXECUTION:
            return False
        if self._context.state.known or not self._upstream.alive:
            return self._look_execution(statement, data, route, why)
        self._relay.start(self._look_refreshed(statement, data, route, why))
        return True

    async def _look_refreshed(self, statement: PreparedStatement, data: bytes, route: Route, why: Why) -> None:
        await self._upstream.refresh()
        if not self._look_execution(statement, data, route, why):
            context = self._context
            route = context.shared.texts.large if context.state.variables.changes_marks(statement.text) else route
            self._passing.statement(data, route, why, noted=statement.text)

    def _look_execution(self, statement: PreparedStatement, data: bytes, route: Route, why: Why) -> bool:
        state, text = self._context.state, statement.text
        question = self._context.shared.questions.asked_by(text)
        key = self._key(question) if question is not None else None
        if question is None or key is None or state.known_whole != statement.asked_as:
            return False
        if state.variables.changes_marks(text) or statement.failed or statement.bound.turned:
            return False
        key = (*key, "prepared")
        if self._answers(data, text, key, None):
            statement.bound.behind = True
        else:
            watched = self._watched(text, key, question)
            self._passing.statement(data, route, why, noted=text, watched=watched)
        return True

    def _key(self, question: Question) -> tuple[Hashable, ...] | None:
        """What the session is like; None where MySQL must be asked."""
        state = self._context.state
        if state.transaction.one_shot or state.transaction.unsettled or not self._upstream.alive:
            return None
        if question.shows and (state.transaction.transactional or state.transaction.begun):
            return None
        whole = state.known_whole
        return None if whole is None else (whole, self._connection_id if question.own else 0)

    def _answers(self, data: bytes, text: bytes, key: tuple[Hashable, ...], number: int | None) -> bool:
        context = self._context
        reply = context.shared.questions.find(key, text)
        if reply is None:
            return False
        if number is not None and reply.rows:
            reply = reply.of(number)
        before, behind = reply.packets(context.state.transaction.status)
        self._relay.client.answer(before + behind)
        context.last_hit.hit(data, Warned(behind) if reply.warned else behind)
        context.note("answered", "", ASKED_OF_SESSION)
        context.shared.system.count("session_questions")
        return True

    def _watched(self, text: bytes, key: tuple[Hashable, ...], question: Question) -> Watched:
        """Learns from MySQL's answer, where the session is behind it as it was."""
        shared, eof = self._context.shared, self._context.eof

        def watched(done: Callable[[Outcome], None]) -> Exchange:
            def ended(outcome: Outcome) -> None:
                exchange.done = done  # no cycle stays behind
                try:
                    reply = reply_of(outcome.payloads, eof=eof) if outcome.error is None and not outcome.state else None
                except Exception as error:  # noqa: BLE001 - an edge: the answer has been the client's already
                    shared.note_fault("an answer about the session", error, text=repr(text)[:2000])
                    reply = None
                done(outcome)
                if reply is not None and self._key(question) == key[:2]:
                    shared.questions.learn(key, text, reply)

            exchange = Exchange(Kind.RESULT, ended, collected=True)
            return exchange

        return watched
