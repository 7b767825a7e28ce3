"""The rules of automatic caching: how many reads make a shape worth a cache, and whether its sessions could have hits.
Pure."""

from __future__ import annotations

from external_upquery.login import SQL_MODE
from planner.session.needs import BY_CODES, BYTES, COLLATION, OF_MODE, STRINGS
from planner.text.hints import with_hint
from proxy.auto.passed_reads import UNKNOWN, ProxiedQuery
from proxy.mysql.state.session_variables import first_difference, same
from proxy.mysql.state.sql_modes import hint_for
from sqltypes.collation import character_set

UNTIL_KNOWN = 2  # reads: with the first one it shows that its session is to be asked
SLOW_US = 100_000.0  # a query that takes so long is cached before it is known who can use that
ASKED = "what its sessions have is asked with its next reads"


def differing(modes: frozenset[str] | None, collation: str) -> frozenset[str]:
    """The part of `session_needs` that differs, under these modes and this collation, from the session that fills
    caches."""
    pinned = frozenset(SQL_MODE.split(","))
    other = frozenset(OF_MODE + name for name in (pinned if modes is None else modes) ^ pinned)
    if not collation:
        return other
    strings = character_set(collation)
    return other | {COLLATION, BY_CODES} | {name for name in (STRINGS, BYTES) if not same(name, strings)}


def useless(entry: ProxiedQuery, needs: frozenset[str]) -> str:
    """Why the session that read the shape last could get no hit of a cache with these needs; or that this is unknown
    until the next reads; "" if it could."""
    if entry.values is None:
        return ""
    if entry.values is UNKNOWN:
        asks = needs and entry.p50_us < SLOW_US and entry.count - entry.judged_at < UNTIL_KNOWN
        return ASKED if asks else ""
    return first_difference(entry.values, needs)


def as_read(entry: ProxiedQuery) -> str:
    """The shape with a hint for the sql_mode and the collation of the session that read it last, if these can be set
    and matter; else the shape itself."""
    if not entry.values:
        return entry.shape
    hinted = with_hint(entry.shape.encode(), hint_for(entry.values))
    return entry.shape if hinted is None else hinted.decode()
