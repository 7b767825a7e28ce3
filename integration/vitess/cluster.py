"""A Vitess of separate processes, as in production: etcd, vtctld, vtgate, and for each shard a vttablet before a
private MySQL of its own. All on free ports of loopback, without root, in one temporary folder.

The tablets are unmanaged ones: each is given a MySQL that is there already, and is told to be its shard's primary.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import pymysql

from integration.servers.mysql_server import Server, free_port, start_reaper
from integration.servers.private_mysql import find_mysql

CELL = "zone1"
ACCOUNT = ("vt", "vt")  # of the tablets: unmanaged ones ask for a password
KINDS = ("app", "dba", "filtered", "repl", "allprivs", "appdebug")  # of their logins
NOBODY = 65534  # whose processes they are where the tests are root's: Vitess does not run as root
# Popen's own way forks, and gRPC's threads, where the tests have some, do not outlive that.
AS_NOBODY = f"""
import os, sys
os.setgroups([]), os.setgid({NOBODY}), os.setuid({NOBODY})
os.execv(sys.argv[1], sys.argv[1:])
"""
MYSQLD = ("--innodb-lock-wait-timeout=1",)  # deadlocks of several shards nobody else sees
START = 90.0  # seconds
END = 15.0


class DoesNotStart(Exception):
    """With the last lines of the log of what did not."""


@dataclass(frozen=True)
class Replica:
    """`name`: of its tablet's process."""

    name: str
    alias: str
    mysql: Server


