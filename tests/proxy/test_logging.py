"""What a log line is, whatever has failed."""

from __future__ import annotations

import sys

from proxy.cli import LOGGED_CALLS, short_traceback


def test_the_traceback_of_an_endless_recursion_is_short() -> None:
    def odd(number: int) -> int:
        return even(number + 1)

    def even(number: int) -> int:
        return odd(number + 1)

    try:
        odd(0)
    except RecursionError:
        text = short_traceback(sys.exc_info())  # type: ignore[arg-type]  # there is one
    assert text.endswith("maximum recursion depth exceeded")
    assert len(text.splitlines()) <= 3 * LOGGED_CALLS + 2
