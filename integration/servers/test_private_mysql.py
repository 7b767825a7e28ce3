"""Bringing up a MySQL: the ways, their order, and that nothing stays behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.servers.docker_mysql import DockerMySQL
from integration.servers.mysql_server import PrivateMySQL
from integration.servers.private_mysql import CannotStart, NoMySQL, Server, find_mysql, mysqld_on_path

ROOT = Path(__file__).parent.parent.parent
OwnMySQL = Callable[..., Server]


def program(folder: Path, name: str, script: str) -> Path:
    """An executable that stands in for one found on PATH."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def child(*arguments: str) -> subprocess.Popen[str]:
    """Another Python with our packages, whose standard output we read."""
    command = [sys.executable, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def test_shared_server_writes_a_binlog_that_can_be_followed(mysql: Server) -> None:
    (values,) = mysql.execute(
        "SELECT @@log_bin, @@gtid_mode, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata"
    )
    assert values == (1, "ON", "ROW", "FULL", "FULL")


def test_database_is_empty_and_our_own(mysql: Server, database: str) -> None:
    assert mysql.execute(f"SHOW TABLES FROM `{database}`") == ()


def test_url_with_special_characters_survives(mysql: Server, database: str) -> None:
    mysql.execute(
        "DROP USER IF EXISTS 'o@d:d'@'%'",
        "CREATE USER 'o@d:d'@'%' IDENTIFIED BY 'p/w %40?'",
        f"GRANT SELECT ON `{database}`.* TO 'o@d:d'@'%'",
    )
    url = f"mysql://o%40d%3Ad:p%2Fw%20%2540%3F@{mysql.host}:{mysql.port}/{database}"
    server = find_mysql(url)
    assert server.url == url
    assert server.execute("SELECT DATABASE()") == ((database,),)
    mysql.execute("DROP USER 'o@d:d'@'%'")


def test_data_survives_a_crash_and_a_restart_on_the_same_port(own_mysql: OwnMySQL) -> None:
    server = own_mysql("--binlog-transaction-compression=ON")
    assert server.execute("SELECT @@binlog_transaction_compression") == ((1,),)
    server.execute("CREATE DATABASE kept")
    port = server.port
    server.kill()
    assert not server.answers()
    server.start()
    server.restart()
    assert server.port == port
    assert ("kept",) in server.execute("SHOW DATABASES")


def test_two_servers_are_told_apart_by_their_uuid(mysql: Server, own_mysql: OwnMySQL) -> None:
    assert own_mysql().execute("SELECT @@server_uuid") != mysql.execute("SELECT @@server_uuid")


def test_flag_that_counts_when_the_data_directory_is_made(own_mysql: OwnMySQL) -> None:
    server = own_mysql("--lower-case-table-names=1")
    assert server.execute("SELECT @@lower_case_table_names") == ((1,),)


def test_nothing_is_left_after_the_end(own_mysql: OwnMySQL) -> None:
    server = own_mysql()
    pid = server.pid
    assert isinstance(server, PrivateMySQL) and pid is not None
    server.stop()
    server.stop()
    assert not server.folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda ending: str(ending.name))
def test_nothing_is_left_when_the_starter_is_ended_by(ending: signal.Signals) -> None:
    with child("-c", STARTER) as starter:
        assert starter.stdout is not None
        pid, folder = starter.stdout.readline().split()
        server = os.pidfd_open(int(pid))
        starter.send_signal(ending)
        try:
            assert starter.wait(60) != 0
        finally:
            starter.kill()  # else a starter that did not end would be waited for without end
    assert select.select([server], [], [], 60)[0], "mysqld outlived its starter by a minute"
    os.close(server)
    reaper_is_done(folder)
    assert not Path(folder).exists()


STARTER = """
from integration.servers.private_mysql import find_mysql
import os, signal
# A shell that runs us in the background has it ignored, and what is ignored is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)
told, tells = os.pipe()
os.set_blocking(tells, False)
signal.set_wakeup_fd(tells)
with find_mysql(report=lambda line: None) as server:
    print(server.pid, server.folder, flush=True)
    os.read(told, 1)  # ends also by a signal that has come before
"""


