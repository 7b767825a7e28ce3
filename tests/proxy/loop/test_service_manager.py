"""What the service manager is told, on a real socket."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.loop.service_manager import ServiceManager

PROCESS = os.getpid()


@pytest.fixture(params=["a file", "a name without a file"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """How NOTIFY_SOCKET names it, and the socket. Nothing that a test reads from it blocks."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        if request.param == "a file":
            name = str(tmp_path / "notify")
            own.bind(name)
        else:
            name = f"@upwell-test-{PROCESS}-{tmp_path.name}"
            own.bind(f"\0{name[1:]}")
        own.setblocking(False)
        yield name, own


def test_messages_arrive_whole(manager: tuple[str, socket.socket]) -> None:
    name, own = manager
    told = ServiceManager({"NOTIFY_SOCKET": name}, PROCESS)
    told.tell("READY=1", "STATUS=serves")
    assert own.recv(4096) == b"READY=1\nSTATUS=serves"
    told.reloading()
    first, micros = own.recv(4096).decode().splitlines()
    assert first == "RELOADING=1"
    assert micros.partition("=")[0] == "MONOTONIC_USEC" and int(micros.partition("=")[2]) > 0


async def heard(own: socket.socket, environment: dict[str, str], statuses: list[str], count: int) -> list[str]:
    """The first `count` messages of `keep_told`; the status is the first of `statuses`, and the next one each time that
    a message has come."""
    task = asyncio.create_task(ServiceManager(environment, PROCESS).keep_told(lambda: statuses[0]))
    found = []
    try:
        async with asyncio.timeout(60):
            for _ in range(count):
                found.append((await asyncio.get_running_loop().sock_recv(own, 4096)).decode())
                del statuses[: len(statuses) > 1]
    finally:
        task.cancel()
    return found


def test_each_new_status_is_told_once(manager: tuple[str, socket.socket]) -> None:
    name, own = manager
    found = asyncio.run(heard(own, {"NOTIFY_SOCKET": name}, ["one", "two"], 2))
    assert found == ["STATUS=one", "STATUS=two"]
    with pytest.raises(BlockingIOError):
        own.recv(4096)


def test_signs_of_life_are_given_where_they_are_asked_for(manager: tuple[str, socket.socket]) -> None:
    name, own = manager
    asked = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "40000"}
    found = asyncio.run(heard(own, asked, ["serves"], 3))
    assert found == ["STATUS=serves\nWATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]
    found = asyncio.run(heard(own, asked | {"WATCHDOG_PID": str(PROCESS)}, ["serves"], 2))
    assert found[1] == "WATCHDOG=1"


@pytest.mark.parametrize("other", [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": ""}])
def test_no_sign_is_given_that_is_asked_of_another_or_not_understood(
    manager: tuple[str, socket.socket], other: dict[str, str]
) -> None:
    name, own = manager
    environment = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "40000"} | other
    assert asyncio.run(heard(own, environment, ["one", "two"], 2)) == ["STATUS=one", "STATUS=two"]


def test_without_a_manager_nothing_is_told() -> None:
    told = ServiceManager({}, PROCESS)
    told.tell("READY=1")
    asyncio.run(asyncio.wait_for(told.keep_told(lambda: "serves"), 10))  # it ends at once


def test_a_manager_that_has_gone_disturbs_nothing(tmp_path: Path) -> None:
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "none")}, PROCESS).tell("READY=1")


def test_a_manager_that_takes_nothing_holds_up_no_sign_of_life(tmp_path: Path) -> None:
    """Its queue is full: a message that would wait is left out."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.bind(str(tmp_path / "notify"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filler:
            filler.connect(str(tmp_path / "notify"))
            filler.setblocking(False)
            with pytest.raises(BlockingIOError):
                while True:
                    filler.send(b"x")
        ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")}, PROCESS).tell("WATCHDOG=1", patience=0.0)
