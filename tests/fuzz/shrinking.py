"""A failing case made small: the smaller cases of one are tried in turn, for as long as one fails alike."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from tests.fuzz.system import Counts

TRIES = 2000
FOLDER = str(Path(__file__).parents[2])

Step = tuple[str, bytes]
"""Who does what, and the bytes where it is to send some."""


class Case(Protocol):
    """One thing to try: it raises whatever is a finding."""

    @property
    def kind(self) -> str: ...

    def run(self, counts: Counts) -> None: ...

    def smaller(self) -> Iterator[Self]: ...

    def script(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Finding:
    """`alike`: equal for failures that are the same."""

    alike: str
    trace: str


def failure(case: Case, counts: Counts) -> Finding | None:
    try:
        case.run(counts)
    except Exception as error:  # noqa: BLE001 - each is a finding
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        ours = [frame for frame in traceback.extract_tb(cause.__traceback__) if frame.filename.startswith(FOLDER)]
        where = f"{ours[-1].filename}:{ours[-1].name}:{ours[-1].line}" if ours else str(cause)
        return Finding(f"{type(cause).__name__} {where}", traceback.format_exc())
    return None


def shrunk(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A smaller case that still fails."""
    tries = TRIES
    progress = True
    while progress:
        progress = False
        for smaller in case.smaller():
            tries -= 1
            if tries < 0:
                return case
            if fails(smaller):
                case, progress = smaller, True
                break
    return case


def smaller_steps(steps: tuple[Step, ...], *, whole: bool) -> Iterator[tuple[Step, ...]]:
    """With some left out. `whole`: what is sent is left out or not, and never cut."""
    size = max(1, len(steps) // 2)
    while steps:
        for start in range(0, len(steps), size):
            yield steps[:start] + steps[start + size :]
        if size == 1:
            break
        size //= 2
    if whole:
        return
    for number, (name, data) in enumerate(steps):
        for shorter in smaller_bytes(data):
            yield (*steps[:number], (name, shorter), *steps[number + 1 :])


def smaller_bytes(data: bytes) -> Iterator[bytes]:
    size = len(data)
    while size:
        for start in range(0, len(data), size):
            yield data[:start] + data[start + size :]
        size //= 2


def listed(steps: tuple[Step, ...]) -> str:
    """As source text."""
    lines = "".join(f"    ({name!r}, {spelled(data)}),\n" for name, data in steps)
    return f"(\n{lines})"


def spelled(data: bytes) -> str:
    """Bytes as source text, long runs of one byte as such."""
    parts: list[str] = []
    at = 0
    while at < len(data):
        run = len(data) - at - len(data[at:].lstrip(data[at : at + 1]))
        if run > 50:
            parts.append(f"{data[at : at + 1]!r} * {run}")
            at += run
            continue
        end = at + 1
        while end < len(data) and (end + 50 > len(data) or data[end : end + 50] != data[end : end + 1] * 50):
            end += 1
        parts.append(repr(data[at:end]))
        at = end
    return " + ".join(parts) or 'b""'