def reaper_is_done(folder: str) -> None:
    """Returns when no reaper works on the folder any more."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            handle = os.pidfd_open(int(entry.name))
            if folder.encode() in (entry / "cmdline").read_bytes():
                select.select([handle], [], [], 60)
            os.close(handle)
        except OSError:
            continue


def test_kept_in_the_foreground_until_sigterm() -> None:
    with child("-m", "integration.servers.private_mysql", "--max-connections=77") as keeper:
        assert keeper.stdout is not None
        server = find_mysql(keeper.stdout.readline().strip())
        assert server.execute("SELECT @@max_connections") == ((77,),)
        keeper.terminate()
        assert keeper.wait(60) == 0
    assert not server.answers()


def test_flag_that_mysqld_does_not_know_is_named_in_the_reason() -> None:
    reasons: list[str] = []
    with pytest.raises(NoMySQL, match="no-such-flag"):
        find_mysql(extra_flags=["--no-such-flag=1"], report=reasons.append)
    assert all(reason.startswith("not from ") for reason in reasons)


def test_upstream_that_nobody_answers_is_not_replaced_by_another_server() -> None:
    with pytest.raises(NoMySQL, match="cannot work with UPSTREAM"):
        find_mysql("mysql://root@127.0.0.1:1")
    with pytest.raises(NoMySQL, match="write mysql://"):
        find_mysql("postgres://root@127.0.0.1:1")


def test_somebody_elses_server_is_never_restarted(mysql: Server) -> None:
    server = find_mysql(mysql.url)
    for forbidden in (server.restart, server.kill, server.start):
        with pytest.raises(CannotStart, match="not ours"):
            forbidden()
    server.stop()
    assert mysql.answers()


def test_mariadb_on_path_is_left_out(tmp_path: Path) -> None:
    program(tmp_path, "mysqld", "echo 'mysqld  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64'")
    with pytest.raises(CannotStart, match="is MariaDB"):
        mysqld_on_path(str(tmp_path))


def test_old_mysql_on_path_is_left_out(tmp_path: Path) -> None:
    program(tmp_path, "mysqld", "echo 'mysqld  Ver 5.7.44 for Linux on x86_64 (MySQL Community Server (GPL))'")
    with pytest.raises(CannotStart, match=r"5\.7\.44; 8\.0 or newer"):
        mysqld_on_path(str(tmp_path))


def test_mysqld_on_path_that_does_not_start_falls_to_the_next_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = 'case "$*" in *--version*) echo "mysqld  Ver 9.9.9 for Linux on x86_64 (MySQL)";;'
    program(tmp_path, "mysqld", f'{version} *) echo "[ERROR] confined to its own folder"; exit 1;; esac')
    program(tmp_path, "docker", "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    reasons: list[str] = []
    with find_mysql(report=reasons.append) as server:
        assert not server.version().startswith("9.9.9")
    assert "confined to its own folder" in reasons[0]
    assert not [reason for reason in reasons if "Docker daemon" in reason], "a machine without Docker has no fault"


def test_container_survives_a_crash_and_is_removed_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "mysqld", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    stand_in = (
        f'exec env PATH=/usr/bin:/bin PYTHONPATH={ROOT} {sys.executable} -m integration.servers.docker_stand_in "$@"'
    )
    program(tmp_path, "docker", stand_in)
    with (
        tempfile.TemporaryDirectory(prefix="upwell-") as containers,  # a socket's path has at most 107 bytes
        monkeypatch.context() as patch,
    ):
        patch.setenv("STAND_IN_STATE", containers)
        a_container_survives()


def a_container_survives() -> None:
    with find_mysql(extra_flags=["--max-connections=88"]) as server:
        assert isinstance(server, DockerMySQL)
        server.execute("CREATE DATABASE kept")
        server.kill()
        assert server.pid is None and not server.answers()
        server.start()
        server.restart()
        assert ("kept",) in server.execute("SHOW DATABASES")
        assert server.execute("SELECT @@max_connections, @@gtid_mode") == ((88, "ON"),)
    assert not server.answers()


def test_when_no_way_works_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "mysqld", "exit 1")
    program(tmp_path, "docker", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(NoMySQL) as error:
        find_mysql(report=lambda line: None)
    message = str(error.value)
    assert "mysqld on PATH" in message and "Docker" in message and "packages" in message
    assert "UPSTREAM=mysql://" in message
