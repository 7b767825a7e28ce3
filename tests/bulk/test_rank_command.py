"""`upwell rank`: what it prints, writes and draws, and its exit status."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from bulk import rank_command
from bulk.access_rows import CANNOT, NO_CACHE
from bulk.rank_files import file_of_keys
from bulk.rank_words import cut, key_shown
from tests.bulk.test_rank_direct import changed, listed, log, row
from upwell.__main__ import run
from upwell.fill_command import read_keys
from upwell.key_text import written

LONG = "SELECT " + ", ".join(f"column_{number}" for number in range(40)) + " FROM `a table` WHERE x = ?"
ODD = "$x^2$ <script>alert(1)</script> \U0001f600 \u0416 \u4e2d"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    log(folder, [
        row(key="[0]", weight=12_345_678), *(row(key=f"[{key}]", weight=100 - key) for key in range(40)),
        row(f"a/b {ODD}", json.dumps([ODD, "2024-01-01"]), "miss"),
        row("a_cache_with_a_name_that_is_longer_than_a_column_of_a_table", '[{"decimal": "1.50"}]'),
        row(None, None, "passed", query=LONG, us=5e6, reason=NO_CACHE),
        row(None, None, "passed", query=f"SELECT '{ODD}' FROM t WHERE x = ?", us=2e6, reason=NO_CACHE),
        row(None, None, "passed", query="SELECT RAND()", us=2e6, reason=f"{CANNOT}nondeterministic: RAND()"),
        listed("never"),
    ])  # fmt: skip
    return folder


def test_tables_of_80_columns_and_statements_that_are_whole(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rank", str(logs)]) == 0
    printed = capsys.readouterr().out
    statements = [line for line in printed.splitlines() if line.startswith("CREATE CACHE FROM ")]
    assert statements[0] == f"CREATE CACHE FROM {LONG};" and len(statements) == 2 and "\nUSE `d`;\n" in printed
    tables = printed.split("\n\n", 1)[1]
    assert all(len(line) <= 80 for line in tables.splitlines() if not line.startswith(("CREATE CACHE FROM ", "1 more")))
    for words in (
        "What to warm",
        "What to cache",
        "What to drop",
        "never read",
        "nondeterministic: RAND()",
        "0, 1, 2, 3",
    ):
        assert words in printed
    assert "hit %" in tables and "hit\u2026" not in tables, "headings are whole"


def test_json_has_all_of_it(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rank", str(logs), "--json", "--top", "3"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["by"] == "directly" and told["rows"] == 46 and told["proxies"] == ["one:3307"]
    by_name = {cache["name"]: cache for cache in told["caches"]}
    assert [hot["key"] for hot in by_name["story"]["keys"]] == ["[0]", "[1]", "[2]"]
    assert [query["statement"] != "" for query in told["queries"]] == [True, True, False]
    assert by_name["never"]["why"] == "never read"


def test_files_are_the_owners_and_keys_are_what_fill_reads(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out" / "below"
    for _ in range(2):
        assert run(["rank", str(logs), "--out", str(out)]) == 0
    assert f"upwell fill story --keys {out / 'keys-story.jsonl'}" in capsys.readouterr().out
    assert all(path.stat().st_mode & 0o77 == 0 for path in (out, *out.iterdir()))
    names = {path.name for path in out.iterdir()}
    odd = file_of_keys(f"a/b {ODD}")
    assert {"keys-story.jsonl", "queries.json", "rank.png", "rank.html", odd} <= names and "/" not in odd
    assert list(read_keys(out / "keys-story.jsonl"))[:2] == [(0,), (1,)]
    (keys,) = read_keys(out / odd)
    assert keys == (ODD, "2024-01-01")
    assert "keys-never.jsonl" not in names and len(names) == 6, names
    assert json.loads((out / "queries.json").read_text())[0]["query"] == LONG
    assert len(os.fsencode(file_of_keys("\U0001f600" * 64))) < 200


def test_the_chart_is_a_picture_and_a_page_that_loads_nothing(logs: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    assert run(["rank", str(logs), "--out", str(out)]) == 0
    assert (out / "rank.png").read_bytes().startswith(PNG)
    page = (out / "rank.html").read_text()
    assert "<svg" in page and "<script" not in page and "&lt;script&gt;" in page
    assert not re.search(r"(?:href|src)\s*=\s*['\"](?!#)|url\((?!#)|@import", page.replace("xlink:href", "href"))
    assert set(re.findall(r"https?://[^\"'\s<]*", page)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert f"CREATE CACHE FROM {LONG}" in page and "default-src 'none'" in page


def test_logs_without_rows_are_drawn_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log(tmp_path / "logs", [listed("never")])
    assert run(["rank", str(tmp_path / "logs"), "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "rank.png").read_bytes().startswith(PNG)
    assert "What to warm: nothing" in capsys.readouterr().out


def test_without_matplotlib_there_is_no_chart(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    assert run(["rank", str(logs), "--out", str(tmp_path / "out")]) == 0
    assert "run `make spark` in" in capsys.readouterr().err and not (tmp_path / "out" / "rank.png").exists()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(["rank", str(logs)]) == 2
    assert "pyarrow: run `make spark` in" in capsys.readouterr().err


def test_a_damaged_file_is_named_and_the_rest_is_ranked(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = log(logs, [row()])
    changed(bad, "newer")
    assert run(["rank", str(logs)]) == 0
    told = capsys.readouterr()
    assert told.err.startswith(f"skipped {bad}: its columns are of version 2") and "What to warm" in told.out
    log(tmp_path / "other", [row()])
    changed(next((tmp_path / "other").iterdir()), "cut")
    assert run(["rank", str(tmp_path / "other")]) == 2
    assert capsys.readouterr().err.endswith("none of the access logs can be read\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Missing argument"),
        (("NOWHERE",), "is no folder"),
        (("EMPTY",), "no access logs are in"),
        (("LOGS", "--cache", "nope"), "no cache 'nope' is in these logs: there are a"),
        (("LOGS", "--hours", "0"), "0"),
        (("LOGS", "--out", "FILE"), "cannot be written"),
        (("LOGS", "--by", "spark", "--spark-master", "sc://localhost:1"), "nobody answers there"),
        (("LOGS", "--by", "magic"), "'magic' is not one of"),
    ],
)
def test_what_is_wrong_is_a_line_and_status_2(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    paths = {"LOGS": logs, "NOWHERE": tmp_path / "no", "EMPTY": tmp_path / "empty", "FILE": tmp_path / "file" / "x"}
    if "sc://localhost:1" in arguments:
        pytest.importorskip("pyspark")
    assert run(["rank", *(str(paths.get(part, part)) for part in arguments)]) == 2
    told = capsys.readouterr().err
    assert words in told and told.count("\n") == 1, told


def test_one_cache_alone(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rank", str(logs), "--cache", "story", "--json"]) == 0
    assert [cache["name"] for cache in json.loads(capsys.readouterr().out)["caches"]] == ["story"]


def test_where_spark_is_not_there_a_large_log_is_ranked_directly(
    logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_command, "SPARK_ROWS", 1)
    monkeypatch.setattr(rank_command, "why_unavailable", lambda settings: "there is no Java")
    assert run(["rank", str(logs), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["by"] == "directly (not by Spark: there is no Java)"
    assert run(["rank", str(logs), "--by", "spark"]) == 2
    assert capsys.readouterr().err == "upwell: there is no Java\n"


def test_words_are_short_and_on_one_line() -> None:
    assert cut("a\n b\x00c", 9) == "a b c" and cut("x" * 20, 5) == "xxxx\u2026"
    for key, shown in ((written((7,)), "7"), (written(("a",)), '["a"]'), (written((1, 2)), "[1, 2]"), ("[]", "[]")):
        assert key_shown(key) == shown
