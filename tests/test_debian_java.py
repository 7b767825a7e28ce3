"""A Java of the distribution's package, unpacked: links stay inside, and what there is already is taken."""

from __future__ import annotations

from pathlib import Path

from integration.servers.debian_java import point_inside, provide, unpacked


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_java_that_is_there_is_taken(tmp_path: Path) -> None:
    java = program(tmp_path / "bin" / "java")
    assert provide(print, {"PATH": str(java.parent)}) == {}
    assert provide(print, {"JAVA_HOME": str(tmp_path), "PATH": "/nowhere"}) == {}


def test_links_to_the_system_point_inside(tmp_path: Path) -> None:
    (tmp_path / "etc/java").mkdir(parents=True)
    (tmp_path / "etc/java/security").write_text("rules")
    home = tmp_path / "usr/lib/jvm/java"
    home.mkdir(parents=True)
    (home / "conf").symlink_to("/etc/java")
    (home / "elsewhere").symlink_to("/etc/not-in-the-package")
    point_inside(tmp_path)
    assert (home / "conf/security").read_text() == "rules" and not (home / "conf").readlink().is_absolute()
    assert str((home / "elsewhere").readlink()) == "/etc/not-in-the-package"


def test_only_a_whole_runtime_counts(tmp_path: Path) -> None:
    (tmp_path / "unpacking-1/below/usr/lib/jvm/java/bin").mkdir(parents=True)
    assert unpacked(tmp_path) is None
    program(tmp_path / "java-openjdk-17-jre-headless/usr/lib/jvm/java-17/bin/java")
    assert unpacked(tmp_path) == tmp_path / "java-openjdk-17-jre-headless/usr/lib/jvm/java-17"
