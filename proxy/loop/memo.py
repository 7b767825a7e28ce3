"""Results of a function, computed once per argument: for encoders, which meet the same lengths and small values again
and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

LIMIT = 1 << 14  # arguments remembered

K = TypeVar("K")


class Memo(dict[K, bytes]):
    """The bytes that a function gives for each argument; the first LIMIT of them are kept."""

    def __init__(self, function: Callable[[K], bytes]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, argument: K) -> bytes:
        made = self._function(argument)
        if len(self) < LIMIT:
            self[argument] = made
        return made
