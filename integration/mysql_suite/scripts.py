"""The scripts of MySQL's suite: which can be played, and playing one."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from integration.mysql_suite.package import Suite

MAIN = "main"
SUITES = (MAIN, "json", "gcol", "gis", "collations", "funcs_1", "innodb", "innodb_gis", "innodb_fts", "parts", "jp")
# They end servers, start others, or need another build or another kind of server.
UNFIT = re.compile(
    rb"restart_mysqld|shutdown_server|kill_mysqld|kill_and_restart|start_mysqld|wait_until_disconnected|have_ndb|ndb_"
    rb"|have_debug|debug_sync|master-slave|rpl/|group_replication|\$MYSQLD_CMD|\$MYSQLD\b|\$MYSQL_SLAP|have_component"
    rb"|have_\w+_plugin|big_test|have_windows|have_lowercase1|have_lowercase2|--perl|^perl;|not_valgrind.*long",
    re.MULTILINE,
)
READ = re.compile(rb"^\s*(?:eval\s+)?\(?(?:select|with|table)\b(?!\s+@@)", re.MULTILINE | re.IGNORECASE)
ENOUGH = 5  # reads
SHARED = re.compile(rb"^\s*(?:--\s*)?source\s+suite/|/inc/", re.MULTILINE)  # its reads are in another file
TAIL = 3  # lines of what mysqltest says when a script has failed
SLACK = 30.0  # seconds beyond the test's own, until it is ended


@dataclass(frozen=True)
class Played:
    """`status` None: it was ended because it took too long."""

    status: int | None
    said: str


def all_tests(suite: Suite, suites: tuple[str, ...] = SUITES) -> list[str]:
    """Names of the tests that can be played and read something: `subselect`, or `json/json_agg` of another suite."""
    names = []
    for part in suites:
        folder = suite.folder / ("t" if part == MAIN else f"suite/{part}/t")
        for path in sorted(folder.glob("*.test")):
            text = path.read_bytes()
            if not UNFIT.search(text) and (len(READ.findall(text)) >= ENOUGH or SHARED.search(text)):
                names.append(path.stem if part == MAIN else f"{part}/{path.stem}")
    return names


def path_of(suite: Suite, name: str) -> Path:
    part, _, test = name.rpartition("/")
    return suite.folder / (f"suite/{part}/t" if part else "t") / f"{test}.test"


def play(suite: Suite, name: str, port: int, folder: Path, seconds: float, *, prepared: bool = False) -> Played:
    """Runs a script against the server at `port`. `folder`: an empty one, for what it writes."""
    for made in ("tmp", "log"):
        (folder / made).mkdir()
    (folder / "std_data").symlink_to(suite.folder / "std_data")
    script = folder / "script.test"
    script.write_text(
        f"--disable_abort_on_error\n--disable_query_log\n--disable_result_log\n--source {path_of(suite, name)}\n"
    )
    command = [
        *suite.mysqltest,
        "--no-defaults",
        "--host=127.0.0.1",
        f"--port={port}",
        "--protocol=tcp",
        "--user=root",
        "--ssl-mode=DISABLED",
        f"--basedir={suite.folder}/",
        f"--tmpdir={folder}/tmp",
        f"--logdir={folder}/log",
        f"--test-file={script}",
        "--default-character-set=utf8mb4",
        "--silent",
        "--no-skip",
        "--max-connect-retries=2",
        *(["--ps-protocol"] if prepared else []),
        "test",
    ]
    with (folder / "printed").open("wb") as printed:
        process = subprocess.Popen(
            command,
            cwd=suite.folder,
            env=environment(suite, port, folder),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(seconds + SLACK)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            end(process)
    lines = [line.strip() for line in (folder / "printed").read_text(errors="replace").splitlines() if line.strip()]
    return Played(status, " | ".join(lines[-TAIL:])[:300] if status else "")


def end(process: subprocess.Popen[bytes]) -> None:
    """With the commands that the script has begun."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def environment(suite: Suite, port: int, folder: Path) -> dict[str, str]:
    """The variables that scripts rely on."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "HOME": str(folder),
        "MYSQL_TEST_DIR": str(suite.folder),
        "MYSQL_TEST_ROOT": str(suite.folder),
        "MYSQLTEST_VARDIR": str(folder),
        "MYSQL_TMP_DIR": str(folder / "tmp"),
        "MYSQLD_DATADIR": str(folder / "tmp"),
        "MYSQL_STD_DATA": str(suite.folder / "std_data"),
        "CHARSETSDIR": str(suite.root / "usr/share/mysql/charsets"),
        "MASTER_MYPORT": str(port),
        "MASTER_MYSOCK": "",
        "DEFAULT_MASTER_PORT": str(port),
        "MTR_VERSION": "1",
    }
