"""What differs between the synchronous Python drivers; the programs beside this file are the same for all of them.

A driver is used as its own documentation shows it, with its own defaults. What one of them cannot do is not in its
`can`. Runs in the clients' environment (`integration/clients/tools.py`): every driver is imported where it is used.
"""

from __future__ import annotations

import importlib
import ssl
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from integration.clients.addresses import Address

# Driver objects carry no types that mypy could see here.
Connection = Any
Cursor = Any


class Driver(ABC):
    """One driver. `can`: of prepared, change_user, reset, local_infile, statistics, compress."""

    name: ClassVar[str]
    can: ClassVar[frozenset[str]]
    reads_years_prepared: ClassVar[bool] = True

    def __init__(self, address: Address) -> None:
        self.address = address
        self.module: Any = self.load()
        self.errors: tuple[type[Exception], ...] = (self.module.Error,)

    @abstractmethod
    def load(self) -> Any:
        """The driver's module."""

    @abstractmethod
    def connect(self, tls: bool | None = None, **special: Any) -> Connection:
        """To the program's own database; `tls` None: as the driver has it by default."""

    @abstractmethod
    def streaming(self, connection: Connection) -> Cursor:
        """A cursor that does not hold all rows at once."""

    @abstractmethod
    def with_local_files(self) -> Connection:
        """A connection that may send files of the client."""

    def with_scripts(self) -> Connection:
        """A connection that may send several statements at once."""
        return self.connect()

    # -- what not every driver can -------------------------------------------------------------------------------------

    def prepared(self, connection: Connection) -> Cursor:
        """A cursor whose statements the server prepares."""
        raise self.cannot("prepared")

    def compressed(self) -> Connection:
        raise self.cannot("compress")

    def change_user(self, connection: Connection, user: str, password: str, database: str) -> None:
        raise self.cannot("change_user")

    def reset(self, connection: Connection) -> None:
        raise self.cannot("reset")

    def statistics(self, connection: Connection) -> str:
        raise self.cannot("statistics")

    def cannot(self, what: str) -> AssertionError:
        return AssertionError(f"{self.name} was asked for what is not in its `can`: {what}")

    # -- what most do alike --------------------------------------------------------------------------------------------

    def use(self, connection: Connection, database: str) -> None:
        """By the command of the protocol, not by a statement."""
        connection.select_db(database)

    def ping(self, connection: Connection) -> None:
        connection.ping()

    def reconnect(self, connection: Connection) -> Connection:
        """The same connection, or a new one, after the server has ended it."""
        connection.close()
        return self.connect()

    def session_of(self, connection: Connection) -> int:
        return int(connection.thread_id())

    def warning_count(self, cursor: Cursor) -> int | None:
        """As the answer's own packet counts them; None where the driver does not show it."""
        return None

    def number_and_text(self, error: Exception) -> dict[str, object]:
        """What the driver shows of an error; with `sqlstate` where it shows that."""
        number, text = error.args[0], error.args[1] if len(error.args) > 1 else ""
        return {"class": type(error).__name__, "number": number, "text": text}


class PyMySQL(Driver):
    name = "pymysql"
    can = frozenset({"local_infile"})

    def load(self) -> Any:
        return importlib.import_module("pymysql")

    def connect(self, tls: bool | None = None, **special: Any) -> Connection:
        it = self.address
        if tls is not None:
            special |= {"ssl": unchecked()} if tls else {"ssl_disabled": True}
        usual = {"host": it.host, "port": it.port, "user": it.user, "password": it.password, "database": it.database}
        return self.module.connect(**(usual | special))

    def streaming(self, connection: Connection) -> Cursor:
        return connection.cursor(self.module.cursors.SSCursor)

    def with_scripts(self) -> Connection:
        return self.connect(client_flag=self.module.constants.CLIENT.MULTI_STATEMENTS)

    def with_local_files(self) -> Connection:
        return self.connect(local_infile=True)

    def reconnect(self, connection: Connection) -> Connection:
        connection.ping(reconnect=True)
        return connection

    def warning_count(self, cursor: Cursor) -> int | None:
        return int(cursor.warning_count)


