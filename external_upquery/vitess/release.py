"""Which release of Vitess a vtgate is of."""

from __future__ import annotations

import re

from sqltypes.errors import ConfigError

OLDEST = 23
"""The release that first tells of each transaction's GTID in its stream, and the first one that knows MySQL 9."""
ASK = "SELECT @@version_comment"
_RELEASE = re.compile(r"Version: ((\d+)\.\S*)")


def release_of(comment: str) -> str:
    """What `ASK` tells. Raises ConfigError: this is no vtgate, or too old a one."""
    found = _RELEASE.search(comment)
    if found is None:
        raise ConfigError(
            f"what answers is no vtgate ({comment[:100]!r}): the port of vtgate's MySQL protocol is wanted"
        )
    if int(found.group(2)) < OLDEST:
        raise ConfigError(f"this vtgate is of Vitess {found.group(1)}: Vitess {OLDEST} or newer is wanted")
    return found.group(1)
