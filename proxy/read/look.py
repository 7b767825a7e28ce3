"""What a look at a cache finds for one read: `Look`.

| found | what it means | what follows |
| --- | --- | --- |
| `bytes` | the answer's rows, encoded: a hit | they are given |
| `Due` | likewise; to be compared with MySQL's answer behind it | they are given, and the comparison begins |
| `InSteps` | all rows are held; to derive or join them is long | done in steps of the loop, then looked at again |
| `Missing.HOLE` | a part of the answer is not held | an upquery |
| `Missing.HELD_BACK` | held, and not to be given before it is compared with MySQL's answer | the comparison |
| `Why` | no cache may answer, with the reason | MySQL answers |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from dataflow.entries import Held
from dataflow.readers.derivation import Params
from proxy.port.reasons import Why
from sqltypes.expression import Key


class Missing(Enum):
    """Why there is nothing to give."""

    HOLE = "a part of the answer is not held"
    HELD_BACK = "it is to be compared with MySQL's own answer first"


@dataclass(frozen=True, slots=True)
class Due:
    """A hit that is to be compared behind. `held`: what it is made of; None for what is derived of several keys."""

    body: bytes
    held: Sequence[Held | None]


@dataclass(frozen=True, slots=True)
class InSteps:
    """An answer that is to be derived in steps, so that a read of it can be a hit."""

    keys: Sequence[tuple[Key, Params]] = ()
    """These are stored one after the other. Empty: the answer is of all of its keys together, and is not stored."""
    held: Held | None = None
    """The only key, which is large."""
    parts: Sequence[bytes] = ()
    """The answer of each key; they are to be joined."""
    due: bool = False
    """The answer is to be compared behind."""


Seen: TypeAlias = bytes | Due | InSteps | Missing
"""What is held for keys that are bound."""
Look: TypeAlias = bytes | InSteps | Missing | Why
"""What a read finds; the comparison behind a `Due` has begun."""


def body_of(found: Seen | Look) -> bytes | None:
    """The answer, if there is one."""
    if isinstance(found, Due):
        return found.body
    return found if isinstance(found, bytes) else None


def let_go(due: Sequence[Held | None]) -> None:
    """What was due is not given: it stays due."""
    for held in due:
        if held is not None:
            held.stale()
