"""One connection to the source whose socket belongs to the event loop.

`run` sends several commands at once and calls back, on the loop, with all of their answers: one round trip, no task
switch. One run at a time: the pool hands a connection to one request. In a thread the same upquery takes twice as
long when idle, and seconds beside a busy loop.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence

from external_upquery.login import Login
from external_upquery.protocol import COM_INIT_DB, COM_QUIT, Answer, Answers, ProtocolBroken, command, query
from sqltypes.errors import AnswerTooLarge, Fault, SourceDown, SourceError, UpwellError

# Decoding so many bytes takes some 0.05 ms, and half a millisecond at worst (rows of short columns).
CHUNK = 4 * 1024
BIG_CHUNK = 1 << 20  # of a packet that is still incomplete: nothing is decoded
SLICE = 0.0005  # seconds that a connection decodes in one turn of the loop; several may have an answer at once

NOTHING = memoryview(b"")
# Errors that are not the statement's: a shutdown, a killed session, one that was idle for too long.
FAREWELLS = frozenset({1053, 1927, 3169, 4031})

Finished = Callable[[list[Answer] | UpwellError], None]


def settling(future: asyncio.Future[list[Answer]]) -> Callable[[list[Answer] | UpwellError], None]:
    """Hands the outcome of a job on to whoever awaits the future, if anybody still does."""

    def finished(outcome: list[Answer] | UpwellError) -> None:
        if future.done():
            return
        if isinstance(outcome, UpwellError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    return finished


class Connection:
    """Invariants:
    1. `_finished` is set exactly while answers are expected.
    2. A connection that is not `alive` has no socket, and its reader is removed from the loop.
    """

    def __init__(
        self, login: Login, loop: asyncio.AbstractEventLoop, on_lost: Callable[[Connection], None] | None = None
    ) -> None:
        self.thread_id = login.thread_id
        self.server_version = login.server_version
        self.opened_at = time.monotonic()
        self.database = ""
        self.alive = True
        self.encrypted = isinstance(login.socket, ssl.SSLSocket)
        self._loop = loop
        self._socket = login.socket
        self._file_number = login.socket.fileno()
        self.on_lost = on_lost
        self._decoder = Answers(deprecate_eof=login.deprecate_eof)
        self._finished: Finished | None = None
        self._answers: list[Answer] = []
        self._skip = 0
        self._previous_database = ""
        self._row_limit = self._largest_row = 0
        self._unsent = NOTHING
        self._looks_again = False  # in the next turn of the loop
        loop.add_reader(self._file_number, self._on_readable)

    @property
    def busy(self) -> bool:
        return self._finished is not None

    def run(
        self,
        packets: bytes,
        count: int,
        finished: Finished,
        *,
        database: str = "",
        prepared: tuple[int, ...] = (),
        row_limit: int = 0,
        largest_row: int = 0,
        raw: bool = False,
    ) -> None:
        """Sends `packets` of `count` commands. `finished` is called once, on the loop, with their answers in order,
        with SourceDown, or with Fault if a value does not fit its type.

        `database`: selected first, unless it is selected already; "" keeps the present one. `row_limit`, `largest_row`:
        most bytes of all rows and of one row; beyond them the connection is dropped and `finished` gets AnswerTooLarge;
        0: no limit. `raw`: rows stay bytes. Requires: `alive` and not `busy`.
        """
        assert self._finished is None, "one run at a time"
        self._skip = 0
        if database and database != self.database:
            packets = command(COM_INIT_DB, database.encode()) + packets
            count += 1
            self._skip = 1
            prepared = tuple(index + 1 for index in prepared)
            self._previous_database, self.database = self.database, database
        self._finished = finished
        self._row_limit, self._largest_row = row_limit, largest_row
        self._decoder.expect(count, prepared, raw=raw)
        self._send(packets)

    def submit(self, statements: Sequence[bytes]) -> asyncio.Future[list[Answer]]:
        """The answers to these SQL statements, sent in one piece. A failing statement does not stop the others."""
        future: asyncio.Future[list[Answer]] = self._loop.create_future()

        self.run(b"".join(map(query, statements)), len(statements), settling(future))
        return future

    def send_unanswered(self, packets: bytes) -> None:
        """Sends commands that MySQL does not answer (COM_STMT_CLOSE). Requires: `alive` and not `busy`."""
        self._send(packets)

    def close(self) -> None:
        """Says goodbye and closes. A run in flight gets SourceDown."""
        if self.alive:
            if not self.busy and not self._unsent:
                self._send(command(COM_QUIT))
            self._lose(SourceDown("the connection to the source was closed"))

    def abort(self) -> None:
        """Closes without a word. A run in flight gets SourceDown."""
        self._lose(SourceDown("the connection to the source was closed"))

    # -- sending -------------------------------------------------------------------------------------------------------

    def _send(self, packets: bytes) -> None:
        if self._unsent:
            self._unsent = memoryview(bytes(self._unsent) + packets)
            return
        try:
            # Sliced here and below: after "not now" a TLS socket wants to see no fewer bytes than before.
            sent = self._socket.send(packets if len(packets) <= BIG_CHUNK else packets[:BIG_CHUNK])
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            sent = 0
        except OSError as error:
            # Later: the caller has not returned yet from the call that it is told about.
            self._loop.call_soon(self._lose, SourceDown(f"the connection to the source was lost: {error}"))
            return
        if sent < len(packets):
            self._unsent = memoryview(packets)[sent:]
            self._loop.add_writer(self._file_number, self._on_writable)

    def _on_writable(self) -> None:
        try:
            sent = self._socket.send(self._unsent[:BIG_CHUNK])
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            self._lose(SourceDown(f"the connection to the source was lost: {error}"))
            return
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._loop.remove_writer(self._file_number)

    # -- receiving -----------------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        if not self._looks_again:  # else twice in one turn
            self._read()

    def _on_pending(self) -> None:
        self._looks_again = False
        if self.alive:
            self._read()

    def _read(self) -> None:
        """Decodes received bytes until there are none, for a slice. So it always looks once more: libuv announces a
        socket that was reset behind bytes once, and never announces bytes that the TLS layer has already taken."""
        until = time.perf_counter() + SLICE
        decoder = self._decoder
        while self.alive:
            try:
                data = self._socket.recv(max(CHUNK, min(decoder.lacking, BIG_CHUNK)))
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError as error:
                self._lose(SourceDown(f"the connection to the source was lost: {error}"))
                return
            if not data:
                self._lose(SourceDown("the source closed the connection"))
                return
            self._decode(data)
            if decoder.expected and time.perf_counter() >= until:
                break
        if self.alive and not self._looks_again:
            self._looks_again = True
            self._loop.call_soon(self._on_pending)

    def _decode(self, data: bytes) -> None:
        decoder = self._decoder
        try:
            self._answers += decoder.feed(data)
        except ProtocolBroken as error:
            self._lose(SourceDown(f"the source's answer cannot be decoded: {error}"))
        except (ValueError, IndexError, ArithmeticError) as error:  # of no such type
            self._lose(Fault(f"a value of the source's answer cannot be decoded: {error!r}"))
        else:
            if self._row_limit and decoder.row_bytes > self._row_limit:
                self._lose(AnswerTooLarge(f"the answer is over {self._row_limit} bytes"))
            elif self._largest_row and decoder.lacking > self._largest_row:
                self._lose(AnswerTooLarge(f"a row of the answer is over {self._largest_row} bytes"))
            elif not decoder.expected:
                self._on_completed()

    def _on_completed(self) -> None:
        answers, self._answers = self._answers, []
        finished, self._finished = self._finished, None
        if self._skip:
            refused = answers.pop(0)
            if isinstance(refused, UpwellError):
                # What came after it ran in the database selected before.
                self.database = self._previous_database
                answers = [refused] * len(answers)
        assert finished is not None
        for answer in answers:
            if type(answer) is SourceError and answer.errno in FAREWELLS:
                self._lose(SourceDown(f"the source ended the connection: {answer.message}"))
                finished(SourceDown(f"the source ended the connection: {answer.message}"))
                return
        finished(answers)

    def _lose(self, error: UpwellError) -> None:
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._file_number)
        self._loop.remove_writer(self._file_number)
        self._socket.close()
        self._unsent = NOTHING
        finished, self._finished = self._finished, None
        if self.on_lost is not None:
            self.on_lost(self)
        if finished is not None:
            finished(error)


async def open_connection(
    login: Callable[[], Login], on_lost: Callable[[Connection], None] | None = None
) -> Connection:
    """Logs in, in a thread, and takes the socket over. Raises as `log_in`."""
    loop = asyncio.get_running_loop()
    return Connection(await loop.run_in_executor(None, login), loop, on_lost)
