"""Whether rights that were read at a version of accounts are sure to be those of before the change that ended it."""

from __future__ import annotations

from proxy.port.accounts import BRINGS, KEPT, Accounts


class Now:
    def __init__(self) -> None:
        self.time = 1000.0
        self.changes = 0
        self.accounts = Accounts(self._changed, lambda: self.time)

    def _changed(self) -> None:
        self.changes += 1


def test_what_was_read_long_before_the_change_is_sure() -> None:
    now = Now()
    accounts = now.accounts
    version, at = accounts.now()
    assert accounts.are_sure(version, at)
    now.time += 10 * BRINGS
    accounts.current_at = now.time
    accounts.changed()
    assert now.changes == 1 and accounts.version == version + 1
    assert accounts.are_sure(version, at) and accounts.are_sure(*accounts.now())
    assert not accounts.are_sure(version, now.time - BRINGS / 2), "the change may be in no binlog"
    accounts.check_invariants()


def test_what_was_read_since_the_stream_was_current_is_not_sure() -> None:
    now = Now()
    accounts = now.accounts
    accounts.current_at = now.time
    version, at = accounts.now()
    now.time += 10 * BRINGS  # the stream was away
    accounts.changed()
    assert not accounts.are_sure(version, at) and accounts.are_sure(version, at - 1)


def test_versions_that_are_remembered_no_more_are_not_sure() -> None:
    now = Now()
    accounts = now.accounts
    read = accounts.now()
    now.time += 10 * BRINGS
    accounts.current_at = now.time
    for _ in range(KEPT):
        accounts.changed()
    assert accounts.are_sure(*read)
    accounts.changed()
    assert not accounts.are_sure(*read)
    accounts.check_invariants()
