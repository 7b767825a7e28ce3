"""What stands before the rows of an answer: the column definitions that MySQL itself has sent before its own answers.

MySQL announces the columns of an answer when it begins to send it, by how it is about to compute them. Rows that go
through a temporary table (DISTINCT, GROUP BY, windows, UNION) have other types, digits and flags than it announces as
it prepares the same text. An answer without rows may not need that table; then it is announced like the prepared text.
So nothing is concluded. A hit has the definitions that came with an answer of MySQL: to a text that it prepares alike,
in the same protocol, to a session that is told alike, and with rows or without, as the hit. Where these are not always
the same (a join is sorted with a temporary table or without, as the tables' statistics have it), they are those that
came last with an answer to the very same text with the very same values.

A parameter that is shown tells, too, how columns are announced (`planner/tree/announced_by.py`): what is known of one
of its literals is known of that alone, and in a prepared statement of the types with which such parameters are bound.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from external_upquery.columns import parse_column, to_result_column
from planner.session.needs import SENT
from proxy.mysql.state.announces import NOBODY, Announces
from proxy.mysql.wire.packets import lenenc_int
from proxy.mysql.wire.rows import end_size, forms_of, head
from proxy.planning.column_names import named
from proxy.port.reasons import NO_REASON, Reason, Why
from proxy.port.session import SessionCache
from sqltypes.schema import ResultColumn

OTHER_COLUMNS = Reason.COLUMNS.why("MySQL announces other columns than the cache has")
SEVERAL = Reason.COLUMNS.why(
    "MySQL announces the columns of such answers now in one way and now in another: this one shows in which",
    other_state=True,
)
FIRST = Reason.COLUMNS.why(
    "first read of this query by this kind of client: MySQL answered it; the next can be a hit", other_state=True
)
KEPT = 10_000  # kinds of texts; then all are forgotten
KEPT_HEADS = 64  # of texts that are alike; then all are forgotten
KEPT_READS = 1_000  # of one kind that is not always announced alike; then all are forgotten

Columns = tuple[ResultColumn, ...]
Itself = Callable[[], bytes]
"""Tells one read from the others that are prepared alike: its text and values, in short."""


class Announced:
    """The definitions of the answers to texts that MySQL prepares alike, of one cache in one wire format.

    `filled`: what stands before the rows; `empty`: what stands before none; None: not known yet. `why`: why MySQL must
    answer, "" if hits may be given. `apart`: it is of reads that show one thing. `foreign`: whether MySQL announces a
    string of a character set that is none of Unicode's, nor ASCII. `several`: MySQL does not announce all of them
    alike, and each read has what MySQL has sent before its own answer to it.

    Invariants:
    1. Where `why` is "", each of `filled` and `empty` is what MySQL has sent, always the same.
    2. Where MySQL has announced rows, the cache encodes them in this format for columns of these types.
    3. Where `several`, neither `filled` nor `empty` is known.
    """

    __slots__ = (
        "_apart", "_as_bytes", "_binary", "_cache", "_end", "_eof", "_more_prepared", "_of_reads", "_told", "apart",
        "empty", "filled", "foreign", "prepared", "several", "shown", "why",
    )  # fmt: skip

    def __init__(
        self,
        cache: SessionCache,
        prepared: Sequence[bytes],
        *,
        binary: bool,
        eof: bool,
        told: Announces = NOBODY,
        more_prepared: bool = False,
    ) -> None:
        """`prepared`: the definitions (payloads) in the answer to COM_STMT_PREPARE. `told`: how the session is.
        `more_prepared`: there may be more of them than the answers have, as vtgate's are."""
        self.prepared = tuple(prepared)
        self.filled: bytes | None = None
        self.empty: bytes | None = None
        compared = self.prepared[: len(cache.columns)] if more_prepared else self.prepared
        self.why = NO_REASON if same_names(compared, cache.columns) else OTHER_COLUMNS
        self._more_prepared = more_prepared
        self.several = False
        self.apart = False
        self._apart: dict[Hashable, Announced] = {}
        self.shown: Columns | None = None  # the columns of rows, where they are always announced alike
        self._told = told
        self._as_bytes = told.as_bytes
        if told.as_bytes:  # so that it is not told of which set a string is
            strings = any(column.type.is_string for column in cache.columns)
            self.foreign = strings and (told.makes_foreign or SENT in cache.needs)
        else:
            self.foreign = any(map(_is_foreign, columns_of(self.prepared) or ()))
        self._of_reads: dict[tuple[bytes, bool], bytes] = {}  # by the read, and whether its answer has rows
        self._cache = cache
        self._binary = binary
        self._eof = eof
        self._end = end_size(eof=eof)

    def of(self, shown: Hashable) -> Announced:
        """Of the reads that show this; None: nothing that they are given is shown."""
        if shown is None:
            return self
        found = self._apart.get(shown)
        if found is None:
            if len(self._apart) >= KEPT_READS:
                self._apart.clear()
            found = self._apart[shown] = Announced(
                self._cache, self.prepared, binary=self._binary, eof=self._eof, told=self._told,
                more_prepared=self._more_prepared,
            )  # fmt: skip
            found.apart = True
        return found

    @property
    def known(self) -> bool:
        return self.filled is not None or self.empty is not None

    @property
    def uniform(self) -> bool:
        """Whether answers with and without rows are announced alike, whatever was read."""
        return self.filled == self.empty and not self.several

    def at_hand(self, *, raw: bool) -> bool:
        """Whether the next read of the kind may be answered as this one was, unlooked. `raw`: the session is sent
        strings in the character sets of their columns."""
        return not (self.apart or (raw and self.foreign))

    def unknown(self, read: Itself) -> Why:
        """Why an answer of MySQL must show how this read is announced first, "" if one has."""
        if self.several:
            which = read()
            return NO_REASON if (which, True) in self._of_reads or (which, False) in self._of_reads else SEVERAL
        return FIRST if self.filled is None and self.empty is None else NO_REASON

    def head(self, body: bytes, read: Itself) -> bytes | None:
        """What stands before this answer; None where it is not known yet."""
        rows = len(body) > self._end
        if self.several:
            return self._of_reads.get((read(), rows))
        return self.filled if rows else self.empty

    def learn(self, definitions: Sequence[bytes], read: Itself, *, rows: bool) -> bool:
        """MySQL has answered this read so. Whether what was known of other reads is withdrawn by that."""
        if self.why or not definitions:
            return False
        payloads = tuple(definitions)
        found, known = head(payloads, eof=self._eof), self.known
        before = self.filled if rows else self.empty
        if before == found:
            return False
        self.foreign |= not self._as_bytes and any(map(_is_foreign, columns_of(payloads) or ()))
        self.why = self._fit(payloads, rows=rows)
        if self.why:
            return known
        if self.several or before is not None:
            self.several, self.filled, self.empty, self.shown = True, None, None, None
            self._learn_read(found, read(), rows=rows)
            return known
        if not rows:  # that says nothing of others: MySQL may not have begun to compute any
            self.empty = found
            return False
        self.filled, self.shown = found, columns_of(payloads)
        if payloads == self.prepared:  # no temporary table, so none without rows
            self.empty = self.empty or found
        return False

    def _learn_read(self, found: bytes, read: bytes, *, rows: bool) -> None:
        if len(self._of_reads) >= KEPT_READS:
            self._of_reads.clear()
        self._of_reads[read, rows] = found

    def _fit(self, payloads: tuple[bytes, ...], *, rows: bool) -> Why:
        """Why the cache's answers cannot be sent behind these definitions, "" if they can be."""
        columns = columns_of(payloads)
        if columns is None or not same_names(payloads, self._cache.columns):
            return OTHER_COLUMNS
        if not rows:
            return NO_REASON
        if self._as_bytes:
            own = self._cache.columns
            columns = tuple(
                replace(column, type=held.type) if column.type.is_binary and held.type.is_string else column
                for column, held in zip(columns, own, strict=True)
            )
        forms = forms_of(columns, binary=self._binary)
        return OTHER_COLUMNS if forms is None else self._cache.encode_as(columns, forms)

    def check_invariants(self) -> None:
        """Raises AssertionError. For tests."""
        if not self.why and self.known:
            count = lenenc_int(len(self.prepared))  # behind the first packet's header
            assert all(found is None or found[4:].startswith(count) for found in (self.filled, self.empty))
        assert not (self.several and self.known)
        assert self.several or not self._of_reads
        assert not self._apart or not (self.apart or self.known)
        for one in self._apart.values():
            one.check_invariants()


