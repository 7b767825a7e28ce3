"""As of when MySQL has read a session's rights."""

from __future__ import annotations

import pytest

from proxy.mysql.state.rights_read import NEVER, RightsRead, doubted, parted, read_anew, settled
from proxy.port.accounts import BRINGS, Accounts

OLD = RightsRead((3, 3, 3), (1.0, 1.0, 1.0))
LATE = 1000.0


def at(version: int) -> Accounts:
    found = Accounts(clock=lambda: LATE)
    for _ in range(version):
        found.changed()
    return found


@pytest.mark.parametrize(
    ("login", "database", "versions"),
    [(True, False, (7, 7, 7)), (False, True, (3, 7, 3)), (False, False, (3, 3, 3)), (True, True, (7, 7, 7))],
)
def test_what_has_been_read_is_of_now(login: bool, database: bool, versions: tuple[int, int, int]) -> None:
    read = read_anew(OLD, at(7), login=login, database=database)
    assert read.versions == versions
    assert read.at == tuple(LATE if version == 7 else 1.0 for version in versions)


def test_a_doubt_is_of_one_session_until_the_next() -> None:
    same = doubted(OLD, at(3))
    assert same.versions == (3, 3, 3), "nothing has changed since: all that was read is as it would be now"
    assert same.at == (1.0, LATE, LATE), "but perhaps the change is on its way"
    one, other = doubted(OLD, at(4)).versions, doubted(OLD, at(4)).versions
    assert one[0] == other[0] == 3
    assert len({*one[1:], *other[1:]}) == 2 and max(one[1:] + other[1:]) < 0
    assert doubted(RightsRead(one, OLD.at), at(4)).versions not in (one, other)
    assert parted(NEVER).versions[0] == 0 and parted(NEVER) != parted(NEVER)


def test_what_may_be_from_before_a_change_or_from_behind_it_is_the_sessions_own() -> None:
    now = [0.0]
    accounts = Accounts(clock=lambda: now[0])
    old = read_anew(NEVER, accounts, login=True, database=False)
    now[0] = accounts.current_at = 10 * BRINGS
    used = read_anew(old, accounts, login=False, database=True)
    set_ = doubted(old, accounts)
    new = read_anew(NEVER, accounts, login=True, database=False)
    assert old.versions == used.versions == set_.versions == new.versions
    accounts.changed()
    assert settled(old, accounts) == old
    own = [settled(each, accounts).versions for each in (used, set_, new)]
    assert len({*own, old.versions}) == 4
    assert [[part < 0 for part in each] for each in own] == [
        [False, True, False],
        [False, True, True],
        [True, True, True],
    ]
    again = settled(new, accounts)
    assert settled(again, accounts) == again, "once it is its own, it stays so"
