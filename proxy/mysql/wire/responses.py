"""MySQL's answers as they stream by: where one ends, and what its end says about the session. Pure, no I/O.

Bytes are forwarded as they came: no row is decoded, and no packet is kept back that need not be looked at. What is
looked at: the first packet of an answer, the one that ends its rows, and everything of an exchange that is collected
(commands of our own, and COM_STMT_PREPARE). OK packets are written anew where the client must not see what is in them:
the session trackers are switched on for us (`proxy/mysql/state/session_state.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from struct import Struct

from proxy.mysql.wire.packets import (
    EOF,
    ERR,
    LARGEST,
    LOCAL_INFILE,
    OK,
    STATUS_CURSOR_EXISTS,
    STATUS_MORE_RESULTS,
    STATUS_PS_OUT_PARAMS,
    STATUS_SESSION_STATE_CHANGED,
    ErrorAnswer,
    Malformed,
    OkAnswer,
    ok_bytes,
    parse_error,
    parse_ok,
    read_lenenc_int,
)

NO_STATUS = -1  # an error says nothing about the session's status


class Kind(IntEnum):
    """What an answer may consist of."""

    RESULT = 0  # OK, an error, a request for a file, or rows; and more of them
    ONE = 1  # one packet
    PREPARED = 2
    AUTHENTICATION = 3  # one packet, whatever it says
    ROWS = 4  # rows of a cursor, or the columns of a table, without a head
    ENDLESS = 5  # a stream of events


class Phase(IntEnum):
    HEAD = 0
    DEFINITIONS = 1
    DEFINITIONS_END = 2
    ROWS = 3
    FILE = 4  # the client sends a file
    ENDLESS = 5


# Members looked up once: through its class, CPython 3.11 finds one by a call, five of which cost a microsecond.
ANY_RESULT, FIRST_HEADLESS, FOR_PREPARED = Kind.RESULT, Kind.ROWS, Kind.PREPARED
IN_HEAD, IN_DEFINITIONS, AFTER_DEFINITIONS, IN_ROWS = Phase.HEAD, Phase.DEFINITIONS, Phase.DEFINITIONS_END, Phase.ROWS
IN_EVENTS = Phase.ENDLESS

ONE_BYTE, FEW = b"\1\0\0", range(1, LOCAL_INFILE)  # the head of nearly all answers with rows: how many columns
LENGTH_OF_EOF, LENGTH_OF_OK = b"\5\0\0", b"\7\0\0"  # of those with nothing in them but flags and small numbers
SMALL = 32 * 1024  # bytes of an answer that is tried to be taken at once
NOT_PLAIN = STATUS_MORE_RESULTS | STATUS_CURSOR_EXISTS | STATUS_PS_OUT_PARAMS | STATUS_SESSION_STATE_CHANGED
HEADER = Struct("<IB").unpack_from  # length and sequence number; a packet's first byte
HEADLESS = {Kind.ROWS: Phase.ROWS, Kind.ENDLESS: Phase.ENDLESS}


@dataclass(slots=True)
class Outcome:
    """How an answer ended. `status`: the flags, NO_STATUS after an error. `state`: what the trackers say, in all its
    OK packets. `payloads`: the packets of an exchange that was collected."""

    status: int
    error: ErrorAnswer | None
    state: bytes
    payloads: list[bytes]


@dataclass(slots=True)
class Exchange:
    """A command that was sent. `visible`: its answer is the client's. `collected`: its packets are kept for `done`.
    `unwarned`: the warnings that an OK packet counts are of a statement that is not the client's last one.
    `definitions`: takes the payloads of the column definitions as they stream by, None where nobody wants them;
    `rows`: whether a row has followed them."""

    kind: Kind
    done: Callable[[Outcome], None]
    visible: bool = True
    collected: bool = False
    unwarned: bool = False
    definitions: list[bytes] | None = None
    rows: bool = False

    def __post_init__(self) -> None:
        self.collected |= self.kind in (Kind.PREPARED, Kind.AUTHENTICATION)


class Responses:
    """The answers to the commands in `exchanges`, in order.

    `forward`: takes the bytes that are the client's. `keep_state`: what of the session-state information the client
    may see (b"" for none). `unasked`: takes the payload of what nothing asked for: MySQL says goodbye so.
    `file_wanted`: is told when MySQL asks for a file of the client's.

    Invariants:
    1. `_held` begins with the header of an incomplete packet, or is empty.
    2. `_skip` > 0 only within a packet that needs no look, and then `_held` is empty.
    3. The phase is HEAD while no exchange is under way; in it `_skip` is 0.
    """

    def __init__(
        self,
        forward: Callable[[bytes], None],
        unasked: Callable[[bytes], None],
        *,
        deprecate_eof: bool,
        session_track: bool,
        keep_state: Callable[[bytes], bytes],
        file_wanted: Callable[[], None] = lambda: None,
    ) -> None:
        self.exchanges: deque[Exchange] = deque()
        self.number = 0  # of the packet that was looked at last
        self._forward = forward
        self._unasked = unasked
        self._deprecate_eof = deprecate_eof
        self._client_tracks = session_track
        self._keep_state = keep_state
        self._file_wanted = file_wanted
        self._held = b""
        self._skip = 0
        self._goes_on = False  # the packet before was of the largest size
        self._more = 0  # STATUS_MORE_RESULTS where only the packet before the rows says so
        self._phase = Phase.HEAD
        self._left = 0  # column definitions
        self._series = False  # a result that is not the first one of its answer comes
        self._state = b""
        self._payloads: list[bytes] = []
        self._replacement: bytes | None = None  # the payload that the client gets instead of the one just looked at

    @property
    def endless(self) -> bool:
        """Whether MySQL sends events: what the client sends is no command."""
        return self._phase == Phase.ENDLESS

    def expect(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)

    def forget(self) -> None:
        """Nobody is told of what is under way any more."""
        for exchange in self.exchanges:
            exchange.done = nobody_is_told  # no cycle stays behind
        self.exchanges.clear()

    def release(self) -> None:
        """Lets go of those who are told. Requires: nothing comes any more."""
        self.forget()
        self._forward = self._unasked = nobody_is_told
        self._keep_state = _kept
        self._file_wanted = _wanted

    def feed(self, data: bytes) -> None:
        """More bytes. Raises Malformed."""
        if self._phase is IN_HEAD and self.exchanges and not self._held and not self._series:
            exchange = self.exchanges[0]
            watched = exchange.collected or exchange.definitions is not None
            if exchange.kind is ANY_RESULT and exchange.visible and not watched:
                outcome = whole_answer(data, self._deprecate_eof)
                if outcome is not None:
                    self._forward(data)
                    self.exchanges.popleft()
                    exchange.done(outcome)
                    return
        self._feed_slow(data)

    def _feed_slow(self, data: bytes) -> None:
        """Anything, in pieces of any size."""
        data, self._held = self._held + data, b""
        end = len(data)
        at = min(self._skip, end)
        self._skip -= at
        # data[start:at] is looked at and not yet forwarded
        start = 0 if not self.exchanges or self.exchanges[0].visible else at
        while at < end:
            if not self.exchanges:
                self._nothing_asked(data[at:])
                return
            exchange = self.exchanges[0]
            visible = exchange.visible
            if not exchange.collected:
                at = self._pass_over(data, at, end, exchange)
                start = start if visible else at
                if at == end:
                    break
            else:
                at = self._collect(data, at, end, exchange)
                start = start if visible else at
            after = packet_end(data, at, end)
            if not after:
                self._held = data[at:]
                end = at
                break
            self.number = data[at + 3]
            ended = self._look(data[at + 4 : after], exchange)
            if not visible:
                start = after
            elif self._replacement is not None:
                start = self._replace(data, start, at, after)
            at = after
            if ended is not None:
                if start < at:
                    self._forward(data[start:at])
                start = at
                self._finish(ended)
        if start < end:
            self._forward(data[start:end])

    def _replace(self, data: bytes, start: int, at: int, after: int) -> int:
        """Forwards data[start:at], and another payload in the place of data[at:after]."""
        payload, self._replacement = self._replacement or b"", None
        self._forward(data[start:at] + len(payload).to_bytes(3, "little") + data[at + 3 : at + 4] + payload)
        return after

    def _pass_over(self, data: bytes, at: int, end: int, exchange: Exchange) -> int:
        """Passes over packets that need no look, what is there of the last one too (`_skip` is the rest of it). The
        position of one that needs a look, or whose header is not complete."""
        phase = self._phase
        if phase is IN_HEAD:
            if exchange.kind >= FIRST_HEADLESS:
                phase = self._phase = HEADLESS[exchange.kind]
            elif exchange.kind is ANY_RESULT and end - at > 4 and data[at + 4] in FEW and data[at : at + 3] == ONE_BYTE:
                self._left = data[at + 4]
                at += 5
                phase = self._phase = IN_DEFINITIONS
        if phase is IN_DEFINITIONS:
            if exchange.definitions is not None:
                return at  # each is looked at
            left = self._left
            while left and at + 4 <= end:
                at += 4 + (data[at] | data[at + 1] << 8 | data[at + 2] << 16)
                left -= 1
            self._left = left
            if not left:
                phase = self._phase = IN_ROWS if self._deprecate_eof else AFTER_DEFINITIONS
        if phase is IN_ROWS and at < end:
            start, at = at, self._rows(data, at, end)
            exchange.rows |= at > start
        elif phase is IN_EVENTS:
            while at + 4 <= end:
                at += 4 + (data[at] | data[at + 1] << 8 | data[at + 2] << 16)
        if at > end:
            self._skip = at - end
            return end
        return at

    def _collect(self, data: bytes, at: int, end: int, exchange: Exchange) -> int:
        """Takes up definitions, all but the last one, which needs a look. A statement may have tens of thousands of
        parameters."""
        if self._phase is not IN_DEFINITIONS or exchange.definitions is not None:
            return at
        left, append = self._left, self._payloads.append
        while left > 1 and at + 4 <= end:
            after = at + 4 + (data[at] | data[at + 1] << 8 | data[at + 2] << 16)
            if after > end:
                break
            append(data[at + 4 : after])
            at = after
            left -= 1
        self._left = left
        return at

    def _rows(self, data: bytes, at: int, end: int) -> int:
        goes_on = self._goes_on
        last = -1 if goes_on else end - 4
        while at < last:
            word, first = HEADER(data, at)
            size = word & LARGEST
            if first >= EOF or size == LARGEST:
                break
            at += 4 + size
        while at + 4 < end or (goes_on and at + 4 == end):
            size = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            if not goes_on and data[at + 4] >= EOF and size != LARGEST:
                break
            goes_on = size == LARGEST
            at += 4 + size
        self._goes_on = goes_on
        return at

    # -- one packet ----------------------------------------------------------------------------------------------------

    def _look(self, payload: bytes, exchange: Exchange) -> Outcome | None:
        """Goes on by one packet; the outcome where it is the exchange's last."""
        if exchange.collected:
            self._payloads.append(payload)
        phase = self._phase
        if phase is IN_HEAD and exchange.kind >= FIRST_HEADLESS:
            phase = self._phase = HEADLESS[exchange.kind]
        if phase is IN_DEFINITIONS:
            self._left -= 1
            if exchange.definitions is not None:
                exchange.definitions.append(payload)
            if self._left:
                return None
            if exchange.kind is FOR_PREPARED:
                return self._ended(NO_STATUS)
            self._phase = IN_ROWS if self._deprecate_eof else AFTER_DEFINITIONS
            return None
        if phase is AFTER_DEFINITIONS:
            return self._definitions_end(payload)
        if exchange.kind == Kind.AUTHENTICATION:
            return self._ended(NO_STATUS)
        first = payload[0] if payload else -1
        if first == ERR:
            return self._ended(NO_STATUS, parse_error(payload))
        if phase is IN_ROWS:  # of a row of the largest size, the rest may be empty
            end = first == EOF and len(payload) < LARGEST
            return self._end(payload, first, eof=not self._deprecate_eof) if end else None
        return self._head(payload, first, exchange.kind)

    def _definitions_end(self, payload: bytes) -> Outcome | None:
        self._phase = IN_ROWS
        status = payload[3] | payload[4] << 8 if len(payload) >= 5 else 0
        if status & STATUS_PS_OUT_PARAMS:  # behind the rows, MySQL does not say again that an OK packet follows
            self._more = status & STATUS_MORE_RESULTS
        # Rows of a cursor are fetched later: nothing follows.
        return self._end(payload, EOF, eof=True) if status & STATUS_CURSOR_EXISTS else None

    def _head(self, payload: bytes, first: int, kind: Kind) -> Outcome | None:
        if not payload:
            raise Malformed("an empty packet from MySQL")
        if kind == Kind.ONE:
            if first == OK and self.exchanges[0].unwarned:
                unwarned = replace(parse_ok(payload, session_track=True), warnings=0)
                self._replacement = payload = ok_bytes(unwarned, OK, session_track=True)
            if first in (OK, EOF):
                return self._end(payload, first, eof=first == EOF and not self._deprecate_eof)
            return self._ended(NO_STATUS)
        if kind is FOR_PREPARED:
            return self._prepared(payload)
        if first == OK:
            return self._end(payload, first, eof=False)
        if first == LOCAL_INFILE:
            self._phase = Phase.FILE
            if self.exchanges[0].visible:
                self._file_wanted()
            return None
        self._left, _ = read_lenenc_int(payload, 0)
        self._phase = IN_DEFINITIONS
        return None

    def _prepared(self, payload: bytes) -> Outcome | None:
        """COM_STMT_PREPARE: definitions of the parameters, then of the columns."""
        if len(payload) < 9:
            raise Malformed(f"a prepared statement of {len(payload)} bytes from MySQL")
        columns = int.from_bytes(payload[5:7], "little")
        parameters = int.from_bytes(payload[7:9], "little")
        self._left = columns + parameters
        if not self._deprecate_eof:
            self._left += (columns > 0) + (parameters > 0)
        if not self._left:
            return self._ended(NO_STATUS)
        self._phase = IN_DEFINITIONS
        return None

    def _end(self, payload: bytes, first: int, *, eof: bool) -> Outcome | None:
        """A packet that ends a result; None where another result follows."""
        if eof:
            status = (payload[3] | payload[4] << 8 if len(payload) >= 5 else 0) | self._more
            self._more = 0
        elif len(payload) == 7 and not payload[4] & STATUS_SESSION_STATE_CHANGED >> 8:
            status = payload[3] | payload[4] << 8  # behind one byte each for rows affected and the last id
        else:
            answer = parse_ok(payload, session_track=True)
            status = answer.status
            self._state += answer.state
            if self.exchanges[0].visible:
                self._rewrite(answer, first)
        if status & STATUS_MORE_RESULTS:
            self._phase = IN_HEAD
            self._series = True
            return None
        return self._ended(status)

    def _rewrite(self, answer: OkAnswer, first: int) -> None:
        kept = self._keep_state(answer.state) if self._client_tracks and answer.state else b""
        shown = OkAnswer(answer.affected, answer.insert_id, answer.status, answer.warnings, answer.info, kept)
        self._replacement = ok_bytes(shown, first, session_track=self._client_tracks)

    def _ended(self, status: int, error: ErrorAnswer | None = None) -> Outcome:
        return Outcome(status, error, self._state, self._payloads)

    def _finish(self, outcome: Outcome) -> None:
        exchange = self.exchanges.popleft()
        self._phase = IN_HEAD
        self._series = False
        self._more = 0
        self._state = b""
        self._payloads = []
        exchange.done(outcome)

    def _nothing_asked(self, data: bytes) -> None:
        end = packet_end(data, 0, len(data))
        if end:
            self._unasked(data[4:end])
        else:
            self._held = data


