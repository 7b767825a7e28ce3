"""A data source for Spark that asks MySQL and returns its answers.

Commands and decoder are the proxy's own, so a value is decoded the same way with and without Spark. An executor that
has the decoder (`external_upquery/rows_apart.py`) takes the rows out of an answer and decodes them; otherwise the proxy
decodes all bytes. Executors need PyMySQL and pyarrow; this module and `bulk/questions.py` are sent to them.

A partition asks some questions, one after the other, on one connection. After the commands of each question it selects
a mark, 32 random letters: the mark shows that the answer is complete. It opens a lost connection once more. An error
stands in the place of its answer, so no other slice is lost.
"""

from __future__ import annotations

import marshal
import secrets
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pymysql
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from bulk.questions import Login, Question

if TYPE_CHECKING:
    import pyarrow

NAME = "upwell_slices"
SCHEMA = "number bigint, answer binary, rows binary, error string, errno int"
BATCH = 4 << 20  # bytes of answers that are handed on together
LARGEST = 512 << 20  # bytes of one answer
LOST = 2013  # MySQL's number for a connection that was lost
CONNECT_SECONDS = 10.0
SILENT_SECONDS = 600.0  # without a byte of an answer


class Slice(InputPartition):
    """What one task asks. Its `repr` is seen in Spark's logs."""

    def __init__(self, login: Login, questions: Sequence[Question]) -> None:
        super().__init__(len(questions))
        self.login = login
        self.questions = tuple(questions)

    def __repr__(self) -> str:
        return f"Slice({len(self.questions)} questions)"


class SliceReader(DataSourceReader):
    def __init__(self, slices: Sequence[Slice]) -> None:
        self._slices = slices

    def partitions(self) -> Sequence[Slice]:
        return self._slices

    def read(self, partition: Slice) -> Iterator[pyarrow.RecordBatch]:  # type: ignore[override]  # what is yielded is allowed
        import pyarrow

        schema = pyarrow.schema(
            [
                ("number", pyarrow.int64()),
                ("answer", pyarrow.binary()),
                ("rows", pyarrow.binary()),
                ("error", pyarrow.string()),
                ("errno", pyarrow.int32()),
            ]
        )
        rows: list[tuple[int, bytes | None, bytes | None, str | None, int]] = []
        size = 0
        for row in answers(partition):
            rows.append(row)
            size += len(row[1] or b"") + len(row[2] or b"")
            if size >= BATCH:
                yield pyarrow.RecordBatch.from_arrays([list(column) for column in zip(*rows)], schema=schema)  # noqa: B905 - equal by construction
                rows, size = [], 0
        if rows:
            yield pyarrow.RecordBatch.from_arrays([list(column) for column in zip(*rows)], schema=schema)  # noqa: B905 - likewise


def source_of(slices: Sequence[Slice]) -> type[DataSource]:
    """The data source that gives these slices' answers. They travel with the class, as bytes: options would be shown
    in plans."""

    class Slices(DataSource):
        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> str:
            return SCHEMA

        def reader(self, schema: Any) -> SliceReader:
            return SliceReader(slices)

    return Slices


def decoder() -> Callable[[bytes, int], tuple[bytes, Any]] | None:
    """Takes the rows out of the bytes of so many answers, None where the executor has nothing of Upwell. Not kept by
    `functools.cache`: what that makes is pickled by the module's name, and executors do not have the module."""
    try:
        from external_upquery.rows_apart import taken_out
    except ImportError:
        return None
    return taken_out


