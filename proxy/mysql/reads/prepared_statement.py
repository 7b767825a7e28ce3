"""Prepared statements as the proxy sees them: what MySQL announced, and what it was bound. Pure.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_execute.html
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator, Sequence, Set
from itertools import chain, compress, repeat
from operator import le, or_

from external_upquery.mysql.other_session import Settings
from planner.session.needs import SESSION_NEEDS
from proxy.mysql.reads.announced import Heads
from proxy.mysql.state.announces import Announces
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.wire.bound_values import READERS, UNSIGNED, NotDecoded
from proxy.mysql.wire.packets import Malformed, packet, read_lenenc, read_lenenc_int
from sqltypes.expression import Value
from sqltypes.zone import Zone

FIXED = 10  # bytes before the parameters: command, statement id, flags, iteration count
LONGLONG = (0x08,)  # the types of an execution whose only parameter is a 64-bit integer
CURSOR = 0x07  # of the flags
ONCE = b"\0\1\0\0\0"  # flags of no cursor, and how often
PARAMETER_COUNT = 0x08  # of the flags, in sessions with query attributes: parameters may follow where the text has none

NULL_TYPE = 0x06
MOMENTS = frozenset({0x07, 0x0A, 0x0B, 0x0C})
DAYS = MOMENTS - {0x0B}
DOUBLE, REAL = 0x05, 2
RANKS = {0x00: 1, 0xF6: 1, 0x04: REAL, DOUBLE: REAL}
"""Of types of numbers: one of a higher rank does not fit where MySQL counts on one of a lower."""
TEXTS = frozenset({0x0F, 0xF9, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE})
STRINGS = TEXTS | {NULL_TYPE}
WHOLE = {0x01: 0x08, 0x02: 0x08, 0x03: 0x08, 0x8001: 0x8008, 0x8002: 0x8008, 0x8003: 0x8008}
"""Types that MySQL takes for one kind: whole numbers of any width."""
_KIND = WHOLE | {0x0F: 0xFD, 0xFE: 0xFD, 0xF9: 0xFC, 0xFA: 0xFC, 0xFB: 0xFC, 0x00: 0xF6, 0x07: 0x0C}
MOST_UNSEEN = 6  # executions of hits that MySQL is shown before the next that is its own
MOST_PARAMETERS = 5000  # of a statement that may be a cache's


class PreparedStatement:
    """A prepared statement of one session.

    MySQL resolves a statement by the types that it was bound, resolves it anew where a type does not fit, and goes on
    comparing by what it has resolved. It does not see the executions that were hits. So these are remembered here, and
    MySQL is shown those that count (`owed`) before it executes the statement itself.
    """

    marks = b""  # that were read as the session's sql_mode has it, and are written otherwise in `text`
    # What `answer` is of: SessionState.announces, caches' version.
    announced: tuple[Announces | None, int] = (None, -1)
    target: object = None  # the `Target` (routes.py) of the text without what the clock says
    hinted = b""  # the session's hint as of which that is, and its clocks
    clocks: Zone | None = None
    headed: object = None  # the cache that `heads` are of, and its plan
    # MySQL may have read it otherwise than where caches are filled (`changes_marks`).
    misread = False
    # Session variables that were not as in the sessions that fill caches when MySQL resolved the text, or executed
    # it: where a table has changed, it resolves it anew.
    differed: frozenset[str] = frozenset()
    # What the session was like when MySQL resolved it, where it asks about that alone (`questions.py`).
    asked_as: Hashable | None = None
    # With which hint the text means elsewhere what it did whenever MySQL may have resolved it (`hint_for`); None:
    # that was not always one.
    hint: bytes | None = None
    # What the session had set whenever MySQL may have resolved it; None: that was not always the same, or not known.
    settings: Settings | None = None
    # As the parameters were bound last.
    types: tuple[int, ...] | None = None  # None before the first execution
    told: tuple[int, ...] | None = None  # as MySQL was told last
    rebound = False  # they were bound by hits, and not as MySQL was told
    recoded = False  # strings were, when the session had another character set: they are read in that one
    # Parameters for which MySQL was once given something else than a string: it compares strings as that since.
    numbers: frozenset[int] = frozenset()  # a number
    moments: frozenset[int] = frozenset()  # a date or time
    days: frozenset[int] = frozenset()  # of these, no TIME
    nulled: frozenset[int] = frozenset()  # NULL, of no other type
    reals: frozenset[int] = frozenset()  # for which it compares numbers as DOUBLE since
    mixed: frozenset[int] = frozenset()  # for which types of several kinds were bound
    turned = False  # for some whose types are not known here
    # What MySQL has not seen.
    # The payload of the last execution, unless MySQL was given it: where types change, a list is compared with values
    # of the one before.
    last = b""
    # As `last`, and its types, of the execution before the one that comes.
    before: tuple[bytes, tuple[int, ...]] | None = None
    # Of the one that comes it is known that MySQL can convert its strings for what they are compared with. Where it
    # cannot, what it does depends on the values that it was given before.
    fits = False
    unshown = False  # settings by which it is resolved have changed, before MySQL was shown what hits answered
    # MySQL has answered with an error, and goes on so where it could not convert a string for a column.
    failed = False
    # A cache may have answered executions since MySQL has executed it without a cursor. Where MySQL resolves it anew
    # as it opens a cursor, it answers the next execution in a broken way (9.7).
    behind = False
    pieces = False  # the execution that MySQL is to answer takes some
    # Of its cursor: MySQL may have one open; it would have closed it at an execution that was a hit; and so it was as
    # the execution was sent that MySQL answers.
    cursor = closed = stale = False
    # Whether such data was sent since the last execution or reset, and, since that, for a parameter that it has not:
    # MySQL refuses it then.
    long_data = refused = False

    def __init__(self, text: bytes, database: str, answer: Sequence[bytes], *, attributes: bool) -> None:
        """`answer`: the packets of MySQL's answer to COM_STMT_PREPARE. `attributes`: with CLIENT_QUERY_ATTRIBUTES."""
        self.id, self.parameters = answer[0][1:5], int.from_bytes(answer[0][7:9], "little")
        self.text = self.sent = text  # as a session that fills caches would be sent it; as it was sent
        self.database = database
        self.answer = answer
        self.attributes = attributes
        # What stands before the rows of an answer, by how the session is told of columns (`SessionState.announces`).
        self.heads = Heads()
        self.ranks = (0,) * self.parameters  # by which types it compares numbers, once it has seen all executions
        self._once = (NULL_TYPE,) * self.parameters  # the first kind of each parameter but NULL
        # Of the types of the last execution that could make MySQL resolve the statement anew; negative where NULL was
        # bound as such.
        self.kinds = (0,) * self.parameters
        self.unseen: list[tuple[bytes, tuple[int, ...]]] = []  # executions that MySQL has not seen, and their types

    @property
    def resolved(self) -> object:
        """How the session was told of columns when MySQL resolved the text; the statement where that is not known."""
        return self.announced[0] if self.announced[0] is not None else self

    def binds_types(self, data: bytes) -> bool:
        """Whether an execution (its packet with the header) may bind types: only then they are worth a look."""
        at = 4 + FIXED + (self.parameters + 7 >> 3)
        return self._counts(data[9]) or (self.parameters > 0 and data[at : at + 1] != b"\0")

    def _counts(self, flags: int) -> bool:
        """Whether the number of parameters stands before them, and a name with each type. MySQL expects both in every
        execution with parameters of a session with query attributes, whether the flag says so or not; without such
        attributes the flag means nothing."""
        return self.attributes and (self.parameters > 0 or bool(flags & PARAMETER_COUNT))

    def _note_bound(self, types: tuple[int, ...]) -> None:
        """An execution binds these types."""
        self.types = types
        if self.parameters > MOST_PARAMETERS:
            return  # none of its executions is a hit, which is what all else is for
        alike = tuple(map(_KIND.get, types, types))
        if alike != self._once:
            self.mixed |= frozenset(compress(range(len(types)), map(_is_other, alike, self._once)))
            self._once = tuple(map(_first, self._once, alike))
        kinds = set(types)
        self.moments |= _places(types, {kind for kind in kinds if kind & 0xFF in MOMENTS})
        self.nulled |= _places(types, {kind for kind in kinds if kind & 0xFF == NULL_TYPE})
        self.numbers |= _places(types, {kind for kind in kinds if kind & 0xFF not in MOMENTS | STRINGS})
        self.days |= _places(types, {kind for kind in kinds if kind & 0xFF in DAYS})
        self.ranks = _turned(self.ranks, types)
        if REAL in self.ranks:
            self.reals |= _places(self.ranks, {REAL})

    def _note_kinds(self, payload: bytes, nulls: bytes, before: tuple[int, ...] | None) -> None:
        """Requires: the types of the execution have been noted. `before`: those of the one before."""
        types, last = self.types, self.last
        self.last = payload
        self.before = (last, before) if last and before is not None else None
        if types is None or self.parameters > MOST_PARAMETERS:
            return
        kinds = self._kinds(types)
        if kinds != self.kinds or nulls.strip(b"\0"):
            given = tuple(map(_kind_of_null, kinds, _bits(nulls)))
            if not all(map(_is_covered, given, self.kinds)):
                self.kinds = given
                if last and before is not None and not (self.unseen and self.unseen[-1][0][4:] == last):
                    self.unseen.append((packet(last, 0), before))
                self.unseen.append((packet(payload, 0), types))

    @staticmethod
    def _kinds(types: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(map(WHOLE.get, types, types)) if not WHOLE.keys().isdisjoint(types) else types

    def owed(self, data: bytes = b"") -> list[bytes]:
        """The executions that MySQL must be shown before what comes next, which is an execution, or b"" for other
        commands. Requires: what it binds has been noted."""
        unseen, last, self.unseen, self.last = self.unseen, self.last, [], b""
        before, fits, self.before, self.fits = self.before, self.fits, None, False
        cursor = len(data) > 9 and bool(data[9] & CURSOR)
        fits |= TEXTS.isdisjoint(type_ & 0xFF for type_ in self.types or ())
        if unseen and data and (unseen[-1][0][4:] == data[4:] or (fits and self._binds_all(data))):
            unseen.pop()
        ahead = [one[4:] for one, _ in unseen[-1:]]
        if data and not fits and before is not None and before[0] not in (data[4:], *ahead):
            unseen.append((packet(before[0], 0), before[1]))
        found = [self._typed(*one) for one in unseen]
        if cursor and self.behind and not self.pieces:  # the same without a cursor
            plain = packet(data[4:9] + bytes((data[9] & ~CURSOR,)) + data[10:], 0)
            found.append(plain if self.types is None else self._typed(plain, self.types))
        if not data and self.rebound and last and self.types is not None:
            found.append(self._typed(packet(last, 0), self.types))
        if found:  # MySQL closes its cursor there
            self.cursor = self.closed = False
        if data:
            self.behind &= cursor and not found
            self.stale, self.cursor, self.closed = self.closed, cursor, False
        return found

    def note_session(self, state: SessionState) -> None:
        """MySQL executes it in a session that is so, and may resolve it anew."""
        self.misread |= state.marks_of(self.sent) != self.marks
        if state.narrow or state.differing(SESSION_NEEDS):
            self.differed |= state.differences(self.text)
        if state.hint != self.hint:
            self.hint = None
        if state.settings is not self.settings:
            self.settings = None

    def answered(self, *, failed: bool) -> None:
        """MySQL has answered an execution. One that fails may have left an older cursor open."""
        self.failed = failed
        if failed and self.stale:
            self.cursor = self.closed = True

    def resolve_unshown(self) -> None:
        """MySQL may resolve it anew, and is not shown before what it was owed."""
        self.unshown |= bool(self.unseen) or (self.rebound and self.last != b"")

    def note_looked(self) -> None:
        """A cache may answer the execution that comes."""
        self.closed = self.cursor
        self.behind = True

    def recode(self) -> None:
        """The session's character set becomes another one: strings are read in the one in which types were bound."""
        self.recoded = any(type_ & 0xFF in TEXTS for type_ in set(self.types or ()))

    def for_mysql(self, data: bytes) -> bytes:
        """An execution that MySQL is to answer (its packet with the header), with the types of its parameters where
        only hits have seen them. Requires: what it binds has been noted, and MySQL is owed nothing."""
        if len(data) < 4 + FIXED or not self.parameters:
            return data  # MySQL refuses it, or it binds nothing
        if self.types is None:
            self.turned = True
            self.told = None
            self.kinds = (0,) * self.parameters
            return data
        return self._typed(data, self.types)

    def _binds_all(self, data: bytes) -> bool:
        """Whether an execution alone tells MySQL what it was bound last."""
        start = 4 + FIXED
        if len(data) < start:
            return False
        if self._counts(data[9]):
            _, start = read_lenenc_int(data, start)
        nulls = data[start : start + (self.parameters + 7 >> 3)]
        return self.types is not None and self._kinds(self.types) == self.kinds and not nulls.strip(b"\0")

    def _typed(self, data: bytes, types: tuple[int, ...]) -> bytes:
        """An execution as MySQL is sent it: with types, where it was not told them last."""
        given, at = self.parameters, 4 + FIXED
        if self._counts(data[9]):
            given, at = read_lenenc_int(data, at)
        at += given + 7 >> 3
        if data[at : at + 1] != b"\0":
            self.told, self.rebound = types, False
            return data
        if (types == self.told and not self.rebound) or given != len(types):
            return data
        self.told, self.rebound = types, False
        end = b"\0" if self.attributes else b""  # a parameter has no name
        bound = b"".join(type_.to_bytes(2, "little") + end for type_ in types)
        return packet(data[4:at] + b"\1" + bound + data[at + 1 :], data[3])

    def note_types(self, payload: bytes) -> None:
        """Remembers the types that an execution binds: the next one may leave them out. Raises Malformed,
        NotDecoded."""
        self._values_at(payload)

    def values(self, payload: bytes) -> tuple[Value, ...]:
        """The parameters' values of an execution (the packet's payload). Raises Malformed, NotDecoded."""
        at, nulls, attributes = self._values_at(payload)
        found: list[Value] = []
        for number, type_ in enumerate(self.types or ()):
            plain = type_ & ~UNSIGNED
            reader = READERS.get(type_ if type_ in READERS else plain)
            if reader is None and plain != NULL_TYPE:  # most of these MySQL refuses, for NULL too
                raise NotDecoded(f"a parameter is of type {plain}")
            if reader is None or nulls[number >> 3] >> (number & 7) & 1:
                found.append(None)
                continue
            value, at = reader(payload, at)
            found.append(value)
        if attributes:
            _behind_values(payload, at, attributes, nulls, self.parameters)
        return tuple(found)

    def is_as_new(self, settings: Settings) -> bool:
        """Whether MySQL would resolve it in the same way if it were prepared now, in a session with these settings, and
        bound as it was last."""
        return not (self.mixed or self.turned or self.recoded or self.misread) and (
            self.settings is settings and self.sent == self.text
        )

    def execution(self, data: bytes) -> bytes:
        """What follows the statement's id where it is executed so in a session without query attributes; b"" where that
        cannot be told. `data`: the packet with the header, that was executed last. Raises Malformed."""
        payload, count, at = data[4:], self.parameters, FIXED
        if self.types is None or len(self.types) != count:
            return b""
        if not count:
            return ONCE
        named = self._counts(payload[5])
        if named:
            given, at = read_lenenc_int(payload, at)
            if given != count:
                return b""
        nulls = payload[at : (end := at + (count + 7 >> 3))]
        at = end + 1
        if payload[end]:
            _, at = read_types(payload, at, count, named=named)
        types = b"".join([type_.to_bytes(2, "little") for type_ in self.types])
        return ONCE + nulls + b"\1" + types + payload[at:]

    def longs(self, data: bytes, count: int) -> tuple[int, ...] | None:
        """The values of an execution (its packet with the header), where they are so many 64-bit integers of which the
        types are known; else None."""
        if self.types is None or self.types != LONGLONG * count or self.kinds != self.types:
            return None
        before = 4 + FIXED
        if self._counts(data[9]):
            given, before = read_lenenc_int(data, before)
            if given != count:
                return None
        start = before + (count + 7 >> 3) + 1
        if start == len(data) - 8 * count:
            types_follow = data[start - 1]
        else:  # with their types
            size = (3 if self.attributes else 2) * count
            start += size
            if start != len(data) - 8 * count or data[start - size : start] != self._longs(count):
                return None
            types_follow = 0
        if types_follow or data[before : before + (count + 7 >> 3)].strip(b"\0"):
            return None
        values = struct.unpack_from(f"<{count}q", data, start)
        return None if any(self.ranks) and min(values) < 0 else values

    def _longs(self, count: int) -> bytes:
        """The types of so many 64-bit integers, as they are bound."""
        return (b"\x08\0\0" if self.attributes else b"\x08\0") * count

    def _values_at(self, payload: bytes) -> tuple[int, bytes, tuple[int, ...]]:
        """(where the values begin, the bitmap of NULLs, the types of the query's attributes). Attributes stand behind
        the parameters."""
        at, before = FIXED, self.types
        attributes: tuple[int, ...] = ()
        if len(payload) < at:
            raise Malformed(f"an execution of {len(payload)} bytes")
        count = given = self.parameters
        named = self._counts(payload[5])
        if named:
            given, at = read_lenenc_int(payload, at)
            if given < count:
                raise Malformed(f"an execution with {given} parameters, expected {count}")
        if not given:
            self.types = ()
            return at, b"", ()
        nulls = payload[at : at + (given + 7 >> 3)]
        at += given + 7 >> 3
        if at >= len(payload):
            raise Malformed("an execution without parameters")
        bound = payload[at]
        at += 1
        if bound:
            types, at = read_types(payload, at, given, named=named)
            self.rebound, self.recoded = True, False
            attributes = types[count:]
            if types[:count] != self.types:
                self._note_bound(types[:count])
        elif self.types is None or given > count:
            raise NotDecoded("the parameters' types were never sent")
        self._note_kinds(payload, nulls, before)
        return at, nulls, attributes


def _turned(ranks: tuple[int, ...], types: Sequence[int]) -> tuple[int, ...]:
    """MySQL resolves a statement anew, for the types of this execution, where one of them does not fit. Strings do fit,
    but beside a number they are DOUBLE then."""
    kinds = set(types)  # a few: no line of Python runs for each parameter, of which there may be 65,535
    fits = {kind: RANKS.get(kind, 0) for kind in kinds}
    if all(map(le, map(fits.__getitem__, types), ranks)):
        return ranks
    found = {kind: REAL if kind & 0xFF in TEXTS else rank for kind, rank in fits.items()}
    return tuple(map(found.__getitem__, types))


def _kind_of_null(kind: int, null: int) -> int:
    """`null`: by a bit of its own."""
    return -kind if null and kind != NULL_TYPE else kind


def _is_covered(kind: int, before: int) -> bool:
    """Whether a parameter fits as MySQL has resolved it for the one before. NULL always does, but no value fits what is
    resolved for NULL: MySQL announces other columns behind it."""
    return kind in (before, NULL_TYPE) or 0 > kind == -before


def _bits(bitmap: bytes) -> Iterator[int]:
    """Of a bitmap of NULLs, without end."""
    return chain((byte >> bit & 1 for byte in bitmap for bit in range(8)), repeat(0))


def _is_other(kind: int, first: int) -> bool:
    return kind != first and NULL_TYPE not in (kind, first)


def _first(first: int, kind: int) -> int:
    return kind if first == NULL_TYPE else first


def _places(types: Sequence[int], kinds: Set[int]) -> frozenset[int]:
    """The numbers of the parameters of these types."""
    if not kinds:
        return frozenset()
    if kinds >= set(types):
        return frozenset(range(len(types)))
    return frozenset(compress(range(len(types)), map(kinds.__contains__, types)))


def read_types(payload: bytes, at: int, count: int, *, named: bool) -> tuple[tuple[int, ...], int]:
    """(the types of `count` parameters, the position behind them). Raises Malformed."""
    if at + 2 * count > len(payload):
        raise Malformed("the types of parameters are cut off")
    quick = _quick_types(payload, at, count, named)
    if quick is not None:
        return quick, at + (3 if named else 2) * count
    types = []
    for _ in range(count):
        types.append(int.from_bytes(payload[at : at + 2], "little"))
        at += 2
        if named:
            _, at = read_lenenc(payload, at)
    return tuple(types), at


def _quick_types(payload: bytes, at: int, count: int, named: bool) -> tuple[int, ...] | None:
    """Of parameters without names, as clients send them; None where one has a name."""
    if not named:
        return struct.unpack_from(f"<{count}H", payload, at)
    end = at + 3 * count
    if payload[at + 2 : end : 3] != bytes(count):
        return None
    low, high = payload[at:end:3], payload[at + 1 : end : 3]
    return tuple(low) if not any(high) else tuple(map(or_, low, map((256).__mul__, high)))


_WIDTHS = {0x01: 1, 0x02: 2, 0x0D: 2, 0x03: 4, 0x09: 4, 0x04: 4, 0x05: 8, 0x08: 8, NULL_TYPE: 0}


def text_at(payload: bytes) -> int:
    """Where the text of a COM_QUERY begins, behind its attributes. `payload`: without the command's byte. Raises
    Malformed.

    https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query.html
    """
    count, at = read_lenenc_int(payload, 0)
    sets, at = read_lenenc_int(payload, at)
    if not count:
        return at
    nulls = payload[at : at + (count + 7 >> 3)]
    at += count + 7 >> 3
    if sets != 1 or payload[at : at + 1] != b"\1":
        raise Malformed("attributes of a query without their types")
    types, at = read_types(payload, at + 1, count, named=True)
    return _behind_values(payload, at, types, nulls)


def _behind_values(payload: bytes, at: int, types: Sequence[int], nulls: bytes, first: int = 0) -> int:
    """The position behind values of these types, of which the first has this number among all. Raises Malformed."""
    for number, type_ in enumerate(types, first):
        if nulls[number >> 3] >> (number & 7) & 1:
            continue
        width = _WIDTHS.get(type_ & 0xFF)
        if width is None:
            _, at = read_lenenc(payload, at)
        else:
            at += width
    if at > len(payload):
        raise Malformed("the attributes of a query are cut off")
    return at
