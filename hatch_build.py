"""Compiles the modules through which changes of rows go, by mypyc: `make compiled`, and back: `make interpreted`.

The same sources run in both forms. All modules of `MODULES` are in one library, `upwell__mypyc`; beside the source of
each lies a small extension, which Python imports instead of the source. `upwell/compiled.json` has the digests of the
sources that they were made of; `upwell/form.py` compares these. A wheel has all that only where it is asked for:

    HATCH_BUILD_HOOK_ENABLE_CUSTOM=true hatchling build -t wheel
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
# What a change goes through that is mostly Python's own work. Others gain nothing: docs/performance.md.
MODULES = (
    *(f"gtid_tracker/{name}.py" for name in ("bracket", "gtid", "progress", "ring")),
    "dataflow/entries.py",
    "dataflow/changes/dispatch.py",
    "dataflow/changes/large_change.py",
    *(f"dataflow/held/{name}.py" for name in ("arrangement", "bag", "counters", "intervals", "remains")),
    *(
        f"dataflow/operators/{name}.py"
        for name in ("aggregate", "answer", "answer_index", "growth", "old_answers", "rows", "standing", "topk")
    ),
    *(f"dataflow/readers/{name}.py" for name in ("alike", "derivation", "encodings", "eviction", "ranges", "reader")),
    *(f"vstream/binlog/{name}.py" for name in ("assemble", "decode", "events", "packets", "rows")),
)
# Compiled code has the types of what it calls built in. These packages import of each other alone.
READ = ("sqltypes", "gtid_tracker", "planner", "dataflow", "vstream")
LIBRARY = "upwell"
NOTE = "upwell/compiled.json"
# mypy judges the sources in `make lint`, where the types of all packages are installed: here some may be missing.
LENIENT = ("--ignore-missing-imports", "--allow-subclassing-any", "--no-warn-unused-ignores", "--no-warn-return-any")
NO_COMPILER = (
    "a C compiler and Python's headers are needed (on Debian and Ubuntu: apt install gcc libc6-dev python3-dev)"
)


class CannotCompile(Exception):
    """What is missing, and what helps."""


def made(root: Path) -> list[Path]:
    """The files that compiling has made, for whatever Python."""
    libraries = [*root.glob(f"{LIBRARY}__mypyc.*"), *(path for name in READ for path in (root / name).rglob("*.so"))]
    return [path for path in (*libraries, root / NOTE) if path.is_file()]


def remove(root: Path) -> int:
    """Takes them away; how many files that were."""
    files = made(root)
    for path in files:
        path.unlink()
    return len(files)


def compile_in_place(root: Path) -> None:
    """Compiles what is below `root`. Raises CannotCompile."""
    sys.path.insert(0, str(root))
    from upwell.form import digests

    remove(root)
    sources = digests(root, READ)
    note = {"modules": MODULES, "packages": READ, "sources": {}}
    (root / NOTE).write_text(json.dumps(note))  # of no sources: what is left behind if this is ended shows as stale
    with tempfile.TemporaryDirectory(prefix="upwell-mypyc-") as folder:
        _build(root, Path(folder))
    (root / NOTE).write_text(json.dumps(note | {"sources": sources}, indent=0))


def _build(root: Path, scratch: Path) -> None:
    """Runs mypyc and the C compiler in a process of its own: mypyc reads sources relative to the working folder, and
    ends the process where it cannot go on."""
    ran = subprocess.run([sys.executable, str(root / "hatch_build.py"), "build", str(scratch)], cwd=root, check=False)
    if ran.returncode:
        remove(root)
        raise CannotCompile("nothing was compiled, and the interpreted modules run: see above")


def build(scratch: Path) -> None:
    """In the working folder. Raises CannotCompile."""
    try:
        import setuptools
        from mypyc.build import mypycify
        from setuptools.command.build_ext import build_ext
        from setuptools.errors import CompileError, PlatformError
    except ModuleNotFoundError as error:
        raise CannotCompile(
            f"mypy and setuptools are needed (no {error.name!r}): pip install mypy setuptools"
        ) from None
    extensions = mypycify(
        [*LENIENT, *MODULES],
        target_dir=str(scratch / "c"), group_name=LIBRARY, multi_file=True, opt_level="1", debug_level="0",
    )  # fmt: skip

    class InParallel(build_ext):  # type: ignore[misc]  # the package has no types
        """Of the library each module is a file of C, on as many cores as there are."""

        def build_extensions(self) -> None:
            compile_one = self.compiler.compile

            def compile_all(files: list[str], **options: Any) -> list[str]:
                with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
                    return [
                        made for one in threads.map(lambda file: compile_one([file], **options), files) for made in one
                    ]

            self.compiler.compile = compile_all
            super().build_extensions()

    command = InParallel(setuptools.Distribution({"name": LIBRARY, "ext_modules": extensions}))
    command.inplace, command.build_temp, command.build_lib = True, str(scratch / "o"), str(scratch / "lib")
    command.ensure_finalized()
    try:
        command.run()
    except (CompileError, PlatformError) as error:
        raise CannotCompile(f"{NO_COMPILER}: {error}") from None


class CompiledWheel(BuildHookInterface[BuilderConfig]):
    """The hook of hatchling: the compiled modules go into the wheel, beside their sources, which is of this platform
    and this Python then. The tree stays as it is."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return ["mypy>=1.14", "setuptools"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory(prefix="upwell-wheel-")
        copy = Path(self._folder.name)
        for name in (*READ, "upwell", "hatch_build.py", "pyproject.toml"):
            source = Path(self.root, name)
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
            else:
                shutil.copy(source, copy)
        compile_in_place(copy)
        for path in made(copy):
            name = path.relative_to(copy).as_posix()
            build_data["force_include"][str(path)] = name if name == NOTE else f"upwell/app/{name}"
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()


def main(arguments: Sequence[str]) -> int:
    try:
        match arguments:
            case ["compiled"]:
                compile_in_place(ROOT)
                print(f"compiled: {len(MODULES)} modules; back: make interpreted")
            case ["interpreted"]:
                print(f"interpreted: {remove(ROOT)} files taken away")
            case ["build", scratch]:
                build(Path(scratch))
            case _:
                print("usage: python hatch_build.py compiled|interpreted", file=sys.stderr)
                return 2
    except CannotCompile as error:
        print(f"upwell: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
