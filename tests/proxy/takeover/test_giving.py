"""The old proxy's part, beside a peer that does what is written here: it hands over whole, or goes on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from proxy.takeover import giving
from proxy.takeover.channel import Channel, connected
from proxy.takeover.giving import Given, Giving
from proxy.takeover.protocol import LISTENERS, Hello, Message, encoded, encoded_hello
from tests.support.waiting import turns, until

AT = {name: ("127.0.0.1", 1) for name in LISTENERS}


class Old:
    """A proxy that notes what is done to it. `prepared`: set it, and `prepare` ends."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self.prepared = asyncio.Event()
        self.prepared.set()
        self.why = ""
        self.peers: list[Channel] = []

    def peer(self, folder: Path) -> Channel:
        """One that connects, and says nothing yet."""
        self.peers.append(connected(folder))
        return self.peers[-1]

    def asked(self, folder: Path) -> Channel:
        """One that wants to take over."""
        channel = self.peer(folder)
        channel.tell(encoded_hello(Hello(os.getpid(), "mysql://a", "net", AT)))
        return channel

    def hello(self) -> Hello:
        return Hello(os.getpid(), "mysql://a", "net", AT)

    def refuses(self) -> str:
        return self.why

    async def prepare(self, process: int) -> Given:
        self.noted.append(f"prepare for {process == os.getpid()}")
        await self.prepared.wait()
        return Given([], {})

    async def pause(self) -> str:
        self.noted.append("pause")
        return "U:1-7"

    def go_on(self) -> None:
        self.noted.append("go on")

    def leave(self) -> None:
        self.noted.append("leave")

    def hear(self, message: Message) -> None:
        self.noted.append(message.word)


PREPARED, PAUSED = ["prepare for True"], ["prepare for True", "pause"]


async def heard(channel: Channel) -> str:
    message = await channel.read()
    return message.word if message is not None else "the end"


def run(tmp_path: Path, scenario: Callable[[Old, Giving], Awaitable[None]]) -> None:
    async def running() -> None:
        old = Old()
        served = Giving(tmp_path, old)
        served.start()
        try:
            await asyncio.wait_for(scenario(old, served), 60)
        finally:
            await served.stop()
            served.close()
            for peer in old.peers:
                peer.close()

    asyncio.run(running())


def test_it_hands_over_step_by_step(tmp_path: Path) -> None:
    async def scenario(old: Old, served: Giving) -> None:
        channel = old.asked(tmp_path)
        assert await heard(channel) == "take" and old.noted == PREPARED
        served.pass_on(encoded("doubt"))
        assert await heard(channel) == "doubt"
        channel.tell(encoded("ready"))
        assert await channel.read() == Message("yours", {"position": "U:1-7"})
        assert old.noted == PAUSED and not served.handed_over.is_set()
        channel.tell(encoded("mine"))
        await served.handed_over.wait()
        assert old.noted == [*PAUSED, "leave"]
        served.pass_on(encoded("doubt"))
        served.released()
        await served.stop()
        served.close()
        assert [await heard(channel) for _ in range(4)] == ["doubt", "released", "bye", "the end"]

    run(tmp_path, scenario)


@pytest.mark.parametrize("says", [["ready"], ["ready", "no"], ["no"], [], ["ready", "\0"]], ids=str)
def test_one_that_goes_before_its_last_word_changes_nothing(tmp_path: Path, says: list[str]) -> None:
    async def scenario(old: Old, served: Giving) -> None:
        channel = old.asked(tmp_path)
        assert await heard(channel) == "take"
        for word in says:
            channel.tell(encoded(word) if word != "\0" else b"\0")
            if word == "ready":
                assert await heard(channel) == "yours"
        channel.end()
        await until(lambda: "go on" in old.noted)
        assert old.noted == [*(PAUSED if "ready" in says else PREPARED), "go on"]
        assert not served.handed_over.is_set()
        again = old.asked(tmp_path)
        assert await heard(again) == "take"
        again.end()
        await until(lambda: old.noted.count("go on") == 2)

    run(tmp_path, scenario)


def test_one_that_goes_while_the_snapshot_is_written(tmp_path: Path) -> None:
    async def scenario(old: Old, served: Giving) -> None:
        old.prepared.clear()
        channel = old.asked(tmp_path)
        await until(lambda: old.noted == PREPARED)
        channel.close()
        await until(lambda: old.noted == [*PREPARED, "go on"])

    run(tmp_path, scenario)


@pytest.mark.parametrize("silent", ["START", "ANSWER"])
def test_one_that_falls_silent_is_given_up(tmp_path: Path, silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving, silent, 0.01)

    async def scenario(old: Old, served: Giving) -> None:
        channel = old.asked(tmp_path)
        assert await heard(channel) == "take"
        if silent == "ANSWER":
            channel.tell(encoded("ready"))
            assert await heard(channel) == "yours"
        said = await channel.read()
        assert said is not None and said.word == "no" and "it has said nothing for" in said.text("why")
        assert await heard(channel) == "the end"
        assert old.noted[-1] == "go on"

    run(tmp_path, scenario)


def test_one_at_a_time_and_silent_ones_hold_up_nobody(tmp_path: Path) -> None:
    async def scenario(old: Old, served: Giving) -> None:
        for _ in range(giving.PEERS - 2):
            old.peer(tmp_path)
        first, second = old.asked(tmp_path), old.asked(tmp_path)
        found = {await heard(first): first, await heard(second): second}
        assert found.keys() == {"take", "no"}
        await turns()
        third = old.asked(tmp_path)
        said = await third.read()
        assert said is not None and said.text("why") == "it hands over to another process already"

    run(tmp_path, scenario)


def test_who_connects_and_says_nothing_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving, "FIRST", 0.01)

    async def scenario(old: Old, served: Giving) -> None:
        channel = old.peer(tmp_path)
        said = await channel.read()
        assert said is not None and said.text("why") == "it has not understood: nothing was said"
        assert await heard(channel) == "the end" and old.noted == []

    run(tmp_path, scenario)


def test_it_refuses_with_its_own_reason(tmp_path: Path) -> None:
    async def scenario(old: Old, served: Giving) -> None:
        old.why = "it is stopping"
        said = await old.asked(tmp_path).read()
        assert said == Message("no", {"why": "it is stopping"}) and old.noted == []

    run(tmp_path, scenario)


def test_one_that_ends_in_the_middle_goes_on_to_its_end_and_says_goodbye(tmp_path: Path) -> None:
    async def scenario(old: Old, served: Giving) -> None:
        channel = old.asked(tmp_path)
        assert await heard(channel) == "take"
        await served.stop()
        assert old.noted == [*PREPARED, "go on"], "it writes its files itself"
        channel.tell(encoded("ready"))
        served.close()
        assert [await heard(channel) for _ in range(2)] == ["bye", "the end"]

    run(tmp_path, scenario)


def test_the_socket_is_of_this_user_alone_in_a_folder_with_a_long_name(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()

    async def scenario(old: Old, served: Giving) -> None:
        assert (folder / "handover.sock").stat().st_mode & 0o777 == 0o600
        assert await heard(old.asked(folder)) == "take"

    run(folder, scenario)