def whole_answer(data: bytes, deprecate_eof: bool) -> Outcome | None:
    """The outcome, where `data` is a whole answer and no more, rows or an OK, with nothing in it that is not for the
    client; None: it must be looked at packet by packet.

    Nearly all answers are of this kind; this way they take a third of the time.
    """
    end = len(data)
    last = end - (11 if deprecate_eof else 9)  # where the packet that ends the rows would be
    if end == 11 and data[:3] == LENGTH_OF_OK and data[4] == OK:
        return plain_outcome(data[7] | data[8] << 8)
    if not 5 < last < SMALL or data[last + 4] != EOF or data[4] not in FEW or data[:3] != ONE_BYTE:
        return None
    if data[last : last + 3] != (LENGTH_OF_OK if deprecate_eof else LENGTH_OF_EOF):
        return None
    at = 5
    for _ in range(data[4]):
        if at >= last:
            return None
        at += 4 + (HEADER(data, at)[0] & LARGEST)
    if not deprecate_eof:
        if at >= last or data[at : at + 3] != LENGTH_OF_EOF or (data[at + 7] | data[at + 8] << 8) & NOT_PLAIN:
            return None
        at += 9
    while at < last:
        word, first = HEADER(data, at)
        if first >= EOF:
            return None
        at += 4 + (word & LARGEST)
    if at != last:
        return None
    flags = last + 7
    return plain_outcome(data[flags] | data[flags + 1] << 8)


def plain_outcome(status: int) -> Outcome | None:
    """Of an answer that ends with these flags and nothing else; None where they say that there is more."""
    outcome = PLAIN.get(status)
    if outcome is None and not status & NOT_PLAIN:
        outcome = PLAIN[status] = Outcome(status, None, b"", [])
    return outcome


PLAIN: dict[int, Outcome] = {}


def nobody_is_told(what: object) -> None:
    """In the place of a session that has ended."""


def _kept(data: bytes) -> bytes:
    return b""


def _wanted() -> None:
    pass


def packet_end(data: bytes, at: int, end: int) -> int:
    """The end of the packet at `at`, 0 where it is not complete."""
    if at + 4 > end:
        return 0
    after = at + 4 + (data[at] | data[at + 1] << 8 | data[at + 2] << 16)
    return after if after <= end else 0
