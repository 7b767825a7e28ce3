"""Keys for a load: listed or counted, and drawn evenly or so that few are asked for most."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import overload

Key = tuple[object, ...]
KEYS = "--keys, --key, --keys-file or --sample with at least one row"  # how they are given
SPREADS = ("uniform", "zipf")
RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


def parse_key(text: str) -> Key:
    """The parameters of one key: JSON (`7`, `"a"`, `[7, "a"]`), or else a string as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return tuple(value) if isinstance(value, list) else (value,)


class Numbers(Sequence[Key]):
    """The keys `first..last`, both included, without a list of them."""

    def __init__(self, first: int, last: int) -> None:
        self._range = range(first, last + 1)

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, index: int) -> Key: ...

    @overload
    def __getitem__(self, index: slice) -> list[Key]: ...

    def __getitem__(self, index: int | slice) -> Key | list[Key]:
        found = self._range[index]
        return [(number,) for number in found] if isinstance(found, range) else (found,)


def parse_numbers(text: str) -> Numbers:
    """`1..100000`. Raises ValueError with a sentence."""
    found = RANGE.fullmatch(text.strip())
    if found is None or int(found[1]) > int(found[2]):
        raise ValueError(f"{text!r}: a range such as 1..100000 is accepted")
    return Numbers(int(found[1]), int(found[2]))


def drawing(keys: Sequence[Key], spread: str, random: Random) -> Callable[[], Key]:
    """Draws one key at each call. `zipf`: the n-th of them about 1/n times as often as the first."""
    count, draw = len(keys), random.random
    if spread == "zipf":
        # The inverse of the distribution itself, so that a million keys need no table.
        return lambda: keys[int((count + 1) ** draw()) - 1]
    return lambda: keys[int(count * draw())]
