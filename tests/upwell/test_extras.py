"""What the hints say of parts that are not installed works where they are said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from upwell import extras
from upwell.extras import how_to_install

ROOT = Path(extras.__file__).resolve().parent.parent


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip has installed Upwell into, without a note of its origin."""
    monkeypatch.setattr(extras, "SOURCES", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    info = tmp_path / "upwell-9.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: upwell\nVersion: 9.0\n")
    return info / "direct_url.json"


def test_a_checkout_names_its_own_folder_and_target() -> None:
    assert how_to_install("server") == f"pip install '{ROOT}[server]'"
    assert how_to_install("spark") == f"run `make spark` in {ROOT}"
    assert "\nspark:" in (ROOT / "Makefile").read_text()


def test_an_editable_install_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    note = {"url": ROOT.as_uri(), "dir_info": {"editable": True}}
    monkeypatch.setattr(extras, "_origin", lambda: note)
    assert how_to_install("rank") == f"pip install -e '{ROOT}[rank]'"


def test_from_an_index_the_name_is_enough(installed: Path) -> None:
    assert how_to_install("server") == "pip install 'upwell[server]'"


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ({"url": "https://h.example/u.whl", "archive_info": {}}, "upwell[rank] @ https://h.example/u.whl"),
        ({"url": "https://h.example/u", "vcs_info": {"vcs": "git"}}, "upwell[rank] @ git+https://h.example/u"),
        ({"url": Path(sys.prefix).as_uri(), "dir_info": {}}, f"upwell[rank] @ {Path(sys.prefix).as_uri()}"),
    ],
)
def test_what_was_installed_from_somewhere_is_installed_from_there(
    installed: Path, note: dict[str, object], said: str
) -> None:
    installed.write_text(json.dumps(note))
    assert how_to_install("rank") == f"pip install '{said}'"


def test_where_the_file_is_gone_a_clone_or_the_image_is_named(installed: Path) -> None:
    installed.write_text(json.dumps({"url": "file:///gone/upwell-9.0-py3-none-any.whl", "archive_info": {}}))
    said = how_to_install("spark")
    assert said.startswith("pip install '.[spark]' in a clone of Upwell, or take the image") and "gone" not in said
    assert how_to_install("server") == "pip install '.[server]' in a clone of Upwell"
    target = said.rpartition("--target ")[2].split()[0]
    assert f" AS {target}\n" in (ROOT / "Dockerfile").read_text()


def test_pip_reads_the_hint_of_a_checkout() -> None:
    requirement = how_to_install("server").removeprefix("pip install ").strip("'")
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--no-build-isolation", "-q"]
    done = subprocess.run([*command, requirement], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
