"""What of some keys of a reader is not held, and so is to be asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from dataflow.fills.read import Read
from dataflow.readers.derivation import Hole, Params, TooLong
from dataflow.readers.in_steps import Holes, Steps
from dataflow.readers.reader import ReaderNode
from sqltypes.errors import EvaluationError
from sqltypes.expression import Key

MOST_JOINED = 2_000  # rows, for all keys of an upquery of which nobody has looked before what is missing
MANY_HOLES = 500  # lookups below a key: of more all is asked for, without naming them


def params_of(keys: Iterable[Key], params: dict[Key, Params]) -> dict[Key, Params]:
    """Those of some keys."""
    return {key: params[key] for key in keys}


def missing(
    reader: ReaderNode,
    keys: dict[Key, Params],
    checked: Sequence[Read] = (),
    known: Holes | None = None,
    *,
    long_is_whole: bool = False,
) -> tuple[dict[Key, Params], Holes]:
    """Of these keys those that are to be filled from the root on, and those of which only some lookups are missing:
    these.

    `checked`: reads whose answers are to be compared in the snapshot: all of their keys come from there. `known`: what
    was found to be missing below some keys, a moment ago (`holes_below`). Of keys that are long to derive and not among
    these it is not known here: they are held, or `long_is_whole`.
    """
    whole: dict[Key, Params] = {}
    if checked:
        whole = {key: params for read in checked for key, params in read.keys if key in keys}
        keys = {key: params for key, params in keys.items() if key not in whole}
    partial: Holes = {}
    if not reader.program.levels:
        root_key, entries = reader.program.root_key, reader.held_levels[0]
        for key, params in keys.items():
            if root_key(params) not in entries:
                whole[key] = params
        return whole, partial
    room = MOST_JOINED
    for key, params in keys.items():
        before = known.get(key) if known else None
        if before is None and room <= 0:
            whole[key] = params  # to look for its holes would take longer
            continue
        try:
            holes, joined = _looked_for(reader, params, before, room)
        except EvaluationError:
            holes = None  # MySQL says what comes of it
        except TooLong:
            holes = None if long_is_whole else []
            room -= reader.memory.most_rows
        else:
            room -= joined
        if holes is None:
            whole[key] = params
        elif holes:
            partial[key] = holes
    return whole, partial


def _looked_for(
    reader: ReaderNode, params: Params, before: Sequence[Hole] | None, room: int
) -> tuple[list[Hole] | None, int]:
    """What is missing below a key; None: all of it is to be asked for. And how many rows were joined to tell. Raises
    TooLong, EvaluationError."""
    holes, joined = [], 0
    if before is not None:
        holes = [hole for hole in before if hole.level >= 0 and hole.key not in reader.held_levels[hole.level + 1]]
        if not holes and (not before or (room <= 0 and reader.program.root_key(params) in reader.held_levels[0])):
            return [], 0  # if anything is missing now, the read finds out at its end
    if holes:
        blind = any(hole.level + 1 < len(reader.program.levels) for hole in holes)  # others behind it are not known
    else:
        found = reader.derive(params, reader.held_levels, reader.memory.most_rows)
        holes, blind, joined = found.holes, found.blind, len(found.rows)
    if blind or len(holes) > MANY_HOLES or any(hole.level < 0 for hole in holes):
        return None, joined
    return holes, joined


def holes_below(reader: ReaderNode, keys: Sequence[tuple[Key, Params]], known: Holes) -> Steps[None]:
    """Adds to `known` what is missing below each of these keys, which may be nothing. Not where no rows are joined, so
    that it is told in no time. Of keys that are long to derive it was found before, if anything is."""
    if not reader.program.levels:
        return
    memory = reader.memory
    until = memory.derived + memory.most_rows
    for key, params in keys:
        if key in known:
            continue
        if (held := reader.entries.get(key)) is not None and held.version is not None:
            known[key] = []  # it is linked to all that it is derived from
            continue
        with suppress(EvaluationError):
            try:
                known[key] = reader.derive(params, reader.held_levels, memory.most_rows).holes
            except TooLong:
                known[key] = []  # or it was found before that something is missing
        if memory.derived >= until:
            yield
            until = memory.derived + memory.most_rows
