"""Log lines that nobody reads, and events that come too often."""

from __future__ import annotations

import fcntl
import os
from typing import Any

import pytest
import structlog

from proxy.loop import log_lines
from proxy.loop.log_lines import EACH, PERIOD, LogLines, Rate

LINE = "x" * 99 + "\n"


def told(count: int) -> str:
    return f"dropped {count}\n"


def everything(reading: int) -> str:
    """What comes until the other end is closed."""
    parts = []
    while part := os.read(reading, 1 << 16):
        parts.append(part)
    return b"".join(parts).decode()


def test_a_pipe_that_nobody_reads_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "MOST_WAITING", 10_000)
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    lines = LogLines(writing, told)
    for number in range(2_000):
        lines.write(f"{number:5} {LINE}")
    dropped = lines.dropped
    assert dropped >= 2_000 - (4096 + 2 * 10_000) // 106
    lines.close(patience=0.0)  # its thread waits still
    lines.write("behind the end\n")
    taken, numbers, left_out = b"", list[int](), 0
    while len(numbers) + left_out < 2_000:
        taken += os.read(reading, 1 << 16)
        found = taken.decode().rpartition("\n")[0].splitlines()
        numbers = [int(line.split()[0]) for line in found if not line.startswith("dropped")]
        left_out = sum(int(line.split()[1]) for line in found if line.startswith("dropped"))
    assert numbers[0] == 0 and numbers == sorted(set(numbers)), "in order"
    assert len(numbers) == 2_000 - dropped and left_out in (dropped, dropped + 1)
    lines._thread.join(60)
    os.close(writing)
    os.close(reading)


def test_all_is_written_at_the_end() -> None:
    reading, writing = os.pipe()
    lines = LogLines(writing, told)
    for number in range(300):
        lines.write(f"{number}\n")
    lines.close()
    lines._thread.join(60)
    os.close(writing)
    assert everything(reading).split() == [str(number) for number in range(300)]
    os.close(reading)


def test_a_line_that_is_too_long_is_cut() -> None:
    reading, writing = os.pipe()
    lines = LogLines(writing, told)
    lines.write("y" * 300_000 + "\n")
    found = b""
    while not found.endswith(b"(cut)\n"):
        found += os.read(reading, 1 << 16)
    assert len(found) < 263_000
    lines.close()
    lines._thread.join(60)
    os.close(writing)
    os.close(reading)


def test_one_event_has_a_rate_and_others_are_not_its_business() -> None:
    now = [0.0]
    rate = Rate(lambda: now[0])

    def passed(name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for _ in range(EACH + 30):
            try:
                found.append(dict(rate(None, "info", {"event": name})))
            except structlog.DropEvent:
                continue
        return found

    assert passed("login_failed") == [{"event": "login_failed"}] * EACH
    assert len(passed("started")) == EACH
    now[0] = PERIOD
    again = passed("login_failed")
    assert again[0] == {"event": "login_failed", "left_out": 30} and again[1] == {"event": "login_failed"}
