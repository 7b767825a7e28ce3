"""For which columns a cache's rows are encoded, in each wire format.

A cache is planned with the columns that MySQL announces as it prepares the query. As it answers it may announce others,
and it is these that the values must be written for: a YEAR of a temporary table is an INT, with four bytes in the
binary protocol. So the columns are learned again from answers: those of upqueries say of what types the values are that
evict mode holds, and those to clients what they are to be written as.

Invariants:
1. What is stored in a format was encoded for the columns last learned for it; but an answer without rows is the same
   bytes for all columns.
2. Values are encoded only for columns of the types that they have (`carried`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dataflow.readers.encodings import MOST_ENCODED
from dataflow.readers.reader import ReaderNode
from proxy.loop.slices import Encoder
from proxy.port.api import EncoderFor
from proxy.port.reasons import NO_REASON, Reason, Why
from sqltypes.errors import InvariantViolated, OtherTypes
from sqltypes.expression import Row
from sqltypes.schema import ResultColumn, SqlType

Columns = tuple[ResultColumn, ...]
Carried = tuple[tuple[str, int | None], ...]

NOT_READY = Reason.PLANNED_ANEW.why("the cache is not ready")
OTHER_TYPES = Reason.COLUMNS.why("MySQL announces columns of other types than the cache's values have")
OTHER_FORMS = Reason.COLUMNS.why("MySQL announces the columns of this query otherwise for another text of it")
SEVERAL_TYPES = "MySQL has answered the query with columns of other types before"


def carried(types: Iterable[SqlType]) -> Carried:
    """How values of these types are held, and with how many digits: where this is equal, the same values can be
    written."""
    return tuple(map(_carried, types))


def _carried(type_: SqlType) -> tuple[str, int | None]:
    if type_.is_integer or type_.name == "bit":
        return "int", None
    if type_.name in ("decimal", "time", "datetime", "timestamp"):
        return "text" if type_.name in ("datetime", "timestamp") else type_.name, type_.scale or 0
    if type_.is_approximate:
        return type_.name, type_.scale
    return ("text", None) if type_.is_string or type_.name in ("json", "date") else ("bytes", None)


def _carried_of(columns: Columns) -> Carried:
    return carried(column.type for column in columns)


class Encoding:
    """The encoders of one reader. `held`: of what types its values are, None while no answer has told.

    `columns`: those that a caller is told of where the wire format does not bring its own.
    """

    def __init__(
        self, reader: ReaderNode, columns: Columns, held: Carried | None, formats: Sequence[EncoderFor]
    ) -> None:
        self.columns = columns
        self.held = held
        self._reader = reader
        self._formats = formats
        # By format: what rows are encoded by, and the columns, where an answer to a client has told them.
        self._learned: dict[int, tuple[object, Columns]] = {}
        self._told = False  # MySQL has answered a client's text
        self._planned = columns
        self._made_for: list[Columns] = []  # by format, what the encoder is for
        self._encodings = reader.encodings
        self._encodings.encoders, self._encodings.encoded = [], {}
        self.provide(len(formats) - 1)
        reader.on_columns = self.on_filled

    def provide(self, format_: int) -> None:
        """Makes places for the formats up to this one: some have come later than the cache."""
        for number in range(len(self._made_for), format_ + 1):
            self._made_for.append(self.columns)
            self._encodings.encoders.append(self._encoder(number, self.columns))
            self._encodings.encoded[number] = set()
        listed = self._reader.listed
        listed += [{} for _ in range(len(listed), format_ + 1)]

    def learn(self, format_: int, columns: Columns, forms: object) -> Why:
        """MySQL has announced these columns to a client, which are encoded by `forms`. Why rows cannot be, "" if they
        are from now on."""
        known = self._learned.get(format_)
        if known is not None:
            return NO_REASON if known[0] == forms else OTHER_FORMS
        if self.held is not None and _carried_of(columns) != self.held:
            return OTHER_TYPES
        self._learned[format_] = forms, columns
        self._encode_as(format_, columns)
        del self._encodings.encoded[format_]  # it stays
        return NO_REASON

    def on_filled(self, columns: Columns) -> None:
        """MySQL has answered an upquery with rows of these columns, which are held as they are. Raises OtherTypes where
        values of other types are held."""
        held = _carried_of(columns)
        if self.held is not None:
            if held != self.held:
                raise OtherTypes(SEVERAL_TYPES)
            return
        self.held = held
        self.columns = self._own(columns)
        for format_ in range(len(self._made_for)):
            if format_ not in self._learned:
                self._encode_as(format_, columns)
            elif _carried_of(self._learned[format_][1]) != held:
                self._encodings.encoders[format_] = _refuse

    def on_own_answer(self, columns: Columns) -> None:
        """MySQL has answered the client's text with rows of these columns, and the cache with the same rows. It may
        announce others for the next text, so the first ones stay; and so does what many answers are encoded for."""
        if self._told or len(columns) != len(self.columns):
            return
        found = self._own(columns)
        if self.held is not None and _carried_of(found) != self.held:
            return
        self._told = True
        unlearned = [format_ for format_ in range(len(self._made_for)) if format_ not in self._learned]
        encoded = self._encodings.encoded
        if found == self.columns or any(len(encoded[format_]) > MOST_ENCODED for format_ in unlearned):
            return
        self.columns = found
        for format_ in unlearned:
            self._encode_as(format_, found)

    def _own(self, columns: Columns) -> Columns:
        """As answered, but strings as they were planned: to us MySQL announces all of them in our own character set."""
        return tuple(
            ours if ours.type.is_string and theirs.type.is_string else theirs
            for ours, theirs in zip(self.columns, columns, strict=True)
        )

    def _with_instants(self, columns: Columns) -> Columns:
        """What is an instant was planned, whether MySQL announces it as a TIMESTAMP or a DATETIME."""
        return tuple(
            replace(column, type=replace(column.type, name=planned.type.name))
            if column.type.name != planned.type.name and column.type.is_moment and planned.type.is_moment
            else column
            for column, planned in zip(columns, self._planned, strict=False)
        )

    def _encode_as(self, format_: int, columns: Columns) -> None:
        """Answers that are stored in this format are encoded again when they are next asked for."""
        if columns == self._made_for[format_]:
            return
        encoded, entries = self._encodings.encoded[format_], self._reader.entries
        self._made_for[format_] = columns
        self._encodings.encoders[format_] = self._encoder(format_, columns)
        for key in encoded if len(encoded) <= MOST_ENCODED else list(entries):
            held = entries.get(key)
            if held is not None and held.version is not None:
                held.stale()
        encoded.clear()

    def _encoder(self, format_: int, columns: Columns) -> Encoder:
        """It is made when it is first needed: few caches are read in every format."""

        def first(rows: Sequence[Row]) -> bytes:
            try:
                made = self._formats[format_](self._with_instants(columns))
            except InvariantViolated:  # a type that has no form
                made = _refuse
            if self._encodings.encoders[format_] is first:
                self._encodings.encoders[format_] = made
            return made(rows)

        return first


def _refuse(rows: Sequence[Row]) -> bytes:
    raise OtherTypes(OTHER_TYPES)
