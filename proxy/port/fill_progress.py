"""How far large fills and audits are, as callers are told."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class FillBy(Enum):
    """By what a large fill asks MySQL: SIZE takes Spark from so many rows on (`--spark-min-rows`), if it is there."""

    SIZE = "size"
    DIRECT = "direct"
    SPARK = "spark"


@dataclass(slots=True)
class FillProgress:
    """How far a large fill is. `keys`: how many there are in all; `held`: those that are held, be it since before;
    `left`: those that could not be held, of `keys`; `rows`: those that MySQL has sent; `slices`: the upqueries that
    have ended; `seconds` since it began; `stage`: in words; `done`: nothing follows."""

    cache: str
    by: FillBy = FillBy.SIZE
    keys: int = 0
    held: int = 0
    left: int = 0
    rows: int = 0
    slices: int = 0
    seconds: float = 0.0
    stage: str = ""
    why: str = ""  # the last reason for which keys were left, or for which it is not Spark
    done: bool = False

    @property
    def rate(self) -> float:
        """Rows a second, so far."""
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """If it goes on as until now; None where nothing tells."""
        ended = self.held + self.left
        return self.seconds * (self.keys - ended) / ended if ended and self.keys >= ended else None


@dataclass(slots=True)
class AuditProgress:
    """How far an audit is with one cache. `keys`: those held when it came to the cache; `compared`: of them; `left`: of
    them that could not be compared, for they are written all the time. `different`: the parameters of keys that are
    held otherwise than MySQL has them, as text, of 10,000 at most; `repaired`: how many were made holes. `done`: the
    next one, if there is any, is of another cache."""

    cache: str
    keys: int = 0
    compared: int = 0
    left: int = 0
    rows: int = 0
    seconds: float = 0.0
    different: list[str] = field(default_factory=list)
    repaired: int = 0
    why: str = ""  # why the cache was not compared, or not by Spark
    done: bool = False
