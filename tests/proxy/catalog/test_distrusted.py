"""Doubts about caches, and the file that keeps them."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
import structlog

import upwell
from planner.tree.plan import Caution, Mode
from proxy.catalog.distrusted import CLOSED, MOST, Doubt, Doubts, next_level

SOURCE = "mysql://root@127.0.0.1:3306"
DOUBT = Doubt("words", "SELECT 1", "shop", Caution.KEYS, "at noon its fill was not MySQL's own answer")


MADE: list[Doubts] = []


def loaded(folder: Path) -> Doubts:
    """As they are in the file, once what was made before is written."""
    for made in MADE:
        made.written()
    doubts = Doubts(folder, SOURCE)
    MADE.append(doubts)
    doubts.load()
    return doubts


def test_what_is_doubted_is_doubted_after_a_restart(tmp_path: Path) -> None:
    doubts = loaded(tmp_path)
    doubts.put(DOUBT)
    assert loaded(tmp_path).about("SELECT 1", "shop") == DOUBT
    assert loaded(tmp_path).about("SELECT 1", "other") is None
    assert "evict mode" in DOUBT.told and "made anew" in DOUBT.told
    assert doubts.path.stat().st_mode & 0o777 == 0o600
    other = Doubts(tmp_path, "mysql://root@127.0.0.1:3307")
    other.load()
    assert not len(other)


def test_who_drops_the_cache_ends_the_doubt(tmp_path: Path) -> None:
    doubts = loaded(tmp_path)
    for name, sql in (("words", "SELECT 1"), ("more", "SELECT 2"), ("unplanned", "SELECT 3")):
        doubts.put(Doubt(name, sql, "shop", CLOSED, "why"))
    doubts.remove("words", "SELECT 1", "shop")
    doubts.remove("unplanned", "", "shop")
    doubts.remove("more", "", "elsewhere")
    assert [loaded(tmp_path).about(sql, "shop") is None for sql in ("SELECT 1", "SELECT 2", "SELECT 3")] == [
        True,
        False,
        True,
    ]


def test_another_version_believes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(tmp_path).put(DOUBT)
    monkeypatch.setattr(upwell, "__version__", "99.0")
    assert not len(loaded(tmp_path))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 1, "doubts": [{"name": 1}]}', '{"version": 2, "doubts": []}']
)
def test_a_file_that_cannot_be_read_is_no_reason_not_to_start(tmp_path: Path, text: str) -> None:
    path = loaded(tmp_path).path
    path.write_text(text)
    with structlog.testing.capture_logs() as logs:
        doubts = loaded(tmp_path)
    assert not len(doubts) and len(logs) <= 1
    doubts.put(DOUBT)
    doubts.written()
    assert json.loads(path.read_text())["doubts"][0]["name"] == "words"


def test_a_folder_that_cannot_be_written_keeps_the_doubt_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    doubts = Doubts(tmp_path / "file" / "below", SOURCE)
    with structlog.testing.capture_logs() as logs:
        doubts.put(DOUBT)
        doubts.written()
    assert doubts.about("SELECT 1", "shop") == DOUBT and logs[0]["event"] == "state_not_written"


def test_a_slow_disk_holds_nobody_up_and_the_last_state_is_the_one_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubts, free, begun, flushed = loaded(tmp_path), threading.Event(), threading.Event(), os.fsync
    writes: list[int] = []

    def slow(descriptor: int) -> None:
        writes.append(descriptor)
        begun.set()
        assert free.wait(60)
        flushed(descriptor)

    monkeypatch.setattr("os.fsync", slow)
    doubts.put(DOUBT)
    assert begun.wait(60)
    for number in range(50):
        doubts.put(Doubt("c", f"SELECT {number}", "shop", Caution.KEYS, "why"))
    doubts.remove("c", "SELECT 49", "shop")
    assert not len(doubts) and not json_of(doubts), "in memory at once, on the disk later"
    doubts.put(DOUBT)
    free.set()
    doubts.close()
    assert json_of(doubts) == ["words"] and len(writes) <= 2 * 2, "a file and its folder, twice"
    doubts.remove("words", "SELECT 1", "shop")
    assert json_of(doubts) == [], "closed: at once"


def json_of(doubts: Doubts) -> list[str]:
    """The names in the file."""
    return [one["name"] for one in json.loads(doubts.path.read_text())["doubts"]] if doubts.path.exists() else []


def test_only_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.catalog.distrusted.MOST", 3)
    doubts = loaded(tmp_path)
    for number in range(5):
        doubts.put(Doubt("c", f"SELECT {number}", "shop", Caution.KEYS, "why"))
    assert len(doubts) == 3 and doubts.about("SELECT 1", "shop") is None and MOST == 1000


@pytest.mark.parametrize(
    ("mode", "before", "after"),
    [
        (Mode.MAINTAIN, None, Caution.KEYS),
        (Mode.EVICT, None, Caution.TABLES),
        (Mode.EVICT, Caution.KEYS, Caution.TABLES),
        (Mode.EVICT, Caution.TABLES, CLOSED),
        (Mode.EVICT, CLOSED, CLOSED),
    ],
)
def test_each_difference_leaves_less_to_believe(mode: Mode, before: int | None, after: int) -> None:
    doubt = None if before is None else Doubt("c", "SELECT 1", "", before, "why")
    assert next_level(mode, doubt) == after
