"""What `upwell rank --out` writes: the keys that `upwell fill --keys` reads, the queries as JSON, and the chart.

Only the owner may read them: keys are data."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bulk.ranking import CacheUse, PassedQuery, Ranking

LONGEST_NAME = 150  # bytes of a file's


def file_of_keys(cache: str) -> str:
    """The name of its file."""
    name = quote(cache, safe=" -_.")
    return f"keys-{name if len(name) <= LONGEST_NAME else sha256(cache.encode()).hexdigest()}.jsonl"


def write(ranking: Ranking, folder: Path, draw: Callable[[Ranking], dict[str, bytes]] | None) -> list[Path]:
    """The files. `draw`: the chart's, by name; None: without one. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    contents: dict[str, bytes] = {}
    for cache in ranking.caches:
        if cache.keys:
            contents[file_of_keys(cache.name)] = "".join(f"{hot.key}\n" for hot in cache.keys).encode()
    contents["queries.json"] = json.dumps([query_as_json(one) for one in ranking.queries], indent=1).encode() + b"\n"
    contents |= draw(ranking) if draw is not None else {}
    paths = []
    for name, content in contents.items():
        path = folder / name
        beside = folder / f".{name}.{os.getpid()}.new"
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(content)
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        paths.append(path)
    return paths


def query_as_json(query: PassedQuery) -> dict[str, Any]:
    return asdict(query) | {"statement": query.statement}


def cache_as_json(cache: CacheUse) -> dict[str, Any]:
    return asdict(cache) | {"reads": cache.reads, "share": cache.share}


def as_json(ranking: Ranking) -> dict[str, Any]:
    return {
        "rows": ranking.rows,
        "proxies": list(ranking.proxies),
        "oldest": None if ranking.oldest is None else ranking.oldest.isoformat(),
        "newest": None if ranking.newest is None else ranking.newest.isoformat(),
        "caches": [cache_as_json(cache) for cache in ranking.caches],
        "gone": list(ranking.gone),
        "queries": [query_as_json(query) for query in ranking.queries],
    }
