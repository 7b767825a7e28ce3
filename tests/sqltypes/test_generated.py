"""Code that is kept by its source, within a limit, and code that came from elsewhere."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

import sqltypes.generated as generated
from sqltypes.expression import Call, ColumnRef, Literal, walk
from sqltypes.generated import code_of, learn, packed_codes, recording
from sqltypes.schema import BIGINT


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "_codes", generated._Codes())


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that were compiled."""
    sources: list[str] = []

    def noting(source: str, *rest: Any) -> Any:
        sources.append(source)
        return builtins.compile(source, *rest)

    monkeypatch.setattr(generated, "compile", noting, raising=False)
    return sources


def run(source: str) -> object:
    names: dict[str, object] = {}
    exec(code_of(source, "<a test>"), names)
    return names["x"]


def test_a_source_is_compiled_once(compiled: list[str]) -> None:
    assert [run("x = 1"), run("x = 2"), run("x = 1")] == [1, 2, 1]
    assert compiled == ["x = 1", "x = 2"]


def test_what_is_kept_has_a_limit(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "LETTERS_KEPT", 12)
    for source in ("x = 1", "x = 2", "x = 3", "x = 3", "x = 1", f"x = {'1' * 20}", f"x = {'1' * 20}"):
        run(source)
    assert compiled == ["x = 1", "x = 2", "x = 3", "x = 1", f"x = {'1' * 20}", f"x = {'1' * 20}"]
    assert generated._codes.letters == sum(map(len, generated._codes.known)) <= 12


def test_what_is_recorded_is_all_that_was_used(compiled: list[str]) -> None:
    run("x = 1")
    with recording() as used:
        run("x = 1")
        run("x = 2")
    run("x = 3")
    assert list(used) == ["x = 1", "x = 2"]
    generated._codes.known.clear()
    learn(packed_codes(used))
    compiled.clear()
    assert (run("x = 1"), run("x = 2"), compiled) == (1, 2, [])


def test_a_deep_expression_is_walked_once() -> None:
    """A chain of ORs is as deep as it is long."""
    chain: Call | ColumnRef = ColumnRef("", "c", BIGINT, False)
    for at in range(5_000):
        chain = Call("or", (chain, Literal(at, BIGINT)), BIGINT, False)
    found = list(walk(chain))
    assert len(found) == 10_001 and found[0] is chain
    assert [node.value for node in found if isinstance(node, Literal)] == list(range(5_000)), "parents, then the left"
