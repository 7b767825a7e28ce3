"""Measures the loop's time of a coroutine: its steps, without its waits."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from time import perf_counter_ns
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Metered(Generic[Result]):
    """Awaited, it is the coroutine. `us`: microseconds of its steps so far."""

    __slots__ = ("_coroutine", "us")

    def __init__(self, coroutine: Coroutine[Any, Any, Result]) -> None:
        self._coroutine = coroutine
        self.us = 0.0

    def __await__(self) -> Generator[Any, Any, Result]:
        coroutine = self._coroutine
        thrown: BaseException | None = None
        try:
            while True:
                started = perf_counter_ns()
                try:
                    waits_for = coroutine.send(None) if thrown is None else coroutine.throw(thrown)
                except StopIteration as ended:
                    result: Result = ended.value
                    return result
                finally:
                    self.us += (perf_counter_ns() - started) / 1000
                try:
                    yield waits_for
                    thrown = None
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001 - an edge: it is the coroutine's to handle
                    thrown = error
        finally:
            coroutine.close()
