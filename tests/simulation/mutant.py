"""One rule that is switched off, and the ways to do that: a function with another text, or another one in its place."""

from __future__ import annotations
import __future__

import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutant:
    """A rule that is switched off. `section`: of docs/consistency.md's argument, in a word. `script`: a regression case
    that is tried first, where random schedules need more than a minute. `trial`: what looks for it instead of
    schedules: what is wrong with a seed."""

    section: str
    rule: str
    switch_off: Patch
    script: str = ""
    trial: Callable[[int], str] | None = None

    @property
    def name(self) -> str:
        return f"{self.section}: {self.rule}"


def rewritten(function: Any, *changes: tuple[str, str]) -> Any:
    """A function with pieces of its text replaced. Raises AssertionError where one is not there: the rule has moved."""
    text = textwrap.dedent(inspect.getsource(function))
    for old, new in changes:
        assert old in text, f"{function.__name__} has no {old!r}"
        text = text.replace(old, new)
    made: dict[str, Any] = {}
    module = sys.modules[function.__module__]
    code = compile(text, f"<{function.__name__} without a rule>", "exec", __future__.annotations.compiler_flag)
    exec(code, vars(module), made)
    return made[function.__name__]


def edit(owner: Any, name: str, *changes: tuple[str, str]) -> Patch:
    """Puts the `rewritten` function in its own place."""
    return lambda patch: patch.setattr(owner, name, rewritten(getattr(owner, name), *changes))


def all_of(*patches: Patch) -> Patch:
    def switch_off(patch: pytest.MonkeyPatch) -> None:
        for each in patches:
            each(patch)

    return switch_off


def always(*arguments: object) -> bool:
    return True


def nothing(*arguments: object) -> None: ...


def attribute(owner: Any, name: str, value: Any) -> Patch:
    return lambda patch: patch.setattr(owner, name, value)
