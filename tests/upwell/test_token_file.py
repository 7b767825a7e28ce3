"""The token file: nothing is left behind where it cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from upwell.token_file import remove_token, token_path, write_token


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
