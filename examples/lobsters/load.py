"""Loads the sample into a MySQL: tables, rows through several connections, then the secondary keys.

Where the server allows LOAD DATA LOCAL INFILE the rows go by that, else by multi-row INSERTs. Rows are generated here
while the connections send what is ready. Only for a server that may be written to: an existing `lobsters` database is
replaced.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol, TypeAlias

import pymysql
from pymysql.cursors import Cursor
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.lobsters.data import SEED, Cell, Dataset, Row, Shape
from integration.servers.existing_vitess import ExistingVitess
from integration.servers.mysql_server import Server

SCHEMA = Path(__file__).with_name("schema.sql")
DATABASE = "lobsters"
CONNECTIONS = 4
CHUNK_ROWS = 50_000  # of a LOAD DATA statement
INSERT_ROWS = 2_000  # of an INSERT statement: about 200 kB, far below any max_allowed_packet

Connection: TypeAlias = "pymysql.Connection[Cursor]"


class Address(Protocol):
    """Where a MySQL is, and who may write to it."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def user(self) -> str: ...
    @property
    def password(self) -> str: ...


def connect(address: Address, database: str | None = None) -> Connection:
    """An autocommitting connection that may send local files."""
    return pymysql.connect(
        host=address.host,
        port=address.port,
        user=address.user,
        password=address.password,
        database=database,
        charset="utf8mb4",
        autocommit=True,
        local_infile=True,
    )


def statements() -> tuple[list[str], list[str]]:
    """The statements of schema.sql: those that create the tables, those that add the keys."""
    text = re.sub(r"--.*", "", SCHEMA.read_text())
    found = [statement.strip() for statement in text.split(";") if statement.strip()]
    return (
        [statement for statement in found if statement.startswith("CREATE")],
        [statement for statement in found if statement.startswith("ALTER")],
    )


def tsv(rows: Iterable[Row]) -> bytes:
    """Rows as LOAD DATA reads them by default. No cell of the sample holds a tab, a newline or a backslash."""
    return "".join("\t".join(["\\N" if cell is None else str(cell) for cell in row]) + "\n" for row in rows).encode()


def literal(cell: Cell) -> str:
    if cell is None:
        return "NULL"
    return str(cell) if isinstance(cell, int) else f"'{cell}'"


def column_list(columns: Sequence[str]) -> str:
    return ", ".join(f"`{column}`" for column in columns)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of one table, for one worker."""

    table: str
    columns: tuple[str, ...]
    rows: list[Row]


class Loading:
    """One load under way: a pool of connections, one for each worker thread."""

    def __init__(self, address: Address, database: str, binlog: bool = True, by_file: bool | None = None) -> None:
        """`by_file`: by LOAD DATA; None: where the server allows it."""
        self._pool = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="load")
        self._connections: SimpleQueue[Connection] = SimpleQueue()
        self._opened: list[Connection] = []
        for _ in range(CONNECTIONS):
            connection = connect(address, database)
            self._opened.append(connection)
            self._connections.put(connection)
            with connection.cursor() as cursor:
                cursor.execute("SET unique_checks = 0, foreign_key_checks = 0, sql_mode = 'STRICT_ALL_TABLES'")
                if not binlog:
                    cursor.execute("SET sql_log_bin = 0")
        self._by_file = allows_local_files(self._opened[0]) if by_file is None else by_file

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        for connection in self._opened:
            connection.close()

    def start(self, chunk: Chunk) -> Future[int]:
        """Resolves to the number of rows that were sent."""
        return self._pool.submit(self._send, chunk)

    def start_statement(self, sql: str) -> Future[int]:
        return self._pool.submit(self._run, [sql])

    def _send(self, chunk: Chunk) -> int:
        if not self._by_file:
            self._run(inserts(chunk))
            return len(chunk.rows)
        with tempfile.NamedTemporaryFile(prefix="upwell-sample-", suffix=".tsv") as file:
            file.write(tsv(chunk.rows))
            file.flush()
            columns = column_list(chunk.columns)
            self._run([f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE `{chunk.table}` ({columns})"])
        return len(chunk.rows)

    def _run(self, sql: Iterable[str]) -> int:
        connection = self._connections.get()
        try:
            with connection.cursor() as cursor:
                return sum(cursor.execute(statement) for statement in sql)
        finally:
            self._connections.put(connection)


def inserts(chunk: Chunk) -> Iterator[str]:
    head = f"INSERT INTO `{chunk.table}` ({column_list(chunk.columns)}) VALUES "
    rows = iter(chunk.rows)
    while some := list(islice(rows, INSERT_ROWS)):
        yield head + ",".join(f"({','.join(map(literal, row))})" for row in some)


def allows_local_files(connection: Connection) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.local_infile")
        row = cursor.fetchone()
    return row is not None and bool(row[0])


def chunks(dataset: Dataset) -> Iterator[Chunk]:
    for table, columns, _, rows in dataset.tables():
        while some := list(islice(rows, CHUNK_ROWS)):
            yield Chunk(table, columns, some)


def progress_bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), transient=True
    )


class Step:
    """One bar, or nothing where there is no display. Workers advance it from their threads."""

    def __init__(self, progress: Progress | None, title: str, total: int | None) -> None:
        self._progress = progress
        self._task = None if progress is None else progress.add_task(title, total=total)

    def advance(self, count: int) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task, count)

    def advance_when_done(self, future: Future[int]) -> None:
        if not future.cancelled() and future.exception() is None:
            self.advance(future.result())

    def finish(self, total: int) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, total=total, completed=total)


def database_of(server: Server) -> str:
    """Where the sample is, or would be: in a Vitess, the keyspace."""
    return server.database or "" if isinstance(server, ExistingVitess) else DATABASE


def is_loaded(server: Server) -> bool:
    """Whether the sample's tables and keys are there, for this account to see."""
    rows = server.execute(
        "SELECT COUNT(*) FROM information_schema.statistics "
        f"WHERE table_schema = '{database_of(server)}' AND table_name = 'votes' AND index_name <> 'PRIMARY'"
    )
    return bool(rows[0][0])  # the secondary keys come last


