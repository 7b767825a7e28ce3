"""The sample of the reads: what it says of all of them, that it is bounded, and that its writer may fail."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Coroutine
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import structlog

from bulk.access_rows import CANNOT, HIT, MISS, NO_CACHE, AccessSettings
from proxy.access import log as access_log
from proxy.access import writer as access_writer
from proxy.access.log import LONGEST_KEY, AccessLog, is_long
from proxy.access.writer import AccessWriter
from proxy.auto.passed_reads import Judgement, ProxiedQueries
from proxy.cache.key_binder import Binding
from proxy.cache.named_cache import NamedCache
from tests.support.waiting import until

READS = 20_000


class Judge:
    """Says of shapes with `RAND` that they cannot be cached."""

    async def judge(self, sql: str, database: str) -> Judgement:
        refused = "RAND" in sql
        return Judgement(not refused, "nondeterministic: RAND()" if refused else "maintain")

    def is_current(self, judgement: Judgement) -> bool:
        return True

    def cached_as(self, judgement: Judgement, database: str) -> str:
        return ""


class Lines:
    """What an AccessLog asks of its writer."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.rows: list[list[Any]] = []
        self.closed = False

    async def send(self, lines: bytes, rows: int) -> None:
        self.rows += [json.loads(line) for line in lines.splitlines()]

    def lose(self, rows: int) -> None:
        self.counters["access_log_dropped"] += rows

    async def close(self) -> None:
        self.closed = True


CACHE = NamedCache("story", "SELECT id FROM t WHERE id = ?", "d")


def logging(share: float, **caches: NamedCache) -> tuple[AccessLog, Lines, ProxiedQueries]:
    lines, proxied = Lines(), ProxiedQueries(Judge())
    settings = AccessSettings(Path("unused"), share)
    return AccessLog(settings, lines, caches, proxied, random.Random(1).random), lines, proxied  # type: ignore[arg-type]


def one(*params: Any) -> Binding:
    return Binding([(params[0] if params else None, params)], params)


def read(log: AccessLog, lines: Lines) -> list[list[Any]]:
    asyncio.run(log.close())
    assert lines.closed
    return [row for row in lines.rows if row[5] != "listed"]


def hits(log: AccessLog, cache: NamedCache, binding: Callable[[int], Binding], count: int) -> None:
    """As `OpenCache` offers them."""
    for number in range(count):
        if cache.hits >= cache.look_at:
            cache.look_at = cache.hits + log.gap()
            if log.takes_hit():
                log.taken(cache, binding(number), HIT, 1.0)
        cache.hits += 1


@pytest.mark.parametrize("share", [1.0, 0.3, 0.1, 0.01])
def test_hits_are_estimated_by_their_weights_whatever_the_pattern(share: float) -> None:
    """Every 64th read is of one key: counting would see that one only, or never."""
    random.seed(1)
    log, lines, _ = logging(share)
    hits(log, NamedCache("story", "s", "d"), lambda number: one(number % 64), READS)
    rows = read(log, lines)
    assert abs(sum(row[8] for row in rows) / READS - 1) < 5 / (READS * share) ** 0.5
    assert len({row[4] for row in rows}) > 50, "all keys are seen"


def test_misses_and_passed_reads_are_estimated_by_their_weights() -> None:
    log, lines, proxied = logging(0.05)
    entry = proxied.entry("SELECT * FROM t WHERE x = 5", "d")
    for _ in range(READS // 16):
        for _ in range(16):
            log.read(CACHE, one(1), MISS, 2.0)
            log.passed(CACHE, None, "why", 3.0)
        entry.note(4.0, "a", 16)
    rows = read(log, lines)
    for outcome, cache in ((MISS, "story"), ("passed", "story"), ("passed", None)):
        found = sum(row[8] for row in rows if (row[5], row[1]) == (outcome, cache))
        assert abs(found / READS - 1) < 0.2, (outcome, cache)
    shapes = {row[2] for row in rows if row[1] is None}
    assert shapes == {"SELECT * FROM t WHERE x = ?"}


def test_a_row_says_what_was_asked() -> None:
    log, lines, _ = logging(1.0)
    log.read(CACHE, one(Decimal("1.50"), b"\xff", None, (1, 2)), MISS, 7.0)
    log.read(CACHE, Binding([(1, (1,)), (2, (2,)), (3, (3,))], (None,)), HIT, 7.0)
    log.read(CACHE, Binding([], (None,)), HIT, 7.0)
    first, several, none = read(log, lines)
    assert first[1:] == ["story", "SELECT id FROM t WHERE id = ?", "d",
                         '[{"decimal": "1.50"}, {"bytes": "/w=="}, null, [1, 2]]', "miss", "", 7.0, 1.0, 1]  # fmt: skip
    assert several[4] in ("[1]", "[2]", "[3]") and several[9] == 3
    assert none[4] is None and none[9] == 1


def test_which_caches_exist_is_told_at_the_end_at_least() -> None:
    log, lines, _ = logging(0.01, story=CACHE)
    asyncio.run(log.close())
    assert [row[1:6] + row[8:] for row in lines.rows] == [["story", CACHE.sql, "d", None, "listed", 0.0, 0]]


def test_what_cannot_be_cached_is_said() -> None:
    async def scenario() -> None:
        log, lines, proxied = logging(1.0)
        for sql in ("SELECT RAND()", "SELECT a FROM t WHERE x = 1"):
            proxied.entry(sql, "").note(1.0, "a")
        await log._send(last=False)
        reasons = {row[2]: row[6] for row in lines.rows}
        assert reasons == {
            "SELECT RAND()": f"{CANNOT}nondeterministic: RAND()",
            "SELECT a FROM t WHERE x = ?": NO_CACHE,
        }

    asyncio.run(scenario())


def test_rows_that_are_too_many_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "MOST_ROWS", 10)
    log, lines, _ = logging(1.0)
    for number in range(25):
        log.read(CACHE, one(number), HIT, 1.0)
    assert len(read(log, lines)) == 10 and lines.counters["access_log_dropped"] == 15


