"""Upqueries that another process sends: gives their commands, and decodes the bytes of MySQL's answers like those of
our own connections."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from dataflow.messages import UpqueryAnswer, UpqueryFailed, UpqueryRequest
from external_upquery.protocol import Answer, Answers, ProtocolBroken
from external_upquery.rows_apart import Packed, put_back
from external_upquery.snapshot import BracketReader, plan
from sqltypes.errors import Fault, SourceDown, UpwellError

CHUNK = 1 << 16  # bytes that are decoded in one step: a millisecond
Result = UpqueryAnswer | UpqueryFailed


class CollectedUpquery:
    """One upquery. `packets`: what to send on a connection whose session is pinned (`external_upquery/login.py`) and
    whose rows end with EOF packets (CLIENT_DEPRECATE_EOF was not asked for). Requires: the request is not exact and
    has no checks."""

    def __init__(self, request: UpqueryRequest, brackets: BracketReader) -> None:
        assert not request.exact and not request.checks
        self.request = request
        self._plan = plan(request)
        self._brackets = brackets

    @property
    def packets(self) -> bytes:
        return self._plan.packets

    @property
    def answers(self) -> int:
        """How many answers the packets get."""
        return self._plan.count

    def answered(
        self, received: Iterable[bytes], connected_at: float, packed: Packed = ()
    ) -> Generator[None, None, Result]:
        """The result, in steps. `received`: the answers' bytes, in pieces; bytes after the answers are ignored.
        `packed`: rows that were taken out of them (`external_upquery/rows_apart.py`).

        `connected_at`: as in `UpqueryAnswer`; a later time is safe.
        """
        try:
            answers = yield from self._decoded(received, packed)
        except UpwellError as error:
            return UpqueryFailed(self.request.id, error)
        read = self._brackets.read(self._plan, answers)
        if isinstance(read, UpwellError):
            return UpqueryFailed(self.request.id, read)
        bracket, found = read
        results = tuple([one.rows for one in found])
        columns = tuple([one.layout.result_columns for one in found])
        return UpqueryAnswer(self.request.id, bracket, results, connected_at=connected_at, columns=columns)

    def _decoded(self, received: Iterable[bytes], packed: Packed) -> Generator[None, None, list[Answer]]:
        decoder = Answers(deprecate_eof=False)
        decoder.expect(self._plan.count + 1)  # the one behind is never complete
        answers: list[Answer] = []
        try:
            for piece in received:
                for at in range(0, len(piece), CHUNK):
                    answers += decoder.feed(piece[at : at + CHUNK])
                    yield
            if len(answers) >= self._plan.count:
                yield from put_back(answers, packed)
        except ProtocolBroken as error:
            raise SourceDown(f"the source's answer cannot be decoded: {error}") from error
        except (ValueError, IndexError, ArithmeticError) as error:
            raise Fault(f"a value of the source's answer cannot be decoded: {error!r}") from error
        if len(answers) < self._plan.count:
            raise SourceDown(f"{len(answers)} of {self._plan.count} answers came")
        return answers[: self._plan.count]
