"""The command line: its tables, its JSON, its exit statuses, and one line on stderr for whatever is wrong."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import upwell
from tests.support.background_proxy import Background, background_proxy
from tests.support.grpc_listener import Served
from tests.support.waiting import until
from upwell.__main__ import run

ROOT = Path(__file__).resolve().parents[2]
SQL = "SELECT id FROM stories WHERE id = ?"


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Background]:
    with background_proxy() as running:
        monkeypatch.setenv("UPWELL_GRPC", running.target)
        yield running


class Ran:
    """What a command printed, and its status."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        capsys.readouterr()
        self.status = run(arguments)
        self.out, self.err = capsys.readouterr()


def test_caches_are_made_listed_explained_and_dropped(proxy: Background, capsys: pytest.CaptureFixture[str]) -> None:
    made = Ran(capsys, "cache", "create", SQL, "--name", "one", "--database", "lobsters")
    assert (made.status, made.out, made.err) == (0, "one: maintain, ready\n", "")
    listed = Ran(capsys, "cache", "ls")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["name", "story", "one", "story,"]
    assert listed.out.splitlines()[-1] == "story, one: most of the passed reads: a list of 'bob'"
    as_json = json.loads(Ran(capsys, "cache", "ls", "--json").out)
    assert [(cache["name"], cache["mode"], cache["state"]) for cache in as_json] == [
        ("story", "maintain", "ready"),
        ("one", "maintain", "ready"),
    ]
    assert Ran(capsys, "cache", "explain", "one").out == "plan of one\n"
    for query in (["--sql", SQL], [SQL], [f"\n({SQL})"], ["select*FROM t"]):
        assert Ran(capsys, "cache", "explain", *query, "--dot").out == "digraph {}\n"
    assert json.loads(Ran(capsys, "cache", "explain", "one", "--json").out)["text"] == "plan of one"
    assert json.loads(Ran(capsys, "cache", "create", SQL, "--name", "two", "--json").out)["query"] == SQL
    dropped = Ran(capsys, "cache", "drop", "one")
    assert (dropped.status, dropped.out) == (0, "")
    for name in ("two", "three", "four"):
        assert Ran(capsys, "cache", "create", SQL, "--name", name).status == 0
    assert Ran(capsys, "cache", "ls").out.splitlines()[-1].startswith("story, two, three and 1 more: most of the")


def test_bench_reports_what_it_saw(proxy: Background, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("1\n[2]\n\n")
    ran = Ran(capsys, "bench", "story", "--key", "3", "--keys-file", str(keys), "--seconds", "0.1", "--json")
    figures = json.loads(ran.out)
    assert (ran.status, figures["hit_share"]) == (0, 1.0)
    assert figures["keys_per_second"] == figures["calls_per_second"] > 0
    batched = Ran(capsys, "bench", "story", "--sample", "SELECT 1", "--batch", "10", "--seconds", "0.1")
    assert batched.status == 0
    assert "keys_per_second" in batched.out


def test_bench_tells_on_ctrl_c_what_it_has_measured(proxy: Background) -> None:
    command = [sys.executable, "-m", "upwell", "bench", "story", "--key", "1", "--seconds", "600", "--json"]
    hits: list[object] = []

    def count_hits(served: Served) -> None:
        cache = served.system.caches["story"]
        hit = cache.hit
        cache.hit = lambda parameters: hits.append(parameters) or hit(parameters)  # type: ignore[method-assign, func-returns-value]

    proxy.do(count_hits)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stderr is not None
        asyncio.run(until(lambda: len(hits) > 50))
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
        assert json.loads(running.stdout.read())["calls_per_second"] > 0
        assert running.stderr.read() == "upwell: interrupted: these figures are of what was measured until then\n"


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["cache", "drop", "stroy"], 2, "upwell: no cache 'stroy': there are ['story'] (unknown_cache)"),
        (["cache", "create", "SELECT RAND()"], 2, "upwell: a function whose value differs between calls: RAND()"),
        (["cache", "ls", "--jsn"], 2, "upwell cache ls: No such option '--jsn'"),
        (["cahce"], 2, "upwell: No such command 'cahce'"),
        (["cache", "create"], 2, "upwell cache create: a SELECT, or --from-query, is accepted"),
        (["cache", "flush", "stroy"], 2, "upwell: no cache 'stroy': there are ['story'] (unknown_cache)"),
        (["set", "memory-limit"], 2, "upwell set: a name with a value, or with --default, is accepted"),
        (["set", "upstream", "x"], 2, "upwell: upstream cannot change while Upwell serves"),
        (["cache", "ls", "--grpc", "nowhere"], 2, "upwell cache ls: Invalid value for --grpc: 'nowhere': HOST:PORT"),
        (
            ["cache", "ls", "--grpc", "127.0.0.1:65537"],
            2,
            "upwell cache ls: Invalid value for --grpc: '127.0.0.1:65537'",
        ),
        (["cache", "ls", "--grpc", "http://127.0.0.1:1"], 2, "upwell cache ls: Invalid value for --grpc: 'http://127."),
        (["top", "--http", "127.0.0.1:65537"], 2, "upwell top: Invalid value for '--http'"),
        (["top", "--http", "127.0.0.1:0"], 2, "upwell top: Invalid value for '--http'"),
        (["top", "--http", "a b:80"], 2, "upwell top: Invalid value for '--http'"),
        (["top", "--http", "..:80"], 2, "upwell top: Invalid value for '--http'"),
        (["top", "--http", "127.0.0.1:1/x"], 2, "upwell top: Invalid value for '--http'"),
        (["top", "--http", "http://127.0.0.1:1/"], 3, "upwell: no proxy answers at 127.0.0.1:1 (--http): Connection"),
        (["top", "--cache", "story"], 2, "upwell top: --cache and --outcome go with --monitor"),
        (["top", "--json", "--outcome", "miss"], 2, "upwell top: --cache and --outcome go with --monitor"),
        (["bench", "story", "--direct", "mysql://a@b", "--key", "1"], 2, "upwell bench: --direct goes with --mysql"),
        (["set", "max-staleness", "-1s"], 2, "upwell: SET UPWELL max-staleness is '-1s'"),
        (["cache", "ls", "--token-file", "/nowhere"], 2, "upwell cache ls: Invalid value for --token-file: '/nowhere'"),
        (["cache", "ls", "--timeout", "0"], 2, "upwell cache ls: Invalid value for '--timeout'"),
        (["cache", "explain"], 2, "upwell cache explain: the name of a cache, or a SELECT, is accepted"),
        (["bench", "story"], 2, "upwell bench: no keys: --keys, --key, --keys-file or"),
        (["bench", "stroy", "--key", "1"], 2, "upwell: no cache 'stroy'"),
        (
            ["bench", "story", "--key", "1", "--callers", "0"],
            2,
            "upwell bench: Invalid value for '--connections' / '--c",
        ),
        (["serve", "--upstreem", "x"], 2, "upwell serve: No such option '--upstreem'"),
        (["serve", "--upstream", "mysql://a@b", "--memory-limit", "x"], 2, "upwell: --memory-limit is 'x': a size"),
        (["serve", "--config", "/nowhere"], 2, "upwell: --config: '/nowhere' cannot be read"),
        (
            ["serve", "--upstream", "mysql://a@b", "--grpc-listen", "0.0.0.0:1"],
            2,
            "upwell: --grpc-listen 0.0.0.0 is not loopback",
        ),
        (["doctor"], 2, "upwell: no upstream: give --upstream"),
        (["doctor", "--upstream", "mysql://root@127.0.0.1:1"], 3, "upwell: no connection to mysql://root@127.0.0.1:1"),
    ],
)
def test_what_is_wrong_is_one_line(
    arguments: list[str],
    status: int,
    line: str,
    proxy: Background,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in os.environ if name.startswith("UPWELL_") and name != "UPWELL_GRPC"]:
        monkeypatch.delenv(name)
    ran = Ran(capsys, *arguments)
    assert (ran.status, ran.out) == (status, "")
    assert ran.err.startswith(line)
    assert ran.err.count("\n") == 1


