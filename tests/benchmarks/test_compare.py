"""Ratios of pairs, what is said of them, how processor time is read, and which paths and commits are taken."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.budgets import Budget
from benchmarks.compare import __main__ as program
from benchmarks.compare.__main__ import kept
from benchmarks.compare.asked import take
from benchmarks.compare.base import NoBase, base_tree
from benchmarks.compare.figures import LIMIT, Compared, Pair, outside, rates, sheet, verdict
from benchmarks.compare.load import NotWhatItIsCalled, all_hits, all_misses, all_passed
from benchmarks.compare.paths import PATHS, wanted
from benchmarks.compare.priority import before_others
from benchmarks.compare.side import Counts
from examples.lobsters.cpu import process_seconds


def compared(*ratios: float, name: str = "hits") -> Compared:
    return Compared(name, [Pair(2e-5, 2e-5 * ratio) for ratio in ratios])


def test_the_ratio_is_the_median_of_the_pairs_and_not_of_the_medians() -> None:
    pairs = [Pair(1.0, 1.1), Pair(4.0, 4.0), Pair(2.0, 2.4)]
    assert Compared("x", pairs).ratio == pytest.approx(1.1)


def test_of_few_pairs_all_are_in_the_interval_and_of_many_the_outer_ones_are_not() -> None:
    # The binomial distribution's tables: of 6 values none may be left out, of 15 three, of 25 seven at each end.
    assert [outside(count) for count in (1, 5, 6, 8, 9, 15, 25)] == [0, 0, 0, 0, 1, 3, 7]
    nine = compared(0.5, 0.98, 0.99, 1.0, 1.0, 1.01, 1.01, 1.02, 3.0)
    assert nine.interval == pytest.approx((0.98, 1.02))
    assert compared(1.5, 0.5).interval == pytest.approx((0.5, 1.5))


def test_a_row_says_what_both_took_and_how_sure_the_ratio_is() -> None:
    (row,) = sheet([compared(1.1, 1.0, 1.3)], "abc").rows
    assert row == ("hits", pytest.approx(20.0), pytest.approx(22.0), "1.100", "1.000 .. 1.300", "1.000", "1.300", 3)
    assert "abc" in sheet([], "abc").title


def test_operations_a_second_are_told_by_the_first_seven_digits_of_the_commit() -> None:
    (figure,) = rates([compared(2.0, 2.0, 4.0, name="changes-1-30-1")], "520124d" + "0" * 33)
    assert (figure.name, figure.value) == ("changes-1-30-1: operations per CPU second to 520124d's", 0.5)


def test_what_is_above_the_limit_is_named_and_what_may_be_noise_is_told_apart() -> None:
    over, within = LIMIT + 0.07, LIMIT - 0.02
    sure = compared(over, over, over, name="misses")
    unsure = compared(within, over, over, name="logins")
    fine = compared(within, within, over, name="passes")
    lines = verdict([sure, unsure, fine])
    assert lines[0] == f"above {LIMIT}: misses 1.100"
    assert "noise" in lines[1] and lines[1].endswith("logins 1.100")
    assert not any("passes" in line for line in lines[:2])
    assert verdict([fine])[0] == f"no path is above {LIMIT}"


def test_a_path_with_a_budget_is_kept_by_that_and_another_one_by_the_limit() -> None:
    path = compared(1.5, 1.5, 1.5)
    (figure,) = rates([path], "520124d")
    assert not kept(path, None, figure)
    assert kept(path, Budget("compare", figure.name, at_least=0.6), figure)
    assert not kept(path, Budget("compare", figure.name, at_least=0.7), figure)
    assert kept(compared(LIMIT), None, figure)


def test_the_spread_is_half_the_interval_of_the_median_path_and_of_the_widest() -> None:
    paths = [compared(0.99, 1.01), compared(0.98, 1.02), compared(0.9, 1.1, name="wide")]
    assert verdict(paths)[-1] == (
        "spread: the ratios are known to within 2.0% (median of the paths), that of 'wide' to within 10.0%"
    )


def test_processor_time_is_that_of_the_process_and_finer_than_a_tick() -> None:
    with subprocess.Popen(["sleep", "60"]) as idle:
        try:
            before = process_seconds(os.getpid())
            while process_seconds(os.getpid()) - before < 0.002:  # a tick of /proc/PID/stat has 0.01
                pass
            assert 0.002 <= process_seconds(os.getpid()) - before < 0.01
            assert process_seconds(idle.pid) < 0.1
        finally:
            idle.kill()


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (all_hits, Counts(100, 0, 3), Counts(99, 1, 3)),
        (all_misses, Counts(0, 98, 30), Counts(0, 97, 33)),
        (all_passed, Counts(0, 0, 100), Counts(1, 0, 99)),
        (all_passed, Counts(0, 0, 105), Counts(0, 0, 99)),  # answered by nobody that is known here
    ],
)
def test_reads_that_are_not_what_they_are_called_are_refused(check, good: Counts, bad: Counts) -> None:  # type: ignore[no-untyped-def]
    check(good, 100)
    with pytest.raises(NotWhatItIsCalled):
        check(bad, 100)


def test_an_answer_of_another_length_is_refused() -> None:
    import socket

    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"x" * 10)
        take(other, 10)
        one.sendall(b"x" * 10)
        with pytest.raises(NotWhatItIsCalled, match="3 bytes too long"):
            take(other, 7)
        one.close()
        with pytest.raises(NotWhatItIsCalled, match="closed"):
            take(other, 1)


def test_scheduling_is_as_before_behind_a_measurement() -> None:
    usual = os.sched_getscheduler(0)
    with before_others([os.getpid()]) as allowed:
        assert (os.sched_getscheduler(0) == os.SCHED_RR) is allowed
    assert os.sched_getscheduler(0) == usual


def test_paths_are_named_whole_or_by_their_group() -> None:
    assert wanted("") == [path for path in PATHS if path.usual]
    names = [path.name for path in wanted("passes, hits-text")]
    assert names == ["hits-text", "passes-prepared", "passes-text"]
    assert [path.name for path in wanted("changes")] == ["changes-10-30-1000", "changes-10-30-1"]
    assert [path.name for path in wanted("changes-20-30-1,logins")] == ["changes-20-30-1", "logins"]
    assert len(wanted("changes-all")) == 10
    with pytest.raises(ValueError, match="'hit': there are hits, passes, misses, changes, logins, lists, grpc"):
        wanted("hits,hit")


def committed(folder: Path) -> str:
    """A repository with one commit; its name."""

    def git(*arguments: str) -> str:
        options = "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"
        return subprocess.run(
            ["git", *options, *arguments], cwd=folder, check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "-q")
    (folder / "requirements").mkdir()
    (folder / "requirements/server.lock").write_text("x==1\n")
    (folder / "module.py").write_text("first = 1\n")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    return git("rev-parse", "HEAD")


def test_the_base_is_the_commit_and_not_what_the_tree_has_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    commit = committed(checkout)
    (checkout / "module.py").write_text("second = 2\n")
    base = base_tree("HEAD", print, checkout)
    assert (base.root / "module.py").read_text() == "first = 1\n"
    assert base.root.is_relative_to(tmp_path / "cache") and base.name == f"{commit[:7]} (one)"
    assert base_tree(commit[:10], print, checkout) == base


@pytest.mark.parametrize("unknown", ["no-such-branch", "0" * 40, "HEAD~9", "--help", "HEAD^{tree}"])
def test_an_unknown_base_is_refused_with_a_sentence(tmp_path: Path, unknown: str) -> None:
    committed(tmp_path)
    with pytest.raises(NoBase, match=r"no commit is called .* here: name one that `git log` shows"):
        base_tree(unknown, print, tmp_path)


def test_outside_of_a_checkout_it_is_said_why_there_is_no_base(tmp_path: Path) -> None:
    with pytest.raises(NoBase, match=r"is no git checkout.* the base comes from its history"):
        base_tree("HEAD", print, tmp_path)
    committed(tmp_path)
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    with pytest.raises(NoBase, match="is no git checkout of its own"):  # in another project's
        base_tree("HEAD", print, unpacked)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--base", ""], "BASE is missing"),
        (["--base", "HEAD", "--only", "hit"], "no path is called 'hit'"),
        (["--base", "HEAD", "--pairs", "0"], "PAIRS is how often"),
    ],
)
def test_the_command_says_what_it_wants(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(arguments)
    assert ended.value.code == 2 and said in capsys.readouterr().err
