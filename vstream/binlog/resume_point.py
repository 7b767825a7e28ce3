"""Where a connection has come to, so that the next one can tell whether it goes on in the same history. Pure.

As long as the history is the same one, the last transaction is sent with the same GTID event again: that tells of its
length and when it was committed. Where none was read yet, the binlog file is compared: its name, and the second in
which it was begun.
"""

from __future__ import annotations

from gtid_tracker.gtid import Gtid
from vstream.errors import HistoryLost


class ResumePoint:
    """`last`: the last transaction given, with its GTID event. `file`: the binlog file that is read.

    Invariants: 1. A connection is compared by its first transaction or by its file, not by both.
    """

    __slots__ = ("_expected_file", "_named", "expected", "file", "last")

    def __init__(self) -> None:
        self.last: tuple[Gtid, bytes] | None = None
        self.file = b""
        self.expected: tuple[Gtid, bytes] | None = None
        self._expected_file = b""
        self._named = b""  # the file that comes next

    def check_invariants(self) -> None:
        assert self.expected is None or not self._expected_file, "two things are expected"

    def connect(self) -> None:
        """A connection begins; it was asked for `last` again."""
        self.expected = self.last
        self._expected_file = b"" if self.last is not None else self.file

    def lose(self) -> None:
        """The connection is lost."""
        self.expected, self._expected_file = None, b""

    def forget(self) -> None:
        """Another history is followed from now on."""
        self.last = None
        self.file = b""

    def compare(self, gtid: Gtid, told: bytes) -> None:
        """The connection's first transaction. Requires: one is `expected`. Raises HistoryLost."""
        expected, self.expected = self.expected, None
        if expected is not None and expected != (gtid, told):
            raise HistoryLost(f"{expected[0]}, the last transaction that was read, is not in the binlog as it was")

    def name(self, file: bytes) -> None:
        """This file comes next."""
        self._named = file

    def begin_file(self, second: bytes) -> None:
        """It was begun in this second. Raises HistoryLost."""
        self.file = self._named + second
        expected, self._expected_file = self._expected_file, b""
        if expected and expected != self.file:
            raise HistoryLost("the binlog is another file than before, and there is no transaction to compare")
