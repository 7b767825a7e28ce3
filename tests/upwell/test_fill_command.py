"""`upwell fill`: its files of keys, what it prints, and its exit status."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import upwell.fill_command
from upwell.__main__ import run
from upwell.errors import SparkUnavailable, UpwellError
from upwell.wire import Progress

HALF = Progress(10, 4, 0, 40, 2, 0.5, "filling", "spark", "", False)
DONE = Progress(10, 10, 0, 100, 4, 2.0, "done", "spark", "", True)
SOME_LEFT = Progress(10, 9, 1, 90, 4, 2.0, "done", "direct", "a key was written", True)


class FakeClient:
    """What `fill` asks of a client."""

    asked: Any = None
    told: tuple[Progress | UpwellError, ...] = (HALF, DONE)

    def __init__(self, **connection: Any) -> None: ...

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, *error: object) -> None: ...

    def cache(self, name: str) -> FakeClient:
        return self

    def fill(self, keys: list[object] | None, *, hot: int, by: str) -> Iterator[Progress]:
        FakeClient.asked = (keys, by) if not hot else (hot, by)
        for one in self.told:
            if isinstance(one, UpwellError):
                raise one
            yield one


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    monkeypatch.setattr(upwell.fill_command, "Client", FakeClient)
    monkeypatch.setattr(FakeClient, "told", (HALF, DONE))
    return FakeClient


def test_all_keys_and_what_it_prints(capsys: pytest.CaptureFixture[str], client: type[FakeClient]) -> None:
    assert run(["fill", "story", "--all"]) == 0
    assert client.asked == (None, "size")
    assert capsys.readouterr().out == "story: 10 of 10 keys held, 100 rows in 2.0 s by Spark, 50 rows/s\n"


def test_keys_that_are_left_are_status_1(
    capsys: pytest.CaptureFixture[str], client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "told", (SOME_LEFT,))
    assert run(["fill", "story", "--all", "--by", "direct"]) == 1
    assert "; 1 could not be held (a key was written)" in capsys.readouterr().out


def test_json_is_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fill", "story", "--all", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["held"] for line in lines] == [4, 10] and lines[-1]["done"]


def test_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert run(["fill", "story", "--all"]) == 0
    assert "10 of 10 keys held" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "keys"),
    [
        ("k.jsonl", '7\n"ann"\n\n[7, "x"]\n[null]\n1.5\n', [7, "ann", (7, "x"), (None,), 1.5]),
        (
            "k.jsonl",
            '[{"bytes": "AP8="}]\n{"decimal": "-12.50"}\n[{"float": "0x1.8p+1"}, [1, {"decimal": "2"}]]\n',
            [(b"\0\xff",), Decimal("-12.50"), (3.0, (1, Decimal(2)))],
        ),
        ("k.jsonl", '\ufeff"a\u2028b"\r\n"c\x85"\n', ["a\u2028b", "c\x85"]),
        ("k.csv", '7,ann\n8,"a, b"\n', [["7", "ann"], ["8", "a, b"]]),
        ("k.csv", '7,"two\r\nlines"\r\n8,\u2028\r\n', [["7", "two\r\nlines"], ["8", "\u2028"]]),
    ],
)
def test_files_of_keys(tmp_path: Path, client: type[FakeClient], name: str, text: str, keys: list[object]) -> None:
    (tmp_path / name).write_bytes(text.encode())
    assert run(["fill", "story", "--keys", str(tmp_path / name)]) == 0
    assert client.asked[0] == keys


def test_hot_keys(client: type[FakeClient]) -> None:
    assert run(["fill", "story", "--hot", "50"]) == 0
    assert client.asked == (50, "size")


def test_keys_from_standard_input(client: type[FakeClient], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("1\n2\n"))
    assert run(["fill", "story", "--keys", "-"]) == 0
    assert client.asked[0] == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("story",), "one of --all, --keys FILE and --hot N"),
        (("story", "--all", "--keys", "x"), "one of --all, --keys FILE and --hot N"),
        (("story", "--keys", "/nowhere/at/all"), "'/nowhere/at/all' cannot be read: No such file"),
        (("story", "--keys", "BAD"), "line 2 of "),
        (("story", "--keys", "EMPTY"), "has no keys"),
        (("story", "--keys", "BINARY"), "it is not text"),
        (("story", "--all", "--by", "magic"), "'magic' is not one of"),
        ((), "Missing argument"),
    ],
)
def test_bad_input_is_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    files = {"BAD": b'1\n{"a": 1}\n', "EMPTY": b"\n", "BINARY": b"\xff\xfe\xfa"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert run(["fill", *(str(tmp_path / part) if part in files else part for part in arguments)]) == 2
    told = capsys.readouterr().err
    assert words in told and told.count("\n") == 1


def test_an_error_is_one_line(
    capsys: pytest.CaptureFixture[str], client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "told", (HALF, SparkUnavailable("there is no Java")))
    assert run(["fill", "story", "--all"]) == 2
    assert capsys.readouterr().err == "upwell: there is no Java (spark_unavailable)\n"


def test_a_proxy_that_ends_without_a_word_is_status_3(
    client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "told", (HALF,))
    assert run(["fill", "story", "--all"]) == 3
