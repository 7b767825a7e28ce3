"""How a prepared statement's parameters are bound, and which of its executions MySQL has not seen. Pure.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_execute.html
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from struct import Struct

from proxy.mysql.wire.bound_values import NULL_TYPE, READERS, UNSIGNED, NotDecoded, behind_values, read_types
from proxy.mysql.wire.packets import Malformed, packet, read_lenenc_int
from proxy.port.reasons import NO_REASON, Reason, Why
from sqltypes.expression import Value

FIXED = 10  # bytes before the parameters: command, statement id, flags, iteration count
LONGLONG = (0x08,)  # the types of an execution whose only parameter is a 64-bit integer
CURSOR = 0x07  # of the flags
ONCE = b"\0\1\0\0\0"  # flags of no cursor, and how often
PARAMETER_COUNT = 0x08  # of the flags, in sessions with query attributes: parameters may follow where the text has none

TEXTS = frozenset({0x0F, 0xF9, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE})
KINDS = {
    **{0x01: 0x08, 0x02: 0x08, 0x03: 0x08, 0x8001: 0x8008, 0x8002: 0x8008, 0x8003: 0x8008},
    **{0x0F: 0xFD, 0xFE: 0xFD, 0xF9: 0xFC, 0xFA: 0xFC, 0xFB: 0xFC, 0x00: 0xF6, 0x07: 0x0C},
}
"""Types that MySQL takes for one kind: whole numbers of any width, strings, bytes, decimals, dates with times."""
MOST_PARAMETERS = 5000  # of a statement that may be a cache's
Types = tuple[int, ...]
NO_KINDS: Types = (-1,)  # of a turned statement: no execution has these
UNRESOLVED = -2  # of each parameter, until MySQL has resolved the statement, or would have: neither has this any

BOUND_BEFORE = Reason.PARAMETERS.why(
    "a parameter is bound, or was before, with a type by which MySQL goes on comparing"
)
UNTYPED = Reason.PARAMETERS.why("the types of an execution were not known")
UNSHOWN = Reason.PARAMETERS.why("MySQL had not seen the last executions when settings changed")
IN_PIECES = Reason.PARAMETERS.why("a parameter was sent in pieces")
BY_CURSOR = Reason.PARAMETERS.why("the rows were fetched by a cursor")
TOO_MANY = Reason.PARAMETERS.why(f"more than {MOST_PARAMETERS} parameters")


class BoundTypes:
    """Of one prepared statement.

    MySQL resolves a statement by the types of an execution, resolves it anew where a type does not fit, and goes on
    comparing by what it has resolved. It does not see the executions that were hits. So the first type of each
    parameter that is not NULL sticks. An execution with another one turns the statement, and so does what else makes
    it uncertain by what MySQL goes on comparing: MySQL answers whatever follows.

    Where only NULLs come and go MySQL has resolved the statement by one execution, and may use values of the one
    before that. These two it is shown (`owed`) before it executes the statement itself, if it has not seen them.

    Invariants:
    1. What is in `first` and not NULL stays.
    2. At most three executions are kept from MySQL.
    3. A turned statement has `NO_KINDS`: no execution is one like those before.
    """

    __slots__ = (
        "_attributes", "_count", "_longs", "_owed", "before", "behind", "first", "fits", "kinds", "last", "nulled",
        "told", "turned", "types",
    )  # fmt: skip

    def __init__(self, count: int, *, attributes: bool) -> None:
        """`count`: of the parameters. `attributes`: the session has CLIENT_QUERY_ATTRIBUTES."""
        self._count, self._attributes = count, attributes
        # Why MySQL answers all that comes.
        self.turned: Why = TOO_MANY if count > MOST_PARAMETERS else NO_REASON
        self.types: Types | None = None  # as bound last; None: not known
        self.told = False  # MySQL was told the types as they were bound last
        self.first: Types = (NULL_TYPE,) * count  # the first kind of each parameter but NULL
        self.nulled = False  # NULL was bound as such, of no other type
        # By which MySQL has resolved the statement, or would have; negative where NULL was bound with that type.
        self.kinds: Types = NO_KINDS if self.turned else (UNRESOLVED,) * count
        self._owed: list[tuple[bytes, Types]] = []  # executions that led to `kinds`, which MySQL has not seen
        self.last = b""  # the payload of the last execution, unless MySQL was given it
        # As `last`, and its types, of the execution before the one that comes.
        self.before: tuple[bytes, Types] | None = None
        # Of the one that comes it is known that MySQL can convert its strings for what they are compared with. Where it
        # cannot, what it does depends on the values that it was given before.
        self.fits = False
        # A cache may have answered executions since MySQL has executed it without a cursor, or may answer the one that
        # comes. Where MySQL resolves it anew as it opens a cursor, it answers the next one in a broken way (9.7).
        self.behind = False
        # Of the last execution that `longs` has read: the types and kinds as of which, what stands before its values.
        self._longs: tuple[Types | None, Types | None, bytes, Struct] = None, None, b"", Struct("")

    def turn(self, why: Why) -> None:
        """MySQL answers all that comes."""
        self.turned, self.kinds = self.turned or why, NO_KINDS

    def note_pieces(self) -> None:
        """A value is sent ahead of an execution, in pieces: the next one takes them, whichever it is."""
        self.turn(IN_PIECES)
        self.behind = False

    def recode(self) -> None:
        """The session's character set becomes another one. MySQL reads strings in the one in which their types were
        bound: what is bound without types is not known."""
        if not self.turned and self.types is not None and not _no_texts(self.types):
            self.types = None

    # -- what is bound -------------------------------------------------------------------------------------------------

    def binds(self, data: bytes) -> bool:
        """Whether an execution (its packet with the header) may bind types: only then they are worth a look."""
        at = 4 + FIXED + (self._count + 7 >> 3)
        return self._counts(data[9]) or (self._count > 0 and data[at : at + 1] != b"\0")

    def note(self, payload: bytes) -> None:
        """Remembers what an execution binds: the next one may leave the types out. Raises Malformed, NotDecoded."""
        self._values_at(payload)

    def values(self, payload: bytes) -> tuple[Value, ...]:
        """The parameters' values of an execution (the packet's payload), of which `note` is taken. Raises Malformed,
        NotDecoded."""
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
            behind_values(payload, at, attributes, nulls, self._count)
        return tuple(found)

    def _values_at(self, payload: bytes) -> tuple[int, bytes, Types]:
        """(where the values begin, the bitmap of NULLs, the types of the query's attributes). Attributes stand behind
        the parameters."""
        if len(payload) < FIXED:
            raise Malformed(f"an execution of {len(payload)} bytes")
        count = self._count
        given, at = self._given(payload) if self._attributes else (count, FIXED)
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
        before, attributes = self.types, Types()
        if bound:
            types, at = read_types(payload, at, given, named=self._attributes and self._counts(payload[5]))
            types, attributes = types[:count], types[count:]
            self.told = False
            if types != before:
                self._bind(types)
        elif before is None or given > count:
            raise NotDecoded("the parameters' types were never sent")
        if self.last or not self.turned:
            self.before = (self.last, before) if self.last and before is not None else None
        self.last = b"" if self.turned else payload
        if not self.turned and (self.kinds != self.types or nulls.strip(b"\0")):
            self._resolve(nulls)
        return at, nulls, attributes

    def _given(self, data: bytes, at: int = FIXED) -> tuple[int, int]:
        """(how many parameters an execution gives, where the bitmap of NULLs is). `at`: behind what stands before its
        parameters. Raises Malformed."""
        return read_lenenc_int(data, at) if self._counts(data[at - 5]) else (self._count, at)

    def _counts(self, flags: int) -> bool:
        """Whether the number of parameters stands before them, and a name with each type. MySQL expects both in every
        execution with parameters of a session with query attributes, whether the flag says so or not; without such
        attributes the flag means nothing."""
        return self._attributes and (self._count > 0 or bool(flags & PARAMETER_COUNT))

    def _bind(self, types: Types) -> None:
        """An execution binds these types."""
        self.types = types
        if self.turned:
            return
        alike = _kinds_of(types)
        self.nulled |= NULL_TYPE in alike
        if alike != self.first:
            if any(map(_is_other, alike, self.first)):
                self.turn(BOUND_BEFORE)
            else:
                self.first = tuple(map(_first, self.first, alike))

    def _resolve(self, nulls: bytes) -> None:
        """By the execution that comes, with these NULLs, MySQL resolves the statement anew, unless it fits."""
        assert self.types is not None, "the execution binds them, or one before it did"
        kinds = _kinds_of(self.types)
        if nulls.strip(b"\0"):
            kinds = tuple(map(_kind_of_null, kinds, _bits(nulls)))
        if kinds != self.kinds and not all(map(_is_covered, kinds, self.kinds)):
            self.kinds = kinds
            ahead = [] if self.before is None or self.before[0] == self.last else [self.before]
            self._owed = [*ahead, (self.last, self.types)]

    # -- what MySQL is sent --------------------------------------------------------------------------------------------

    def owed(self, data: bytes = b"") -> list[bytes]:
        """The executions (packets) that MySQL must be shown before what comes next, which is an execution, or b"" for
        other commands. Requires: what it binds has been noted."""
        owed, last, before, fits = self._owed, self.last, self.before, self.fits
        self._owed, self.last, self.before, self.fits = [], b"", None, False
        payload, types, cursor = data[4:], self.types, len(data) > 9 and bool(data[9] & CURSOR)
        if last and last != payload and types is not None:  # what comes binds nothing, and was not looked at
            before = last, types
        if data:
            fits = not self.turned and (fits or types is None or _no_texts(types))
            if owed and (owed[-1][0] == payload or (fits and self._tells_all(data))):
                owed.pop()
            if not fits and before is not None and before[0] not in (payload, *(one for one, _ in owed[-1:])):
                owed.append(before)
        found = [self._typed(packet(one, 0), of_one) for one, of_one in owed]
        if cursor and self.behind:  # the same without a cursor
            found.append(self._typed(packet(data[4:9] + bytes((data[9] & ~CURSOR,)) + data[10:], 0), types))
        if not data and not self.told and last:
            found.append(self._typed(packet(last, 0), types))
        self.behind &= not data
        return found

    def for_mysql(self, data: bytes) -> bytes:
        """An execution that MySQL is to answer (its packet with the header), with the types of its parameters where
        only hits have seen them. Requires: what it binds has been noted, and MySQL is owed nothing."""
        if len(data) < 4 + FIXED or not self._count:
            return data  # MySQL refuses it, or it binds nothing
        if self.types is None:
            self.turn(UNTYPED)
        return data if self.told or self.types is None else self._typed(data, self.types)

    def resolve_unshown(self) -> None:
        """MySQL may resolve it anew, and is not shown before what it was owed."""
        if self._owed or (self.last and not self.told):
            self.turn(UNSHOWN)

    def _tells_all(self, data: bytes) -> bool:
        """Whether an execution alone tells MySQL by what to resolve the statement."""
        given, at = self._given(data, 4 + FIXED)
        return _kinds_of(self.types or ()) == self.kinds and not data[at : at + (given + 7 >> 3)].strip(b"\0")

    def _typed(self, data: bytes, types: Types | None) -> bytes:
        """An execution as MySQL is sent it: with types, where it was not told them last."""
        given, at = self._given(data, 4 + FIXED)
        at += given + 7 >> 3
        if types is None or data[at : at + 1] != b"\0":
            self.told = types == self.types
            return data
        if (self.told and types == self.types) or given != len(types):
            return data
        self.told = types == self.types
        end = b"\0" if self._attributes else b""  # a parameter has no name
        bound = b"".join(type_.to_bytes(2, "little") + end for type_ in types)
        return packet(data[4:at] + b"\1" + bound + data[at + 1 :], data[3])

    def execution(self, data: bytes) -> bytes:
        """What follows the statement's id where it is executed so in a session without query attributes; b"" where that
        cannot be told. `data`: the packet with the header, that was executed last. Raises Malformed."""
        payload, count = data[4:], self._count
        if self.types is None or len(self.types) != count:
            return b""
        if not count:
            return ONCE
        given, at = self._given(payload)
        if given != count:
            return b""
        nulls = payload[at : (end := at + (count + 7 >> 3))]
        at = end + 1
        if payload[end]:
            _, at = read_types(payload, at, count, named=self._attributes)
        types = b"".join([type_.to_bytes(2, "little") for type_ in self.types])
        return ONCE + nulls + b"\1" + types + payload[at:]

    def longs(self, data: bytes) -> tuple[int, ...] | None:
        """The values of an execution (its packet with the header), where all are 64-bit integers of which the types are
        known, and MySQL would not resolve it anew; else None."""
        of_types, of_kinds, ahead, form = self._longs
        alike = len(data) == form.size and of_types is self.types and of_kinds is self.kinds
        if alike and data.startswith(ahead, 9):
            return form.unpack(data)
        count = self._count
        if self.types != LONGLONG * count or self.kinds != self.types:
            return None
        given, before = self._given(data, 4 + FIXED)
        if given != count:
            return None
        start = before + (count + 7 >> 3) + 1
        if start == len(data) - 8 * count:
            types_follow = data[start - 1]
        else:  # with their types
            types = (b"\x08\0\0" if self._attributes else b"\x08\0") * count
            start += len(types)
            if start != len(data) - 8 * count or data[start - len(types) : start] != types:
                return None
            types_follow = 0
        if types_follow or data[before : before + (count + 7 >> 3)].strip(b"\0"):
            return None
        form = Struct(f"<{start}x{count}q")
        self._longs = self.types, self.kinds, data[9:start], form
        return form.unpack(data)

    def check_invariants(self) -> None:
        assert len(self._owed) <= 2, "more executions are owed than led to what is resolved"
        assert not self.turned or self.kinds == NO_KINDS, "a turned statement may have hits"


def _kinds_of(types: Types) -> Types:
    return tuple(map(KINDS.get, types, types))


def _no_texts(types: Types) -> bool:
    return TEXTS.isdisjoint(type_ & 0xFF for type_ in types)


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
