"""`make run` from nothing to its first screen, and for a MySQL that exists."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import pytest

from examples.lobsters import screen
from integration.servers.mysql_server import Server
from integration.support.terminal import terminal
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]


def begin(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    """The program that `make run` starts. What it keeps goes to a folder of the test; MySQL's packages are those that
    the other tests use."""
    temporary = tmp_path / "t"
    temporary.mkdir()
    packages = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    kept = {"XDG_CACHE_HOME": packages} | {name: str(tmp_path) for name in ("HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")}
    return subprocess.Popen(
        [sys.executable, "-m", "examples.lobsters.run", *arguments],
        cwd=ROOT,
        env=os.environ | kept | {"UPSTREAM": "", "SCALE": "", "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def printed_until(
    command: subprocess.Popen[str], last: str, meanwhile: Callable[[list[str]], None] = lambda lines: None
) -> list[str]:
    """The lines until one that has this expression. Then `meanwhile`, and Ctrl-C, which must end it well."""
    assert command.stdout is not None
    printed: list[str] = []
    for line in command.stdout:
        printed.append(line.rstrip("\n"))
        if re.search(last, line):
            break
    try:
        meanwhile(printed)
    finally:
        command.send_signal(signal.SIGINT)
    rest = command.stdout.read()
    assert command.wait(60) == 0, rest
    assert rest.strip() == "stopped", "\n".join([*printed, rest])
    return printed


def the_lines_to_copy_work(printed: list[str], state: Path) -> None:
    """Each of them, as it is printed, from the clone, by the user of the proxy, whose state is there. What the `mysql`
    client would be typed comes from its standard input."""
    begin = next(place for place, line in enumerate(printed) if "To copy" in line)
    lines = [line for line in takewhile(lambda line: line.startswith("  "), printed[begin + 1 :])]
    stories, top, caches, page = (answer_of(line, os.environ | {"XDG_STATE_HOME": str(state)}) for line in lines)
    assert stories.split()[:2] == ["loaded", "1"] and "passed" in stories
    assert "hits" in top and "lobsters_u1" in caches and "upwell" in page.lower()


def answer_of(line: str, environment: dict[str, str]) -> str:
    """What it prints; of what goes on for ever the first line."""
    with subprocess.Popen(
        f"exec {line}", cwd=ROOT, env=environment, shell=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as command:
        if " top " not in line:
            asked = "SELECT COUNT(*) > 0 AS loaded FROM stories; EXPLAIN LAST STATEMENT"
            printed, _ = command.communicate(asked, timeout=60)
            assert command.returncode == 0, line
            return printed
        assert command.stdout is not None
        first = command.stdout.readline()
        command.send_signal(signal.SIGINT)
    return first


def test_a_given_mysql_is_served_and_where_nothing_is_cached_the_next_steps_are_told(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    with begin(tmp_path, "--upstream", f"{mysql.url}/{database}") as command:
        lines = printed_until(command, "^  `upwell serve --auto-cache=on`")
    printed = "\n".join(lines)
    assert sum("MySQL" in line.split(":")[0] for line in lines if "127.0.0.1" in line) == 1
    assert any(" -h 127.0.0.1 -P" in line and line.endswith(database) for line in lines), printed
    assert "Nothing is cached yet. What to do next:" in printed and "CREATE CACHE FROM SELECT" in printed
    assert mysql.execute(f"SHOW TABLES FROM `{database}`") == ()


def test_a_terminal_that_is_closed_leaves_nothing(mysql: Server, database: str, tmp_path: Path) -> None:
    with terminal(tmp_path) as screen:
        upstream = f"{mysql.url}/{database}"
        screen.run(f"cd {ROOT} && TMPDIR={tmp_path} {sys.executable} -m examples.lobsters.run --upstream {upstream}")
        screen.until(lambda text: "Serving port" in text)
        (folder,) = tmp_path.glob("upwell-run-*")
        (proxy,) = children(screen.program)
    asyncio.run(until(lambda: not Path(f"/proc/{proxy}").exists() and not folder.exists(), between=0.1))


def children(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def test_the_demo_prints_no_line_to_copy_for_a_proxy_that_has_ended(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    with begin(tmp_path, "--demo", "--upstream", f"{mysql.url}/{database}") as command:
        printed, _ = command.communicate(timeout=120)
    assert command.returncode == 0, printed
    assert "Nothing is cached yet" in printed and "`make run` goes on serving" in printed.splitlines()[-1]
    assert not [word for word in ("To copy", " -P ", "curl", "--grpc", "Ctrl-C") if word in printed], printed


@pytest.mark.timeout(600)
def test_the_first_screen_is_measured_and_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    with begin(tmp_path, "--scale=0.02", "--quick", f"--pictures={tmp_path / 'pictures'}") as command:
        printed = printed_until(command, "^  /.*/upwell.log$", lambda lines: the_lines_to_copy_work(lines, tmp_path))
    text = "\n".join(printed)
    first = next(place for place, line in enumerate(printed) if line.startswith("Pages by ") and "alone" in line)
    shown = printed[first:]
    wide = [line for line in shown if len(line) > screen.WIDTH and "/" not in line]
    assert len(shown) <= screen.HEIGHT and not wide, text
    assert screen.outline(shown) == screen.outline(screen.block_of(screen.README.read_text(), "screen")), text
    assert re.search(r"^[\d,]+ answers of both ports compared, [\d,]+ held ones audited: equal$", text, re.M), text
    chart = printed[:first]
    assert max(map(len, chart[chart.index("reading and writing pages at both ports") :])) <= screen.WIDTH, text
    assert [sum(line.startswith(title) for line in chart) for title in ("MySQL's CPU", "hits, %")] == [1, 1], text
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {"first-minute.html", "first-minute.png"}
    assert not Path(printed[-1].strip()).exists()


def test_a_mysql_that_cannot_be_used_is_told_in_words(mysql: Server, database: str, tmp_path: Path) -> None:
    account = f"u{os.getpid()}_words"
    mysql.execute(f"CREATE USER {account}@'%' IDENTIFIED BY 'pw'")
    where = f"127.0.0.1:{mysql.port}"
    said = {
        "garbage": "'garbage' is not a MySQL address: write mysql://user:password@host:port",
        "mysql://root@127.0.0.1:1": "Can't connect to MySQL server on '127.0.0.1' (Connection refused) (2003)",
        f"mysql://{account}:wrong@{where}": f"Access denied for user '{account}'@",
        f"mysql://{account}:pw@{where}/{database}": f"Access denied for user '{account}'@",
        f"mysql://{account}:pw@{where}": "may not read the binlog (GRANT REPLICATION SLAVE ON *.* TO",
    }
    try:
        for number, (upstream, words) in enumerate(said.items()):
            folder = tmp_path / str(number)
            folder.mkdir()
            with begin(folder, "--demo", "--upstream", upstream) as command:
                printed, _ = command.communicate(timeout=120)
            assert command.returncode == 3 and words in printed, printed
            for noise in ("Traceback", "Errno", "(1", "(20", "packages"):
                assert noise not in printed.replace("(1044)", "").replace("(1045)", "").replace("(2003)", ""), printed
    finally:
        mysql.execute(f"DROP USER {account}@'%'")


def test_an_empty_database_of_the_samples_name_is_not_taken_for_the_sample(
    own_mysql: Callable[..., Server], tmp_path: Path
) -> None:
    server = own_mysql()
    server.execute("CREATE DATABASE lobsters")
    with begin(tmp_path, "--demo", "--upstream", server.url) as command:
        printed, _ = command.communicate(timeout=120)
    assert command.returncode == 0 and "Nothing is cached yet" in printed, printed
