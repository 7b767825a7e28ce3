"""Python's code of generated functions, by their source.

Compiling takes most of the time that a plan takes to be installed. Functions are often like one another: those of each
part of a UNION, or of each cache of one table. And another process of the same Python can compile them (`recording`,
`learn`).
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from types import CodeType

LETTERS_KEPT = 1 << 20  # of all sources together; the oldest go first


class _Codes:
    """Of all threads. Invariants: `letters` is the length of all sources in `known`, at most LETTERS_KEPT."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.known: dict[str, CodeType] = {}
        self.letters = 0
        self.used: dict[str, CodeType] | None = None

    def keep(self, source: str, code: CodeType) -> None:
        with self._lock:
            if source in self.known or len(source) > LETTERS_KEPT:
                return
            self.known[source] = code
            self.letters += len(source)
            while self.letters > LETTERS_KEPT:
                oldest = next(iter(self.known))
                del self.known[oldest]
                self.letters -= len(oldest)


_codes = _Codes()


def code_of(source: str, file: str) -> CodeType:
    """The compiled module. `file` stands in tracebacks; equal sources have the same. Raises SyntaxError, MemoryError,
    RecursionError where the source is nested deeper than Python compiles."""
    code = _codes.known.get(source)
    if code is None:
        code = compile(source, file, "exec")
        _codes.keep(source, code)
    if _codes.used is not None:
        _codes.used[source] = code
    return code


@contextmanager
def recording() -> Iterator[dict[str, CodeType]]:
    """Records the names that are used meanwhile, by their source."""
    used = _codes.used = {}
    try:
        yield used
    finally:
        _codes.used = None


def packed_codes(codes: dict[str, CodeType]) -> bytes:
    """For `learn`, in a process of the same Python."""
    return marshal.dumps(codes)


def learn(packed: bytes) -> None:
    """From now on these are known. Requires: `packed_codes` made it."""
    for source, code in marshal.loads(packed).items():
        _codes.keep(source, code)
