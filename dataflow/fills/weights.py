"""How much work keys are, so that a step takes a few milliseconds whatever is asked for.

The unit is a key of single values: 3 microseconds to ask for and as many to hold. A key of evict mode that has lists
(`dataflow/operators/answer.py`) weighs more by the values that its text has and by those that the index has.
"""

from __future__ import annotations

from collections.abc import Sequence

from dataflow.fills.read import Read
from dataflow.operators.answer import AnswerNode
from dataflow.readers.derivation import Params
from dataflow.readers.reader import ReaderNode
from sqltypes.expression import Key

Reads = dict[ReaderNode, list[Read]]


def take(missed: Reads, most: int) -> tuple[Reads, Reads]:
    """The first reads, which weigh so much at most, or are one; and the others."""
    taken: Reads = {}
    left: Reads = {}
    room = most
    for reader, reads in missed.items():
        program = reader.program
        root = program.root
        for at, read in enumerate(reads):
            weight = len(read.keys)
            if isinstance(root, AnswerNode):
                weight = sum(root.weight(program.root_key(params)) for _, params in read.keys)
            if weight > room and taken:
                left[reader] = reads[at:]
                room = 0
                break
            room -= weight
            taken.setdefault(reader, []).append(read)
    return taken, left


def split(reader: ReaderNode, keys: dict[Key, Params], most: int) -> Sequence[dict[Key, Params]]:
    """The keys in parts that weigh so much at most, or are one key."""
    program = reader.program
    root = program.root
    if not isinstance(root, AnswerNode):
        return (keys,)
    parts: list[dict[Key, Params]] = []
    part: dict[Key, Params] = {}
    room = most
    for key, params in keys.items():
        weight = root.weight(program.root_key(params))
        if part and weight > room:
            parts.append(part)
            part, room = {}, most
        part[key] = params
        room -= weight
    if part:
        parts.append(part)
    return parts
