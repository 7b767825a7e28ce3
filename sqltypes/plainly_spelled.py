"""Plainly spelled strings: where MySQL takes two of these for equal they are the same.

vtgate computes a shard from how a string is spelled, and MySQL takes 'a', 'A' and often 'a ' for equal.
"""

from __future__ import annotations

import re

from sqltypes.collation import supported

PLAIN = re.compile(r"(?:[ -@\[-~]*[!-@\[-~])?")  # printable ASCII without capitals, and without a space at the end


def is_known(collation: str | None) -> bool:
    """Whether that holds of the collation. In others a sequence of letters may equal another one ('ccs' and 'cscs')."""
    return supported(collation) and collation != "binary"


def is_plain(value: str, collation: str | None) -> bool:
    """Requires: the collation is known."""
    if collation is not None and collation.endswith("_bin"):  # all but spaces at the end count
        return not value.endswith(" ")
    return PLAIN.fullmatch(value) is not None