@dataclass
class Cluster:
    """`shards`: names of each keyspace's. `mysqls`: the primaries'. `sql`, `grpc`: vtgate's ports."""

    programs: Path
    root: Path
    shards: Mapping[str, Sequence[str]]
    mysqls: dict[tuple[str, str], Server] = field(default_factory=dict)
    sql: int = 0
    grpc: int = 0

    def __post_init__(self) -> None:
        self._stack = ExitStack()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, tuple[str, ...]] = {}
        self._etcd, self._vtctld, self._number = free_port(), free_port(), 100

    @property
    def _topology(self) -> tuple[str, ...]:
        server = ("--topo-global-server-address", f"127.0.0.1:{self._etcd}")
        return ("--topo-implementation", "etcd2", *server, "--topo-global-root", "/vitess/global")

    def start(self) -> None:
        """Raises DoesNotStart."""
        peers = f"http://127.0.0.1:{free_port()}"
        clients = f"http://127.0.0.1:{self._etcd}"
        self._run(
            "server",
            *(f"--data-dir={self.root / 'etcd'}", "--listen-client-urls", clients),
            *("--advertise-client-urls", clients, "--listen-peer-urls", peers),
            *("--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}"),
        )
        self.until("server", lambda: answers(self._etcd))
        ports = ("--grpc-port", str(self._vtctld), "--port", str(free_port()))
        self._run("vtctld", *self._topology, "--service-map", "grpc-vtctl,grpc-vtctld", *ports)
        self.until("vtctld", lambda: answers(self._vtctld))
        self.control("AddCellInfo", "--root", f"/vitess/{CELL}", "--server-address", f"127.0.0.1:{self._etcd}", CELL)
        for keyspace, shards in self.shards.items():
            self.add_keyspace(keyspace, shards)
        self.start_vtgate()

    def add_keyspace(self, keyspace: str, shards: Sequence[str]) -> None:
        self.control("CreateKeyspace", "--durability-policy", "none", keyspace)
        for shard in shards:
            self.add_shard(keyspace, shard)

    def add_shard(self, keyspace: str, shard: str) -> None:
        """With a MySQL of its own, which is empty. It serves, unless others have its keys already."""
        mysql = self._mysql()
        user, password = ACCOUNT
        mysql.execute(
            f"CREATE DATABASE `{self.database(keyspace)}`",
            f"CREATE USER {user}@'%' IDENTIFIED BY '{password}'",
            f"GRANT ALL ON *.* TO {user}@'%' WITH GRANT OPTION",
        )
        self.mysqls[keyspace, shard] = mysql
        name = f"{keyspace} {shard}"
        alias = self._run_tablet(name, keyspace, shard, mysql)
        self.until(name, lambda: self.tried("TabletExternallyReparented", alias))

    def _mysql(self) -> Server:
        return self._stack.enter_context(find_mysql(None, MYSQLD, report=lambda line: None))

    def _run_tablet(self, name: str, keyspace: str, shard: str, mysql: Server) -> str:
        """Its alias."""
        self._number += 1
        alias, grpc = f"{CELL}-{self._number}", free_port()
        user, password = ACCOUNT
        logins = [each for kind in KINDS for each in (f"--db-{kind}-user", user, f"--db-{kind}-password", password)]
        self._run(
            "vttablet",
            *(*self._topology, "--tablet-path", alias, "--init-keyspace", keyspace, "--init-shard", shard),
            *("--init-tablet-type", "replica", "--unmanaged", "--init-db-name-override", self.database(keyspace)),
            *("--db-host", "127.0.0.1", "--db-port", str(mysql.port), *logins),
            *("--grpc-port", str(grpc), "--port", str(free_port()), "--tablet-hostname", "127.0.0.1"),
            *("--service-map", "grpc-queryservice,grpc-tabletmanager,grpc-updatestream"),
            name=name,
        )
        return alias

    def add_replica(self, keyspace: str, shard: str) -> Replica:
        """A tablet of that shard before a MySQL that replicates from the primary's."""
        first, mysql = self.mysqls[keyspace, shard], self._mysql()
        user, password = ACCOUNT
        mysql.execute(
            "RESET BINARY LOGS AND GTIDS",
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={first.port}, SOURCE_USER='{user}', "
            f"SOURCE_PASSWORD='{password}', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1",
            "START REPLICA",
        )
        catch_up(mysql, first)
        name = f"{keyspace} {shard} replica"
        alias = self._run_tablet(name, keyspace, shard, mysql)
        self.until(name, lambda: any(row[3:5] == ("REPLICA", "SERVING") for row in self.shown("SHOW VITESS_TABLETS")))
        return Replica(name, alias, mysql)

    def promote(self, keyspace: str, shard: str, replica: Replica) -> None:
        """Its MySQL becomes the shard's; the tablet of the one before, if it still runs, is a replica's from now on."""
        replica.mysql.execute("STOP REPLICA", "RESET REPLICA ALL")
        self.mysqls[keyspace, shard] = replica.mysql
        name = f"{keyspace} {shard}"
        if name in self._running:
            self._rename(name, f"{name} before {replica.alias}")
        self._rename(replica.name, name)
        self.until(name, lambda: self.tried("TabletExternallyReparented", replica.alias))
        self.until("vtgate", lambda: (keyspace, shard) in self.tablets())

    def _rename(self, name: str, new: str) -> None:
        self._running[new], self._commands[new] = self._running.pop(name), self._commands.pop(name)
        os.replace(self._log(name), self._log(new))

    def kill_tablet(self, keyspace: str, shard: str) -> None:
        process = self._running.pop(f"{keyspace} {shard}")
        process.kill()
        process.wait()

    def start_tablet(self, keyspace: str, shard: str) -> None:
        """One that was killed: the topology knows it as the shard's primary."""
        self._launch(f"{keyspace} {shard}")
        self.until("vtgate", lambda: (keyspace, shard) in self.tablets())

    @staticmethod
    def database(keyspace: str) -> str:
        """At its shards' MySQLs."""
        return f"vt_{keyspace}"

    def start_vtgate(self) -> None:
        self.sql, self.grpc = self.sql or free_port(), self.grpc or free_port()
        self._run_vtgate("vtgate", self.sql, self.grpc, "--mysql-auth-server-impl", "none")
        self.until("vtgate", lambda: self.tablets() >= self.mysqls.keys())

    def _run_vtgate(self, name: str, sql: int, grpc: int, *flags: str) -> None:
        self._run(
            "vtgate",
            *(*self._topology, "--cell", CELL, "--cells-to-watch", CELL, "--tablet-types-to-wait", "PRIMARY"),
            *("--service-map", "grpc-vtgateservice", "--grpc-port", str(grpc), "--port", str(free_port())),
            *("--mysql-server-port", str(sql), "--mysql-server-bind-address", "127.0.0.1"),
            *("--tablet-refresh-interval", "500ms", "--onterm-timeout", "1s"),
            *("--vschema-ddl-authorized-users", "%", *flags),
            *("--grpc-keepalive-timeout", "5m"),  # else it gives up a tablet that is held up after 20 s
            name=name,
        )

    @contextmanager
    def another_vtgate(self, *flags: str) -> Iterator[tuple[int, int]]:
        """Its ports of MySQL's protocol and of gRPC. `flags`: also how its clients are let in."""
        name, sql, grpc = "another vtgate", free_port(), free_port()
        self._run_vtgate(name, sql, grpc, *flags)
        try:
            self.until(name, lambda: answers(sql) and answers(grpc))
            yield sql, grpc
        finally:
            self._end(name)

    def tablets(self) -> set[tuple[str, str]]:
        """The shards of which vtgate knows a primary that answers."""
        rows = self.shown("SHOW VITESS_TABLETS")
        return {(row[1], row[2]) for row in rows if row[3:5] == ("PRIMARY", "SERVING")}

    def asked(self, keyspace: str) -> set[str]:
        """The shards that vtgate asks for rows of that keyspace."""
        names = [row[0].split("/") for row in self.shown("SHOW VITESS_SHARDS")]
        return {shard for of, shard in names if of == keyspace}

    def shown(self, statement: str, keyspace: str = "") -> tuple[tuple[Any, ...], ...]:
        """Nothing while vtgate does not answer."""
        try:
            return self.execute(keyspace, statement)
        except pymysql.err.MySQLError:
            return ()

    def remove_shard(self, keyspace: str, shard: str) -> None:
        """Its processes end; the topology has lost it before."""
        self._end(f"{keyspace} {shard}")
        self.mysqls.pop((keyspace, shard)).stop()

    @contextmanager
    def held_up(self, keyspace: str, shard: str) -> Iterator[None]:
        """The shard's tablet does nothing meanwhile."""
        process = self._running[f"{keyspace} {shard}"]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def restart_tablet(self, keyspace: str, shard: str) -> None:
        """Returns when vtgate asks it again. Its MySQL goes on."""
        self._end(f"{keyspace} {shard}")
        self.start_tablet(keyspace, shard)

    def shards_now(self, keyspace: str) -> list[str]:
        return [shard for of, shard in self.mysqls if of == keyspace]

    def restart_vtgate(self) -> None:
        """On the same ports."""
        self.stop_vtgate()
        self.start_vtgate()

    def stop_vtgate(self) -> None:
        self._end("vtgate")

    def connect(self, keyspace: str = "", **options: Any) -> pymysql.Connection[Any]:
        """A client of vtgate, with autocommit unless `options` say otherwise."""
        given: dict[str, Any] = {"autocommit": True, "charset": "utf8mb4", "ssl_disabled": True, "port": self.sql}
        if keyspace:
            given["database"] = keyspace
        return pymysql.connect(host="127.0.0.1", user="root", **{**given, **options})

    def execute(self, keyspace: str, *statements: str) -> tuple[tuple[Any, ...], ...]:
        """Through vtgate; the rows of the last one."""
        rows: Sequence[tuple[Any, ...]] = ()
        with self.connect(keyspace) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = cursor.fetchall()
        return tuple(rows)

    def apply_vschema(self, keyspace: str, vschema: Mapping[str, Any]) -> None:
        """Returns when vtgate goes by it."""
        self.control("ApplyVSchema", "--vschema", json.dumps(vschema), keyspace)

        def known() -> bool:
            return {row[0] for row in self.execute(keyspace, "SHOW VSCHEMA TABLES")} >= set(vschema["tables"])

        self.until("vtgate", known)

    # -- processes ----------------------------------------------------------------------------------------------------

    def control(self, *arguments: str) -> str:
        """What `vtctldclient` prints. Raises DoesNotStart where it fails."""
        done = self._control(*arguments)
        if done.returncode:
            raise DoesNotStart(f"vtctldclient {' '.join(arguments)}: {done.stderr[-500:]}")
        return done.stdout

    def tried(self, *arguments: str) -> bool:
        """Whether `vtctldclient` has done that."""
        return self._control(*arguments).returncode == 0

    def _control(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = (str(self.programs / "vtctldclient"), "--server", f"127.0.0.1:{self._vtctld}", *arguments)
        return subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=False, timeout=START
        )

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "VTDATAROOT": str(self.root), "VTROOT": str(self.root)}

    def _run(self, program: str, *arguments: str, name: str = "") -> None:
        known = () if program == "server" else (f"--pid-file={self.root / (name or program)}.pid",)  # by the reaper
        self._commands[name or program] = (str(self.programs / program), *known, *arguments)
        self._launch(name or program)

    def _launch(self, name: str) -> None:
        account = (sys.executable, "-I", "-c", AS_NOBODY) if os.getuid() == 0 else ()
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                (*account, *self._commands[name]),
                cwd=self.root,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests
            )

    def until(self, name: str, condition: Callable[[], bool]) -> None:
        """`name`: of the process on which it waits, which must not end meanwhile."""
        limit = monotonic() + START
        while not condition():
            try:
                self._running[name].wait(0.05)
            except subprocess.TimeoutExpired:
                if monotonic() < limit:
                    continue
            said = self._log(name).read_text(errors="replace")[-500:]
            raise DoesNotStart(f"{name} does not answer: {said}")

    def _log(self, name: str) -> Path:
        return self.root / f"{name}.log"

    def runs(self, name: str) -> bool:
        return name in self._running

    def _end(self, name: str) -> None:
        process = self._running.pop(name)
        process.terminate()
        try:
            process.wait(END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """Nobody needs what they would still write."""
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        self._stack.close()


def catch_up(replica: Server, source: Server) -> None:
    """Returns when the replica has all that the source has now."""
    executed = source.execute("SELECT @@GLOBAL.gtid_executed")[0][0]
    (done,) = replica.execute(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed}', {START:.0f})")[0]
    if done:
        raise DoesNotStart(f"a replica does not get as far as {executed}")


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _reachable(programs: Path, root: Path) -> Path:
    """The same programs where another account gets to: the cache is below a folder of this one's."""
    folder = root / "programs"
    folder.mkdir(mode=0o755)
    for program in programs.iterdir():
        try:
            os.link(program, folder / program.name)
        except OSError:  # another file system
            shutil.copy(program, folder)
    return folder


@contextmanager
def running(programs: Path, shards: Mapping[str, Sequence[str]]) -> Iterator[Cluster]:
    """Raises DoesNotStart."""
    root = Path(tempfile.mkdtemp(prefix="upwell-vitess-"))
    root.chmod(0o777)  # another account writes there, where the tests are root's
    reaper = start_reaper(root)  # what is left where the tests are killed
    cluster = Cluster(_reachable(programs, root) if os.getuid() == 0 else programs, root, shards)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        assert reaper.stdin is not None
        reaper.stdin.close()
        reaper.wait()
