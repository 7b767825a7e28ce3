"""What the access log says of the last hours, as JSON for the page at `/`: the charts of `upwell rank`, and the reads
over the time.

    python -m bulk.access_charts DIR HOURS

A process of its own, which the proxy starts when somebody asks (`proxy/access/charts.py`): to read the files takes
seconds, and pyarrow's memory is given back with it. It prints one object (docs/http.md). Exit status 2: why not, on
standard error.
"""

from __future__ import annotations

import json
import sys
from operator import itemgetter
from pathlib import Path
from typing import Any

from bulk.access_rows import HIT, LISTED, MISS, PASSED
from bulk.log_files import LogFiles, find, read
from bulk.priority import stand_back
from bulk.rank_direct import sums_of
from bulk.ranking import HOUR, Asked, CacheUse, PassedQuery, Ranking, ranked

SHOWN = 12  # bars of a chart
BUCKETS = 60  # of the time
MOST_ROWS = 20_000_000  # that are read: about twenty seconds of a processor
LONGEST = 300  # letters of a query, and of a key
EMPTY: dict[str, Any] = {"rows": 0, "proxies": [], "oldest": 0.0, "newest": 0.0, "every": 0.0, "skipped": 0,
                         "reads": [], "caches": [], "keys": [], "queries": []}  # fmt: skip


def charts(folder: Path, hours: float) -> dict[str, Any]:
    """Times in seconds since 1970. Raises OSError, ValueError where the folder cannot be read, or has too much."""
    logs = find([folder])
    since = logs.newest - round(hours * HOUR)
    rows = sum(file.rows for file in logs.files if file.newest >= since)
    if rows > MOST_ROWS:
        raise ValueError(f"it has {rows:,} rows of these hours, and {MOST_ROWS:,} are read: ask for fewer hours")
    ranking = ranked(sums_of(logs, Asked(hours, top=SHOWN)))
    if ranking.oldest is None or ranking.newest is None:
        return {**EMPTY, "skipped": len(logs.skipped)}
    oldest, newest = ranking.oldest.timestamp(), ranking.newest.timestamp()
    every = max(1.0, (newest - oldest) / BUCKETS)
    return {
        "rows": ranking.rows,
        "proxies": list(ranking.proxies),
        "oldest": oldest,
        "newest": newest,
        "every": every,
        "skipped": len(logs.skipped),
        "reads": _over_time(logs, oldest, newest, every),
        "caches": [_cache(cache) for cache in ranking.caches if cache.reads][:SHOWN],
        "keys": _keys(ranking),
        "queries": [_query(query) for query in ranking.to_cache[:SHOWN]],
    }


def _over_time(logs: LogFiles, oldest: float, newest: float, every: float) -> list[list[float]]:
    """For each part of the time: when it begins, and hits, misses and passed reads a second."""
    import pyarrow
    import pyarrow.compute as pc

    found = [[oldest + at * every, 0.0, 0.0, 0.0] for at in range(int((newest - oldest) / every) + 1)]
    places = {HIT: 1, MISS: 2, PASSED: 3}
    first = round(oldest * 1e6)
    for file in logs.files:
        if file.newest < first:
            continue
        try:
            table = read(file.path, ("time", "outcome", "weight"))
        except (OSError, ValueError):
            continue  # the oldest go while we look
        time = table["time"].cast(pyarrow.int64())
        there = pc.and_(pc.greater_equal(time, first), pc.not_equal(table["outcome"], LISTED))
        at = pc.floor(pc.divide(pc.subtract(time, first).cast(pyarrow.float64()), every * 1e6)).cast(pyarrow.int64())
        sums = pyarrow.table({"at": at, "outcome": table["outcome"], "weight": table["weight"]}).filter(there)
        for row in sums.group_by(["at", "outcome"]).aggregate([("weight", "sum")]).to_pylist():
            found[min(row["at"], len(found) - 1)][places[row["outcome"]]] += row["weight_sum"] / every
    return [[round(value, 3) for value in row] for row in found]


def _cache(cache: CacheUse) -> dict[str, Any]:
    return {
        "name": cache.name, "hits": round(cache.hits), "misses": round(cache.misses), "passed": round(cache.passed),
        "why": cache.why,
    }  # fmt: skip


def _keys(ranking: Ranking) -> list[dict[str, Any]]:
    """The hottest of all caches. `part`: of the reads of its cache."""
    every: list[dict[str, Any]] = [
        {"cache": cache.name, "key": hot.key[:LONGEST], "reads": round(hot.reads),
         "part": round(min(1.0, hot.reads / cache.reads), 4)}
        for cache in ranking.caches for hot in cache.keys if cache.reads
    ]  # fmt: skip
    return sorted(every, key=itemgetter("reads"), reverse=True)[:SHOWN]


def _query(query: PassedQuery) -> dict[str, Any]:
    return {
        "query": query.query[:LONGEST], "database": query.database, "reads": round(query.reads),
        "saved_seconds": round(query.saved, 3),
    }  # fmt: skip


def main(folder: str, hours: str) -> int:
    stand_back()
    try:
        print(json.dumps(charts(Path(folder), float(hours)), ensure_ascii=False))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
