"""The file of a snapshot: written whole, read with suspicion."""

from __future__ import annotations

import os
import pickle
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gtid_tracker.gtid import GtidSet
from proxy.fills import snapshot_file
from proxy.fills.snapshot_file import (
    MAGIC,
    WRITTEN_BY,
    Footer,
    KeptCache,
    Reader,
    Unusable,
    Writer,
    packed,
    pickled,
    unpickled,
)
from vstream.history import Followed, Known

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
BLOCKS = [pickle.dumps((number, [b"x", "y", None, 1.5])) for number in range(5)]


def footer(written_by: str = WRITTEN_BY, source: str = "mysql:one") -> Footer:
    known = Known(SERVER, GtidSet.parse(f"{SERVER}:1-7"), GtidSet.empty(), 12.0)
    followed, void = Followed(GtidSet.parse(f"{SERVER}:1-5"), None, known), {1: packed([0, 7])}
    return Footer(written_by, source, followed, [], void=void, keys=9)


def written(path: Path, what: Footer) -> None:
    writer = Writer(path)
    writer.add(BLOCKS[:2])
    writer.add(BLOCKS[2:])
    size = writer.finish(what, [False, True, False, True, True])
    writer.put()
    assert path.stat().st_size == size


def test_what_was_written_is_read_the_hot_first(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "held.snapshot"
    written(path, footer())
    with closing(Reader(path, "mysql:one")) as reader:
        found = reader.footer
        assert (found.followed, found.void_of(0), found.void_of(1), found.keys) == (
            footer().followed, frozenset(), frozenset({0, 7}), 9
        )  # fmt: skip
        parts = list(reader.blocks(2))
    assert [number for part in parts for number, _ in part] == [1, 3, 4, 0, 2]
    assert all(block == pickle.loads(BLOCKS[number]) for part in parts for number, block in part)
    assert path.stat().st_mode & 0o777 == 0o600, "answers are data"
    assert os.listdir(path.parent) == [path.name]


def test_no_piece_of_a_large_footer_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one is pickled, or read, no other thread runs: of a million keys that took 0.1 s."""
    read: list[int] = []

    def noted(data: bytes) -> object:
        read.append(len(data))
        return unpickled(data)

    many, of_each = 5_000, 100
    caches = [KeptCache(f"c{number}", "SELECT", "d", b"plan") for number in range(2_000)]
    void = {number: packed(range(number, number + of_each)) for number in range(0, many, 2)}
    what = replace(footer(), caches=caches, void=void)
    writer = Writer(tmp_path / "held.snapshot")
    writer.places = [7 << 30] * many
    writer.finish(what, [number % 3 == 0 for number in range(many)])
    writer.put()
    monkeypatch.setattr(snapshot_file, "unpickled", noted)
    with closing(Reader(tmp_path / "held.snapshot", "mysql:one")) as reader:
        found = reader.footer
    assert sum(read) > 1 << 20 and max(read) < 300 << 10 and len(read) > 8
    assert list(found.caches) == caches and found.void == void
    assert found.void_of(4) == frozenset(range(4, 4 + of_each)) and found.void_of(5) == frozenset()
    assert [found.place(number) for number in (0, many - 1)] == [7 << 30] * 2
    assert [bool(hot) for hot in found.hot] == [number % 3 == 0 for number in range(many)]


@pytest.mark.parametrize("piece", [("blocks", []), ("void", []), ("caches", {}), None, ("caches",)])
def test_a_piece_that_is_none_is_refused(piece: Any) -> None:
    with pytest.raises(Unusable, match="is none"):
        footer().join(piece)


def test_one_that_is_abandoned_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "held.snapshot"
    written(path, footer())
    before = path.read_bytes()
    writer = Writer(path)
    writer.add(BLOCKS)
    writer.abandon()
    assert path.read_bytes() == before and os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("length", [0, 5, len(MAGIC), 40, -1, -20])
def test_one_that_is_cut_off_is_refused(length: int, tmp_path: Path) -> None:
    path = tmp_path / "held.snapshot"
    written(path, footer())
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(Unusable):
        Reader(path, "mysql:one")


def test_each_byte_that_is_another_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "held.snapshot"
    written(path, footer())
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :])
        with pytest.raises(Unusable), closing(Reader(path, "mysql:one")) as reader:
            list(reader.blocks(3))


def test_another_versions_and_another_sources_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "held.snapshot"
    written(path, footer("0.1 on Python 2.7 (marshal 1)"))
    with pytest.raises(Unusable, match=r"Upwell 0.1 on Python 2.7 \(marshal 1\) has written it"):
        Reader(path, "mysql:one")
    written(path, footer(source="mysql:two"))
    with pytest.raises(Unusable, match="another source, mysql:two"):
        Reader(path, "mysql:one")
    with pytest.raises(FileNotFoundError):
        Reader(tmp_path / "none", "mysql:one")


def test_values_come_back_and_nothing_is_called() -> None:
    values = (Decimal("1.50"), date(2024, 2, 29), timedelta(hours=-3), frozenset({"a"}), b"\xff", 1 << 70, -0.0)
    assert repr(unpickled(pickled(values))) == repr(values)

    class Harm:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, ("true",)

    with pytest.raises(Unusable, match="system"):
        unpickled(pickle.dumps(Harm()))


def test_a_name_with_a_dot_leads_nowhere() -> None:
    """Not through a module of ours to one that is not."""
    data = b"\x80\x04\x8c\x0bplanner.api\x8c\x18exp.t.types.FunctionType\x93."
    with pytest.raises(Unusable, match=r"planner.api.exp.t.types.FunctionType"):
        unpickled(data)
