"""`upwell top` in a real terminal, beside a real MySQL, and without a terminal."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from examples.lobsters.proxy_process import ProxyProcess
from integration.servers.mysql_server import Server
from integration.support.raw_client import RawClient
from integration.support.terminal import Terminal, terminal

ROOT = Path(__file__).parents[2]
OF_N = "SELECT COUNT(*) FROM item WHERE n = {}"
BY_ID = "SELECT id, name FROM item WHERE id = {}"


class Place:
    """A proxy with two caches over nine items."""

    def __init__(self, mysql: Server, database: str, folder: Path) -> None:
        self.mysql, self.database, self.folder = mysql, database, folder
        mysql.execute(
            f"USE `{database}`",
            "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(40), n INT)",
            "INSERT INTO item VALUES " + ", ".join(f"({n}, 'item {n}', {n % 3})" for n in range(1, 10)),
        )
        self.keys = count(100)  # that nobody has read
        self.proxy = self._start(0)
        self.ask("CREATE CACHE abc FROM SELECT id, name FROM item WHERE id = ?")
        self.ask("CREATE CACHE xyz FROM SELECT COUNT(*) FROM item WHERE n = ?")

    def _start(self, http_port: int) -> ProxyProcess:
        found = ProxyProcess(self.mysql.url, self.folder, grpc_port=0, http_port=http_port, mysql_port=0)
        found.wait_ready().close()
        return found

    @property
    def http(self) -> str:
        return f"127.0.0.1:{self.proxy.http_port}"

    @property
    def command(self) -> tuple[str, ...]:
        return sys.executable, "-m", "upwell", "top", "--http", self.http

    def ask(self, *statements: str) -> None:
        """On one session."""
        with closing(RawClient("127.0.0.1", self.proxy.mysql_port, database=self.database)) as client:
            for statement in statements:
                client.query(statement)

    def restart(self) -> None:
        port = self.proxy.http_port
        self.proxy.stop()
        self.proxy = self._start(port)
        assert self.proxy.http_port == port

    def overview(self) -> Any:
        done = subprocess.run([*self.command, "--json"], cwd=ROOT, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def place(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    database = f"t{os.getpid()}_top"
    mysql.execute(f"CREATE DATABASE `{database}`")
    made = Place(mysql, database, tmp_path_factory.mktemp("state"))
    try:
        yield made
    finally:
        made.proxy.stop()
        mysql.execute(f"DROP DATABASE `{database}`")


@pytest.fixture
def screen(place: Place, tmp_path: Path) -> Iterator[Terminal]:
    """With the command on it."""
    with terminal(tmp_path) as found:
        found.run(shlex.join(place.command))
        found.until(lambda text: "abc" in text and "q quit" in text)
        yield found


def rows(text: str) -> list[str]:
    """The names of the caches, from above."""
    return re.findall(r"^ (abc|xyz) ", text, re.M)


def marked(text: str) -> str:
    """The column that the table is sorted by; "" while it is drawn."""
    found = re.search(r"(\S+)[▲▼]", text)
    return found[1] if found else ""


def test_numbers_move_and_tables_are_sorted(place: Place, screen: Terminal) -> None:
    screen.until(lambda text: re.search(r"reads 0/s  misses 0/s  passes 0/s", text) is not None)
    read = [BY_ID.format(n) for n in (1, 2, 3)] * 30
    place.ask(*read)
    screen.until(lambda text: re.search(r"reads [1-9]", text) is not None)
    place.ask(*read)
    screen.until(lambda text: re.search(r"^ abc +[1-9][0-9.]*%", text, re.M) is not None)
    while (sorted_by := marked(screen.text)) != "cache":
        screen.press("s")
        screen.until(lambda text, before=sorted_by: marked(text) not in ("", before))  # type: ignore[misc]
    first = rows(screen.text)
    screen.press("r")
    screen.until(lambda text: rows(text) == first[::-1])
    assert sorted(first) == ["abc", "xyz"]


def test_a_cache_is_shown_whole(place: Place, screen: Terminal) -> None:
    place.ask(*[query.format(next(place.keys)) for query in (BY_ID, OF_N) * 3])
    screen.press("Enter")
    text = screen.until(lambda text: "upquery" in text and "no hits" in text)
    name = re.findall(r"^cache (\w+)", text)
    assert name[0] in ("abc", "xyz") and re.search(r"query +SELECT ", text) and "made by" in text
    screen.press("Escape")
    screen.until(lambda text: rows(text) != [])


def test_the_monitor_tells_misses_and_passed_reads(place: Place, screen: Terminal) -> None:
    screen.press("3")
    key = next(place.keys)
    place.ask("SELECT name FROM item WHERE n < 2", *[BY_ID.format(key)] * 3)
    wanted = f"abc [{key}]", "passed", "SELECT name FROM item WHERE n < ?"
    screen.until(lambda text: all(words in text for words in wanted))
    screen.press("2")
    screen.until(lambda text: "can be" in text and "SELECT name FROM item" in text)
    screen.press("Enter")
    screen.until(lambda text: "can be cached  yes" in text and "CREATE CACHE FROM SELECT name FROM item" in text)


@pytest.mark.parametrize("end", ["q", "C-c", "SIGTERM"])
def test_the_terminal_is_sane_behind_it(place: Place, screen: Terminal, end: str) -> None:
    assert not screen.is_plain
    if end == "SIGTERM":
        os.kill(screen.program, signal.SIGTERM)
    else:
        screen.press(end)
    screen.until(lambda text: "q quit" not in text and text.rstrip().endswith("ready:"))
    screen.run("stty -a")
    text = screen.until(lambda text: "icanon" in text)
    assert " -echo " not in text and "-icanon" not in text and screen.is_plain


def test_it_outlives_a_restart_of_the_proxy_and_says_so(place: Place, screen: Terminal) -> None:
    place.proxy.stop()
    screen.until(lambda text: text.startswith("lost, trying again: "))
    place.restart()
    screen.until(lambda text: "connected again at" in text.splitlines()[0])
    place.ask(*[BY_ID.format(n) for n in (1, 2, 3)] * 20)
    screen.until(lambda text: re.search(r"reads [1-9]", text) is not None)


def test_forty_columns_are_enough(place: Place, screen: Terminal) -> None:
    screen.resize(40, 14)
    wanted = (r"^hits .*  reads ", r"^ 1 caches   2 passing   3 no hits", r"^ abc +\S+ +\S+", r"^ cache +hits +hits/s")
    screen.until(lambda text: all(re.search(pattern, text, re.M) for pattern in wanted))


def test_a_terminal_of_any_size_is_drawn_on(screen: Terminal) -> None:
    for columns, lines in ((20, 8), (10, 5), (4, 3), (2, 2)):
        screen.resize(columns, lines)
        screen.press("s", "2", "s", "r", "Enter", "Escape", "3", "1")
    screen.resize(100, 30)
    screen.until(lambda text: "q quit" in text and "abc" in text)


def test_a_low_terminal_has_room_for_the_table(screen: Terminal) -> None:
    screen.resize(30, 10)
    screen.until(lambda text: re.search(r"^ abc ", text, re.M) is not None and "sessions" not in text)


def test_who_is_not_told_of_reads_sees_that(place: Place, screen: Terminal) -> None:
    screen.press("q")
    screen.until(lambda text: text.rstrip().endswith("ready:"))
    with ExitStack() as others:
        watching = 0
        while watching < 4:  # whoever has just gone may be counted for a moment
            connection = HTTPConnection("127.0.0.1", place.proxy.http_port)
            others.callback(connection.close)
            connection.request("GET", "/v1/reads")
            watching += connection.getresponse().status == 200
        screen.run(shlex.join(place.command))
        screen.until(lambda text: "q quit" in text and "abc" in text)
        screen.press("3")
        text = screen.until(lambda text: "not told: " in text)
        assert "more than 4 watch reads" in text and "position" in text.splitlines()[0]
    screen.until(lambda text: "not told: " not in text)


def test_without_a_terminal_it_prints_lines(place: Place) -> None:
    with subprocess.Popen(
        place.command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        assert running.stdout.readline().split()[:3] == ["time", "hits", "reads/s"]
        assert re.match(r" *\d\d:\d\d:\d\d ", running.stdout.readline())
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130 and running.stderr.read().strip() == "upwell: interrupted"


def test_the_monitor_goes_on_behind_a_restart(place: Place) -> None:
    command = [*place.command, "--monitor", "--cache", "abc"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stderr is not None
        first = _first_line(place, running)
        assert re.search(r" (miss|passed) +[0-9.]+ (us|ms|s)  abc \[\d+\]  ", first)
        place.restart()
        assert "; it is tried again" in running.stderr.readline()
        while "connected again" not in running.stderr.readline():
            pass
        assert "abc" in _first_line(place, running)
        running.send_signal(signal.SIGINT)
        running.wait(60)


def _first_line(place: Place, running: subprocess.Popen[str]) -> str:
    """What is told of a read. Whoever watches sees reads from then on, so there are several."""
    assert running.stdout is not None
    while not select.select([running.stdout], [], [], 0.5)[0]:
        place.ask(BY_ID.format(next(place.keys)))
    return running.stdout.readline()


def test_one_look_is_json(place: Place) -> None:
    place.ask(*[BY_ID.format(1)] * 5)
    seen = place.overview()
    assert set(seen["caches"]) == {"abc", "xyz"} and seen["reads"]["hits"] > 0


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["--http", "127.0.0.1:1"], 3, "upwell: no proxy answers at 127.0.0.1:1 (--http): Connection refused; is `up"),
        (["--monitor", "--cache", "no"], 2, "upwell: there is no cache 'no'"),
    ],
)
def test_what_is_wrong_is_one_line(place: Place, arguments: list[str], status: int, line: str) -> None:
    done = subprocess.run([*place.command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith(line) and done.stderr.count("\n") == 1
