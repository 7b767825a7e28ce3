"""`make release`: what it refuses, in a repository of the test's own. `make wheel-check` tries what it builds."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from integration.packaging.release import MOST_HEADLINES, Refused, check_new, check_tree, headlines, release, version_of

ROOT = Path(__file__).resolve().parent.parent
CHANGELOG = (
    "# Changelog\n\n## [Unreleased]\n\n- Later.\n\n## [2.1.0] - 2026-01-31\n\nWords.\n\n- One.\n- Two,\n  long.\n"
)
AUTHOR = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, env=os.environ | AUTHOR, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A clean clone of a project of version 2.1.0."""
    (tmp_path / "upwell").mkdir()
    (tmp_path / "upwell/__init__.py").write_text('__version__ = "2.1.0"\n')
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "2.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "x")
    return tmp_path


def test_a_clean_tree_with_a_new_version_is_not_refused(tree: Path) -> None:
    check_tree(tree)
    check_new(tree, version_of(tree))
    assert headlines(CHANGELOG, "2.1.0") == ["- One.", "- Two,"]


def test_a_dirty_tree_is_refused(tree: Path) -> None:
    (tree / "new.py").touch()
    (tree / "CHANGELOG.md").write_text("")
    with pytest.raises(Refused, match=r"^the tree is dirty \(CHANGELOG.md and 1 more\): commit it"):
        release(tree)


def test_a_version_that_exists_is_refused(tree: Path) -> None:
    git(tree, "tag", "v2.1.0")
    with pytest.raises(Refused, match=r"^version 2\.1\.0 exists \(tag v2\.1\.0, commit [0-9a-f]{7,}\): raise it"):
        release(tree)


def test_a_version_that_the_changelog_lacks_is_refused(tree: Path) -> None:
    for path in ("upwell/__init__.py", "pyproject.toml"):
        (tree / path).write_text((tree / path).read_text().replace("2.1.0", "2.1.1"))
    git(tree, "commit", "-q", "-a", "-m", "x")
    with pytest.raises(
        Refused, match=r"^CHANGELOG.md lacks version 2\.1\.1: put its headlines under `## \[2\.1\.1\] - \d"
    ):
        release(tree)


def test_another_version_than_that_of_the_tree_is_refused(tree: Path) -> None:
    with pytest.raises(Refused, match=r"^VERSION=3\.0, but pyproject.toml has 2\.1\.0"):
        release(tree, "3.0")
    (tree / "upwell/__init__.py").write_text('__version__ = "2.0.0"\n')
    with pytest.raises(Refused, match=r"^pyproject.toml has version 2\.1\.0, upwell/__init__.py has 2\.0\.0"):
        release(tree)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("## [1.0.0]\n\n- x\n", "no date for version 1.0.0"),
        ("## [1.0.0] - soon\n\n- x\n", "no date for version 1.0.0"),
        ("## [1.0.0] - 2026-02-30\n\n- x\n", "no date for version 1.0.0"),
        ("## [1.0.0] - 2026-02-03\n\nWords.\n\n## [0.9.0] - 2026-01-01\n\n- x\n", "has 0 headlines"),
        ("## [1.0.0] - 2026-02-03\n" + "- x\n" * 11, r"has 11 headlines .*: one to 10 .* docs/changes/1.0.0.md"),
        ("## [1x0.0] - 2026-02-03\n- x\n", "lacks version 1.0.0"),
    ],
)
def test_a_section_without_date_or_with_too_much_is_refused(section: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        headlines(f"# Changelog\n\n{section}", "1.0.0")


def test_every_dated_version_of_the_changelog_has_its_headlines_and_its_page() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[(\d.*?)\]", changelog, re.M)
    assert versions
    for version in versions:
        assert len(headlines(changelog, version)) <= MOST_HEADLINES
        assert f"(docs/changes/{version}.md)" in changelog and (ROOT / f"docs/changes/{version}.md").exists()
