"""How the clients of integration/clients are obtained, and how their lines are judged; without any client."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.clients import tools
from integration.clients.outcome import share_of_hits, steps_of
from integration.clients.tools import NotObtainable, checked, kept, lead_into
from integration.clients.world import statements_of


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "upwell/clients"


def test_tool_is_made_once_for_a_key() -> None:
    def make(folder: Path) -> None:
        (folder / "made").touch()

    first = kept("tool", b"lock", make)
    assert (first / "made").is_file()
    assert kept("tool", b"lock", lambda folder: pytest.fail("made again")) == first
    assert kept("tool", b"another lock", make) != first


def test_tool_that_could_not_be_made_leaves_nothing(cache: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "half").touch()
        raise NotObtainable("no registry")

    with pytest.raises(NotObtainable, match="no registry"):
        kept("tool", b"lock", make)
    assert [path.name for path in cache.iterdir()] == ["tool.lock"]


def test_links_of_unpacked_packages_stay_inside(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc/java").mkdir(parents=True)
    (root / "usr/lib").mkdir(parents=True)
    (root / "usr/lib/conf").symlink_to("/etc/java")
    (root / "usr/lib/certificates").symlink_to("/etc/does/not/exist/here")
    (root / "usr/lib/near").symlink_to("conf")
    lead_into(root)
    assert (root / "usr/lib/conf").resolve() == root / "etc/java"
    assert (root / "usr/lib/near").resolve() == root / "etc/java"
    assert (root / "usr/lib/certificates").readlink() == Path("/etc/does/not/exist/here")


def test_failing_command_is_reported_with_its_last_words() -> None:
    with pytest.raises(NotObtainable, match="sh failed: one / two / no such thing"):
        checked("sh", "-c", "echo zero; echo one; echo; echo two; echo no such thing >&2; exit 3")
    with pytest.raises(NotObtainable, match="no-such-program"):
        checked("no-such-program")


def test_java_without_a_compiler_is_replaced_by_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime_only = tmp_path / "bin/java"
    runtime_only.parent.mkdir()
    runtime_only.write_text("#!/bin/sh\necho java.base@17\n")
    runtime_only.chmod(0o755)
    unpacked = tmp_path / "unpacked/usr/lib/jvm/java-17/bin/java"
    unpacked.parent.mkdir(parents=True)
    unpacked.touch()
    monkeypatch.setenv("PATH", f"{runtime_only.parent}:/usr/bin:/bin")
    monkeypatch.setattr(tools, "debian", lambda package: tmp_path / "unpacked")
    assert tools.java_that_compiles() == str(unpacked)
    runtime_only.write_text("#!/bin/sh\necho java.base@17\necho jdk.compiler@17\n")
    assert tools.java_that_compiles() == str(runtime_only)


def test_script_is_taken_apart_into_statements_and_whole_procedures() -> None:
    table, procedure = "CREATE TABLE a (\n  id INT\n)", "CREATE PROCEDURE p ()\nBEGIN\n  SELECT 1;\nEND;"
    script = f"-- about it\n{table};\n\nSET x = ';';\nSELECT 1;\n\n{procedure}\n"
    assert list(statements_of(script)) == [table, "SET x = ';'", "SELECT 1", procedure]


def test_every_step_that_broke_is_told() -> None:
    with pytest.raises(AssertionError, match=r"two: no\nthree: never"):
        steps_of([{"step": "one", "outcome": 1}, {"step": "two", "failed": "no"}, {"step": "three", "failed": "never"}])


def test_share_of_hits_counts_every_round_of_every_read() -> None:
    share, reasons = share_of_hits(
        [
            {"read": "a", "rounds": 50, "hit": 48, "miss": 2, "reasons": {"miss: hole": 2}},
            {"read": "b", "rounds": 50, "passed": 50, "reasons": {"passed: sql_mode": 50}},
            {"read": "c", "rounds": 50, "hit": 50, "reasons": {}},
        ]
    )
    assert share == 98 / 150
    assert reasons == {"a": {"miss: hole": 2}, "b": {"passed: sql_mode": 50}}
