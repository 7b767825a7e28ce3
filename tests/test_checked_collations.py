"""When the collations are compared whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.planner_truth import checked_collations


def test_a_change_of_tables_code_or_server_is_compared_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "checked.txt"
    monkeypatch.setattr(checked_collations, "WHOLE", "")
    assert checked_collations.whole("9.7.4", path)
    checked_collations.note("9.7.4-2", path)
    assert not checked_collations.whole("9.7.4", path)
    assert checked_collations.whole("9.7.5", path)
    monkeypatch.setattr(checked_collations, "digest", lambda: "other")
    assert checked_collations.whole("9.7.4", path)
    checked_collations.note("9.7.4", path)
    assert not checked_collations.whole("9.7.4", path)
    monkeypatch.setattr(checked_collations, "WHOLE", "1")
    assert checked_collations.whole("9.7.4", path)
