"""The table of a dictionary whose keys come and go.

CPython puts each new key behind all others, also where some were taken out. When no place is left it makes the table
anew, with three to six times as many places as there are keys: each takes 20 bytes. It has less than half of them if it
is made anew a little before that, in place.
"""

from __future__ import annotations

from sys import getsizeof
from typing import Any

MOST = 150_000  # keys that are put into another table in one step: about a millisecond
BYTES = 30  # of a table, for each key that it can take
MARGIN = 4096  # keys that may come between two looks


class Table:
    """Of one dictionary. `gone`: keys that were taken out since the table was made, or a few more."""

    __slots__ = ("_entries", "_size", "gone")

    def __init__(self, entries: dict[Any, Any]) -> None:
        self._entries = entries
        self._size = getsizeof(entries)
        self.gone = 0

    def tidy(self) -> None:
        """Makes the table anew if its places are about to be used up, and mostly by keys that have gone."""
        entries, size = self._entries, getsizeof(self._entries)
        if size != self._size:  # CPython has made it anew
            self._size, self.gone = size, 0
            return
        held, places = len(entries), size // BYTES
        if held > min(MOST, 3 * places // 4) or held + self.gone < places - MARGIN or not self.gone:
            return
        kept: dict[Any, Any] = {}
        kept.update(entries)
        entries.clear()
        entries.update(kept)
        self._size, self.gone = getsizeof(entries), 0
