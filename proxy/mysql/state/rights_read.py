"""As of when MySQL has read the rights of a session: of its account, its database, its roles. Pure.

MySQL keeps global rights until a session ends, a database's until USE, roles' until SET ROLE. What it says to one
session is another's to go by only where both were read as of the same versions of accounts. And where a change has
ended such a version, only if both are sure to have been read before it: between the change and the stream's word of it
MySQL reads the new rights already.
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from proxy.port.accounts import Accounts


class RightsRead(NamedTuple):
    """At the login, of the database and of the roles. `versions`: of accounts; negative ones are this session's alone.
    `at`: when."""

    versions: tuple[int, int, int]
    at: tuple[float, float, float]


NEVER = RightsRead((0, 0, 0), (0.0, 0.0, 0.0))
_doubts = count(1)


def read_anew(before: RightsRead, accounts: Accounts, *, login: bool, database: bool) -> RightsRead:
    """MySQL has just read all of them, at a login, or the database's."""
    if not (login or database):
        return before
    now, at = accounts.now()
    if login:
        return RightsRead((now, now, now), (at, at, at))
    (first, _, third), (first_at, _, third_at) = before
    return RightsRead((first, now, third), (first_at, at, third_at))


def doubted(before: RightsRead, accounts: Accounts) -> RightsRead:
    """MySQL may have read the roles' rights anew, or not: SET ROLE does not where the roles stay as they are. What it
    says to this session is no other session's to go by then, nor its own behind the next doubt."""
    now, at = accounts.now()
    return RightsRead(before.versions, (before.at[0], at, at)) if before.versions[1:] == (now, now) else parted(before)


def parted(before: RightsRead) -> RightsRead:
    """What MySQL lets this session read as of now is its own."""
    doubt = -next(_doubts)
    return RightsRead((before.versions[0], doubt, doubt), before.at)


def settled(before: RightsRead, accounts: Accounts) -> RightsRead:
    """What may have been read before a change or behind it is this session's own."""
    sure = [version < 0 or accounts.are_sure(version, at) for version, at in zip(*before, strict=True)]
    if all(sure):
        return before
    doubt = -next(_doubts)
    first, second, third = (old if is_sure else doubt for old, is_sure in zip(before.versions, sure, strict=True))
    return RightsRead((first, second, third), before.at)
