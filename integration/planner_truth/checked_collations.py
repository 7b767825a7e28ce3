"""Which versions of MySQL the collations were compared with whole, and with which tables and code.

`integration/planner_truth/checked_collations.txt` holds a line for each version: a digest of all that decides how we
compare strings. While it is the digest of now, `make test` compares a sample; else, and in `make nightly`, every
character. After a change, `make collations` compares whole and then, as `python -m
integration.planner_truth.checked_collations`, writes the line.
"""

from __future__ import annotations

import os
import re
import sys
from hashlib import sha256
from pathlib import Path

from integration.servers.private_mysql import find_mysql

ROOT = Path(__file__).parent.parent.parent
CHECKED = Path(__file__).with_suffix(".txt")
WHOLE = os.environ.get("UPWELL_WHOLE", "")


def digest(root: Path = ROOT) -> str:
    """Of the tables, the code that reads them, and the comparison itself."""
    made = sha256()
    code = (
        "sqltypes/collation.py",
        "sqltypes/collation_tables.py",
        "integration/planner_truth/test_collations_mysql.py",
    )
    for path in [*(root / name for name in code), *sorted((root / "sqltypes/data").glob("*.zlib"))]:
        made.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return made.hexdigest()[:32]


def series(version: str) -> str:
    """The part of a server's version that tells its collations: of `9.7.4-2` it is `9.7.4`."""
    found = re.match(r"\d+\.\d+\.\d+", version)
    return found[0] if found else version


def read(path: Path = CHECKED) -> dict[str, str]:
    """The digest that each version was compared with."""
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split() for line in lines if not line.startswith("#"))


def note(version: str, path: Path = CHECKED) -> None:
    """Keeps that this version was compared whole with what is here now."""
    kept = read(path) | {series(version): digest()}
    lines = "".join(f"{name} {checked}\n" for name, checked in sorted(kept.items()))
    path.write_text("# Versions of MySQL, and what they were compared with. Written by `make collations`.\n" + lines)


def whole(version: str, path: Path = CHECKED) -> bool:
    """Whether the collations must be compared whole with this server."""
    return bool(WHOLE) or read(path).get(series(version)) != digest()


def main() -> int:
    with find_mysql(os.environ.get("UPSTREAM_TEST")) as server:
        note(server.version())
    return 0


if __name__ == "__main__":
    sys.exit(main())
