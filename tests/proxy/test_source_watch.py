"""When what MySQL has executed says that the stream is not its history."""

from __future__ import annotations

import pytest

from gtid_tracker.gtid import GtidSet
from proxy.source_watch import PATIENCE, Reading, SourceWatch

SERVER, OTHER = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"
NOTHING = GtidSet.empty()


def gtids(numbers: str) -> GtidSet:
    return GtidSet.parse(f"{SERVER}:{numbers}") if numbers else NOTHING


class Scene:
    def __init__(self, position: str) -> None:
        self.position = position
        self.watch = SourceWatch(self._ask, lambda: gtids(self.position), lambda: None)

    async def _ask(self) -> tuple[str, GtidSet, GtidSet, str]:
        raise NotImplementedError

    def doubt(
        self, at: float, executed: str, owned: str = "", before: str = "", server: str = SERVER, lag: float = 0.0
    ) -> bool:
        """`before`: the position when MySQL was asked, where that has moved since."""
        reading = Reading(at, gtids(before or self.position), server, gtids(owned), gtids(executed))
        return self.watch.judge(reading, SERVER, lag) != ""


def test_a_source_that_has_what_the_stream_has_brought_is_believed() -> None:
    scene = Scene("1-5")
    assert not scene.doubt(0, "1-5")
    assert not scene.doubt(1, "1-4", owned="5"), "the stream tells of it before it is executed"
    scene.position = "1-9"
    assert not scene.doubt(2, "1-6", before="1-6"), "it was asked before the stream had more"


@pytest.mark.parametrize(("executed", "server"), [("1-4", SERVER), ("1", SERVER), ("", SERVER), ("1-5", OTHER)])
def test_a_source_that_lacks_some_of_it_or_is_another_is_not(executed: str, server: str) -> None:
    assert Scene("1-5").doubt(0, executed, server=server)


def test_what_is_executed_and_does_not_come_is_doubted_after_a_while_and_again_after_another() -> None:
    scene = Scene("1-5")
    for begin in (0.0, 100.0):
        assert not scene.doubt(begin, "1-7")
        assert not scene.doubt(begin + PATIENCE / 2, "1-7")
        assert scene.doubt(begin + PATIENCE, "1-7")


def test_a_stream_that_comes_after_is_late_and_not_wrong() -> None:
    scene = Scene("1-5")
    for turn in range(10):
        scene.position = f"1-{5 + turn}"
        assert not scene.doubt(turn * PATIENCE, f"1-{6 + turn}"), "each time it is another that is missing"
    scene = Scene("1-5")
    for turn in range(10):
        assert not scene.doubt(turn * PATIENCE, "1-9", lag=PATIENCE), "it knows that it is behind"