class Heads:
    """What is known of texts that are prepared alike: by how a session is told of columns, by the cache in its
    format, and by its plan."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[object, SessionCache, int], Announced] = {}

    def get(self, told: object, cache: SessionCache) -> Announced | None:
        return self._known.get((told, cache, cache.generation))

    def learn(self, told: object, cache: SessionCache, generation: int, found: Announced) -> Announced:
        """`generation`: of the plan that the cache had as MySQL was asked."""
        if len(self._known) >= KEPT_HEADS:
            self._known.clear()
        self._known[told, cache, generation] = found
        return found

    def clear(self) -> None:
        self._known.clear()


class AnnouncedTexts:
    """What is known of all texts, by cache and its plan, by the definitions that MySQL prepares them with, and by how a
    session is told of columns."""

    def __init__(self, *, more_prepared: bool = False) -> None:
        """`more_prepared`: as of `Announced`."""
        self._known: dict[tuple[object, ...], Announced] = {}
        self._more_prepared = more_prepared

    def of(
        self,
        cache: SessionCache,
        prepared: Sequence[bytes],
        *,
        binary: bool,
        eof: bool,
        told: Announces = NOBODY,
        resolved: object = None,
    ) -> Announced:
        """`resolved`: on what else it depends how MySQL announces them to the session."""
        key = cache, cache.generation, told, resolved, *prepared
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= KEPT:
                self._known.clear()
            found = self._known[key] = Announced(
                cache, prepared, binary=binary, eof=eof, told=told, more_prepared=self._more_prepared
            )
        return found


def definitions_in(payloads: Sequence[bytes], *, eof: bool) -> Sequence[bytes]:
    """The column definitions among all packets of the answer to a COM_STMT_PREPARE."""
    columns = int.from_bytes(payloads[0][5:7], "little")
    return (payloads[-columns - 1 : -1] if eof else payloads[-columns:]) if columns else ()


def columns_of(definitions: Sequence[bytes]) -> Columns | None:
    """What these payloads announce; None where one is no definition of a column."""
    try:
        return tuple(to_result_column(parse_column(payload)) for payload in definitions)
    except (ArithmeticError, LookupError, ValueError, struct.error):
        return None


def _is_foreign(column: ResultColumn) -> bool:
    return column.type.is_string and not (column.type.collation or "").startswith(("utf8", "ascii", "binary"))


def same_names(definitions: Sequence[bytes], columns: Sequence[ResultColumn]) -> bool:
    """Whether column definitions (their payloads) are of a cache's columns. Not where MySQL has changed the tables and
    the stream has still to tell."""
    announced = columns_of(definitions)
    if announced is None or len(announced) != len(columns):
        return False
    return all(named(one.name) == named(other.name) for one, other in zip(announced, columns, strict=True))
