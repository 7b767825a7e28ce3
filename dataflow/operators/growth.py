"""Whether a parameter grows from fill to fill, as moments do that applications write into their texts
(`published <= '2026-11-26 12:00:00.123456'`).

Then no key is asked for twice, and it pays to ask how far an answer reaches (`standing.py`). That is one more SELECT
for each fill, so it ends where no such answer stands for another key. This decides what is asked, never what is
answered.
"""

from __future__ import annotations

from dataflow.operators.standing import is_not_later
from sqltypes.expression import Value

NEEDED = 4  # fills of a greater value than ever before, beyond those of a less one
UNUSED = 1024  # fills that ask how far an answer reaches, while none stands for another key
IN_VAIN = 64  # so many of them is one for whose key an answer might have stood: it did not reach so far
MOST_NEEDED = 4096
LESS = 64  # fills of values below the greatest, one after the other: that one was no part of what grows


class Growth:
    """Of one parameter. `asked`: it is to be asked how far answers reach in it."""

    __slots__ = ("_greatest", "_grown", "_left", "_less", "_needed")

    def __init__(self) -> None:
        self._greatest: Value = None
        self._grown = self._less = self._left = 0
        self._needed = NEEDED

    @property
    def asked(self) -> bool:
        return self._left > 0

    def note(self, value: Value, *, in_vain: bool = False) -> None:
        """A key with this value is filled. `in_vain`: an answer is held that has all but what grows in common with
        it."""
        cost = IN_VAIN if in_vain else 1
        if 0 < self._left <= cost:
            self._grown, self._needed = 0, min(2 * self._needed, MOST_NEEDED)
        self._left = max(0, self._left - cost)
        if self._greatest is not None and not is_not_later(self._greatest, value):
            self._grown, self._less = max(0, self._grown - 1), self._less + 1
            if self._less == LESS:
                self._greatest, self._less = value, 0
            return
        self._less = 0
        if self._greatest is not None and value != self._greatest:
            self._grown = min(self._grown + 1, self._needed)
        self._greatest = value
        if not self._left and self._grown >= self._needed:
            self._left = UNUSED

    def used(self) -> None:
        """An answer has stood for a key with a greater value."""
        self._left, self._needed = UNUSED, NEEDED
