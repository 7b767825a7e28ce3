"""Who made a cache. Imports nothing of the system: settings name caches, too."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Origin(Enum):
    """Where the definition of a cache came from."""

    FILE = "file"
    SQL = "SQL"
    GRPC = "gRPC"
    AUTOMATIC = "automatic"


@dataclass(frozen=True, slots=True)
class MadeBy:
    """Who made a cache, and why: `account` is MySQL's (`user@host`), "" where no account stands behind it; `reason` is
    that of automatic caching."""

    origin: Origin
    account: str = ""
    reason: str = ""


BY_GRPC = MadeBy(Origin.GRPC)
BY_FILE = MadeBy(Origin.FILE)
