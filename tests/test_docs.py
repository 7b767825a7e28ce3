"""What the documents and the files around the code say is true of the tree."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
CHANGES = sorted(ROOT.glob("docs/changes/*.md"))  # of versions past: what they name may be gone, but not their links
LOCKS = sorted(ROOT.glob("requirements/*.lock"))
LOCKS_INSTALLED = [ROOT / "requirements" / f"{name}.lock" for name in ("build", "server", "otel", "spark", "dev")]
SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)  # what stands between backticks
# `folder/file.ext` or `file.ext`, anywhere in a span, and `folder/` that is all of one.
PATH = re.compile(
    r"(?<![\w.*<>/@-])(?:[\w.*<>-]+/)*[\w.*<>-]+\.(?:py|md|toml|proto|sql|lock|yaml|yml|test|dat|json|txt|go|sim|xml)"
    r"(?!\.?[\w/-])|^(?:[\w.-]+/)+$"
)
MODULE = re.compile(r"`(\w+\.py)\b")  # that is named without its folder


def tracked_files() -> list[Path]:
    """Every file of the project that is text."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:  # an unpacked archive instead of a clone
        return [path for path in ROOT.rglob("*.py") if ".venv" not in path.parts]
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


@cache
def folders_of() -> Mapping[str, Sequence[Path]]:
    """By the name of a file where the tree has such files."""
    found: dict[str, list[Path]] = {}
    for path in tracked_files():
        found.setdefault(path.name, []).append(path.parent)
    return found


