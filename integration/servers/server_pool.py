"""Private servers that are lent to one test after another: a start costs a second of a processor, a reset a twentieth.

A server goes back as it was at birth or not at all. `Birth.restore` ends its connections, drops what was made, sets
variables back and begins its history anew; then it compares everything that it knows of with what was seen at birth.
Whatever is not the same (a restarted process, a right taken from root, a variable that cannot be set back) ends that
server, and the next test gets a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pymysql.err import MySQLError

from integration.servers.mysql_server import OTHERS, PrivateMySQL, Server

Flags = tuple[str, ...]
Begin = Callable[[Flags], Server]

# What the server's own work changes, and a reset of its history sets back.
HISTORY = frozenset({"gtid_executed", "gtid_purged"})
# Tables of `mysql` that statements change and no variable shows.
CHECKED = ("component", "db", "default_roles", "func", "global_grants", "plugin", "procs_priv", "proxies_priv",
           "role_edges", "servers", "tables_priv", "columns_priv", "time_zone_name", "user")  # fmt: skip
MADE = (
    "SELECT schema_name FROM information_schema.schemata"
    " WHERE schema_name NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"
)
ACCOUNTS = "SELECT user, host FROM mysql.user"
TRIES = 1000  # looks for connections that end, with a hundredth of a second between them


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def variables(server: Server) -> dict[str, str]:
    return {name: value for name, value in server.execute("SHOW GLOBAL VARIABLES") if name not in HISTORY}


def system_tables(server: Server) -> tuple[object, ...]:
    named = ", ".join(f"mysql.{name}" for name in CHECKED)
    return (
        server.execute(f"CHECKSUM TABLE {named}"),
        server.execute("SELECT plugin_name, plugin_status FROM information_schema.plugins ORDER BY 1"),
        server.execute("SELECT * FROM performance_schema.persisted_variables"),
        server.execute(MADE),
    )


@dataclass(frozen=True)
class Birth:
    """What a server was before its first test."""

    pid: int | None
    variables: dict[str, str]
    tables: tuple[object, ...]
    accounts: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, server: PrivateMySQL) -> Birth:
        accounts = frozenset(server.execute(ACCOUNTS))
        return cls(server.pid, variables(server), system_tables(server), accounts)

    def restore(self, server: PrivateMySQL) -> bool:
        """Makes the server what it was. False where it is not."""
        if server.pid is None or server.pid != self.pid:
            return False
        try:
            end_connections(server)
            self._undo(server)
            return variables(server) == self.variables and system_tables(server) == self.tables
        except (MySQLError, OSError):
            return False

    def _undo(self, server: PrivateMySQL) -> None:
        changed = self.variables.items() - variables(server).items()
        set_back = [f"SET GLOBAL {name} = {spelled(value)}" for name, value in changed]
        databases = [f"DROP DATABASE `{name.replace('`', '``')}`" for (name,) in server.execute(MADE)]
        strangers = set(server.execute(ACCOUNTS)) - self.accounts
        accounts = [f"DROP USER {quoted(user)}@{quoted(host)}" for user, host in strangers]
        server.execute(
            *set_back,
            "SET foreign_key_checks = 0",
            *databases,
            *accounts,
            "RESET PERSIST",
            "TRUNCATE performance_schema.host_cache",
            "FLUSH STATUS",
            forget_history(server.version()),
        )


def spelled(value: str) -> str:
    return value if value.lstrip("-").replace(".", "", 1).isdigit() else quoted(value)


def forget_history(version: str) -> str:
    """The statement that empties the binlog and the executed GTIDs."""
    numbers = tuple(int(part) for part in version.split("-")[0].split(".")[:2])
    return "RESET BINARY LOGS AND GTIDS" if numbers >= (8, 2) else "RESET MASTER"


def end_connections(server: PrivateMySQL) -> None:
    """Kills every other connection. Raises OSError where one stays."""
    with server.connect() as connection, connection.cursor() as cursor:
        for _ in range(TRIES):
            cursor.execute(OTHERS)
            others = cursor.fetchall()
            if not others:
                return
            for (number,) in others:
                try:
                    cursor.execute(f"KILL {number}")
                except MySQLError:  # it has ended meanwhile
                    continue
            cursor.execute("DO SLEEP(0.01)")
    raise OSError("a connection does not end")


class ServerPool:
    """Lends private servers by their flags. At most `idle` of them wait for the next test."""

    def __init__(self, begin: Begin, idle: int = 2) -> None:
        self._begin = begin
        self._most = idle
        self._idle: list[tuple[Flags, PrivateMySQL, Birth]] = []
        self._lent: dict[int, tuple[Flags, PrivateMySQL, Birth]] = {}

    def check_invariants(self) -> None:
        assert len(self._idle) <= self._most
        assert not {id(server) for _, server, _ in self._idle} & set(self._lent)

    def lend(self, flags: Sequence[str] = ()) -> Server:
        """A server with these flags, as at birth."""
        wanted = tuple(flags)
        for place, entry in enumerate(self._idle):
            if entry[0] == wanted:
                del self._idle[place]
                self._lent[id(entry[1])] = entry
                return entry[1]
        server = self._begin(wanted)
        if isinstance(server, PrivateMySQL):
            with suppress(MySQLError):  # where its flags keep us from looking, it serves one test
                self._lent[id(server)] = (wanted, server, Birth.of(server))
        return server

    def take_back(self, server: Server) -> None:
        """The server waits for the next test where it is as at birth, else it ends."""
        entry = self._lent.pop(id(server), None)
        if entry is None or not entry[2].restore(entry[1]):
            server.stop()
            return
        self._idle.append(entry)
        while len(self._idle) > self._most:
            self._idle.pop(0)[1].stop()

    def close(self) -> None:
        for _, server, _ in self._idle:
            server.stop()
        self._idle.clear()
