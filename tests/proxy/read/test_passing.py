"""A read that MySQL answers itself: the stream may tell of a transaction before MySQL shows it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from external_upquery.passed import Passed
from proxy.auto.passed_reads import Judge, ProxiedQueries
from proxy.port.api import WireFormat
from proxy.port.reasons import Reason
from proxy.pump.wire_formats import WireFormats
from proxy.read.passing import VISIBLE_SOON, Passing
from proxy.source.source import Upqueries
from tests.support.engine_rig import OLD, Rig, gtids


class Source:
    """MySQL, whose readings of gtid_executed are these, one a statement."""

    def __init__(self, *executed: int) -> None:
        self._executed = list(executed)
        self.asked: list[dict[str, Any]] = []

    async def read(self, sql: str, database: str, **options: Any) -> Passed:
        self.asked.append(options)
        executed = f"{OLD}:1-{self._executed.pop(0)}"
        return Passed((), [(len(self.asked),)], executed, executed)


def passed(source: Source) -> tuple[bytes, str]:
    """The body and the position of a read that came at position 1-3."""
    rig = Rig()
    rig.change(2)
    rig.change(3)
    formats = WireFormats()
    formats.register("repr", WireFormat(lambda columns: lambda rows: repr(rows).encode()))
    passing = Passing(rig.engine, cast(Upqueries, source), formats, ProxiedQueries(cast(Judge, None)), {})
    answer = asyncio.run(passing.read("SELECT 1", "test", 0, Reason.NOT_CACHED.why("not cached"), "", None))
    return answer.body, answer.position


def test_what_mysql_shows_is_not_older_than_what_hits_have_shown() -> None:
    source = Source(2, 3)
    assert passed(source) == (b"[(2,)]", f"{OLD}:1-3")
    assert source.asked == [{"tables": ()}, {"after": gtids(1, 2, 3), "patience": VISIBLE_SOON, "tables": ()}]


def test_mysql_is_asked_once_where_it_shows_all() -> None:
    source = Source(4)
    assert passed(source) == (b"[(1,)]", f"{OLD}:1-4")
    assert source.asked == [{"tables": ()}]


def test_what_mysql_never_executes_is_not_waited_for_without_end() -> None:
    source = Source(2, 2)
    assert passed(source) == (b"[(2,)]", f"{OLD}:1-2")
