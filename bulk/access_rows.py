"""The rows of the access log: the meaning of each column, and the version of the format. `proxy/access/log.py` makes
rows, `bulk/access_file.py` writes them as Parquet, `upwell rank` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

VERSION = 1  # another number where what a column says becomes something else
VERSION_KEY = "upwell_access_log"  # of the files' own metadata
PATTERN = "access-*.parquet"
WRITING = ".access-*.new"  # a file that is being written

COLUMNS: dict[str, str] = {
    "time": "timestamp",  # UTC, microseconds
    "proxy": "string",  # HOST:PORT where MySQL's protocol is spoken
    "cache": "string",  # NULL: no cache is for the query
    "query": "string",  # as SHOW PROXIED QUERIES has it
    "database": "string",
    "key": "string",  # the parameters, as `upwell/key_text.py` writes them; NULL: there is no key, or a very long one
    "outcome": "string",  # HIT, MISS, PASSED; LISTED: no read, the cache exists
    "reason": "string",  # why it was passed, "" otherwise
    "us": "double",  # microseconds that the read took, those of MySQL where it was passed
    "weight": "double",  # how many reads it stands for
    "keys": "int",  # how many keys each of them asked for, of which `key` is one
}
"""The type of each, by its name in Spark."""

HIT, MISS, PASSED, LISTED = "hit", "miss", "passed", "listed"
CANNOT = "cannot be cached: "  # with what follows, the reason of a passed read
NO_CACHE = "no cache for this query"


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """`share`: of the reads. `limit`: bytes of the folder. `rotate`: seconds after which a file is complete."""

    folder: Path
    share: float = 0.01
    limit: int = 1 << 30
    rotate: float = 300.0
