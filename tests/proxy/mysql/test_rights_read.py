"""As of when MySQL has read a session's rights."""

from __future__ import annotations

import pytest

from proxy.mysql.rights_read import NEVER, doubted, parted, read_anew


@pytest.mark.parametrize(
    ("login", "database", "read"),
    [(True, False, (7, 7, 7)), (False, True, (3, 7, 3)), (False, False, (3, 3, 3)), (True, True, (7, 7, 7))],
)
def test_what_has_been_read_is_of_now(login: bool, database: bool, read: tuple[int, int, int]) -> None:
    assert read_anew((3, 3, 3), 7, login=login, database=database) == read


def test_a_doubt_is_of_one_session_until_the_next() -> None:
    assert doubted((3, 3, 3), 3) == (3, 3, 3), "nothing has changed since: all that was read is as it would be now"
    one, other = doubted((3, 3, 3), 4), doubted((3, 3, 3), 4)
    assert one[0] == other[0] == 3
    assert len({*one[1:], *other[1:]}) == 2 and max(one[1:] + other[1:]) < 0
    assert doubted(one, 4) not in (one, other)
    assert parted(NEVER)[0] == 0 and parted(NEVER) != parted(NEVER)
