"""The session-state information of an answer: entries, each from one of MySQL's session trackers. Pure.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_ok_packet.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gtid_tracker.gtid import GtidSet
from proxy.mysql.wire.packets import Malformed, lenenc, read_lenenc

WATCHED_BY_DEFAULT = "time_zone,autocommit,character_set_client,character_set_results,character_set_connection"

VARIABLE, SCHEMA, STATE, GTIDS, CHARACTERISTICS, TRANSACTION = range(6)  # the kinds of tracker
SHOW_ALL = {
    "session_track_gtids": "ALL_GTIDS",
    "session_track_schema": "ON",
    "session_track_state_change": "ON",
    "session_track_system_variables": "*",
    "session_track_transaction_info": "CHARACTERISTICS",
}
"""With these values all that MySQL tells is shown."""


def entries(state: bytes) -> list[tuple[int, bytes]]:
    """The entries: (kind, data). Raises Malformed."""
    found = []
    at = 0
    while at < len(state):
        kind = state[at]
        data, at = read_lenenc(state, at + 1)
        found.append((kind, data))
    return found


def string_at(data: bytes, at: int) -> str:
    """A string with its length before it. Raises Malformed."""
    return read_lenenc(data, at)[0].decode("utf-8", "replace")


def gtid_set(text: str, parse: Callable[[str], GtidSet] = GtidSet.parse) -> GtidSet:
    """As MySQL tells it. Raises Malformed."""
    try:
        return parse(text)
    except ValueError as error:
        raise Malformed(str(error)) from None


def shown_entries(state: bytes, tracks: Mapping[str, str]) -> bytes:
    """What a client is shown whose session_track_... have these values. What the state itself tells of them counts.
    Raises Malformed."""
    found = entries(state)
    asked = dict(tracks)
    for kind, data in found:
        if kind == VARIABLE and data[1:].startswith(b"session_track"):
            name, at = read_lenenc(data, 0)
            asked[name.decode("utf-8", "replace")] = string_at(data, at)
    return b"".join(bytes((kind,)) + lenenc(data) for kind, data in found if _asked_for(asked, kind, data))


def _asked_for(asked: Mapping[str, str], kind: int, data: bytes) -> bool:
    if kind == VARIABLE:
        watched = asked.get("session_track_system_variables", WATCHED_BY_DEFAULT)
        return watched == "*" or string_at(data, 0) in [text.strip() for text in watched.split(",")]
    if kind == SCHEMA:
        return asked.get("session_track_schema", "1") in ("1", "ON")
    if kind == STATE:
        return asked.get("session_track_state_change", "0") in ("1", "ON")
    if kind == GTIDS:
        return asked.get("session_track_gtids", "OFF") != "OFF"
    info = asked.get("session_track_transaction_info", "OFF")
    return info == "CHARACTERISTICS" or (info == "STATE" and kind == TRANSACTION)
