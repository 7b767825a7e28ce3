"""Which shards of the source have what a read asks for, and which reads share an upquery.

An answer of one shard has a bracket of that shard (`Bracket.others`), and waits for no other. So keys of several shards
are not asked for together, but where one read wants them together. The source knows which shards a key is on. Where it
has still to find out, a read is asked for alone: its key may be on a shard that hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dataflow.fills.read import Read
from dataflow.messages import Keyed
from dataflow.readers.derivation import Params
from dataflow.readers.reader import ReaderNode
from planner.tree.plan import AnswerArrangement
from sqltypes.expression import Key

MOST_KEYS = 64  # of one question; of more, all shards are asked
Shards = tuple[str, ...] | None
"""In the same order for the same ones. (): the source can tell, and has not been asked yet. None: any may have some of
it."""
ShardsOf = Callable[[ReaderNode, Sequence[tuple[Key, Params]]], Shards]


def in_groups(
    missed: dict[ReaderNode, list[Read]], shards_of: ShardsOf | None
) -> list[tuple[ReaderNode, list[Read], Shards]]:
    """The reads that share upqueries, and the shards that have what they ask for. `shards_of` None: of a source without
    shards."""
    found: list[tuple[ReaderNode, list[Read], Shards]] = []
    for reader, reads in missed.items():
        groups: dict[tuple[int, Shards, int], list[Read]] = {}
        for read in reads:
            shards = shards_of(reader, read.keys) if shards_of is not None else None
            groups.setdefault((read.group, shards, read.waiter if shards == () else 0), []).append(read)
        for (_, shards, _), group in groups.items():
            found.append((reader, group, shards or None))
    return found


def by_root(shards_of: Callable[[Keyed], Shards]) -> ShardsOf:
    """Of readers that look nothing up, where it is known on which shards the rows of a key are. Nobody looks up where
    very many keys are."""

    def found(reader: ReaderNode, keys: Sequence[tuple[Key, Params]]) -> Shards:
        rows = root_rows(reader, keys)
        return None if rows is None else shards_of(rows)

    return found


def root_rows(reader: ReaderNode, keys: Sequence[tuple[Key, Params]]) -> Keyed | None:
    """All rows that the answers of these keys are made of; None where a reader looks others up, and of very many
    keys."""
    plan, program = reader.program.root.plan, reader.program
    if len(keys) > MOST_KEYS or program.levels or isinstance(plan, AnswerArrangement):
        return None
    return Keyed(plan.table, plan.key, [program.root_values(params) for _, params in keys])
