"""The token file: nothing is left behind where it cannot be written."""

from __future__ import annotations

import pwd
from pathlib import Path
from typing import NoReturn

import pytest

from upwell.token_file import Credentials, home_of_user, metadata_of, remove_token, token_path, write_token


def test_a_token_is_written_and_removed(tmp_path: Path) -> None:
    path = token_path(tmp_path, 7000)
    write_token(path, "secret")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("secret\n", 0o600)
    remove_token(path, "secret")
    assert list(path.parent.iterdir()) == []


def test_nothing_is_left_behind_where_it_cannot_be_put(tmp_path: Path) -> None:
    path = token_path(tmp_path, 7000)
    path.mkdir(parents=True)  # something else is in its place
    with pytest.raises(OSError, match="directory"):
        write_token(path, "secret")
    assert list(path.parent.iterdir()) == [path]


def nobody(user: int) -> NoReturn:
    raise KeyError(user)


def test_a_user_without_a_home_finds_the_token_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that a service manager makes up: it is in no list of users."""
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("UPWELL_STATE_DIR", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert home_of_user() is None
    write_token(token_path(tmp_path / "upwell", 7000), "secret")
    assert Credentials("127.0.0.1:7000", None).metadata() == metadata_of("secret")