def load(
    address: Address,
    shape: Shape,
    *,
    database: str = DATABASE,
    seed: int = SEED,
    faithful: bool = False,
    binlog: bool = False,
    progress: Progress | None = None,
) -> int:
    """Replaces `database` by the sample and returns the number of rows.

    `binlog=False` keeps the load out of the binary log (needs the right to): nothing reads it from before the load.
    Raises pymysql.Error.
    """
    create, keys = statements()
    connection = connect(address)
    with connection, connection.cursor() as cursor:
        if not binlog:
            cursor.execute("SET sql_log_bin = 0")
        cursor.execute(f"DROP DATABASE IF EXISTS `{database}`")
        cursor.execute(f"CREATE DATABASE `{database}` CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci")
        cursor.execute(f"USE `{database}`")
        for statement in create:
            cursor.execute(statement)
    shown: AbstractContextManager[Progress | None] = progress if progress is not None else nullcontext()
    with shown:
        loading = Loading(address, database, binlog)
        return load_rows(loading, chunks(Dataset(shape, seed, faithful)), keys, shape, progress)


def load_rows(
    loading: Loading, loaded: Iterable[Chunk], keys: list[str], shape: Shape, progress: Progress | None
) -> int:
    """Sends the chunks, then the statements that add the keys; the number of rows. Closes `loading`."""
    try:
        started: list[Future[int]] = []
        rows_in = Step(progress, f"rows of set {shape.name}", None)
        for chunk in loaded:
            future = loading.start(chunk)
            future.add_done_callback(rows_in.advance_when_done)
            started.append(future)
        rows = sum(future.result() for future in started)
        rows_in.finish(rows)
        _add_keys(loading, keys, progress)
        return rows
    finally:
        loading.close()


def _add_keys(loading: Loading, keys: list[str], progress: Progress | None) -> None:
    """The tables side by side, the statements of one table one after the other, by number of statements."""
    keys_in = Step(progress, "secondary keys", len(keys))
    by_table: dict[str, list[str]] = {}
    for statement in keys:
        by_table.setdefault(statement.split()[2], []).append(statement)
    while by_table:
        wave = [loading.start_statement(waiting.pop(0)) for waiting in by_table.values()]
        for future in wave:
            future.result()
            keys_in.advance(1)
        by_table = {table: waiting for table, waiting in by_table.items() if waiting}
