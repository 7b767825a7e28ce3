"""How a keyspace of Vitess is asked, through vtgate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dataflow.messages import Keyed, OwnAnswer, Statement, UpqueryRequest
from external_upquery import snapshot
from external_upquery.dialect import Asked, Bracketed, Describing, Position
from external_upquery.passed import Passed
from external_upquery.protocol import Answer, Prepared, ResultSet
from external_upquery.vitess import columns as vtgate_columns
from external_upquery.vitess import snapshot as vtgate_snapshot
from external_upquery.vitess.errors import passes
from external_upquery.vitess.route_check import Looking
from external_upquery.vitess.routes import Route, Routes
from external_upquery.vitess.shard_of_key import Key, Places
from gtid_tracker.bracket import history_of
from gtid_tracker.gtid import GtidSet
from sqltypes.errors import SourceDown, SourceError, UpwellError

CHECK = Statement("")  # of which nothing is known
RIGHTS = 10.0
"""Seconds after which who may read what is asked anew: no stream tells of Vitess' table ACLs."""


def _nobody(tables: frozenset[str]) -> None:
    """Who is told that an answer is astray, where nobody is."""


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
        self.routes = Routes(keyspace)
        self._looking = Looking(keyspace, self.routes)
        self.on_astray: Callable[[frozenset[str]], None] = _nobody
        """Is told when vtgate has answered by another route than is known, and the names of tables in the keyspace that
        certainly have another one."""
        self._shards_now, self._clock = shards, clock

    def spoils(self, error: SourceError) -> bool:
        return passes(error)

    def _shards(self) -> tuple[str, ...]:
        self.places.become(self._shards_now())
        return self.places.shards

    def before(self, request: UpqueryRequest) -> Asked | None:
        """On which shards its keys are."""
        self._shards()
        if request.shards is not None:
            return None
        keys = self.places.unknown(request.statements)
        return self._placing(keys, self._looking.tables(request.tables), request.statements) if keys else None

    def unknown(self, rows: Keyed) -> list[Key]:
        """What is to be asked, to say on which shards these are."""
        self._shards()
        return self.places.unknown((Statement("", keyed=rows),))

    def placing(self, keys: Sequence[Key], of: Sequence[Keyed]) -> Asked:
        """Asks on which shards keys are. `of`: rows of each table of which there are keys."""
        tables = [rows.table.name for rows in of if rows.table.schema == self.database]
        return self._placing(keys, tables, [Statement("", keyed=rows) for rows in of])

    def _placing(self, keys: Sequence[Key], tables: Sequence[str], statements: Sequence[Statement]) -> Asked:
        looks = self._looking.of(tables, statements)
        count, era = len(looks.asked), self.places.era
        packets = [*looks.commands, *self.places.questions(keys), *looks.commands]

        def told(answers: Sequence[Answer]) -> None:
            if astray := looks.astray((*answers[:count], *answers[count + len(keys) :])):
                self._tell_astray(astray)
            else:
                self.places.told(keys, answers[count : count + len(keys)], era)

        return Asked(b"".join(packets), len(packets), told)

    def upquery(self, request: UpqueryRequest) -> vtgate_snapshot.Plan:
        """L is read in the same transaction, known or not: it is what the server that answers has executed."""
        shards = self._shards()
        if request.shards is not None and set(request.shards) <= set(shards):
            shards = request.shards
        elif request.statements:
            shards = self.places.of(request.statements)
        whole = shards == self.places.shards
        looks = self._looking.of(self._looking.tables(request.tables), request.statements)
        return vtgate_snapshot.plan(
            request.statements,
            self.database,
            shards,
            request.checks,
            whole=whole,
            database=request.database,
            looks=looks,
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
        if isinstance(read, SourceDown) or (isinstance(read, SourceError) and passes(read)):
            return read
        if tables := sending.looked.astray([answers[at] for at in sending.looks]):  # an error may come of that
            self._tell_astray(tables)
            return SourceDown(f"vtgate has another route to {', '.join(tables)} than is known")
        if isinstance(read, UpwellError):
            return read
        bracket, results = read
        if why := self._astray(sending, answers, results):
            return SourceDown(why)
        if sending.whole:
            return read
        return vtgate_snapshot.of_some(bracket, self._position()), results

    def _astray(self, sending: vtgate_snapshot.Plan, answers: Sequence[Answer], results: Sequence[ResultSet]) -> str:
        """Why the answer is not the keyspace's by its columns; "" if nothing says so."""
        checked = [answers[at] for at in sending.checks]
        checks = [(CHECK, answer) for answer in checked if isinstance(answer, ResultSet)]
        for statement, result in (*zip(sending.statements, results, strict=True), *checks):
            if place := self._looking.announced_elsewhere(statement, result.layout.columns):
                self._tell_astray({})
                return f"vtgate has answered from {place}"
        return ""

    def _tell_astray(self, tables: Mapping[str, Route | None]) -> None:
        """Those that have been reflected since are none."""
        still = (table for table, route in tables.items() if route is not None and self.routes.known(table) is route)
        self.on_astray(frozenset(still))

    def own_answers(
        self, sending: vtgate_snapshot.Plan, answers: Sequence[Answer]
    ) -> tuple[OwnAnswer | SourceError, ...]:
        return snapshot.own_answers(sending.checks, answers)

    def refused(self, sending: vtgate_snapshot.Plan, answers: Sequence[Answer]) -> SourceError | None:
        return None

    def read(self, sql: str, database: str, after: GtidSet | None, patience: float) -> vtgate_snapshot.Plan:
        return vtgate_snapshot.plan((Statement(sql),), self.database, self._shards(), database=database)

    def passed(self, sending: vtgate_snapshot.Plan, answers: Sequence[Answer]) -> Passed:
        if (error := vtgate_snapshot.spoiled(sending, answers)) is not None:
            raise error
        (at,) = sending.rows
        answer = answers[at]
        columns, rows = (answer.layout.result_columns, answer.rows) if isinstance(answer, ResultSet) else ((), [])
        if isinstance(answers[0], SourceError):  # without a transaction it may be what another session was given before
            return Passed(columns, rows, "")
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
        if away := self.routes.away:
            raise SourceDown(f"the shards do not tell where they are: {away}")
        owned, executed = vtgate_snapshot.positioned(answers)
        return history_of(self.database), owned, executed, f"as of {int(self._clock() / RIGHTS)}"

    executed = position

    def executed_by(self, answers: Sequence[Answer]) -> GtidSet:
        return vtgate_snapshot.positioned(answers)[1]
