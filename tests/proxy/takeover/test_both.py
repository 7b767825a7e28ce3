"""Both parts together: whatever comes late, exactly one of the two serves, and each hears what no stream tells."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from proxy.takeover import giving
from proxy.takeover.channel import connected
from proxy.takeover.giving import Given, Giving
from proxy.takeover.protocol import DOUBT, LISTENERS, Hello, Message, encoded, encoded_hello
from proxy.takeover.taking import Taking
from sqltypes.errors import ConfigError
from tests.support.waiting import until

AT = {name: ("127.0.0.1", 1) for name in LISTENERS}
HELLO = Hello(os.getpid(), "mysql://a", "net", AT)


class Old:
    """A proxy that notes what is done to it. `pausing` is called before it says its position."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self.pausing: Callable[[], None] = lambda: None
        self.position = "U:1-7"
        self.lock = os.open(os.devnull, os.O_RDONLY)

    def hello(self) -> Hello:
        return HELLO

    def refuses(self) -> str:
        return ""

    async def prepare(self, process: int) -> Given:
        return Given([("lock", self.lock)], {})

    async def pause(self) -> str:
        self.pausing()
        return self.position

    def go_on(self) -> None:
        self.noted.append("go on")

    def leave(self) -> None:
        self.noted.append("leave")

    def hear(self, message: Message) -> None:
        self.noted.append(message.word)


class New:
    """A proxy that takes over, step by step. `forgotten`: how often it had to forget what it holds."""

    def __init__(self, taking: Taking) -> None:
        self.taking = taking
        self.forgotten = 0
        self.heard: list[str] = []
        taking.follow(self._hear)

    def _hear(self, message: Message) -> None:
        self.forgotten += message == DOUBT
        self.heard.append(message.word)


def run(tmp_path: Path, scenario: Callable[[Old, Giving, New], Awaitable[None]]) -> None:
    async def running() -> None:
        old = Old()
        served = Giving(tmp_path, old)
        served.start()
        channel = connected(tmp_path)
        channel.tell(encoded_hello(HELLO))
        message = await channel.read()
        assert message is not None and message.word == "take"
        new = New(Taking(channel, message))
        try:
            await asyncio.wait_for(scenario(old, served, new), 60)
        finally:
            await new.taking.close()
            os.close(new.taking.lock_file)
            await served.stop()
            served.close()
            os.close(old.lock)

    asyncio.run(running())


@pytest.mark.parametrize("silent", ["START", "ANSWER"])
def test_one_that_was_given_up_does_not_serve(tmp_path: Path, silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was stopped, or its machine was busy: the old one has gone on by then."""
    monkeypatch.setattr(giving, silent, 0.01)

    async def scenario(old: Old, served: Giving, new: New) -> None:
        if silent == "ANSWER":
            assert await new.taking.ready() == "U:1-7"
        await until(lambda: "go on" in old.noted)
        with pytest.raises(ConfigError, match=r"the proxy that hands over goes on.*it has said nothing for"):
            await new.taking.ready()
            await new.taking.mine()
        assert old.noted == ["go on"]

    run(tmp_path, scenario)


def test_a_last_word_that_is_heard_late_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old one did not run for a while: when it does, its patience is over, and the other serves."""
    monkeypatch.setattr(giving, "ANSWER", 0.0)

    async def scenario(old: Old, served: Giving, new: New) -> None:
        def says_mine() -> None:  # before the old one waits for it
            new.taking._channel.tell(encoded("mine"))

        old.pausing = says_mine
        assert await new.taking.ready() == "U:1-7"
        await served.handed_over.wait()
        assert old.noted[:1] == ["leave"] and "go on" not in old.noted
        await served.alone.wait()  # it cannot hear any more: so it serves nobody for long
        served.released()
        await new.taking.released.wait()

    run(tmp_path, scenario)


def test_each_hears_what_no_stream_tells(tmp_path: Path) -> None:
    async def scenario(old: Old, served: Giving, new: New) -> None:
        await new.taking.ready()
        new.taking.pass_on(encoded("doubt"))  # of its start: nobody is served there
        await new.taking.mine()
        await served.handed_over.wait()
        new.taking.pass_on(encoded("doubt"))
        await until(lambda: old.noted == ["leave", "doubt"])
        served.pass_on(encoded("doubt"))
        await until(lambda: new.forgotten == 1)
        assert old.noted == ["leave", "doubt"] and not served.alone.is_set()

    run(tmp_path, scenario)


def test_when_the_new_one_ends_the_old_one_forgets_and_knows_it(tmp_path: Path) -> None:
    async def scenario(old: Old, served: Giving, new: New) -> None:
        await new.taking.ready()
        await new.taking.mine()
        await served.handed_over.wait()
        await new.taking.close()
        await served.alone.wait()
        assert old.noted == ["leave", "doubt"]

    run(tmp_path, scenario)


def test_a_position_that_no_message_can_hold_is_asked_of_the_source(tmp_path: Path) -> None:
    """The channel goes on: what no stream tells is heard over it later."""

    async def scenario(old: Old, served: Giving, new: New) -> None:
        old.position = "U:" + ":".join(str(2 * n) for n in range(20_000))
        assert await new.taking.ready() == ""
        await new.taking.mine()
        await served.handed_over.wait()
        served.pass_on(encoded("doubt"))
        await until(lambda: new.forgotten == 1)
        assert not new.taking.ended and old.noted == ["leave"]

    run(tmp_path, scenario)


def test_many_doubts_leave_room_for_words(tmp_path: Path) -> None:
    """The new one is busy for long, while a session writes without the binlog."""

    async def scenario(old: Old, served: Giving, new: New) -> None:
        for _ in range(10_000):
            served.pass_on(encoded("doubt"))
        assert await new.taking.ready() == "U:1-7"
        assert new.forgotten == 1 and not new.taking.ended
        served.pass_on(encoded("doubt"))
        await new.taking.mine()
        await until(lambda: new.forgotten == 2)
        assert old.noted == ["leave"]

    run(tmp_path, scenario)
