"""Time zones as MySQL has them: from the instants of TIMESTAMP columns to what a zone's clocks say, and back. Pure.

An instant is text in UTC, as TIMESTAMPs are held (`sqltypes/schema.py`): 'YYYY-MM-DD HH:MM:SS' and a fraction. MySQL
shows it by the clocks of the session's zone, and reads date-times beside a TIMESTAMP by them. Between two changes of a
zone's clocks both directions add or subtract one number of seconds. When clocks are set back, an hour comes twice; when
they are set forward, one never comes. MySQL's plan decides what it finds for such an hour (an index holds instants, a
scan compares clock times), so this module gives no answer for it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta

EPOCH = datetime(1970, 1, 1)
LAST = (1 << 31) - 1  # the last second of a TIMESTAMP
_LARGEST_OFFSET = 15 * 3600  # seconds: MySQL allows -13:59 to +14:00
_KEPT = 1 << 14  # minutes whose local ones are remembered
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)", re.ASCII)
UNSET = "0000-00-00"  # the zero date is no instant


class Zone:
    """The clocks of one zone. `changes`: the seconds since 1970 at which the offset changes, ascending. `offsets`: how
    many seconds the clocks are ahead of UTC, before the first change and from each on."""

    def __init__(self, name: str, changes: Sequence[int], offsets: Sequence[int]) -> None:
        self.name = name
        self.changes = tuple(changes)
        self.offsets = tuple(offsets)
        self._minutes = _Minutes(self)

    def __repr__(self) -> str:
        return f"Zone({self.name!r}, {self.changes!r}, {self.offsets!r})"

    @property
    def is_steady(self) -> bool:
        """Whether the clocks are never set: they keep what is between two instants."""
        return not self.changes

    def same_clocks(self, other: Zone) -> bool:
        return (self.changes, self.offsets) == (other.changes, other.offsets)

    def offset_at(self, second: int) -> int:
        """In seconds. `second`: since 1970, in UTC."""
        return self.offsets[bisect_right(self.changes, second)]

    def ahead(self, utc: datetime) -> timedelta:
        """How far the clocks are ahead at that moment."""
        return timedelta(seconds=self.offset_at(_seconds(utc)))

    def local(self, instant: str) -> str:
        """What the clocks say at an instant of a TIMESTAMP."""
        minute = self._minutes[instant[:16]]
        return minute + instant[16:] if minute else self._exact(instant)

    def _exact(self, instant: str) -> str:
        """Of one whose minute has a change in it, or whose offset is no whole number of minutes."""
        if instant.startswith(UNSET):
            return instant
        utc = datetime.fromisoformat(instant[:19])
        return f"{utc + self.ahead(utc)}{instant[19:]}"

    def instant(self, local: str) -> str | None:
        """The instant at which the clocks say this; None where they say it twice or never, or no TIMESTAMP can be so
        early or so late. Raises ValueError where it is no date-time."""
        said = datetime.fromisoformat(local[:19])
        seconds = _seconds(said)
        first = bisect_right(self.changes, seconds - _LARGEST_OFFSET)
        last = bisect_right(self.changes, seconds + _LARGEST_OFFSET)
        found = {
            second for offset in self.offsets[first : last + 1] if self.offset_at(second := seconds - offset) == offset
        }
        if len(found) != 1 or not 0 < (second := found.pop()) <= LAST:
            return None
        return f"{EPOCH + timedelta(seconds=second)}{local[19:]}"


class _Minutes(dict[str, str]):
    """The clocks' text by the minute of an instant; "" if the offset changes within the minute."""

    def __init__(self, zone: Zone) -> None:
        super().__init__()
        self._zone = zone

    def __missing__(self, minute: str) -> str:
        local = ""
        if not minute.startswith(UNSET):
            begins = datetime.fromisoformat(minute)
            first = _seconds(begins)
            offset = self._zone.offset_at(first)
            if offset % 60 == 0 and offset == self._zone.offset_at(first + 59):
                local = str(begins + timedelta(seconds=offset))[:16]
        if len(self) >= _KEPT:
            self.clear()
        self[minute] = local
        return local


def _seconds(moment: datetime) -> int:
    past = moment - EPOCH
    return past.days * 86400 + past.seconds


def fixed(name: str) -> Zone | None:
    """The zone of a name that tells its offset, as '+02:00' does; None for others."""
    found = _OFFSET.fullmatch(name)
    if found is None:
        return None
    ahead = int(found[2]) * 3600 + int(found[3]) * 60
    if not ahead:
        return UTC
    return Zone(name, (), (-ahead if found[1] == "-" else ahead,))


UTC = Zone("+00:00", (), (0,))
