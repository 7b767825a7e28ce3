"""What `make demo SPARK=on` prints of fills and audits."""

from __future__ import annotations

from examples.lobsters.bulk import MOST, Filled, lines
from examples.lobsters.screen import WIDTH
from upwell.wire import Audited, Progress


def filled(number: int, different: int = 0) -> Filled:
    last = Progress(1_000_000, 1_000_000, 0, 10_000_000 - number, 9, 1234.5, "done", "spark", "", True)
    keys = tuple(str(key) for key in range(different))
    return Filled(
        f"a title that is longer than {number} others", last, Audited("c", 1, 1, 0, 1, 99.9, keys, 0, "", True)
    )


def test_the_largest_are_shown_and_all_are_summed() -> None:
    shown = lines([filled(number, number % 2) for number in range(MOST + 5)], {"x": "why"})
    assert max(map(len, shown)) <= WIDTH
    assert shown[2].split()[-4] == "10,000,000" and len(shown) == 2 + MOST + 2
    total = shown[-2].split()
    assert total[:4] == ["all", str(MOST + 5), "of", "them"] and total[-1] == str((MOST + 5) // 2)
    assert shown[-1].startswith("1 others")


def test_a_cache_that_was_not_audited() -> None:
    shown = lines([Filled("t", filled(1).last, None)], {})
    assert shown[2].split()[-2:] == ["-", "-"] and len(shown) == 4
