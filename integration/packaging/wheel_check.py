"""Builds the wheel and tries it where it could hurt: `make wheel-check`.

The sources have top-level folders with everyday names (`proxy`, `planner`). An installed `upwell` must bring none of
them into site-packages, or it and the foreign package proxy.py, imported as `proxy`, would overwrite each other. So it
is installed beside that package, first with the client's dependencies alone, then with the server's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
APP_PACKAGES = ("proxy", "bulk", "external_upquery", "vstream", "dataflow", "planner", "gtid_tracker", "sqltypes")


# As the launcher does it: our packages come first, so that the foreign `proxy` is not taken for ours.
IMPORT_EVERYTHING = """
import sys
from upwell.form import APP_DIR
sys.path.insert(0, str(APP_DIR))
import proxy.app, proxy.cli
assert proxy.__file__ == str(APP_DIR / "proxy/__init__.py"), proxy.__file__
"""


class WheelIsWrong(Exception):
    """The message says what was expected and what was found."""


def run(*command: str | Path, cwd: Path, status: int = 0, variables: Mapping[str, str] | None = None) -> str:
    """What the command printed. `variables` are its environment's, too. Raises `WheelIsWrong` where it ends with
    another status."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | dict(variables or {})
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    if done.returncode != status:
        raise WheelIsWrong(f"{' '.join(map(str, command))}: status {done.returncode}, expected {status}\n{printed}")
    return printed


def build(folder: Path, compiled: bool = False) -> Path:
    """The wheel, built by the locked build backend without a network."""
    hook = {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": str(compiled).lower()}
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT, variables=hook)
    (wheel,) = folder.glob("*.whl")
    return wheel


def expected_modules() -> list[str]:
    """The names that the wheel must have: every module of the tree, and all of the page for browsers, where the wheel
    has them."""
    upwell = [path.relative_to(ROOT).as_posix() for path in ROOT.joinpath("upwell").rglob("*.py")]
    app = [path.relative_to(ROOT).as_posix() for name in APP_PACKAGES for path in ROOT.joinpath(name).rglob("*.py")]
    page = [path.relative_to(ROOT).as_posix() for path in ROOT.joinpath("proxy/http/page").iterdir()]
    return sorted([*upwell, *(f"upwell/app/{path}" for path in (*app, *page))])


def check_contents(wheel: Path) -> None:
    """The top level is exactly `upwell` and its dist-info. Every module of the tree is there, tests are not."""
    names = set(zipfile.ZipFile(wheel).namelist())
    top = {name.split("/")[0] for name in names}
    expected = {"upwell", f"upwell-{wheel.name.split('-')[1]}.dist-info"}
    if top != expected:
        raise WheelIsWrong(f"the wheel's top level is {sorted(top)}, expected {sorted(expected)}")
    missing = [name for name in expected_modules() if name not in names]
    if missing:
        raise WheelIsWrong(f"the wheel lacks {missing}")


def check_installed(wheel: Path, folder: Path) -> None:
    """Installs it beside the foreign `proxy`; the command runs, the client imports, both `proxy` packages work."""
    venv.create(folder / "venv")
    python, upwell = folder / "venv/bin/python", folder / "venv/bin/upwell"
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "-q",
        "--no-compile",
        "--disable-pip-version-check",
    )
    run(*pip, "--require-hashes", "-r", ROOT / "requirements/wheel-check.lock", cwd=folder)
    run(*pip, "--no-deps", wheel, cwd=folder)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    printed = run(upwell, "--version", cwd=folder)
    if version not in printed:
        raise WheelIsWrong(f"upwell --version prints {printed!r}, expected {version}")
    run(python, "-W", "error", "-c", "import upwell.client, upwell.aio, proxy; assert proxy.Proxy", cwd=folder)
    refused = run(upwell, "serve", "--upstream", "mysql://root@127.0.0.1:1", cwd=folder, status=2)
    if f"pip install 'upwell[server] @ {wheel.as_uri()}'" not in refused or "Traceback" in refused:
        raise WheelIsWrong(f"without the server's dependencies `upwell serve` prints {refused!r}")
    run(*pip, "--require-hashes", "-r", ROOT / "requirements/server.lock", cwd=folder)
    run(upwell, "serve", "--help", cwd=folder)
    run(upwell, "rank", "--help", cwd=folder)
    refused = run(upwell, "rank", ".", cwd=folder, status=2)
    if "upwell[rank]" not in refused or "Traceback" in refused:
        raise WheelIsWrong(f"without pyarrow `upwell rank` prints {refused!r}")
    run(python, "-c", IMPORT_EVERYTHING, cwd=folder)


def main() -> int:
    try:
        with tempfile.TemporaryDirectory(prefix="upwell-wheel-") as folder:
            wheel = build(Path(folder) / "dist")
            check_contents(wheel)
            check_installed(wheel, Path(folder))
    except WheelIsWrong as error:
        print(f"wheel-check: {error}", file=sys.stderr)
        return 1
    print(f"wheel-check: {wheel.name} holds upwell and nothing else, and runs beside proxy.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