class MySQLClient(Driver):
    name = "mysqlclient"
    can = frozenset({"change_user", "local_infile", "statistics", "compress"})

    def load(self) -> Any:
        return importlib.import_module("MySQLdb")

    def connect(self, tls: bool | None = None, **special: Any) -> Connection:
        it = self.address
        if tls is not None:
            special |= {"ssl_mode": "REQUIRED" if tls else "DISABLED"}
        usual = {"host": it.host, "port": it.port, "user": it.user, "password": it.password, "database": it.database}
        return self.module.connect(**(usual | special))

    def streaming(self, connection: Connection) -> Cursor:
        return connection.cursor(importlib.import_module("MySQLdb.cursors").SSCursor)

    def with_local_files(self) -> Connection:
        return self.connect(local_infile=1)

    def compressed(self) -> Connection:
        return self.connect(compress=1)

    def change_user(self, connection: Connection, user: str, password: str, database: str) -> None:
        connection.change_user(user, password, database)

    def statistics(self, connection: Connection) -> str:
        return str(connection.stat())

    def warning_count(self, cursor: Cursor) -> int | None:
        return int(cursor.connection.warning_count())


class Connector(Driver):
    """mysql-connector-python; `pure` says which of its two implementations."""

    can = frozenset({"prepared", "change_user", "reset", "local_infile", "statistics", "compress"})
    pure: ClassVar[bool]

    def load(self) -> Any:
        if not self.pure:
            importlib.import_module("_mysql_connector")  # before the system's libssl, for it brings a newer one
        module = importlib.import_module("mysql.connector")
        assert self.pure or module.HAVE_CEXT
        return module

    def connect(self, tls: bool | None = None, **special: Any) -> Connection:
        it = self.address
        usual = {"host": it.host, "port": it.port, "user": it.user, "password": it.password, "database": it.database}
        if tls is False:
            special["ssl_disabled"] = True
        return self.module.connect(use_pure=self.pure, **(usual | special))

    def streaming(self, connection: Connection) -> Cursor:
        return connection.cursor(buffered=False)

    def prepared(self, connection: Connection) -> Cursor:
        return connection.cursor(prepared=True)

    def with_local_files(self) -> Connection:
        return self.connect(allow_local_infile=True)

    def compressed(self) -> Connection:
        return self.connect(compress=True)

    def change_user(self, connection: Connection, user: str, password: str, database: str) -> None:
        connection.cmd_change_user(user, password, database)

    def reset(self, connection: Connection) -> None:
        connection.cmd_reset_connection()

    def use(self, connection: Connection, database: str) -> None:
        connection.cmd_init_db(database)

    def reconnect(self, connection: Connection) -> Connection:
        connection.ping(reconnect=True)
        return connection

    def session_of(self, connection: Connection) -> int:
        return int(connection.connection_id)

    def statistics(self, connection: Connection) -> str:
        return str(connection.cmd_statistics())

    def warning_count(self, cursor: Cursor) -> int | None:
        return int(cursor.warning_count)

    def number_and_text(self, error: Exception) -> dict[str, object]:
        """Also of the extension's own class, which comes through where the next of several results is an error."""
        shown: Any = error
        return {"class": type(error).__name__, "number": shown.errno, "sqlstate": shown.sqlstate, "text": shown.msg}


class PureConnector(Connector):
    name = "connector-pure"
    pure = True
    reads_years_prepared = False  # takes a binary YEAR for a string and loses its place (seen in 26.10)


class CConnector(Connector):
    name = "connector-c"
    pure = False

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.errors += (importlib.import_module("_mysql_connector").MySQLInterfaceError,)


DRIVERS: dict[str, type[Driver]] = {one.name: one for one in (PyMySQL, MySQLClient, PureConnector, CConnector)}


def unchecked() -> ssl.SSLContext:
    """TLS with whoever answers."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
