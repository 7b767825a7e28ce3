"""When the stream is to look whether its source's binlog was reset."""

from __future__ import annotations

import asyncio

from proxy.source.reset_watch import ResetWatch
from sqltypes.errors import SourceDown


class Stream:
    def __init__(self, resets: int) -> None:
        self.logins, self.resets = 1, resets
        self.reasons: list[str] = []

    def reconnect(self, reason: str) -> None:
        self.reasons.append(reason)


def looked(stream: Stream, told: int | Exception, *, logs_in: bool = False) -> int:
    """How often the stream was told to log in anew. `told`: by MySQL; `logs_in`: the stream does, while it is asked."""

    async def ask() -> int:
        stream.logins += logs_in
        if isinstance(told, Exception):
            raise told
        return told

    asyncio.run(ResetWatch(ask, stream).look())
    return len(stream.reasons)


def test_a_count_that_is_not_that_of_the_login_is_a_doubt() -> None:
    assert looked(Stream(2), 2) == 0
    assert looked(Stream(2), 3) == 1
    assert looked(Stream(2), 0) == 1, "the server was started anew, and the stream has not noticed yet"


def test_what_a_login_meanwhile_has_seen_is_no_doubt() -> None:
    assert looked(Stream(2), 3, logs_in=True) == 0


def test_a_server_that_does_not_answer_says_nothing() -> None:
    assert looked(Stream(2), SourceDown("away")) == 0
