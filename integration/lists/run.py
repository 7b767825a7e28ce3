"""`make lists`: random lists at MySQL and through the proxy, until the time is over; what is wrong is printed as
statements, and at the end the table of how often hits have another order than MySQL's, or behind LIMIT other rows.

Exit status: 0 nothing is wrong, 1 something is, 3 there is no MySQL to ask.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from integration.lists.judge import judged
from integration.oracle.asker import asker_beside
from integration.support.campaign import campaign


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make lists", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worlds", type=int, default=0)
    given = parser.parse_args(arguments)
    with campaign("lists") as (server, state), asker_beside(server, f"t{os.getpid()}_lists", state) as asker:
        findings, tally = judged(asker, given.seed, seconds=given.seconds, worlds=given.worlds)
    print(tally.table())
    print(f"{len(findings) or 'none'} of {tally.counts['reads']:,} reads were wrong")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
