"""Where the packages of MySQL come from: the machine's own sources, in both formats."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from integration.servers.debian_mysql import (
    AptSource,
    is_recent,
    main_source,
    mysql_client,
    newest_unpacked,
    parse_deb822,
    parse_one_line,
    read_sources,
    suites_of,
    version_of,
)
from integration.servers.mysql_server import CannotStart

DEBIAN = {"ID": "debian", "VERSION_CODENAME": "trixie"}
UBUNTU = {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_CODENAME": "noble", "UBUNTU_CODENAME": "noble"}
MIRROR = "file:/mirrors/mirror"


def test_stanzas_give_a_source_for_each_address_and_suite() -> None:
    text = """\
# made by the installer
Types: deb deb-src
URIs: file:/mirrors/one
  file:/mirrors/two
Suites: trixie trixie-updates
# a comment inside
Components: main contrib
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb-src
URIs: file:/mirrors/source
Suites: trixie
Components: main

Enabled: no
Types: deb
URIs: file:/mirrors/off
Suites: trixie
Components: main
"""
    key = "/usr/share/keyrings/archive.gpg"
    assert list(parse_deb822(text)) == [
        AptSource(f"file:/mirrors/{host}", suite, ("main", "contrib"), key)
        for host in ("one", "two")
        for suite in ("trixie", "trixie-updates")
    ]


def test_key_inside_a_stanza_is_left_to_the_trusted_keys() -> None:
    text = """\
Types: deb
URIs: file:/mirrors/one
Suites: trixie
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEY865UxYJKwYBBAHaRw8BAQdAd7Z0srwuhlB6JKFkcf4HU4SSS
 -----END PGP PUBLIC KEY BLOCK-----
"""
    assert [source.signed_by for source in parse_deb822(text)] == [""]


def test_lines_give_sources_with_their_options() -> None:
    text = """\
# deb file:/mirrors/off trixie main
deb-src file:/mirrors/one trixie main
deb [arch=amd64 signed-by=/key.gpg] file:/mirrors/one trixie main contrib # the mirror next door
deb [trusted=yes] file:/srv/packages ./
deb file:/mirrors/two trixie-updates main
"""
    assert list(parse_one_line(text)) == [
        AptSource("file:/mirrors/one", "trixie", ("main", "contrib"), "/key.gpg"),
        AptSource("file:/srv/packages", "./", (), trusted=True),
        AptSource("file:/mirrors/two", "trixie-updates", ("main",)),
    ]


def test_both_kinds_of_file_are_read_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text("deb file:/mirrors/one trixie main\n")
    (tmp_path / "sources.list.d/b.list").write_text("deb file:/mirrors/two trixie main\n")
    stanza = "Types: deb\nURIs: file:/mirrors/three\nSuites: trixie\nComponents: main\n"
    (tmp_path / "sources.list.d/c.sources").write_text(stanza)
    (tmp_path / "sources.list.d/d.list.save").write_text("deb file:/mirrors/old trixie main\n")
    assert [source.uri for source in read_sources(tmp_path)] == [
        f"file:/mirrors/{host}" for host in ("one", "two", "three")
    ]


def test_machine_without_sources_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="name no archive"):
        main_source(read_sources(tmp_path), DEBIAN)


def test_archive_of_the_release_is_preferred_to_security_and_third_parties() -> None:
    sources = [
        AptSource("file:/mirrors/vendor/apt", "any", ("main",)),
        AptSource("cdrom:[Debian]/", "trixie", ("main",)),
        AptSource("file:/mirrors/security-security", "trixie-security", ("main",)),
        AptSource(MIRROR, "trixie", ("main",)),
    ]
    assert main_source(sources, DEBIAN).uri == MIRROR


def test_machine_that_follows_a_moving_suite_is_understood() -> None:
    sources = [AptSource(MIRROR, "testing", ("main", "contrib"))]
    assert main_source(sources, {"ID": "debian"}) is sources[0]


def test_debian_takes_unstable_and_ubuntu_its_own_release() -> None:
    assert suites_of(AptSource(MIRROR, "trixie", ("main",)), DEBIAN) == ("sid",)
    ubuntu = AptSource("file:/mirrors/mirror/ubuntu", "noble", ("main",))
    assert suites_of(ubuntu, UBUNTU) == ("noble", "noble-updates")


def test_source_line_carries_the_key_and_asks_for_package_lists_only() -> None:
    source = AptSource(MIRROR, "trixie", ("main", "contrib"), "/key.gpg")
    assert source.line("sid") == f"deb [target=Packages signed-by=/key.gpg] {MIRROR} sid main"


@pytest.mark.parametrize(
    ("text", "recent"),
    [("8.0.42-0ubuntu0.24.04.1", True), ("9.7.4-2", True), ("10.0.1", True), ("5.7.44", False), ("unknown", False)],
)
def test_version_decides_whether_a_server_is_new_enough(text: str, recent: bool) -> None:
    assert is_recent(text) is recent


def test_versions_compare_as_numbers() -> None:
    assert version_of("8.4.10-1") > version_of("8.4.9")


def test_half_unpacked_folder_is_not_taken_for_a_server(tmp_path: Path) -> None:
    server = tmp_path / "mysql-9.9.9-sid/usr/sbin/mysqld"
    server.parent.mkdir(parents=True)
    server.touch()
    assert newest_unpacked(tmp_path) is None
    loader = tmp_path / "mysql-9.9.9-sid/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
    loader.parent.mkdir(parents=True)
    loader.touch()
    assert newest_unpacked(tmp_path) == tmp_path / "mysql-9.9.9-sid"


def program(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_the_client_that_is_named_is_one_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert mysql_client(tmp_path) == "", "neither on PATH nor unpacked"
    root = tmp_path / "upwell/mysql/mysql-9.9.9-sid"
    for name in ("usr/sbin/mysqld", "usr/bin/mysql"):
        program(root / name)
    program(root / "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", '#!/bin/sh\necho "$3" "$5"\n')
    script = mysql_client(tmp_path)
    printed = subprocess.run([script, "-u root"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True)
    assert printed.stdout == f"{root}/usr/bin/mysql -u root\n", printed
    program(tmp_path / "bin/mysql")
    assert mysql_client(tmp_path) == "mysql", "that of the machine comes first"
