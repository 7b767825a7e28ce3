"""When what MySQL has executed says that the stream is not its history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from gtid_tracker.gtid import GtidSet
from proxy.port.accounts import Accounts
from proxy.source.history_watch import EVERY, PATIENCE, Reading, SourceWatch
from sqltypes.errors import SourceDown

SERVER, OTHER = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"
NOTHING = GtidSet.empty()


def gtids(numbers: str) -> GtidSet:
    return GtidSet.parse(f"{SERVER}:{numbers}") if numbers else NOTHING


class Scene:
    def __init__(self, position: str) -> None:
        self.position = position
        self.accounts = Accounts()
        self.watch = SourceWatch(self._ask, lambda: gtids(self.position), self.accounts)

    async def _ask(self) -> tuple[str, GtidSet, GtidSet, str]:
        raise AssertionError("nobody asks")

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


def test_what_came_meanwhile_counts_no_more_for_what_is_missing_later() -> None:
    """All had come in between: what is missing then begins to be missing."""
    scene = Scene("1-5")
    assert not scene.doubt(0, "1-6")
    scene.position = "1-6"
    assert not scene.doubt(1, "1-6")
    assert not scene.doubt(PATIENCE, "1-7")
    assert not scene.doubt(1.5 * PATIENCE, "1-7")
    assert scene.doubt(2 * PATIENCE, "1-7")


def test_a_stream_that_comes_after_is_late_and_not_wrong() -> None:
    scene = Scene("1-5")
    for turn in range(10):
        scene.position = f"1-{5 + turn}"
        assert not scene.doubt(turn * PATIENCE, f"1-{6 + turn}"), "each time it is another that is missing"
    scene = Scene("1-5")
    for turn in range(10):
        assert not scene.doubt(turn * PATIENCE, "1-9", lag=PATIENCE), "it knows that it is behind"


class Asked:
    """A watch whose MySQL answers what the test says, when it says so. `told`: how often the rights have changed."""

    def __init__(self) -> None:
        self.clock = 100.0
        self.position = "1-5"
        self.executed = "1-5"
        self.rights = "roles"
        self.down = False
        self.asked = self.told = 0
        self.may_answer = asyncio.Event()
        self.accounts = Accounts(self._rights_changed, lambda: self.clock)
        self.watch = SourceWatch(self._ask, lambda: gtids(self.position), self.accounts, lambda: self.clock)

    async def _ask(self) -> tuple[str, GtidSet, GtidSet, str]:
        self.asked += 1
        await self.may_answer.wait()
        if self.down:
            raise SourceDown("planted")
        return SERVER, NOTHING, gtids(self.executed), self.rights

    def _rights_changed(self) -> None:
        self.told += 1

    async def round(self, seconds: float = EVERY) -> str:
        """One look after so many seconds, with MySQL's answer; the doubt then."""
        self.clock += seconds
        self.may_answer.set()
        self.watch.tick()
        await self.turns()
        return self.watch.doubt(SERVER, 0.0)

    async def turns(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


def play(scenario: Callable[[Asked], Coroutine[None, None, None]]) -> None:
    async def played() -> None:
        asked = Asked()
        await scenario(asked)
        await asked.watch.close()

    asyncio.run(played())


def test_a_stream_that_lacks_nothing_was_current_when_mysql_was_asked() -> None:
    async def scenario(asked: Asked) -> None:
        asked.watch.tick()
        await asked.turns()
        began = asked.clock
        asked.clock += EVERY / 2  # what is executed meanwhile MySQL may not tell
        asked.may_answer.set()
        await asked.turns()
        assert not asked.watch.doubt(SERVER, 0.0) and asked.accounts.current_at == began
        asked.executed = "1-6"
        assert not await asked.round() and asked.accounts.current_at == began
        asked.position = "1-6"
        assert not await asked.round() and asked.accounts.current_at == asked.clock

    play(scenario)


def test_mysql_is_asked_once_in_a_while_and_not_again_before_it_has_answered() -> None:
    async def scenario(asked: Asked) -> None:
        for _ in range(2):
            asked.watch.tick()
            await asked.turns()
            asked.clock += 10 * EVERY
        assert asked.asked == 1, "it has not answered"
        asked.may_answer.set()
        await asked.turns()
        asked.watch.tick()
        await asked.turns()
        asked.clock += EVERY / 2
        asked.watch.tick()
        await asked.turns()
        assert asked.asked == 2, "it was asked a moment ago"
        asked.clock += EVERY / 2
        asked.watch.tick()
        await asked.turns()
        assert asked.asked == 3

    play(scenario)


def test_a_reading_is_judged_once_and_by_the_position_when_it_was_asked_for() -> None:
    async def scenario(asked: Asked) -> None:
        assert await asked.round() == ""
        asked.executed = "1-4"
        assert "does not have all" in await asked.round()
        assert asked.watch.doubt(SERVER, 0.0) == "", "it was told"
        asked.may_answer.clear()
        asked.executed = "1-5"
        asked.clock += EVERY
        asked.watch.tick()
        await asked.turns()
        asked.position = "1-9"  # what comes while MySQL answers, it need not have
        asked.may_answer.set()
        await asked.turns()
        assert asked.watch.doubt(SERVER, 0.0) == ""

    play(scenario)


def test_what_the_stream_does_not_bring_is_doubted_when_it_has_had_its_time() -> None:
    async def scenario(asked: Asked) -> None:
        asked.executed = "1-7"
        assert await asked.round() == ""
        assert "has not brought" in await asked.round(PATIENCE)
        assert asked.watch.doubt(SERVER, 0.0) == ""

    play(scenario)


def test_another_server_is_doubted_where_one_is_followed() -> None:
    async def scenario(asked: Asked) -> None:
        await asked.round()
        for followed, wanted in ((OTHER, True), ("", False), (SERVER, False)):
            reading = Reading(asked.clock, gtids("1-5"), SERVER, NOTHING, gtids("1-5"))
            assert (asked.watch.judge(reading, followed, 0.0) != "") == wanted

    play(scenario)


def test_a_source_out_of_reach_says_nothing_and_what_it_said_before_is_not_told_again() -> None:
    async def scenario(asked: Asked) -> None:
        asked.clock += EVERY
        asked.may_answer.set()
        asked.executed = "1-4"
        asked.watch.tick()
        await asked.turns()
        asked.down = True
        assert await asked.round() == "", "the doubt is of a reading that a later one has taken the place of"

    play(scenario)


def test_changed_settings_of_rights_are_told_once() -> None:
    async def scenario(asked: Asked) -> None:
        for rights, told in (("roles", 1), ("roles", 1), ("", 2), ("roles", 3)):
            asked.rights = rights
            await asked.round()
            assert asked.told == told

    play(scenario)


def test_closing_ends_what_is_being_asked() -> None:
    async def scenario() -> None:
        asked = Asked()
        await asked.watch.close()
        asked.watch.tick()
        await asked.turns()
        await asked.watch.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())
