"""After a time in which the process did not run, hits wait for the stream; and the timer that notices comes first."""

from __future__ import annotations

import asyncio
import os
import time
from typing import cast

import pytest
import uvloop

from proxy.loop.beat import Beat
from proxy.pump.pump import CATCHING_UP
from proxy.read.host import ReadHost
from proxy.system.source_gate import Gate
from vstream.source import ChangeSource


class Stream:
    def __init__(self) -> None:
        self.connected, self.unfit, self.drained, self.behind = True, "", 5, 0.0

    def lag(self) -> float:
        return self.behind


class Host:
    closed = ""


def gate() -> tuple[Gate, Host, Stream]:
    host, stream = Host(), Stream()
    return Gate(cast(ReadHost, host), cast(ChangeSource, stream), 60.0, lambda reason: None), host, stream


def test_hits_wait_until_the_stream_was_read_and_is_current() -> None:
    found, host, stream = gate()
    found.frozen()
    assert host.closed is CATCHING_UP
    found.look()
    found.tick()
    assert host.closed is CATCHING_UP, "nothing was read since"
    stream.drained, stream.behind = 6, 20.0
    found.look()
    assert host.closed is CATCHING_UP, "what was read is of long ago"
    stream.behind, stream.connected = 0.0, False
    found.look()
    assert host.closed is CATCHING_UP
    stream.connected = True
    found.look()
    assert host.closed == ""


def test_what_had_closed_it_before_keeps_it_closed() -> None:
    found, host, stream = gate()
    stream.unfit = "no binlog"
    found.tick()
    found.frozen()
    stream.drained = 6
    found.look()
    assert host.closed == "no binlog"
    stream.unfit = ""
    found.tick()
    assert host.closed == ""


def test_subscriptions_end_where_the_source_stays_away_behind_a_freeze() -> None:
    host, stream, ended = Host(), Stream(), list[str]()
    found = Gate(cast(ReadHost, host), cast(ChangeSource, stream), 0.0, ended.append)
    found.frozen()
    stream.connected = False
    found.tick()
    found.tick()
    assert len(ended) == 1 and "has not been reached" in ended[0] and host.closed.startswith("the source")


@pytest.mark.parametrize("kernel", [True, False])
def test_a_beat_tells_how_late_it_is(monkeypatch: pytest.MonkeyPatch, kernel: bool) -> None:
    if not kernel:
        monkeypatch.setattr("proxy.loop.beat._kernel_timers", lambda: None)

    async def scenario() -> list[float]:
        beats: list[float] = []
        beat = Beat(0.005, beats.append)
        beat.start()
        while len(beats) < 3:
            await asyncio.sleep(0.001)
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            pass
        count = len(beats)
        while len(beats) == count:
            await asyncio.sleep(0.001)
        beat.stop()
        return beats[count:]

    late = uvloop.run(scenario())
    assert late[0] > 0.25


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="a kernel without such timers")
def test_it_comes_before_what_arrived_later() -> None:
    """As after a freeze: all that became ready while the loop did not run is looked at in one turn."""

    async def scenario() -> list[str]:
        order: list[str] = []
        loop = asyncio.get_running_loop()
        pipes = [os.pipe() for _ in range(20)]
        beat = Beat(0.01, lambda late: order.append("beat"))

        def on_read(pipe: int) -> None:
            order.append("read")
            loop.remove_reader(pipe)

        for read, _ in pipes:
            loop.add_reader(read, on_read, read)
        beat.start()
        while not order:
            await asyncio.sleep(0)  # epoll knows all of them
        order.clear()
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            pass
        for _, write in pipes:
            os.write(write, b"x")
        while order.count("read") < len(pipes):
            await asyncio.sleep(0)
        beat.stop()
        for pipe in pipes:
            os.close(pipe[0])
            os.close(pipe[1])
        return order

    assert uvloop.run(scenario())[0] == "beat"
