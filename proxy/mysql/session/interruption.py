"""KILL QUERY, and how long a statement may take, of reads that wait for something beside the session's own connection.

What MySQL executes in the client's session it interrupts itself. It knows nothing of a read that waits here, for a fill
or for the stream. So the proxy looks at the KILL QUERY statements that go through it: where MySQL has accepted one, the
session of that number gives up waiting. MySQL is then told to raise the error itself, in the client's session, so that
the error and what SHOW WARNINGS says behind it are MySQL's.
"""

from __future__ import annotations

import asyncio
import re
from types import TracebackType
from typing import NamedTuple

from planner.text.scan import is_keyword, scan
from proxy.port.reasons import Reason
from sqltypes.errors import ParseError

RAISE = "SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = 1317, MESSAGE_TEXT = 'Query execution was interrupted'"
KILLED = "KILL QUERY has come while the read waited"
TOO_LONG = Reason.OTHER.why("the read may take no longer (max_execution_time), as far as it is MySQL that counts")
LONGEST_KILL = 1000  # bytes of a text that is looked at
_LIMIT = re.compile(rb"\bMAX_EXECUTION_TIME\s*\(\s*(\d{1,10})\s*\)", re.IGNORECASE)


class Interrupted(Exception):
    """KILL QUERY has come."""


class Kill(NamedTuple):
    """What a KILL is for: a connection by its `number`; `query`: its statement alone."""

    number: int
    query: bool


def kill_of(text: bytes) -> Kill | None:
    """What a KILL of a number is for; None of other texts."""
    if len(text) > LONGEST_KILL:
        return None
    try:
        tokens = scan(text.decode())
    except (ParseError, UnicodeDecodeError):
        return None
    while tokens and tokens[-1].text == ";":
        tokens = tokens[:-1]
    if not 2 <= len(tokens) <= 3 or not is_keyword(tokens[0], "KILL"):
        return None
    named = tokens[-1]
    if named.kind != "number" or not named.text.isdecimal() or not text.isascii():
        return None
    query = len(tokens) == 3 and is_keyword(tokens[1], "QUERY")
    if len(tokens) == 3 and not query and not is_keyword(tokens[1], "CONNECTION"):
        return None
    return Kill(int(named.text), query)


def time_limit(text: bytes, value: str) -> float | None:
    """Seconds that a SELECT may take; None: as long as it needs. `value`: of the session's max_execution_time."""
    found = _LIMIT.search(text)
    milliseconds = int(found[1]) if found is not None else int(value) if value.isdigit() else 0
    return milliseconds / 1000 if milliseconds else None


class Waiting:
    """What one session waits for, inside of `with`. That raises Interrupted where the wait was ended by `interrupt`."""

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._interrupted = False

    def __enter__(self) -> None:
        self._task = asyncio.current_task()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, interrupted = self._task, self._interrupted
        self._task, self._interrupted = None, False
        if interrupted and isinstance(error, asyncio.CancelledError) and task is not None and not task.uncancel():
            raise Interrupted from None

    def interrupt(self) -> None:
        """Where something is waited for, that ends. Nothing else does, then or later."""
        if self._task is not None and not self._interrupted:
            self._interrupted = True
            self._task.cancel()
