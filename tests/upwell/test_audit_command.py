"""`upwell audit`: what it prints, and its exit status."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import upwell.audit_command
from upwell.__main__ import run
from upwell.errors import UnknownCache, UpwellError
from upwell.wire import Audited

HALF = Audited("story", 10, 5, 0, 50, 0.5, (), 0, "", False)
CLEAN = Audited("story", 10, 10, 0, 90, 1.5, (), 0, "", True)
EMPTY = Audited("other", 0, 0, 0, 0, 0.0, (), 0, "it holds nothing: rebuilding", True)
WRONG = Audited("story", 30, 30, 0, 90, 1.5, tuple(map(str, range(25))), 25, "", True)


class FakeClient:
    asked: Any = None
    told: tuple[Audited | UpwellError, ...] = ()

    def __init__(self, **connection: Any) -> None: ...

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, *error: object) -> None: ...

    def audit(self, cache: str, *, by: str, repair: bool) -> Iterator[Audited]:
        FakeClient.asked = cache, by, repair
        for one in self.told:
            if isinstance(one, UpwellError):
                raise one
            yield one


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    monkeypatch.setattr(upwell.audit_command, "Client", FakeClient)
    return FakeClient


def test_nothing_differs(
    capsys: pytest.CaptureFixture[str], client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "told", (HALF, CLEAN, EMPTY))
    assert run(["audit"]) == 0
    assert client.asked == ("", "size", False)
    printed = capsys.readouterr().out
    assert printed.splitlines()[1].split() == ["story", "10", "10", "0", "0", "0", "90", "1.5"]
    assert "other: it holds nothing: rebuilding" in printed


def test_what_differs_is_named_and_status_1(
    capsys: pytest.CaptureFixture[str], client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "told", (WRONG,))
    assert run(["audit", "--cache", "story", "--repair", "--by", "direct"]) == 1
    assert client.asked == ("story", "direct", True)
    printed = capsys.readouterr().out
    assert "story differs at 19\n" in printed and "story differs at 20\n" not in printed and "at 5 more" in printed


def test_json_is_a_line_each(
    capsys: pytest.CaptureFixture[str], client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "told", (HALF, WRONG))
    assert run(["audit", "--json"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [len(line["different"]) for line in lines] == [0, 25]


def test_no_caches(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit"]) == 0
    assert capsys.readouterr().out == "there are no caches\n"


def test_errors_are_one_line(
    capsys: pytest.CaptureFixture[str], client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "told", (UnknownCache("no cache 'x'"),))
    assert run(["audit", "--cache", "x"]) == 2
    monkeypatch.setattr(client, "told", (HALF,))
    assert run(["audit"]) == 3
    assert capsys.readouterr().err.count("\n") == 2
