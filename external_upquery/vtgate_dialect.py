"""How a keyspace of Vitess is asked, through vtgate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dataflow.messages import Keyed, OwnAnswer, Statement, UpqueryRequest
from external_upquery import snapshot, vtgate_columns, vtgate_snapshot
from external_upquery.dialect import Asked, Bracketed, Describing, Position
from external_upquery.passed import Passed
from external_upquery.protocol import Answer, Prepared, ResultSet
from external_upquery.vtgate_places import Key, Places
from gtid_tracker.bracket import history_of
from gtid_tracker.gtid import GtidSet
from sqltypes.errors import SourceError, UpwellError

RIGHTS = 10.0
"""Seconds after which who may read what is asked anew: no stream tells of Vitess' table ACLs."""


class VtgateDialect:
    """`database`: the keyspace."""

    locks = waits = False  # there is no NOWAIT at vtgate, and each shard knows its own GTIDs only
    one_server = False  # tablets, and their servers, are exchanged behind it

    def __init__(
        self,
        keyspace: str,
        shards: Callable[[], Sequence[str]],
        position: Callable[[], GtidSet],
        clock: Callable[[], float],
    ) -> None:
        """`shards`: those that the keyspace has now. `position`: what the stream has brought by now."""
        self._position = position
        self.database = keyspace
        self.places = Places(keyspace)
        self._shards_now, self._clock = shards, clock

    def _shards(self) -> tuple[str, ...]:
        self.places.become(self._shards_now())
        return self.places.shards

    def before(self, request: UpqueryRequest) -> Asked | None:
        """On which shards its keys are."""
        self._shards()
        if request.shards is not None:
            return None
        keys = self.places.unknown(request.statements)
        if not keys:
            return None
        packets = self.places.questions(keys)
        return Asked(b"".join(packets), len(packets), lambda answers: self.places.told(keys, answers))

    def unknown(self, rows: Keyed) -> list[Key]:
        """What is to be asked, to say on which shards these are."""
        self._shards()
        return self.places.unknown((Statement("", keyed=rows),))

    def upquery(self, request: UpqueryRequest) -> vtgate_snapshot.Plan:
        """L is read in the same transaction, known or not: it is what the server that answers has executed."""
        shards = self._shards()
        if request.shards is not None and set(request.shards) <= set(shards):
            shards = request.shards
        elif request.statements:
            shards = self.places.of(request.statements)
        whole = shards == self.places.shards
        return vtgate_snapshot.plan(
            request.statements, self.database, shards, request.checks, whole=whole, database=request.database
        )

    def reached(self, shards: Sequence[str] | None) -> Sequence[str]:
        now = self._shards()
        if len(now) < 2:
            return ()
        return now if shards is None or not set(shards) <= set(now) else shards

    def waits_for(self, sending: vtgate_snapshot.Plan | Describing) -> Sequence[str]:
        return self.reached(sending.shards)

    def bracketed(self, sending: vtgate_snapshot.Plan, answers: Sequence[Answer]) -> Bracketed:
        read = vtgate_snapshot.read(sending, answers)
        if isinstance(read, UpwellError) or sending.whole:
            return read
        bracket, results = read
        return vtgate_snapshot.of_some(bracket, self._position()), results

    def own_answers(
        self, sending: vtgate_snapshot.Plan, answers: Sequence[Answer]
    ) -> tuple[OwnAnswer | SourceError, ...]:
        return snapshot.own_answers(sending.checks, answers)

    def refused(self, sending: vtgate_snapshot.Plan, answers: Sequence[Answer]) -> SourceError | None:
        return None

    def read(self, sql: str, database: str, after: GtidSet | None, patience: float) -> vtgate_snapshot.Plan:
        return vtgate_snapshot.plan((Statement(sql),), self.database, self._shards(), database=database)

    def passed(self, sending: vtgate_snapshot.Plan, answers: Sequence[Answer]) -> Passed:
        (at,) = sending.rows
        if isinstance(answer := answers[at], SourceError):
            raise answer
        columns, rows = (answer.layout.result_columns, answer.rows) if isinstance(answer, ResultSet) else ((), [])
        try:
            bracket = vtgate_snapshot.bracket_of(sending, answers)
        except (ValueError, TypeError):  # a shard is away that vtgate did not need
            return Passed(columns, rows, "")
        horizon = str(bracket.needed) if bracket.needed != bracket.lower else ""
        return Passed(columns, rows, str(bracket.lower), horizon)

    def describing(self, sql: str) -> Describing:
        return vtgate_columns.describing(sql, self.database, self._shards()[0])

    def described(self, sending: Describing, answers: Sequence[Answer]) -> Prepared | SourceError:
        return vtgate_columns.described(sending, answers)

    def position(self) -> Sequence[bytes]:
        return vtgate_snapshot.positions(self.database, self._shards())

    def positioned(self, answers: Sequence[Answer]) -> Position:
        owned, executed = vtgate_snapshot.positioned(answers)
        return history_of(self.database), owned, executed, f"as of {int(self._clock() / RIGHTS)}"

    executed = position

    def executed_by(self, answers: Sequence[Answer]) -> GtidSet:
        return vtgate_snapshot.positioned(answers)[1]
