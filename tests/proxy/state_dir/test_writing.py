"""While writing is held, small files stay as they are, and definitions are refused; then the last state is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxy.catalog.definition_file import StateStore
from proxy.state_dir.writing import Writing
from proxy.state_dir.written_behind import WrittenBehind
from sqltypes.errors import TakenOver

WHY = "the process 7 takes over from this proxy"


def test_what_was_put_meanwhile_is_written_when_it_goes_on(tmp_path: Path) -> None:
    writing = Writing()
    file = WrittenBehind(tmp_path / "file.json", writing)
    file.put(1)
    file.written()
    writing.hold(WHY)
    file.put(2)
    file.put(3)
    file.written()
    assert json.loads(file.path.read_text()) == 1
    writing.go_on()
    file.written()
    assert json.loads(file.path.read_text()) == 3
    file.close()


def test_one_that_has_handed_over_writes_nothing_at_its_end(tmp_path: Path) -> None:
    writing = Writing()
    file = WrittenBehind(tmp_path / "file.json", writing)
    writing.hold(WHY)
    file.put(1)
    file.close()
    file.put(2)
    assert not file.path.exists()


def test_definitions_are_refused(tmp_path: Path) -> None:
    """Also of a cache that the file does not have, but that of the settings: it would be dropped here alone."""
    writing = Writing()
    store = StateStore(tmp_path, "mysql", writing=writing)
    store.put("a", "SELECT 1", "shop")
    writing.hold(WHY)
    with pytest.raises(TakenOver, match=WHY):
        store.put("b", "SELECT 2", "shop")
    for name in ("a", "of the settings"):
        with pytest.raises(TakenOver, match=WHY):
            store.remove(name)
    writing.go_on()
    assert [cache.name for cache in StateStore(tmp_path, "mysql").load()] == ["a"]
    store.remove("a")
