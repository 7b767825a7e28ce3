"""What the page is told of an access log: reads over the time, caches, keys, queries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from bulk import access_charts
from bulk.access_charts import BUCKETS, EMPTY, SHOWN, charts
from bulk.access_rows import NO_CACHE
from tests.bulk.test_rank_direct import NOW, listed, log, row


def test_it_has_the_charts_of_the_last_hours(tmp_path: Path) -> None:
    costly = "SELECT b FROM t WHERE x = ?"
    log(
        tmp_path,
        [
            listed("story", hours_ago=2),
            row(hours_ago=30, weight=1000),  # too old
            row(hours_ago=1, weight=30),
            row(weight=50, key="[2]"),
            row(outcome="miss", weight=10),
            row(outcome="passed", weight=10, reason="late"),
            row(None, None, "passed", weight=100, us=20_000, query=costly, reason=NO_CACHE),
        ],
    )
    log(tmp_path, [row("other", "[9]", weight=4, query="SELECT c")], "two:3307")
    found = charts(tmp_path, 24)
    assert (found["rows"], found["proxies"], found["skipped"]) == (6, ["one:3307", "two:3307"], 0)
    assert (found["oldest"], found["newest"]) == (NOW / 1e6 - 7200, NOW / 1e6) and found["every"] == 7200 / BUCKETS
    assert found["caches"] == [
        {"name": "story", "hits": 80, "misses": 10, "passed": 10, "why": ""},
        {"name": "other", "hits": 4, "misses": 0, "passed": 0, "why": ""},
    ]
    assert [(one["cache"], one["key"], one["reads"], one["part"]) for one in found["keys"]] == [
        ("story", "[2]", 50, 0.5), ("story", "[1]", 50, 0.5), ("other", "[9]", 4, 1.0)
    ]  # fmt: skip
    assert found["queries"] == [{"query": costly, "database": "d", "reads": 100, "saved_seconds": 1.99}]
    reads = found["reads"]
    assert len(reads) == BUCKETS + 1 and [at[0] for at in reads] == sorted(at[0] for at in reads)
    told = {at: values for at, *values in reads if any(values)}
    assert told == {
        NOW / 1e6 - 3600: [round(30 / 120, 3), 0.0, 0.0],
        NOW / 1e6: [round(54 / 120, 3), round(10 / 120, 3), round(110 / 120, 3)],
    }
    assert charts(tmp_path, 0.5)["rows"] == 5


def test_a_chart_has_so_many_bars_and_texts_are_cut(tmp_path: Path) -> None:
    log(tmp_path, [row(key=f"[{number}]", weight=100 - number) for number in range(40)] + [row("b", "k" * 1000)])
    found = charts(tmp_path, 1)
    assert [one["key"] for one in found["keys"]] == [f"[{number}]" for number in range(SHOWN)]
    log(tmp_path, [row("long", "k" * 1000, weight=1000)])
    assert len(charts(tmp_path, 1)["keys"][0]["key"]) == access_charts.LONGEST


def test_a_log_without_reads_has_nothing(tmp_path: Path) -> None:
    assert charts(tmp_path, 24) == EMPTY
    (tmp_path / "access-1.parquet").write_bytes(b"no parquet")
    assert charts(tmp_path, 24) == {**EMPTY, "skipped": 1}


def test_more_rows_than_can_be_read_soon_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_charts, "MOST_ROWS", 2)
    log(tmp_path, [row(), row()])
    assert charts(tmp_path, 1)["rows"] == 2
    log(tmp_path, [row()])
    with pytest.raises(ValueError, match=r"3 rows of these hours, and 2 are read"):
        charts(tmp_path, 1)


def test_a_process_prints_it_or_says_why_not(tmp_path: Path) -> None:
    log(tmp_path, [row()])
    command = [sys.executable, "-m", "bulk.access_charts"]
    done = subprocess.run([*command, str(tmp_path), "24"], capture_output=True, check=True, timeout=60)
    assert json.loads(done.stdout)["rows"] == 1
    wrong = subprocess.run([*command, str(tmp_path), "soon"], capture_output=True, check=False, timeout=60)
    assert (wrong.returncode, b"soon" in wrong.stderr) == (2, True)