def test_a_token_that_no_header_can_hold_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "token"
    for token in (b"a\nb", "\N{KEY}".encode()):
        file.write_bytes(token)
        ran = Ran(capsys, "top", "--json", "--token-file", str(file))
        assert (ran.status, ran.err.count("\n")) == (2, 1)
        assert "the token cannot stand in a header" in ran.err


def test_a_terminal_obeys_no_text_of_others(proxy: Background, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT '\x1b[31m\x07' FROM t\nWHERE id = ?"
    assert Ran(capsys, "cache", "create", query, "--name", "red", "--database", "lobsters").status == 0
    listed = Ran(capsys, "cache", "ls").out
    assert "SELECT ' [31m ' FROM t WHERE id = ?" in listed and "\x1b" not in listed
    refused = Ran(capsys, "cache", "drop", "\x1b[2J")
    assert refused.status == 2 and "\x1b" not in refused.err


def test_what_cannot_be_written_is_one_line(proxy: Background) -> None:
    command = [sys.executable, "-m", "upwell", "cache", "ls"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (1, "upwell: standard output: No space left on device\n")


def test_a_proxy_that_is_not_there_is_status_3(capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, "cache", "ls", "--grpc", "127.0.0.1:1")
    assert (ran.status, ran.err.count("\n")) == (3, 1)


def launched(*arguments: str, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *python, "-m", "upwell", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_launcher_says_its_version() -> None:
    ran = launched("--version")
    assert (ran.returncode, ran.stdout) == (0, f"upwell {upwell.__version__} (interpreted)\n")


def test_help_lists_what_there_is_and_only_that() -> None:
    ran = launched("--help")
    commands = [line.split()[0] for line in ran.stdout.split("Commands:")[1].splitlines() if line.strip()]
    assert (ran.returncode, commands) == (
        0,
        ["audit", "bench", "cache", "doctor", "fill", "rank", "serve", "set", "settings", "top"],
    )


def test_without_a_command_help_goes_to_stderr() -> None:
    ran = launched()
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "Commands:" in ran.stderr


def test_serve_without_the_servers_dependencies_says_what_to_install(tmp_path: Path) -> None:
    # A structlog that is not there, as in an environment with the client alone.
    program = (
        "import sys; sys.modules['structlog'] = None\n"
        "from upwell.__main__ import run\n"
        "sys.exit(run(['serve', '--upstream', 'mysql://root@127.0.0.1:1']))"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr == (
        f"upwell: `upwell serve` needs the server's dependencies (no 'structlog'): pip install '{ROOT}[server]'\n"
    )


def test_the_client_and_its_commands_load_nothing_of_the_server() -> None:
    program = (
        "import sys, upwell.__main__, upwell.client, upwell.aio, upwell.command, upwell.bench,"
        " upwell.fill_command, upwell.audit_command\n"
        "servers = {'proxy', 'bulk', 'dataflow', 'planner', 'sqltypes', 'structlog', 'sqlglot', 'pymysql',"
        " 'sqlalchemy', 'uvloop'}\n"
        "sys.exit(sorted(servers & set(sys.modules)) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
