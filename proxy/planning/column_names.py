"""Names of columns. One without an alias is named as it is written, and the source may write it otherwise."""

from __future__ import annotations

import re

_NOT_NAMED = re.compile(r"/\*.*?\*/|[\s`]+", re.DOTALL)


def named(name: str) -> str:
    """The same for all spellings: SUM( n ) and sum(n) are one."""
    return _NOT_NAMED.sub("", name).casefold()
