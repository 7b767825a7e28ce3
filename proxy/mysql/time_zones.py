"""A session's time zone, as far as it is UTC or an offset from it. Pure."""

from __future__ import annotations

import re
from datetime import timedelta

from proxy.mysql.session_variables import UTC

_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)", re.ASCII)


def offset_of(zone: str) -> timedelta | None:
    """How far a zone's clocks are ahead of UTC; None where its name alone does not tell."""
    if zone.lower() in UTC:
        return timedelta()
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return None
    ahead = timedelta(hours=int(found[2]), minutes=int(found[3]))
    return -ahead if found[1] == "-" else ahead
