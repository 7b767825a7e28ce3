"""Definitions of caches across restarts."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from proxy.catalog.definition_file import StateStore
from proxy.port.made_by import BY_GRPC, MadeBy, Origin
from proxy.settings.config import CacheDefinition
from sqltypes.errors import ConfigError

SOURCE = "mysql://app@127.0.0.1:3306/shop"


def test_what_was_put_is_there_after_a_restart_in_order(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state", SOURCE)
    assert store.load() == []
    store.put("b", "SELECT 'é'", "shop")
    store.put("a", "SELECT 2", "shop")
    store.put("c", "SELECT 3", "")
    store.remove("a")
    store.remove("never there")
    expected = [
        CacheDefinition("b", "SELECT 'é'", "shop", BY_GRPC), CacheDefinition("c", "SELECT 3", "", BY_GRPC),
    ]  # fmt: skip
    assert StateStore(tmp_path / "state", SOURCE).load() == expected


def test_two_sources_do_not_mix(tmp_path: Path) -> None:
    StateStore(tmp_path, SOURCE).put("a", "SELECT 1", "shop")
    assert StateStore(tmp_path, SOURCE.replace("3306", "3307")).load() == []


def test_who_made_a_cache_survives_and_files_of_older_versions_name_nobody(tmp_path: Path) -> None:
    store = StateStore(tmp_path, SOURCE)
    made_by = MadeBy(Origin.SQL, "app@%")
    store.put("a", "SELECT 1", "shop", made_by)
    assert StateStore(tmp_path, SOURCE).load() == [CacheDefinition("a", "SELECT 1", "shop", made_by)]
    store.path.write_text('{"version": 1, "caches": [{"name": "a", "sql": "SELECT 1", "database": ""}]}')
    assert store.load() == [CacheDefinition("a", "SELECT 1", "", BY_GRPC)]


def test_nobody_else_may_read_the_file_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state", SOURCE)
    store.put("a", "SELECT 1", "shop")
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert list(store.path.parent.iterdir()) == [store.path]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "is damaged"),
        ("[]", "is damaged"),
        ('{"version": 1, "caches": [{"name": "a"}]}', "is damaged"),
        ('{"version": 2}', "is of version 2: 1 is read"),
        ('{"version": 1, "caches": [{"name": "a", "sql": "", "database": "", "origin": "moon"}]}', "is damaged"),
        ("\udcff", "cannot be read"),
    ],
)
def test_a_file_that_is_not_ours_to_read_is_an_error_and_stays(text: str, line: str, tmp_path: Path) -> None:
    store = StateStore(tmp_path, SOURCE)
    content = text.encode("utf-8", "surrogateescape")
    store.path.write_bytes(content)
    with pytest.raises(ConfigError, match=line):
        store.load()
    assert store.path.read_bytes() == content


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        StateStore(tmp_path / "file", SOURCE).put("a", "SELECT 1", "")


def test_a_write_that_fails_leaves_the_old_definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = StateStore(tmp_path, SOURCE)
    store.put("a", "SELECT 1", "")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(ConfigError, match="No space left"):
            store.put("b", "SELECT 2", "")
    assert StateStore(tmp_path, SOURCE).load() == [CacheDefinition("a", "SELECT 1", "", BY_GRPC)]
    assert list(tmp_path.iterdir()) == [store.path]
    store.put("c", "SELECT 3", "")
    assert [cache.name for cache in store.load()] == ["a", "c"]
