"""As of when MySQL has read the rights of a session: of its account, its database, its roles. Pure.

MySQL keeps global rights until a session ends, a database's until USE, roles' until SET ROLE. What it says to one
session is another's to go by only where both were read as of the same versions of accounts.
"""

from __future__ import annotations

from itertools import count

RightsRead = tuple[int, int, int]
"""The versions of accounts at the login, of the database and of the roles; negative ones are this session's alone."""
NEVER: RightsRead = (0, 0, 0)
_doubts = count(1)


def read_anew(before: RightsRead, now: int, *, login: bool, database: bool) -> RightsRead:
    """MySQL has just read all of them, at a login, or the database's. `now`: the version of accounts."""
    first, second, third = before
    return now if login else first, now if login or database else second, now if login else third


def doubted(before: RightsRead, now: int) -> RightsRead:
    """MySQL may have read the roles' rights anew, or not: SET ROLE does not where the roles stay as they are. What it
    says to this session is no other session's to go by then, nor its own behind the next doubt."""
    return before if before[1:] == (now, now) else parted(before)


def parted(before: RightsRead) -> RightsRead:
    """What MySQL lets this session read as of now is its own."""
    doubt = -next(_doubts)
    return before[0], doubt, doubt
