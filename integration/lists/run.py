"""`make lists`: random lists at MySQL and through the proxy, until the time is over; what is wrong is printed as
statements, and at the end the table of how often hits have another order than MySQL's, or behind LIMIT other rows.

Exit status: 0 nothing is wrong, 1 something is, 3 there is no MySQL to ask.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import structlog

from integration.lists.judge import campaign
from integration.oracle.asker import asker_beside
from integration.oracle.run import in_memory, planned_in_place
from integration.private_mysql import NoMySQL, find_mysql


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make lists", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worlds", type=int, default=0)
    given = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with ExitStack() as stack:
        stack.enter_context(in_memory())
        stack.enter_context(planned_in_place())
        try:
            server = stack.enter_context(find_mysql(os.environ.get("UPSTREAM_TEST"), report=lambda line: None))
        except NoMySQL as error:
            print(error, file=sys.stderr)
            return 3
        state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="upwell-lists-")))
        asker = stack.enter_context(asker_beside(server, f"t{os.getpid()}_lists", state))
        findings, tally = campaign(asker, given.seed, seconds=given.seconds, worlds=given.worlds)
    print(tally.table())
    print(f"{len(findings) or 'none'} of {tally.counts['reads']:,} reads were wrong")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
