"""Whether this process may write in its state directory. While one proxy takes over from another, one of them may."""

from __future__ import annotations

from collections.abc import Callable


class Writing:
    """`why_not`: why nothing may be written, as a sentence for who asks for it; "" while this process may.

    To take something away is always allowed: a file that is not there is true.
    """

    def __init__(self) -> None:
        self.why_not = ""
        self._waiting: list[Callable[[], None]] = []

    def hold(self, why: str) -> None:
        self.why_not = why

    def go_on(self) -> None:
        """What was to be written meanwhile is written now."""
        self.why_not = ""
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            write()

    def later(self, write: Callable[[], None]) -> None:
        """`write` is called when writing goes on, which may be never."""
        self._waiting.append(write)