@pytest.mark.parametrize(
    ("value", "long"),
    [("x" * LONGEST_KEY, False), ("x" * (LONGEST_KEY + 1), True), (b"x" * (LONGEST_KEY + 1), True),
     (tuple(range(100)), False), (tuple(range(1000)), True), (("x" * 5000,), True), (10**60, False)],
)  # fmt: skip
def test_long_keys_are_not_written(value: Any, long: bool) -> None:
    assert is_long((1, value)) is long
    log, lines, _ = logging(1.0)
    log.read(CACHE, one(value), HIT, 1.0)
    assert (read(log, lines)[0][4] is None) is long


def test_characters_that_are_none_do_not_cost_the_others() -> None:
    log, lines, _ = logging(1.0)
    log.read(CACHE, one("a\ud800b"), HIT, 1.0)
    assert read(log, lines)[0][4] == '["a?b"]'


# -- the process that writes -------------------------------------------------------------------------------------------


def with_writer(folder: Path, scenario: Callable[[AccessWriter], Coroutine[Any, Any, None]]) -> list[Any]:
    """What was logged."""
    pytest.importorskip("pyarrow")

    async def run() -> None:
        writer = AccessWriter(AccessSettings(folder, 1.0, 1 << 20, 300.0), "host:3307")
        await writer.start()
        try:
            await scenario(writer)
        finally:
            await writer.close()
            assert writer.pid is None

    with structlog.testing.capture_logs() as logs:
        asyncio.run(run())
    return logs


LINE = json.dumps((1, "c", "s", "", "[1]", "hit", "", 1.0, 1.0, 1)).encode() + b"\n"


def test_what_was_sent_is_in_a_file_at_the_end(tmp_path: Path) -> None:
    found: list[AccessWriter] = []

    async def scenario(writer: AccessWriter) -> None:
        found.append(writer)
        await writer.send(LINE * 3, 3)

    logs = with_writer(tmp_path / "log", scenario)
    assert found[0].counters == {"access_log_rows": 3} and logs == []
    (path,) = (tmp_path / "log").iterdir()
    assert path.name.startswith("access-") and "-host-3307-" in path.name


def test_a_writer_that_dies_costs_what_it_had_and_another_one_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_writer, "AGAIN_AFTER", float("inf"))

    async def scenario(writer: AccessWriter) -> None:
        await writer.send(LINE * 5, 5)
        first = writer.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: writer.counters["access_log_dropped"] == 5)
        await writer.send(LINE, 1)
        assert writer.counters["access_log_dropped"] == 6 and writer.pid is None, "not at once again"
        monkeypatch.setattr(access_writer, "AGAIN_AFTER", 0.0)
        await writer.send(LINE * 2, 2)
        assert writer.pid not in (None, first)
        await writer.close()
        assert writer.counters == {"access_log_dropped": 6, "access_log_rows": 2}

    logs = with_writer(tmp_path / "log", scenario)
    assert [line["event"] for line in logs] == ["access_log_not_written", "access_log_written_again"]


def test_a_folder_that_cannot_be_written_to_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    async def scenario(writer: AccessWriter) -> None:
        for _ in range(3):
            await writer.send(LINE, 1)
        await writer.close()
        assert writer.counters == {"access_log_dropped": 3}

    (line,) = with_writer(tmp_path / "file" / "log", scenario)
    assert line["event"] == "access_log_not_written" and "Not a directory" in line["why"]


def test_python_that_cannot_start_it_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_writer, "APP_DIR", tmp_path)
    (tmp_path / "bulk").mkdir()
    (tmp_path / "bulk" / "__init__.py").touch()
    (tmp_path / "bulk" / "access_file.py").write_text("import a_bulk_that_is_not_there")

    async def scenario(writer: AccessWriter) -> None:
        await writer.send(LINE, 1)
        await until(lambda: writer.counters["access_log_dropped"] == 1)

    (line,) = with_writer(tmp_path / "log", scenario)
    assert "a_bulk_that_is_not_there" in line["why"] and line["log_level"] == "warning"
