"""What a shell completes, in a real bash; and that it need not wait for what it does not use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.support.background_proxy import background_proxy
from upwell.__main__ import COMMANDS, commands

ROOT = Path(__file__).resolve().parents[2]


def environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("UPWELL_")} | more


def completed(*words: str, **variables: str) -> list[str]:
    """What completes the last word."""
    variables |= {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_UPWELL_COMPLETE": "bash_complete"}
    ran = subprocess.run(
        [sys.executable, "-m", "upwell"],
        cwd=ROOT,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr == ""
    return [line.removeprefix("plain,") for line in ran.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["se"], ["serve", "set", "settings"]),
        (["cache", ""], ["create", "drop", "explain", "flush", "ls"]),
        (["serve", "--mysql-tls"], ["--mysql-tls", "--mysql-tls-cert", "--mysql-tls-key"]),
        (["serve", "--transactions", "o"], ["on", "off"]),
        (["serve", "--config", "x"], ["file,x"]),
        (["doctor", "--ups"], ["--upstream", "--upstream-file"]),
        (["rank", "--sp"], ["--spark-master"]),
        (["bench", "--spread", ""], ["uniform", "zipf"]),
        (["top", "--mo"], ["--monitor"]),
    ],
)
def test_commands_options_and_their_values_are_completed(words: list[str], expected: list[str]) -> None:
    assert completed("upwell", *words) == expected


def test_every_option_of_every_command_is_completed() -> None:
    top = click.Context(commands())
    for name in COMMANDS:
        _, command, _ = commands().resolve_command(top, [name])
        assert command is not None
        if isinstance(command, click.Group):
            continue
        options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
        assert set(options) <= {option.split(",")[0] for option in completed("upwell", name, "--")}, name


def test_names_of_caches_are_those_of_the_proxy() -> None:
    with background_proxy() as proxy:
        target = {"UPWELL_GRPC": proxy.target}
        for words in (["cache", "drop"], ["cache", "explain"], ["fill"], ["bench"], ["audit", "--cache"]):
            assert completed("upwell", *words, "st", **target) == ["story"], words
        assert completed("upwell", "cache", "drop", "--grpc", proxy.target, "") == ["story"]
    assert completed("upwell", "cache", "drop", "", UPWELL_GRPC="127.0.0.1:1") == []
    assert completed("upwell", "cache", "drop", "--grpc", "nonsense", "") == []
    assert completed("upwell", "top", "--http", "127.0.0.1:1", "--cache", "") == []
    assert completed("upwell", "set", "", UPWELL_GRPC="127.0.0.1:1") == []


def test_without_the_servers_dependencies_their_options_are_not_known_and_nothing_is_said() -> None:
    program = "import sys; sys.modules['structlog'] = None\nfrom upwell.__main__ import run\nsys.exit(run())"
    variables = {"COMP_WORDS": "upwell serve --", "COMP_CWORD": "2", "_UPWELL_COMPLETE": "bash_complete"}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout.strip(), ran.stderr) == ("plain,--help", "")


@pytest.mark.parametrize("words", ["upwell se", "upwell serve --mysql-", "upwell top --"])
def test_nothing_is_loaded_that_it_does_not_need(words: str) -> None:
    program = (
        "import sys\n"
        "from upwell.__main__ import run\n"
        "try: run()\n"
        "except SystemExit: pass\n"
        "heavy = {'grpc', 'google', 'textual', 'dataflow', 'sqlglot', 'sqlalchemy', 'pymysql', 'proxy.app'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    variables = {
        "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_UPWELL_COMPLETE": "bash_complete"
    }  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.splitlines()[-1] == "[]" and len(ran.stdout.splitlines()) > 1


def test_what_the_list_of_commands_says_is_how_their_help_begins() -> None:
    context = click.Context(commands())
    for name, (_, _, sentence) in COMMANDS.items():
        _, command, _ = commands().resolve_command(context, [name])
        assert command is not None
        assert " ".join((command.help or "").split()).startswith(sentence.removesuffix(".")), name


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with `upwell` on it."""
    program = tmp_path / "upwell"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m upwell "$@"\n')
    program.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


def test_a_bash_completes(path: str, tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("no bash is on this machine")
    script = (
        'eval "$(_UPWELL_COMPLETE=bash_source upwell)"\n'
        "complete -p upwell\n"
        'COMP_WORDS=(upwell serve --transactions ""); COMP_CWORD=3\n'
        "_upwell_completion upwell\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    ran = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=tmp_path,
        env=environment(PATH=path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == ["complete -o nosort -F _upwell_completion upwell", "on strict off"]


@pytest.mark.parametrize(("shell", "begins"), [("zsh", "#compdef upwell"), ("fish", "function _upwell_completion;")])
def test_other_shells_are_given_a_script_that_they_can_read(path: str, tmp_path: Path, shell: str, begins: str) -> None:
    ran = subprocess.run(
        ["upwell"], cwd=tmp_path, env=environment(PATH=path, _UPWELL_COMPLETE=f"{shell}_source"), capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.startswith(begins)
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=ran.stdout, text=True, check=True)
