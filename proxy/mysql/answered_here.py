"""A session's questions about itself, answered without MySQL where that is sure (`questions.py`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from proxy.mysql.last_hit import Warned
from proxy.mysql.pass_through import PassThrough
from proxy.mysql.questions import Question, reply_of
from proxy.mysql.relay import Relay
from proxy.mysql.responses import Exchange, Kind, Outcome
from proxy.mysql.routes import Route
from proxy.mysql.session_context import SessionContext
from proxy.mysql.upstream import Upstream

ASKED_OF_SESSION = "what the session asks about itself is known"
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

    def look(self, data: bytes, text: bytes, noted: bytes, route: Route, why: str) -> bool:
        """Answers a text, or has MySQL answer it and learns from that; False where it is none of these. `noted`: the
        text that might have a cache."""
        question = self._context.shared.questions.asked_by(text)
        key = self._key(question) if question is not None and not self._context.state.changes_marks(text) else None
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

    def _key(self, question: Question) -> Hashable | None:
        """What the session is like; None where MySQL must be asked."""
        state = self._context.state
        if state.one_shot or state.unsettled or not self._upstream.alive:
            return None
        if question.shows and (state.transactional or state.begun):
            return None
        whole = state.known_whole
        return None if whole is None else (whole, self._connection_id if question.own else 0)

    def _answers(self, data: bytes, text: bytes, key: Hashable, number: int | None) -> bool:
        context = self._context
        reply = context.shared.questions.find(key, text)
        if reply is None:
            return False
        if number is not None and reply.rows:
            reply = reply.of(number)
        before, behind = reply.packets(context.state.status)
        self._relay.answer(before + behind)
        context.last_hit.hit(data, Warned(behind) if reply.warned else behind)
        context.note("answered", "", ASKED_OF_SESSION)
        context.shared.system.count("session_questions")
        return True

    def _watched(self, text: bytes, key: Hashable, question: Question) -> Watched:
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
                if reply is not None and self._key(question) == key:
                    shared.questions.learn(key, text, reply)

            exchange = Exchange(Kind.RESULT, ended, collected=True)
            return exchange

        return watched
