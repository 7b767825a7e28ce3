"""An engine between a stream and upqueries that the test answers itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from dataflow.engine import Engine
from dataflow.fills.read import Read
from dataflow.messages import Effect, Pair, TableChanges, Transaction, UpqueryAnswer
from dataflow.messages import UpqueryRequest as Request
from dataflow.readers.reader import ReaderNode
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import Gtid, GtidSet
from planner.api import plan_query
from planner.fill.upquery_sql import fill_columns
from sqltypes.expression import Row
from sqltypes.schema import Column, SchemaSnapshot, SqlType, Table
from tests.simulation.sql_side import canonical, transpiled
from tests.support.mock_graph import int_table

OLD, NEW = "5e1ec7ed-0000-4000-8000-000000000001", "5e1ec7ed-0000-4000-8000-000000000002"
T = int_table("t", "id", "k", "v")
BIG = SqlType("bigint")
WIDE = Table("test", "w", (Column("id", BIG, False, 0), Column("k", BIG, True, 1), Column("v", BIG, True, 2)), ("id",))
WORD = SqlType("varchar", length=10, collation="utf8mb4_0900_ai_ci")
LEVEL = SqlType("enum", members=("low", "high"), collation="utf8mb4_0900_ai_ci")
LEVELS = Table("test", "e", (Column("id", BIG, False, 0), Column("level", LEVEL, True, 1)), ("id",))
WORDS = Table("test", "s", (Column("id", BIG, False, 0), Column("word", WORD, True, 1)), ("id",))
NOTHING = GtidSet.empty()
ROWS = "SELECT id, v FROM t WHERE k = ?"


def gtids(*numbers: int) -> GtidSet:
    return GtidSet.of(Gtid(OLD, number) for number in numbers)


def deliver(engine: Engine, answer: UpqueryAnswer, *, prepared: bool) -> list[Effect]:
    """`prepared`: as if it were a large one."""
    fill = engine.fills.by_number.get(answer.id)
    if prepared and fill is not None:
        for _ in fill.prepare(answer):
            pass
    return engine.on_answer(answer)


class Rig:
    """An engine at position 1, with readers of the tables t, w and s."""

    def __init__(self, *queries: str, ahead_fills: bool = True) -> None:
        self.clock = 0.0
        self.followed = ""
        self.engine = Engine(
            gtids(1), 1 << 30, lambda: self.clock, ahead_fills=ahead_fills, followed=lambda: self.followed
        )
        self.readers = [self.install(query) for query in queries]
        self.waiter = 0
        self.number = 1

    def install(self, query: str) -> ReaderNode:
        relations = {("test", table.name): table for table in (T, WIDE, WORDS, LEVELS)}
        reader = self.engine.install(plan_query(query, "test", SchemaSnapshot(dict(relations), (9, 7, 0))))
        reader.encodings.encoders = [lambda rows: repr(rows).encode()]
        return reader

    def read(self, *params: int, reader: int = 0) -> list[Effect]:
        node = self.readers[reader]
        self.waiter += 1
        return self.engine.reads.read(Read(self.waiter, node, [(node.key_of(params), params)]))

    def asked(self) -> list[Request]:
        return [effect for effect in self.engine.flush() if isinstance(effect, Request)]

    def answer(
        self, request: Request, *results: list[Row], lower: GtidSet, executed: GtidSet | None = None, server: str = OLD,
        owned: GtidSet = NOTHING,
    ) -> list[Effect]:  # fmt: skip
        bracket = Bracket(server, lower, owned, executed if executed is not None else lower)
        return self.engine.on_answer(UpqueryAnswer(request.id, bracket, results))

    def change(self, number: int, *pairs: Pair, table: str = "test.t") -> list[Effect]:
        return self.engine.on_stream(Transaction(Gtid(OLD, number), [TableChanges(table, list(pairs))]))

    def held(self, *params: int, reader: int = 0) -> Sequence[Row] | None:
        node = self.readers[reader]
        self.engine.check_invariants()
        return node.answer([(node.key_of(params), params)])

    # -- with the rows of `test.t` at hand

    def next_gtid(self) -> int:
        self.number += 1
        return self.number

    def fill_from(self, table: Mapping[int, Row], *params: int, reader: int = 0) -> None:
        """A read, its upquery answered by SQLite over these rows, all of it at the position."""
        self.read(*params, reader=reader)
        requests = self.asked()
        if not requests:
            return
        base = sqlite3.connect(":memory:")
        base.execute("CREATE TABLE t (id, k, v)")
        base.executemany("INSERT INTO t VALUES (?, ?, ?)", table.values())
        for request in requests:
            fill = self.engine.fills.by_number[request.id]
            results = []
            for statement, ask in zip(request.statements, fill.asked.of, strict=True):
                rows = list(base.execute(transpiled(statement.sql)))
                types = [type_ for _, type_ in fill_columns(fill.reader.nodes[ask.level].plan)]
                results.append([canonical(row, types) if types else row for row in rows])
            self.answer(request, *results, lower=self.engine.state.ring.position.freeze())
        base.close()

    def hit(self, *params: int, reader: int = 0) -> bytes | None:
        """As a listener reads: the stored bytes, made now if there are none."""
        node = self.readers[reader]
        held = self.engine.sieve.hold(node, node.key_of(params), params)
        body = node.body(held, params, 0) if held is not None else None
        self.engine.limit.keep()
        return body
