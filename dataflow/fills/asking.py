"""What one upquery asks: its statements, and what the answer to each fills.

Keys that are known go by value. The keys of a lookup whose rows are themselves missing go by a semi-join, evaluated by
MySQL in the same snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dataflow.messages import Statement
from dataflow.operators.answer import AnswerNode
from dataflow.readers.derivation import Params
from dataflow.readers.in_steps import Holes
from dataflow.readers.reader import ReaderNode
from planner.fill.upquery_sql import FOUND_ROWS, answer_sql, crossing_sqls, semijoin_sql
from planner.tree.plan import AnswerArrangement, Crossing
from sqltypes.expression import Key, Row, Value


@dataclass(slots=True)
class Ask:
    """One statement of the request: what its answer fills."""

    level: int  # 0 is the root, n the lookup n - 1
    keys: dict[Key, Row]  # asked by value; empty for a semi-join
    semijoin: bool = False


@dataclass(slots=True, eq=False)
class Asked:
    """`whole`: reader keys all of whose inputs are asked for; `partial`: those of which only some lookups are missing,
    `holes`. `of`: one for each statement; none for the crossings, which are asked behind each answer."""

    reader: ReaderNode
    whole: dict[Key, Params]
    partial: Iterable[Key]
    holes: Holes
    of: list[Ask] = field(default_factory=list)
    crossings: tuple[Crossing, ...] = ()

    def statements(self, exact: bool) -> list[Statement]:
        """Requires: called once. `exact`: only of those that read one table and can lock it without waiting; what a
        semi-join would bring is a hole still when they are inserted, and then asked for by value."""
        root, program = self.reader.plan.reader.root, self.reader.program
        if isinstance(root, AnswerArrangement):
            return self._answers(root, exact)
        statements: list[Statement] = []
        keys = {program.root_key(params): program.root_values(params) for params in self.whole.values()}
        if keys:
            self.of.append(Ask(0, keys))
            statements.append(program.root.statement(list(keys.values())))
        for number in range(len(program.levels)):
            statements += self._lookup(number, exact)
        return statements

    def _answers(self, root: AnswerArrangement, exact: bool) -> list[Statement]:
        reader, node = self.reader, self.reader.nodes[0]
        statements: list[Statement] = []
        asks = [reader.program.root_values(params) for params in self.whole.values()]
        if isinstance(node, AnswerNode) and not exact:
            for values in asks:
                node.note_filled(values)
            self.crossings = node.crossings
        for params, values in zip(self.whole.values(), asks, strict=True):
            self.of.append(Ask(0, {reader.program.root_key(params): values}))
            asked = answer_sql(root, values)
            if self.crossings:
                statements += [Statement(*asked), *map(Statement, crossing_sqls(root, values, self.crossings))]
            elif root.counts:  # right behind it
                statements += [Statement(asked.sql, asked.before), Statement(FOUND_ROWS, after=asked.after)]
            else:
                statements.append(Statement(*asked))
        return statements

    def _lookup(self, number: int, exact: bool) -> list[Statement]:
        """By value: the holes that are known, and keys that follow from the parameters. The rest by a semi-join."""
        level = self.reader.program.levels[number]
        keys: dict[Key, Row] = {}
        statements: list[Statement] = []
        for key in self.partial:
            keys.update((hole.key, hole.values) for hole in self.holes[key] if hole.level == number)
        if self.whole and level.direct is not None and level.direct_key is not None:
            for params in self.whole.values():
                key = level.direct_key((), params)
                if key is not None:
                    keys[key] = level.direct((), params)
        elif self.whole and not exact:
            self.of.append(Ask(number + 1, {}, semijoin=True))
            statements.append(Statement(semijoin_sql(self.reader.plan, number, self._key_values())))
        if keys:
            self.of.append(Ask(number + 1, keys))
            statements.append(level.node.statement(list(keys.values())))
        return statements

    def _key_values(self) -> list[tuple[Value, ...]]:
        """Of each whole key the values of the reader's key parts, in order."""
        parts = [part.parameter for part in self.reader.plan.key]
        return [tuple(params[index] for index in parts) for params in self.whole.values()]