def named_paths(document: Path) -> list[str]:
    """The paths between backticks, outside of code blocks."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.M | re.S)
    return [path for _, span in SPAN.findall(text) for path in PATH.findall(span)]


def exists(name: str) -> bool:
    """Whether the path is there. `<name>` and `*` stand for anything. A bare file name is in the root folder, or in one
    other folder alone: else nobody could tell which file is meant."""
    pattern = re.sub(r"<[^>]*>", "*", name)
    return any(ROOT.glob(pattern)) or ("/" not in name and len(folders_of().get(name, ())) == 1)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.name))
def test_every_path_that_a_document_names_exists(document: Path) -> None:
    generated_at_run_time = {"upwell.toml", "benchmarks/results/", "build/", "build/nightly/", "dist/", "queries.json"}
    missing = [name for name in named_paths(document) if name not in generated_at_run_time and not exists(name)]
    assert missing == []


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("`proxy/app.py` and `a.b/c_d.py:12`", ["proxy/app.py", "a.b/c_d.py"]),
        ("`make test ARGS='integration/x/test_y.py -k z'`, `python -m a.b c.py`", ["integration/x/test_y.py", "c.py"]),
        ("`make test\nARGS=a/b.py` `c/`", ["a/b.py", "c/"]),
        ("`` `a/b.md` `` `vitess.sql.wrong(1)` a/c.py", ["a/b.md"]),
        ("```\na/b.py\n```\n`docs/*.md`", ["docs/*.md"]),
    ],
)
def test_paths_are_found_in_what_stands_between_backticks(tmp_path: Path, text: str, paths: list[str]) -> None:
    (tmp_path / "a.md").write_text(text)
    assert named_paths(tmp_path / "a.md") == paths


def test_a_bare_name_is_that_of_one_file() -> None:
    assert exists("compose.yaml") and exists("pump.py") and exists("proxy/*/pump.py") and exists("README.md")
    assert not exists("session.py") and not exists("proxy/pump.py") and not exists("no_such_file.py")


def test_a_module_that_a_comment_names_without_its_folder_is_beside() -> None:
    """A docstring of another folder gives the path."""
    found = []
    for path in tracked_files():
        if path.suffix == ".py" and path != Path(__file__):
            away = [name for name in MODULE.findall(path.read_text()) if path.parent not in folders_of().get(name, ())]
            found += [
                f"{path.relative_to(ROOT)}: {name}"
                for name in away
                if name not in ("__init__.py", "conftest.py", "hatch_build.py")
            ]
    assert found == []


def test_every_folder_of_integration_is_told_of() -> None:
    rows = [line for line in (ROOT / "docs/testing.md").read_text().splitlines() if line.startswith("| `integration/")]
    told = {name for row in rows for name in re.findall(r"`integration/([a-z_]+)/`", row)}
    folders = {path.name for path in (ROOT / "integration").iterdir() if any(path.glob("*.py"))}
    assert told == folders


@pytest.mark.parametrize("document", [*DOCUMENTS, *CHANGES], ids=lambda path: str(path.name))
def test_every_link_between_documents_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_every_document_is_in_the_navigation_of_the_site() -> None:
    named = re.findall(r"^ +- ([\w./]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    assert sorted(named) == sorted(path.relative_to(ROOT).as_posix() for path in [*DOCUMENTS, *CHANGES])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.name))
def test_every_make_target_that_a_document_names_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = re.findall(r"`make ([a-z-]+)", document.read_text())
    assert [target for target in named if target not in targets] == []


def test_every_target_is_explained_and_none_is_a_file() -> None:
    makefile = (ROOT / "Makefile").read_text()
    explained = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.M))
    phony = {target for line in re.findall(r"^\.PHONY: (.*)$", makefile, re.M) for target in line.split()}
    assert explained == phony


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: str(path.name))
def test_lock_names_versions_and_hashes_and_no_index(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text and "--index" not in text and "--find-links" not in text
    requirements = re.findall(r"^[\w.-]+(?:\[[\w,-]+\])?==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", text, re.M)
    assert len(requirements) == len(re.findall(r"^\w", text, re.M)) > 0


def test_running_and_developing_use_the_same_versions() -> None:
    pins = [set(re.findall(r"^\w\S*==\S+", (ROOT / "requirements" / name).read_text(), re.M)) for name in LOCK_NAMES]
    server, developer, wheel_check, build = pins
    assert server <= developer and build <= developer
    assert {pin for pin in wheel_check if not pin.startswith("proxy-py==")} <= server


@pytest.mark.parametrize("lock", LOCKS_INSTALLED, ids=lambda path: str(path.name))
def test_lock_has_all_that_its_packages_need(lock: Path) -> None:
    """pip refuses a lock with hashes that lacks one."""
    locked = {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==", lock.read_text(), re.M)}
    needs = [Requirement(text) for name in sorted(locked) for text in requires(name) or ()]
    plain = [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    assert sorted({name for name in plain if canonicalize_name(name) not in locked}) == []


LOCK_NAMES = ("server.lock", "dev.lock", "wheel-check.lock", "build.lock")


def test_no_file_names_a_place_on_the_machine_it_was_written_on() -> None:
    # Spelled in two halves, so that this file is not its own finding.
    forbidden = re.compile(
        "|".join(
            ["/ro" + "ot/", "/wo" + "rk/", "/ho" + r"me/(?!user\b)\w+/", "/Us" + r"ers/\w+/", "pyp" + "i.org/simple"]
        )
    )
    found = []
    for path in tracked_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in forbidden.finditer(text)]
    assert found == []


def test_version_is_said_once_and_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    source = (ROOT / "upwell/__init__.py").read_text()
    assert f'__version__ = "{project["version"]}"' in source


def test_layers_are_checked_for_every_package_of_the_wheel() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    shipped = set(tool["hatch"]["build"]["targets"]["wheel"]["only-include"])
    contract = tool["importlinter"]["contracts"][0]
    layered = {package for layer in contract["layers"] for package in layer.split(" | ")}
    assert shipped == layered == set(tool["importlinter"]["root_packages"])


def test_layers_are_checked_for_every_room_of_the_proxy() -> None:
    """The contracts of the other packages say `exhaustive`. That of the proxy names folders of two depths."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [one for one in contracts if one["name"] == "rooms of proxy"]
    layered = {name for layer in contract["layers"] for name in layer.split(" | ")}
    places = [*(ROOT / "proxy").iterdir(), *(ROOT / "proxy" / "mysql").iterdir()]
    names = {
        ".".join(place.relative_to(ROOT).with_suffix("").parts)
        for place in places
        if place.suffix == ".py" or (place / "__init__.py").exists()
    }
    assert layered == {name for name in names if not name.endswith("__init__")} - {"proxy.mysql"}


@pytest.mark.parametrize("package", ["proxy", "planner", "dataflow", "external_upquery", "vstream"])
def test_every_room_says_what_it_is(package: str) -> None:
    """A folder without `__init__.py` is none that import-linter sees."""
    folders = {path.parent for path in (ROOT / package).rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").read_text().startswith('"""')] == []


@pytest.mark.parametrize("package", ["proxy", "planner", "dataflow", "external_upquery", "vstream"])
def test_the_map_has_every_room(package: str) -> None:
    rooms = {folder.parent.relative_to(ROOT).as_posix() for folder in (ROOT / package).rglob("__init__.py")}
    told = set(re.findall(r"^\| `([\w/]+)/` \|", (ROOT / "ARCHITECTURE.md").read_text(), re.M))
    assert rooms - {"proxy/mysql"} <= told
