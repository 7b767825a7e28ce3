"""In which form the server runs, and whether what is compiled is of the sources beside it."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path

import pytest

from upwell.form import Form, digests, form


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/one.py").write_text("x = 1\n")
    (tmp_path / "a/b/two.py").write_text("y = 2\n")
    (tmp_path / "other.py").write_text("z = 3\n")
    return tmp_path


def note(tree: Path, **changed: object) -> Form:
    """The form, where `a/one.py` was compiled."""
    told = {
        "modules": ["a/one.py"],
        "packages": ["a"],
        "sources": digests(tree, ["a"]),
    }
    (tree / "a/one.py").with_suffix(str(sysconfig.get_config_var("EXT_SUFFIX"))).touch()
    path = tree / "compiled.json"
    path.write_text(json.dumps(told | changed))
    return form(path, tree)


def test_without_a_note_everything_is_interpreted(tree: Path) -> None:
    found = form(tree / "compiled.json", tree)
    assert (str(found), found.modules, found.stale) == ("interpreted", (), "")


def test_what_was_compiled_of_the_sources_beside_it_is_not_stale(tree: Path) -> None:
    found = note(tree)
    (tree / "other.py").write_text("of no package that is compiled")
    assert (str(found), found.stale) == ("compiled, 1 modules", "")


@pytest.mark.parametrize("path", ["a/one.py", "a/b/two.py", "a/b/new.py"])
def test_a_source_that_changes_or_comes_is_named(tree: Path, path: str) -> None:
    found = note(tree)
    (tree / path).write_text("changed = True\n")
    assert found.changed == [path]
    assert path in str(found) and "make compiled" in found.stale


def test_a_source_that_goes_is_named_and_others_are_counted(tree: Path) -> None:
    found = note(tree)
    (tree / "a/one.py").write_text("")
    (tree / "a/b/two.py").unlink()
    assert "a/b/two.py and 1 more" in found.stale


def test_modules_that_are_gone_or_of_another_python_are_not_counted(tree: Path) -> None:
    (tree / "a/b/two.cpython-27m.so").touch()
    assert str(note(tree, modules=["a/b/two.py"])) == "interpreted"


def test_what_a_build_leaves_that_was_ended_is_stale(tree: Path) -> None:
    assert note(tree, sources={}).stale


@pytest.mark.parametrize("text", ["", "{}", "not JSON"])
def test_a_note_that_cannot_be_read_is_stale(tree: Path, text: str) -> None:
    (tree / "compiled.json").write_text(text)
    assert form(tree / "compiled.json", tree).stale
