"""What of some keys of a reader is not held, and so is to be asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dataflow.derivation import Hole, Params, TooLong
from dataflow.fill import Read
from dataflow.large_answers import Holes
from dataflow.reader import ReaderNode
from sqltypes.errors import EvaluationError
from sqltypes.expression import Key

MOST_JOINED = 10_000  # rows, for all keys of an upquery
MANY_HOLES = 500  # lookups below a key: of more all is asked for, without naming them


def params_of(keys: Iterable[Key], params: dict[Key, Params]) -> dict[Key, Params]:
    """Those of some keys."""
    return {key: params[key] for key in keys}


def missing(
    reader: ReaderNode,
    keys: dict[Key, Params],
    checked: Iterable[Read] = (),
    known: Holes | None = None,
    *,
    long_is_whole: bool = False,
) -> tuple[dict[Key, Params], Holes]:
    """Of these keys those that are to be filled from the root on, and those of which only some lookups are missing:
    these.

    `checked`: reads whose answers are to be compared in the snapshot: all of their keys come from there. `known`: what
    was found to be missing below keys that are long to derive. Of others it is not known here: they are held, or
    `long_is_whole`.
    """
    whole: dict[Key, Params] = {key: params for read in checked for key, params in read.keys if key in keys}
    if whole:
        keys = {key: params for key, params in keys.items() if key not in whole}
    partial: Holes = {}
    if reader.program.levels:
        room = MOST_JOINED
        for key, params in keys.items():
            if room <= 0:
                whole[key] = params  # to look for its holes would take longer
                continue
            try:
                found, joined = _holes(reader, params, known.get(key, ()) if known else ())
                room -= joined
            except EvaluationError:
                whole[key] = params  # MySQL says what comes of it
                continue
            except TooLong:
                if long_is_whole:
                    whole[key] = params
                continue
            if found is None:
                whole[key] = params
            elif found:
                partial[key] = found
    else:
        root_key, entries = reader.program.root_key, reader.held_levels[0]
        whole.update((key, params) for key, params in keys.items() if root_key(params) not in entries)
    return whole, partial


def _holes(reader: ReaderNode, params: Params, known: Sequence[Hole]) -> tuple[list[Hole] | None, int]:
    """What is missing below a key; None: all of it is to be asked for. And how many rows were joined to tell. Raises
    TooLong, EvaluationError."""
    holes = [hole for hole in known if hole.level >= 0 and hole.key not in reader.held_levels[hole.level + 1]]
    blind, joined = False, 0
    if not holes:
        found = reader.derive(params, reader.held_levels, reader.memory.most_rows)
        holes, blind, joined = found.holes, found.blind, len(found.rows)
    elif len({hole.level for hole in holes}) > 1 or holes[0].level + 1 < len(reader.program.levels):
        blind = True
    if blind or len(holes) > MANY_HOLES or any(hole.level < 0 for hole in holes):
        return None, joined
    return holes, joined
