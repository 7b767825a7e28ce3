"""The list of compiled modules, and what `hatch_build.py` makes and takes away."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import hatch_build
from hatch_build import LIBRARY, MODULES, NOTE, READ, made, remove

ROOT = Path(__file__).resolve().parent.parent


def test_each_module_is_there_once() -> None:
    assert [path for path in MODULES if not (ROOT / path).is_file()] == []
    assert len(set(MODULES)) == len(MODULES)


def test_what_a_compiled_module_imports_of_ours_is_of_the_packages_that_are_compared() -> None:
    ours = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    imported = set()
    for path in MODULES:
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    assert ours & imported <= set(READ)


def test_no_compiled_class_is_an_abstract_base_class() -> None:
    """mypyc makes such classes share one cache of ABCMeta: `isinstance` in interpreted code then says of one class what
    it has said of another."""
    named = [path for path in MODULES if re.search(r"\bABC(Meta)?\b", (ROOT / path).read_text())]
    assert named == []


def test_no_interpreted_class_inherits_from_a_compiled_one() -> None:
    """mypyc refuses to make an object of such a class."""
    compiled = {path.removesuffix(".py").replace("/", "."): path for path in MODULES}
    folders = {path.parts[0] for path in map(Path, READ)} | {"proxy", "bulk", "external_upquery", "upwell"}
    found = []
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text())
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module in compiled
            for alias in node.names
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and name not in MODULES:
                found += [f"{name}: {node.name}" for base in node.bases if getattr(base, "id", "") in imported]
    assert found == []


def test_what_compiling_makes_is_taken_away_and_nothing_else(tmp_path: Path) -> None:
    made_here = [f"{LIBRARY}__mypyc.cpython-311.so", f"{READ[0]}/a.cpython-311.so", f"{READ[1]}/b/c.so", NOTE]
    stays = ["other.so", f"{READ[0]}/a.py"]
    for name in (*made_here, *stays):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert {path.relative_to(tmp_path).as_posix() for path in made(tmp_path)} == set(made_here)
    assert remove(tmp_path) == len(made_here)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {tmp_path / name for name in stays}


def test_without_mypy_one_line_says_what_is_missing(tmp_path: Path) -> None:
    without = f"import sys; sys.modules['mypyc'] = None; sys.path.insert(0, {str(ROOT)!r}); import hatch_build"
    text = f"{without}; sys.exit(hatch_build.main(['build', {str(tmp_path)!r}]))"
    ran = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith("upwell: mypy and setuptools are needed") and ran.stderr.count("\n") == 1


def test_a_command_that_is_none_is_told_what_there_is() -> None:
    assert hatch_build.main(["wrong"]) == 2