def answers(asked: Slice) -> Iterator[tuple[int, bytes | None, bytes | None, str | None, int]]:
    """For each question (number, bytes, rows, None, 0), or (number, None, None, message, MySQL's error number). `rows`:
    the rows that were taken out of the bytes, packed; None if there are none."""
    connection: Connection | None = None
    try:
        for question in asked.questions:
            answer: bytes | None = None
            problem, errno = "", 0
            for _ in range(2):
                try:
                    if connection is None:
                        connection = Connection(asked.login)
                    answer = connection.ask(question)
                    break
                except TooLarge as error:
                    _close(connection)
                    connection, problem, errno = None, str(error), 0
                    break
                except pymysql.err.MySQLError as error:
                    _close(connection)
                    connection, (problem, errno) = None, _told(error)
                    if errno not in (LOST, 2006, 2003):
                        break  # it would be the same again
                except OSError as error:
                    _close(connection)
                    connection, problem, errno = None, str(error), LOST
            if answer is None:
                yield question.number, None, None, problem, errno
                continue
            rows: Any = None
            if question.answers and (take_out := decoder()) is not None:
                answer, rows = take_out(answer, question.answers)
            yield question.number, answer, marshal.dumps(rows) if rows else None, None, 0
    finally:
        _close(connection)


def _close(connection: Connection | None) -> None:
    if connection is not None:
        connection.close()


def _told(error: pymysql.err.MySQLError) -> tuple[str, int]:
    """What it says, and its number; never the account."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else LOST
    return str(error.args[1] if len(error.args) > 1 else error), number


class TooLarge(Exception):
    pass


class Connection:
    """A connection in a pinned session, whose socket is read as it is."""

    def __init__(self, login: Login) -> None:
        self._connection = _connect(login)
        if login.pin:
            self._connection.query(login.pin)
        self._socket = self._connection._sock  # PyMySQL keeps it to itself
        self._socket.settimeout(SILENT_SECONDS)
        self._database = ""

    def close(self) -> None:
        self._connection._force_close()  # a QUIT may have no connection to go by

    def ask(self, question: Question) -> bytes:
        """The answers to the question's commands. Raises OSError, MySQLError, TooLarge."""
        if question.database and question.database != self._database:
            self._connection.select_db(question.database)
            self._database = question.database
        mark = secrets.token_hex(16).encode()
        self._socket.sendall(question.packets + _query(b"SELECT '" + mark + b"' AS m"))
        received = bytearray()
        looked = 0
        while True:
            piece = self._socket.recv(1 << 20)
            if not piece:
                raise ConnectionResetError("MySQL closed the connection")
            received += piece
            at = received.find(mark, max(0, looked - len(mark)))
            if at < 0:
                looked = len(received)
                if looked > LARGEST:
                    raise TooLarge(f"an answer of more than {LARGEST} bytes")
                continue
            end = _end_of_packet(received, at + len(mark))
            if end is not None:
                return bytes(received[:at])
            looked = at


def _end_of_packet(received: bytearray, at: int) -> int | None:
    """Where the packet ends that begins there, None while it is not complete: behind the mark comes the end of its
    rows."""
    if len(received) < at + 4:
        return None
    end = at + 4 + int.from_bytes(received[at : at + 3], "little")
    return end if len(received) >= end else None


def _query(sql: bytes) -> bytes:
    return (len(sql) + 1).to_bytes(3, "little") + b"\0\x03" + sql


def _connect(login: Login) -> Any:
    context = _context(login)
    settings = {**login.arguments, "autocommit": True, "connect_timeout": CONNECT_SECONDS, "charset": "utf8mb4"}
    try:
        return pymysql.connect(**settings, ssl=context, ssl_disabled=context is None)
    except pymysql.err.OperationalError as error:
        if context is None or login.tls != "preferred" or error.args[0] != 2026:
            raise
        return pymysql.connect(**settings, ssl_disabled=True)


def _context(login: Login) -> ssl.SSLContext | None:
    if login.tls == "disabled":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = login.tls == "verify"
    if login.tls != "verify":
        context.verify_mode = ssl.CERT_NONE
    if login.ca:
        context.load_verify_locations(login.ca)
    elif login.tls == "verify":
        context.load_default_certs()
    if login.certificate:
        context.load_cert_chain(login.certificate, login.key or None)
    return context
