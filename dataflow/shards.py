"""Which shards of the source have what a read asks for, and which reads share an upquery.

An answer of one shard has a bracket of that shard (`Bracket.others`), and waits for no other. So keys of several shards
are not asked for together, but where one read wants them together. The source knows which shards a key is on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dataflow.derivation import Params
from dataflow.fill import Read
from dataflow.messages import Keyed
from dataflow.reader import ReaderNode
from planner.plan import AnswerArrangement
from sqltypes.expression import Key

Shards = tuple[str, ...] | None  # in the same order for the same ones; None: any may have some of it
ShardsOf = Callable[[ReaderNode, Sequence[tuple[Key, Params]]], Shards]


def everywhere(reader: ReaderNode, keys: Sequence[tuple[Key, Params]]) -> Shards:
    """Of a source without shards, or where nobody knows."""
    return None


def in_groups(
    missed: dict[ReaderNode, list[Read]], shards_of: ShardsOf
) -> Iterator[tuple[ReaderNode, list[Read], Shards]]:
    """The reads that share upqueries, and the shards that have what they ask for."""
    for reader, reads in missed.items():
        groups: dict[tuple[int, Shards], list[Read]] = {}
        for read in reads:
            groups.setdefault((read.group, shards_of(reader, read.keys)), []).append(read)
        for (_, shards), group in groups.items():
            yield reader, group, shards


def by_root(shards_of: Callable[[Keyed], Shards]) -> ShardsOf:
    """Of readers that look nothing up, where it is known on which shards the rows of a key are."""

    def found(reader: ReaderNode, keys: Sequence[tuple[Key, Params]]) -> Shards:
        plan, program = reader.program.root.plan, reader.program
        if program.levels or isinstance(plan, AnswerArrangement):
            return None
        return shards_of(Keyed(plan.table, plan.key, [program.root_values(params) for _, params in keys]))

    return found
