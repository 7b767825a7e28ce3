"""`upwell bench --mysql` without a server: what it accepts, and what it makes of what was measured."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bulk import server_process
from bulk.bench import DIRECT, THROUGH, Asked, Counts, Measured, Side, fitting, loads, pieces
from bulk.bench_load import Seen, literal
from bulk.bench_report import bottlenecks, figures, notes, quantile, show, show_json
from bulk.server_process import processor_seconds, server_pid
from external_upquery.address import parse_upstream
from upwell.failed import Failed
from upwell.spread import Numbers

HERE = parse_upstream("mysql://root@127.0.0.1:3306")
ELSEWHERE = parse_upstream("mysql://root@db.example:3306")
ASKED = Asked("SELECT ?", HERE, HERE, Numbers(1, 9), "uniform", 5, 2, 1.0, 0.0, True)


def test_a_statement_is_cut_at_its_parameters_and_nowhere_else() -> None:
    assert pieces("SELECT '?', a /* ? */ FROM `t?` WHERE b = ? AND c = ?;") == (
        "SELECT '?', a /* ? */ FROM `t?` WHERE b = ", " AND c = ", ""
    )  # fmt: skip
    assert pieces("(SELECT 1)") == ("(SELECT 1)",)
    for text in ("", "UPDATE t SET a = ?", "SELECT 'a"):
        with pytest.raises(Failed):
            pieces(text)


def test_keys_must_fit_the_statement() -> None:
    assert fitting([], 0) == [()]
    assert fitting([(1, "a"), (None, 1.5)], 2) == [(1, "a"), (None, 1.5)]
    for keys, parameters in (([(1,)], 0), ([], 1), ([(1,), (1, 2)], 1), ([([1],)], 1), ([(1 << 63,)], 1)):
        with pytest.raises(Failed):
            fitting(keys, parameters)
    with pytest.raises(Failed):
        fitting(Numbers(1, 9), 2)


def test_strings_stand_in_a_text_as_they_are() -> None:
    assert [literal(value) for value in ("it's \\ ", 7, -1.5, None)] == [r"'it''s \\ '", "7", "-1.5", "NULL"]


def test_connections_are_spread_over_the_processes() -> None:
    made = loads(ASKED, ("SELECT ", ""), ASKED.keys)
    assert [load.connections for load in made] == [3, 2] and {load.seed for load in made} == {0, 1}
    assert list(made[0].sides) == [DIRECT, THROUGH]
    assert len(loads(replace(ASKED, processes=9), ("", ""), ASKED.keys)) == 5


def test_slices_are_added_up() -> None:
    seen = Seen()
    one, two = (Seen(Counter({100: 3}), Counter(), seconds, [part]) for seconds, part in ((1.0, 0.5), (1.5, 0.7)))
    one.beside(two)
    assert (one.times, one.seconds, one.cpu) == (Counter({100: 6}), 1.5, [0.5, 0.7])
    seen.then(one)
    seen.then(Seen(Counter({200: 1}), Counter({"no": 2}), 0.5, [0.1, 0.3]))
    assert (seen.times, seen.seconds, seen.errors) == (Counter({100: 6, 200: 1}), 2.0, Counter({"no": 2}))
    assert [round(part, 6) for part in seen.cpu] == [0.4, 0.6]


def test_percentiles_are_of_the_answers() -> None:
    times = Counter({1000: 98, 5000: 1, 9000: 1})
    assert [quantile(times, part) for part in (0.5, 0.98, 0.99, 0.999, 1.0)] == [1.0, 1.0, 5.0, 9.0, 9.0]
    found = figures(Side(Seen(times, Counter({"no": 2}), 2.0, [0.2, 0.4]), mysql=0.001), mysql_known=True)
    assert (found["per_second"], found["errors"], found["p95_ms"], found["max_ms"]) == (50.0, 2, 1.0, 9.0)
    assert (found["mysql_cpu_us"], found["client_cpu"]) == (10.0, 0.4)
    nothing = figures(Side(), mysql_known=True)
    assert (nothing["per_second"], nothing["p50_ms"], nothing["mysql_cpu_us"]) == (0.0, None, None)


def measured(cpu: float, idle: float) -> Measured:
    cores = os.cpu_count() or 1
    return Measured({THROUGH: Side(Seen(Counter({100: 10}), Counter(), 2.0, [cpu]), idle=idle * 2.0 * cores)})


def test_a_client_that_was_the_bottleneck_is_told() -> None:
    busy = bottlenecks(ASKED, measured(cpu=0.97, idle=0.5))
    assert len(busy) == 1 and "the client was the bottleneck: a process of it used 97%" in busy[0]
    assert not bottlenecks(ASKED, measured(cpu=0.6, idle=0.5))
    full = bottlenecks(ASKED, measured(cpu=0.89, idle=0.01)) if (os.cpu_count() or 1) <= 4 else ["no processor"]
    assert len(full) == 1 and "no processor" in full[0]
    assert not bottlenecks(replace(ASKED, through=ELSEWHERE), measured(cpu=0.89, idle=0.01))


def test_the_report_says_what_answered_and_how_both_compare(capsys: pytest.CaptureFixture[str]) -> None:
    through = Side(Seen(Counter({100: 2000}), Counter({"gone (2013)": 2}), 1.0, [0.1]), idle=9.0)
    direct = Side(Seen(Counter({400: 500}), Counter(), 1.0, [0.1]), idle=9.0)
    done = Measured({THROUGH: through, DIRECT: direct}, cache="by_id", counts=Counts(1980, 20))
    show(ASKED, done, 9)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "9 keys, uniform; 5 connections, prepared; 1.0 s of each"
    assert [line.split() for line in lines[1:4]] == [
        ["through", "direct"],
        ["reads", "a", "second", "2,000", "500", "4.00x"],
        ["p50", "ms", "0.100", "0.400", "0.25x"]
    ]  # fmt: skip
    assert "cache by_id: hit rate 99.00% (1,980 hits, 20 misses, 0 passed)" in lines
    assert "through: 2 times: gone (2013)" in lines
    assert any(line.startswith("MySQL's CPU is not known") for line in lines)
    show_json(ASKED, done, 9)
    told = json.loads(capsys.readouterr().out)
    assert (told["through"]["per_second"], told["hit_rate"], told["interrupted"]) == (2000.0, 0.99, False)
    assert notes(ASKED, replace(done, cache="", why="no cache matches"))[0] == (
        "no cache answers this statement: no cache matches"
    )
    assert "is no Upwell" in notes(ASKED, replace(done, counts=None))[0]


def test_a_servers_process_is_believed_if_it_is_called_and_as_old_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(statement: str) -> tuple[object, ...] | None:
        return (uptime,) if "Uptime" in statement else (thread,)

    thread: object = os.getpid()
    stat = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()
    uptime: object = int(time.clock_gettime(time.CLOCK_BOOTTIME)) - int(stat[19]) // os.sysconf("SC_CLK_TCK")
    assert server_pid(ask) is None  # this is no MySQL
    name = Path("/proc/self/comm").read_text().strip()
    monkeypatch.setattr(server_process, "NAMES", (name,))
    assert server_pid(ask) == os.getpid() and processor_seconds(os.getpid()) > 0
    uptime = int(str(uptime)) + 100_000
    assert server_pid(ask) is None
    thread = "nonsense"
    assert server_pid(ask) is None
    assert server_pid(lambda statement: None) is None
