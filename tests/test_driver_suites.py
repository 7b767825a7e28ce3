"""How the reports of drivers' suites are read and compared; without any driver."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from integration.driver_suites import run as driver_suites
from integration.driver_suites.outcomes import (
    FAILED,
    PASSED,
    SKIPPED,
    Difference,
    Outcome,
    differences,
    read_go,
    read_junit,
)
from integration.driver_suites.suites import SUITES, Place, Suite, SuiteFailed, run_command

JUNIT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" tests="5">
<testcase classname="tests.test_a.TestA" name="test_one" time="0.1" />
<testcase classname="tests.test_a.TestA" name="test_two">
<failure message="AssertionError: 1&#10;assert 1 == 2">...</failure></testcase>
<testcase classname="tests.test_a.TestA" name="test_three">
<skipped type="pytest.skip" message="no plugin">...</skipped></testcase>
<testcase classname="tests.test_a.TestA" name="test_four"><system-out>much</system-out></testcase>
<testcase classname="tests.test_b" name="test_five[x]" />
<testcase classname="tests.test_b" name="test_five[x]">
<error message="failed on teardown with &quot;gone&quot;">...</error></testcase>
<testcase classname="" name="tests.test_c"><error message="collection failure">...</error></testcase>
</testsuite></testsuites>
"""


def nothing(place: Place, without: Sequence[str], *, warm: bool = False) -> dict[str, Outcome]:
    return {}


def go(action: str, test: str | None = None, output: str | None = None) -> str:
    event = {"Action": action, "Package": "driver", "Test": test, "Output": output}
    return json.dumps({key: value for key, value in event.items() if value is not None})


def test_report_of_pytest_has_the_worst_of_each_test() -> None:
    assert read_junit(JUNIT) == {
        "tests.test_a.TestA.test_one": Outcome(PASSED),
        "tests.test_a.TestA.test_two": Outcome(FAILED, "assert 1 == 2"),
        "tests.test_a.TestA.test_three": Outcome(SKIPPED, "no plugin"),
        "tests.test_a.TestA.test_four": Outcome(PASSED),
        "tests.test_b.test_five[x]": Outcome(FAILED, 'failed on teardown with "gone"'),
        "tests.test_c": Outcome(FAILED, "collection failure"),
    }


def test_report_of_go_has_subtests_and_their_last_words() -> None:
    lines = [
        go("start"),
        go("run", "TestA"),
        go("output", "TestA", "=== RUN   TestA\n"),
        go("run", "TestA/default"),
        go("output", "TestA/default", "    a_test.go:1: first\n"),
        go("output", "TestA/default", "    a_test.go:2: last\n"),
        go("output", "TestA/default", "    --- FAIL: TestA/default (0.00s)\n"),
        go("fail", "TestA/default"),
        go("output", "TestA", "--- FAIL: TestA (0.00s)\n"),
        go("fail", "TestA"),
        go("output", "TestB", "    a_test.go:9: no TLS\n"),
        go("skip", "TestB"),
        go("output", "TestC", "    a_test.go:9: a word\n"),
        go("pass", "TestC"),
        go("run", "TestNeverEnds"),
        go("output", output="FAIL\n"),
        go("fail"),
    ]
    assert read_go(lines) == {
        "TestA/default": Outcome(FAILED, "a_test.go:2: last"),
        "TestA": Outcome(FAILED),
        "TestB": Outcome(SKIPPED, "a_test.go:9: no TLS"),
        "TestC": Outcome(PASSED),
    }


def test_what_ends_otherwise_or_in_one_run_only_differs() -> None:
    directly = {"a": Outcome(PASSED), "b": Outcome(FAILED, "port 1"), "c": Outcome(SKIPPED), "d": Outcome(PASSED)}
    through = {"a": Outcome(FAILED, "no"), "b": Outcome(FAILED, "port 2"), "c": Outcome(PASSED), "e": Outcome(PASSED)}
    found = differences(directly, through)
    assert [one.test for one in found] == ["a", "c", "d", "e"]
    assert found[0] == Difference("a", Outcome(PASSED), Outcome(FAILED, "no"))
    assert str(found[0]) == "a\n    directly: passed\n    through Upwell: failed: no"
    assert str(found[2]).endswith("through Upwell: not run")
    assert not differences(directly, directly)


def test_lines_name_what_differs() -> None:
    directly = {"a": Outcome(PASSED), "b": Outcome(FAILED), "c": Outcome(SKIPPED)}
    rounds = (directly, {"a": Outcome(FAILED, "gone"), "b": Outcome(FAILED), "new": Outcome(PASSED)})
    suite = Suite("some", nothing, lambda: None, 1, {}, {})
    seen = driver_suites.Seen(directly, tuple(tuple(differences(directly, found)) for found in rounds), 7)
    printed = "\n".join(driver_suites.lines(suite, seen))
    assert "3 tests directly (1 passed, 1 failed, 1 skipped); round 1 through Upwell: 3 the same, 0 differ" in printed
    assert "round 2 through Upwell: 1 the same, 3 different\na\n    directly: passed\n" in printed
    assert "through Upwell: failed: gone" in printed and "\nnew\n    directly: not run" in printed
    assert "7 SELECTs were hits" in printed
    assert "this is no test" not in printed
    for stricter in (replace(suite, passes=2), replace(suite, hits=4)):
        assert "this is no test" in "\n".join(driver_suites.lines(stricter, seen))


def test_small_form_leaves_out_what_is_timed() -> None:
    left_out: list[list[str]] = []

    def run(place: Place, without: Sequence[str], *, warm: bool = False) -> dict[str, Outcome]:
        left_out.append([*(["warm"] if warm else []), *without])
        return {}

    suite = Suite("some", run, lambda: None, 1, {"outside": "asks another"}, {"slow": "takes long"})
    place = Place("127.0.0.1", 1, "user", "", ("one", "two"))
    suite.outcomes(place, whole=True)
    suite.outcomes(place, whole=False)
    replace(suite, warm=True).outcomes(place, whole=True)
    assert left_out == [["outside"], ["outside", "slow"], ["warm", "outside"]]


def test_only_suites_that_are_named_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(driver_suites.REQUIRED, raising=False)
    assert not any(driver_suites.required(suite) for suite in SUITES)
    monkeypatch.setenv(driver_suites.REQUIRED, "pymysql go")
    assert [suite.name for suite in SUITES if driver_suites.required(suite)] == ["pymysql", "go"]


def test_command_that_fails_is_read_and_one_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    assert run_command(["sh", "-c", "echo $WORD; echo two >&2; exit 3"], Path("/"), {"WORD": "one"}) == "one\ntwo\n"
    monkeypatch.setattr("integration.driver_suites.suites.TIMEOUT", 0.5)
    with pytest.raises(SuiteFailed, match=re.escape("its last words: begun")):
        run_command(["sh", "-c", "echo begun; exec cat /dev/zero > /dev/null"], Path("/"), {})
