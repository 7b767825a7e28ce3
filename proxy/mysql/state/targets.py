"""Where a session of vtgate's is: at a keyspace, at all of them, at one shard, or at one kind of tablets."""

from __future__ import annotations

from proxy.port.reasons import NO_REASON, Reason, Why

PRIMARY = "@primary"
TARGETS = ":@/["  # in a database's name: that of a shard, of a range of keys, or of a kind of tablets


def keyspace_of(database: str) -> str:
    """The keyspace that a session at this database sees; "" where it names none. Where no kind of tablets is named,
    vtgate asks the primary ones.

    >>> keyspace_of("shop@PRIMARY"), keyspace_of("@primary"), keyspace_of("shop@replica")
    ('shop', '', 'shop@replica')
    """
    return database[: -len(PRIMARY)] if database.lower().endswith(PRIMARY) else database


def elsewhere(database: str) -> Why:
    """Why a session at this database gets nothing from a cache, "" if it may: it does not see the keyspace."""
    if set(TARGETS).isdisjoint(database):
        return NO_REASON
    return Reason.SETTING.why(f"the session is at {database!r}, not at a keyspace")
