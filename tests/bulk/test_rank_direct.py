"""Access logs found, read and added up: what the rows say, and what becomes of files that are none."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow
import pyarrow.parquet

from bulk.access_file import SCHEMA, Writer
from bulk.access_rows import CANNOT, NO_CACHE, VERSION_KEY
from bulk.log_files import find
from bulk.rank_direct import sums_of
from bulk.ranking import HOUR, MISSES, NEVER, SELDOM, Asked, Ranking, ranked

NOW = 1_800_000_000_000_000
AN_HOUR = Asked(half_life=1.0)
Row = tuple[Any, ...]


def row(
    cache: str | None = "story", key: str | None = "[1]", outcome: str = "hit", *, hours_ago: float = 0, us: float = 50,
    weight: float = 1, keys: int = 1, query: str = "SELECT a FROM t WHERE id = ?", reason: str = "",
) -> Row:  # fmt: skip
    return (int(NOW - hours_ago * HOUR), cache, query, "d", key, outcome, reason, us, weight, keys)


def listed(cache: str, hours_ago: float = 0, query: str = "SELECT a FROM t WHERE id = ?") -> Row:
    return row(cache, None, "listed", hours_ago=hours_ago, us=0, weight=0, keys=0, query=query)


def log(folder: Path, rows: Iterable[Row], proxy: str = "one:3307") -> Path:
    """A file more."""
    told: list[dict[str, Any]] = []
    writer = Writer(folder, 1 << 30, 300.0, proxy, told.append)
    for one in rows:
        writer.add(json.dumps(one).encode())
    writer.write()
    return folder / str(told[0]["file"])


def ranking_of(folder: Path, asked: Asked = AN_HOUR) -> Ranking:
    return ranked(sums_of(find([folder]), asked))


def test_older_reads_of_a_key_count_less(tmp_path: Path) -> None:
    log(tmp_path, [row(key="[1]", hours_ago=3, weight=100), row(key="[2]", weight=20), row(key="[2]", hours_ago=1)])
    log(tmp_path, [row(key="[3]", weight=2, keys=7)], "two:3307")
    ranking = ranking_of(tmp_path)
    (cache,) = ranking.caches
    assert [(hot.key, hot.score, hot.reads) for hot in cache.keys] == [
        ("[2]", 20.5, 21.0), ("[3]", 14.0, 14.0), ("[1]", 12.5, 100.0)
    ]  # fmt: skip
    assert (cache.hits, cache.reads, ranking.proxies) == (123.0, 123.0, ("one:3307", "two:3307"))


def test_the_first_keys_of_each_cache_and_of_equal_ones_by_their_text(tmp_path: Path) -> None:
    rows = [row(name, f"[{key}]") for name in ("a", "b") for key in (5, 4, 3, 2, 1)]
    log(tmp_path, [*rows, row("b", "[4]"), row("b", None)])
    found = {cache.name: [hot.key for hot in cache.keys] for cache in ranking_of(tmp_path, Asked(top=3)).caches}
    assert found == {"a": ["[1]", "[2]", "[3]"], "b": ["[4]", "[1]", "[2]"]}


def test_hours_are_counted_from_the_newest_row(tmp_path: Path) -> None:
    log(tmp_path, [row(key="[1]", hours_ago=5), row(key="[2]", hours_ago=1)])
    log(tmp_path, [row(key="[3]", hours_ago=9)])
    ranking = ranking_of(tmp_path, Asked(hours=2))
    assert [hot.key for cache in ranking.caches for hot in cache.keys] == ["[2]"] and ranking.rows == 1


def test_many_files_are_added_up_as_one(tmp_path: Path) -> None:
    rng = random.Random(1)
    rows = [
        row(rng.choice(("a", "b", None)), f"[{rng.randrange(9)}]", hours_ago=rng.random() * 30, weight=rng.random() * 9)
        for _ in range(2000)
    ]
    for number in range(50):
        log(tmp_path / "many", rows[number::50])
    log(tmp_path / "one", rows)
    assert ranking_of(tmp_path / "many") == ranking_of(tmp_path / "one")


def test_queries_by_the_time_that_hits_would_save(tmp_path: Path) -> None:
    def passed(query: str, us: float, weight: float, reason: str = NO_CACHE, hours_ago: float = 0) -> Row:
        return row(None, None, "passed", query=query, us=us, weight=weight, reason=reason, hours_ago=hours_ago)

    log(tmp_path, [
        passed("often", 1_100, 1000), passed("slow", 500_000, 1, hours_ago=1), passed("slow", 1_500_000, 1),
        passed("quick", 50, 10_000), passed("not", 9e6, 9, CANNOT + "nondeterministic"),
        passed("(a long text)", 2e6, 9),
        passed("since", 1e6, 1, CANNOT + "no such table", hours_ago=1), passed("since", 9e5, 1),
    ])  # fmt: skip
    ranking = ranking_of(tmp_path)
    found = {one.query: one for one in ranking.queries}
    assert [one.query for one in ranking.to_cache] == ["(a long text)", "slow", "since", "often"]
    assert (found["often"].reads, found["often"].ms, round(found["often"].saved, 6)) == (1000.0, 1.1, 1.0)
    assert found["slow"].statement == "CREATE CACHE FROM slow" and not found["(a long text)"].statement
    assert (found["not"].why, found["not"].statement) == ("nondeterministic", "")


def test_what_may_be_dropped_and_what_is_gone(tmp_path: Path) -> None:
    names = ("never", "seldom", "cold", "good", "changed", "gone")
    log(tmp_path, [
        *(listed(name, 10, "SELECT old" if name == "changed" else "SELECT a FROM t WHERE id = ?") for name in names),
        row("seldom", hours_ago=9), row("gone", hours_ago=9), row("changed", "[8]", hours_ago=9, query="SELECT old"),
        *(row("cold", outcome=outcome, weight=10) for outcome in ("hit", "miss", "passed")),
        *(row("good", outcome=outcome, weight=50) for outcome in ("hit", "hit", "hit", "miss")),
        row("changed", "[9]", weight=99, hours_ago=1, query="SELECT new"),
        *(listed(name, 0.5) for name in names[:-2]), listed("changed", 0.5, "SELECT new"), row("made", weight=5),
    ])  # fmt: skip
    ranking = ranking_of(tmp_path)
    assert [(one.name, one.why) for one in ranking.to_drop] == [("never", NEVER), ("seldom", SELDOM), ("cold", MISSES)]
    assert ranking.gone == ["gone"] and {cache.name for cache in ranking.caches} == {*names[:-1], "made"}
    (changed,) = [cache for cache in ranking.caches if cache.name == "changed"]
    assert (changed.query, [hot.key for hot in changed.keys]) == ("SELECT new", ["[9]"]), (
        "keys of another query are none"
    )


def test_no_rows_are_no_ranking(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(SCHEMA.empty_table(), tmp_path / "access-1.parquet")
    ranking = ranking_of(tmp_path)
    assert (ranking.rows, ranking.newest, list(ranking.caches), ranking.to_cache) == (0, None, [], [])


def changed(path: Path, what: str) -> None:
    """Makes a file one that is not to be read."""
    table, data = pyarrow.parquet.read_table(path), path.read_bytes()
    if what == "cut":
        path.write_bytes(data[:-20])
    elif what == "empty":
        path.write_bytes(b"")
    elif what == "spoilt":
        path.write_bytes(data[:200] + bytes(byte ^ 0xFF for byte in data[200:260]) + data[260:])
    elif what == "foreign":
        pyarrow.parquet.write_table(pyarrow.table({"time": [1]}), path)
    elif what == "newer":
        pyarrow.parquet.write_table(table.replace_schema_metadata({VERSION_KEY: "2"}), path)
    else:
        pyarrow.parquet.write_table(table.drop_columns(["weight"]), path)


@pytest.mark.parametrize(
    ("what", "why"),
    [("cut", "cannot be read"), ("empty", "cannot be read"), ("spoilt", "cannot be read"),
     ("foreign", "no access log"), ("newer", "version 2"), ("less", "lacks the column 'weight'")],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_named_and_the_others_are_read(tmp_path: Path, what: str, why: str) -> None:
    bad = log(tmp_path, [row(key=f"[{number * 7919}]", hours_ago=-1) for number in range(2000)])
    log(tmp_path, [row(key="[5]")])
    changed(bad, what)
    logs = find([tmp_path])
    (cache,) = ranked(sums_of(logs, Asked())).caches
    ((path, told),) = logs.skipped
    assert path == bad and why in told and "\n" not in told
    assert [(hot.key, hot.score) for hot in cache.keys] == [("[5]", 1.0)], "nor does its time count"
