"""Vitess' programs and a topology server, built once into the user's cache directory by Go's own command.

    python -m integration.vitess.built      (`make vitess`): builds them, which takes some minutes

What is built, and of which version, `go.mod` and `go.sum` here say.
"""

from __future__ import annotations

import sys
from pathlib import Path

from integration.clients.tools import NotObtainable
from integration.support import go_programs

HERE = Path(__file__).parent
VITESS = tuple(f"vitess.io/vitess/go/cmd/{name}" for name in ("vtctld", "vtctldclient", "vtgate", "vttablet"))
ETCD = "go.etcd.io/etcd/server/v3"  # its program is called `server`


def programs() -> Path:
    """The folder with them. Raises NotObtainable where they cannot be built here."""
    return go_programs.go_programs("vitess", HERE, (ETCD, *VITESS))


def are_built() -> bool:
    """Whether `programs` need not build them."""
    return go_programs.are_built("vitess", HERE)


def main() -> int:
    try:
        print(programs())
    except NotObtainable as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
