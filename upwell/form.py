"""In which form the server's modules run: interpreted, or some of them compiled (`hatch_build.py`).

Compiled modules are imported instead of the sources beside them, also when those have changed since. So
`upwell/compiled.json` has the digests of the sources that they were made of, and whoever starts the server compares.
"""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

HERE = Path(__file__).resolve().parent
APP_DIR = HERE / "app" if (HERE / "app").is_dir() else HERE.parent
NOTE = HERE / "compiled.json"


def digests(root: Path, packages: Iterable[str]) -> dict[str, str]:
    """Of every source of these packages, by its path below `root`."""
    files = sorted(path for package in packages for path in (root / package).rglob("*.py"))
    return {path.relative_to(root).as_posix(): blake2b(path.read_bytes(), digest_size=12).hexdigest() for path in files}


@dataclass(frozen=True)
class Form:
    """`modules`: those that run compiled. `sources`: the digests of what they were made of, all of these `packages`
    below `root`."""

    modules: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    root: Path = APP_DIR

    @cached_property
    def changed(self) -> list[str]:
        """The sources that are others by now."""
        before, now = self.sources, digests(self.root, self.packages)
        return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))

    @property
    def stale(self) -> str:
        """What is wrong, and what mends it; "" where nothing is."""
        if not self.changed:
            return ""
        more = f" and {len(self.changed) - 1} more" if len(self.changed) > 1 else ""
        return f"from sources that have changed since ({self.changed[0]}{more}): `make compiled` or `make interpreted`"

    def __str__(self) -> str:
        """For people: "interpreted", or "compiled, 40 modules"."""
        return ", ".join(filter(None, [self.plain, self.stale]))

    @property
    def plain(self) -> str:
        return f"compiled, {len(self.modules)} modules" if self.modules else "interpreted"


def form(note: Path = NOTE, root: Path = APP_DIR) -> Form:
    """As this Python runs it: it does not import modules that were compiled for another one."""
    try:
        told = json.loads(note.read_text())
        suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
        there = tuple(path for path in told["modules"] if (root / path).with_suffix(suffix).is_file())
        return Form(there, tuple(told["packages"]), told["sources"], root) if there else Form()
    except FileNotFoundError:
        return Form()
    except (ValueError, KeyError):
        return Form(("unknown",), sources={note.name: "of no sources"}, root=root)


def main() -> int:
    """For make: nothing is run by modules that are not of their sources."""
    stale = form().stale
    if stale:
        print(f"compiled modules are {stale}", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
