"""How much work keys are, so that a step takes a few milliseconds whatever is asked for.

The unit is a key of single values: 3 microseconds to ask for and as many to hold. A key of evict mode that has lists
(`dataflow/operators/answer.py`) weighs more by the values that its text has and by those that the index has.
"""

from __future__ import annotations

from collections.abc import Iterator

from dataflow.fills.read import Read
from dataflow.operators.answer import AnswerNode
from dataflow.readers.derivation import Params
from dataflow.readers.reader import ReaderNode
from sqltypes.expression import Key


def weight_of(read: Read) -> int:
    """Of all keys of a read."""
    program = read.reader.program
    root = program.root
    if not isinstance(root, AnswerNode):
        return len(read.keys)
    return sum(root.weight(program.root_key(params)) for _, params in read.keys)


Reads = dict[ReaderNode, list[Read]]


def take(missed: Reads, most: int) -> tuple[Reads, Reads]:
    """The first reads, which weigh so much at most, or are one; and the others."""
    taken: Reads = {}
    left: Reads = {}
    room = most
    for reader, reads in missed.items():
        for at, read in enumerate(reads):
            weight = weight_of(read)
            if weight > room and taken:
                left[reader] = reads[at:]
                room = 0
                break
            room -= weight
            taken.setdefault(reader, []).append(read)
    return taken, left


def split(reader: ReaderNode, keys: dict[Key, Params], most: int) -> Iterator[dict[Key, Params]]:
    """The keys in parts that weigh so much at most, or are one key."""
    program = reader.program
    root = program.root
    if not isinstance(root, AnswerNode):
        yield keys
        return
    part: dict[Key, Params] = {}
    room = most
    for key, params in keys.items():
        weight = root.weight(program.root_key(params))
        if part and weight > room:
            yield part
            part, room = {}, most
        part[key] = params
        room -= weight
    if part:
        yield part
