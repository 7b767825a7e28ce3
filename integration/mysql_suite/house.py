"""A private MySQL, a proxy beside it and the tap, for one test after another: each finds them as at birth."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pymysql

from integration.mysql_suite.package import Suite
from integration.mysql_suite.tally import Finding, Tally
from integration.mysql_suite.tap import Tap
from integration.servers.mysql_server import PrivateMySQL
from integration.support.proxy_thread import Beside, proxy_in_thread

FLAGS = (
    "--innodb-lock-wait-timeout=1",
    "--lock-wait-timeout=3",
    "--innodb-flush-method=nosync",
    "--loose-innodb-redo-log-capacity=128M",
    "--max-allowed-packet=64M",
)
# Of these the server has its own.
OWN = ("gtid_executed", "gtid_purged", "server_uuid", "innodb_buffer_pool_load_now", "innodb_thread_sleep_delay")
AT_BIRTH = (
    "CREATE DATABASE test",
    "CREATE DATABASE mtr",
    "CREATE TABLE mtr.test_suppressions (pattern VARCHAR(255))",
    "CREATE PROCEDURE mtr.add_suppression(pattern TEXT) BEGIN END",
)
GLOBALS = "SELECT variable_name, variable_value FROM performance_schema.global_variables"
ACCOUNTS = "SELECT user, host, u.* FROM mysql.user u"
BYTES = {"charset": "latin1"}


class Spoilt(Exception):
    """What a test has left behind cannot be taken away: a new server is needed."""


@dataclass
class House:
    """`mysql`, `beside` and `tap` are there from `begin` on."""

    suite: Suite
    tally: Tally
    stack: ExitStack = field(default_factory=ExitStack)

    def begin(self) -> None:
        self.mysql = self.stack.enter_context(PrivateMySQL.begin(self.suite.installation, FLAGS))
        self.mysql.execute(*AT_BIRTH)
        self.globals: dict[str, str] = dict(self.mysql.execute(GLOBALS))
        self.accounts = {row[:2]: row[2:] for row in self.mysql.execute(ACCOUNTS)}
        self.databases = {name for (name,) in self.mysql.execute("SHOW DATABASES")}
        state = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="upwell-suite-")))
        options = {"check": "false", "verify_new_caches": "off"}
        self.beside: Beside = self.stack.enter_context(proxy_in_thread(self.mysql, "", state, **options))
        self.tap = Tap(self.beside, self.tally)
        self.stack.callback(self.tap.close)

    def end(self) -> None:
        """Whatever state it is in."""
        stack, self.stack = self.stack, ExitStack()
        try:
            stack.close()
        except Exception as error:  # noqa: BLE001 - the proxy says at its end what has failed in it
            if self.mysql_is_there:
                self.tally.found(Finding(self.tap.test, "unhandled", "", "at the proxy's end", repr(error)))

    def renew(self) -> None:
        self.mysql_is_there = self.mysql.answers()
        self.tally.counts["new servers"] += 1
        self.end()
        self.begin()

    mysql_is_there = True

    def tidy(self) -> None:
        """Takes away what the test has left. Raises Spoilt."""
        self.tap.end_sessions()
        for context in self.beside.unhandled:
            history = tuple(self.tally.history)
            self.tally.found(
                Finding(self.tap.test, "unhandled", "", str(context.get("message")), repr(context), "", history)
            )
        self.beside.unhandled.clear()
        try:
            self.beside.at_rest()
            with self.beside.client() as client:
                for name in list(self.beside.proxy.app.catalog.caches):
                    client.query(f"DROP CACHE {name}")
            self._as_at_birth()
        except (pymysql.MySQLError, OSError) as error:
            raise Spoilt(repr(error)) from error

    def _as_at_birth(self) -> None:
        with self.mysql.connect(read_timeout=30) as connection, connection.cursor() as cursor:
            cursor.execute("XA RECOVER CONVERT XID")
            for format_id, first, _, data in cursor.fetchall():
                number = data.removeprefix("0x")
                cursor.execute(f"XA ROLLBACK 0x{number[: 2 * first]}, 0x{number[2 * first :] or '00'}, {format_id}")
            cursor.execute("SET foreign_key_checks = 0")
            cursor.execute("SHOW DATABASES")
            for (name,) in cursor.fetchall():
                if name not in self.databases or name == "test":
                    cursor.execute(f"ALTER DATABASE `{name.replace('`', '``')}` READ ONLY = 0")
                    cursor.execute(f"DROP DATABASE `{name.replace('`', '``')}`")
            cursor.execute("CREATE DATABASE test")
            cursor.execute("SELECT server_name FROM mysql.servers")
            for (name,) in cursor.fetchall():
                cursor.execute(f"DROP SERVER `{name}`")
            self._accounts(cursor)
            self._globals(cursor)

    def _accounts(self, cursor: pymysql.cursors.Cursor) -> None:
        cursor.execute(ACCOUNTS)
        found = {row[:2]: row[2:] for row in cursor.fetchall()}
        for user, host in found.keys() - self.accounts.keys():
            cursor.execute("DROP USER %s@%s", (user, host))
        for account, row in self.accounts.items():
            if found.get(account) != row:
                raise Spoilt(f"the account {account} is another one")

    def _globals(self, cursor: pymysql.cursors.Cursor) -> None:
        cursor.execute(GLOBALS)
        for name, value in cursor.fetchall():
            wanted = self.globals.get(name)
            if wanted == value or name in OWN:
                continue
            with suppress(pymysql.MySQLError):
                cursor.execute(f"SET GLOBAL {name} = %s", (int(wanted) if wanted and wanted.isdigit() else wanted,))
            cursor.execute(f"SELECT @@GLOBAL.{name}")
            if dict(self.mysql.execute(GLOBALS)).get(name) != wanted:
                raise Spoilt(f"the variable {name} is {value!r}")
