"""Upwell's optional parts, `server`, `spark`, `rank`: the modules of what is installed, and how to install the rest.

pip notes where a package came from (`direct_url.json`, PEP 610). So the hint names a source that works here: the same
folder or file, or the package index.
"""

from __future__ import annotations

import importlib
import json
import os
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from upwell.failed import Failed
from upwell.form import APP_DIR

APP_PACKAGES = frozenset(
    {"proxy", "bulk", "external_upquery", "vstream", "dataflow", "planner", "gtid_tracker", "sqltypes", "upwell"}
)
SOURCES = Path(__file__).resolve().parent.parent  # of a checkout; site-packages where it is installed
BY_MAKE = ("spark", "rank")  # `make spark` brings both


def app_module(command: str, name: str) -> Any:
    """A module of the application's packages, for that command. Raises Failed where what it needs is not installed."""
    if str(APP_DIR) not in sys.path:
        sys.path.insert(0, str(APP_DIR))
    paths = [str(APP_DIR), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # for child processes
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in APP_PACKAGES:
            raise
        raise Failed(
            f"`upwell {command}` needs the server's dependencies (no {error.name!r}): {how_to_install('server')}",
            exit_code=2,
        ) from None


def how_to_install(extra: str) -> str:
    """What to run to have this extra, for a message."""
    origin = _origin()
    folder = _existing(origin.get("url", ""))
    if (SOURCES / "pyproject.toml").is_file():
        if origin.get("dir_info", {}).get("editable") and folder == SOURCES:
            return f"pip install -e {shlex.quote(f'{folder}[{extra}]')}"
        if extra in BY_MAKE:
            return f"run `make spark` in {SOURCES}"
        return f"pip install {shlex.quote(f'{SOURCES}[{extra}]')}"
    if not origin:
        return f"pip install 'upwell[{extra}]'"
    url = origin["url"]
    if folder is not None or not url.startswith("file:"):
        scheme = f"{origin['vcs_info']['vcs']}+" if "vcs_info" in origin else ""
        return "pip install " + shlex.quote(f"upwell[{extra}] @ {scheme}{url}")
    if extra in BY_MAKE:
        return f"pip install '.[{extra}]' in a clone of Upwell, or take the image of `docker build --target spark .`"
    return f"pip install '.[{extra}]' in a clone of Upwell"


def _origin() -> dict[str, Any]:
    """pip's note; empty where the package is not installed, or came from an index."""
    try:
        note = distribution("upwell").read_text("direct_url.json")
    except PackageNotFoundError:
        return {}
    found: dict[str, Any] = json.loads(note) if note else {}
    return found


def _existing(url: str) -> Path | None:
    """The folder or file of a `file:` URL, if it is still there."""
    if not url.startswith("file:"):
        return None
    path = Path(unquote(urlsplit(url).path))
    return path if path.exists() else None
