"""Real time zones in MySQL's tables, under names that no MySQL has been asked for before: it remembers those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from time import time_ns
from zoneinfo import ZoneInfo

from integration.servers.mysql_server import Server

FIRST, LAST, STEP = 0, (1 << 31) - 1, 3 * 86400  # seconds
TABLES = ("time_zone", "time_zone_name", "time_zone_transition", "time_zone_transition_type")
Changes = list[tuple[int, int]]
"""From which second on the clocks are how many seconds ahead of UTC."""


def offset_at(zone: ZoneInfo, second: int) -> int:
    found = datetime.fromtimestamp(second, UTC).astimezone(zone).utcoffset()
    assert found is not None
    return int(found.total_seconds())


def changes_of(name: str) -> Changes:
    """Of a zone of Python's, where TIMESTAMPs are."""
    zone = ZoneInfo(name)
    found = [(FIRST, offset_at(zone, FIRST))]
    for begin in range(FIRST, LAST - STEP, STEP):
        low, high = begin, begin + STEP
        before = offset_at(zone, low)
        if offset_at(zone, high) == before:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset_at(zone, middle) == before else (low, middle)
        found.append((high, offset_at(zone, high)))
    return found


@contextmanager
def loaded_zones(mysql: Server, names: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """By Python's names of zones, those that MySQL has for them meanwhile."""
    number = int(mysql.execute("SELECT COALESCE(MAX(Time_zone_id), 0) + 1 FROM mysql.time_zone")[0][0])
    numbers = range(number, number + len(names))
    given = {name: f"Upwell{time_ns()}/{name}" for name in names}
    try:
        for number, name in zip(numbers, names, strict=True):
            changes = changes_of(name)
            offsets = list(dict.fromkeys(offset for _, offset in changes))
            types = ", ".join(f"({number}, {at}, {offset}, 0, 'X')" for at, offset in enumerate(offsets))
            times = ", ".join(f"({number}, {second}, {offsets.index(offset)})" for second, offset in changes)
            mysql.execute(
                f"INSERT INTO mysql.time_zone VALUES ({number}, 'N')",
                f"INSERT INTO mysql.time_zone_transition_type VALUES {types}",
                f"INSERT INTO mysql.time_zone_transition VALUES {times}",
                f"INSERT INTO mysql.time_zone_name VALUES ('{given[name]}', {number})",
            )
        yield given
    finally:
        for table in TABLES:
            mysql.execute(f"DELETE FROM mysql.{table} WHERE Time_zone_id BETWEEN {numbers[0]} AND {numbers[-1]}")
