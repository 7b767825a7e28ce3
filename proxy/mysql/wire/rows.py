"""Rows as MySQL sends them: in the text and in the binary protocol, for clients with and without CLIENT_DEPRECATE_EOF.

Promises: what an encoder gives is byte for byte what MySQL sends behind the column definitions (and behind the EOF
packet after them, where the client wants one): a packet a row, then the packet that ends them, with the status flag for
autocommit and no other. So an answer is whole: `join` makes one of several, `with_status` changes the flags, `head` is
what goes before. One function is generated per tuple of column forms, as in `proxy/grpc/rows.py`. Called by the system
behind the listeners, once per answer and wire format; a hit only copies the bytes. The inverse of the text form is
`external_upquery/rowcode.py`.
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset.html
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from itertools import accumulate, cycle
from operator import itemgetter

from dataflow.readers.derivation import TooLong
from dataflow.readers.in_steps import Steps, at_once
from proxy.loop.memo import Memo
from proxy.loop.slices import Encoder
from proxy.mysql.wire.packets import LARGEST, STATUS_AUTOCOMMIT, end_payload, lenenc_int, packet
from proxy.port.api import WireFormat
from sqltypes.errors import InvariantViolated
from sqltypes.expression import Row
from sqltypes.schema import ResultColumn
from sqltypes.values import double_text, float_text, time_text

TEXT, TEXT_EOF, BINARY, BINARY_EOF = "mysql-text", "mysql-text-eof", "mysql-binary", "mysql-binary-eof"
"""The names under which these formats are registered with the system; -eof: for a client without
CLIENT_DEPRECATE_EOF."""

WIDE = 64  # columns, from which on they are encoded one by one
COPIED = 16 * 1024  # bytes of an answer that are copied twice sooner than looked at through a memoryview
ZEROFILL = 64  # of a column's flags: the text protocol shows all digits of its display width

# -- values ------------------------------------------------------------------------------------------------------------

_NULL = b"\xfb"  # of the text protocol; the binary one has a bit in the row's head
_HEADS = Memo(lenenc_int)  # what stands before a string, by its length


def _short(text: str) -> bytes:
    return bytes((len(text),)) + text.encode()


# NULL, and the integers that most columns consist of: flags, counts, small ids.
_SMALL: dict[int | None, bytes] = {None: _NULL, **{number: _short(str(number)) for number in range(-1, 4096)}}


def _zerofilled_decimal(value: Decimal, width: int) -> bytes:
    return format(value, "f").zfill(width).encode()


def _zerofilled(text: str, width: int) -> bytes:
    """MySQL puts the zeros before the sign too."""
    return text.rjust(width, "0").encode()


def _date(text: str) -> bytes:
    """Year, month, day: four bytes, of which a zero date keeps none."""
    year, month, day = text.split("-")
    return struct.pack("<HBB", int(year), int(month), int(day))


_DAYS = Memo(_date)
_MINUTES = Memo[str](lambda text: bytes((int(text[:2]), int(text[3:]))))
_SECONDS = {f"{number:02}": bytes((number,)) for number in range(60)}
_ZERO_DAY = bytes(4)


def _binary_date(text: str) -> bytes:
    day = _DAYS[text]
    return b"\4" + day if day != _ZERO_DAY else b"\0"


def _binary_datetime(text: str) -> bytes:
    """The shortest of four forms: nothing, the date, the time of day too, microseconds too."""
    day, clock = _DAYS[text[:10]], _MINUTES[text[11:16]] + _SECONDS[text[17:19]]
    if len(text) > 19 and (microseconds := int(text[20:].ljust(6, "0"))):
        return b"\x0b" + day + clock + microseconds.to_bytes(4, "little")
    if clock != b"\0\0\0":
        return b"\7" + day + clock
    return b"\4" + day if day != _ZERO_DAY else b"\0"


_HEADER = struct.Struct("<I").pack
_TIME = struct.Struct("<BIBBB").pack  # is it negative, days, hours, minutes, seconds


def _binary_time(value: int) -> bytes:
    """Nothing, the time, or microseconds too."""
    if not value:
        return b"\0"
    minutes, rest = divmod(abs(value), 60_000_000)
    seconds, microseconds = divmod(rest, 1_000_000)
    days, minutes = divmod(minutes, 24 * 60)
    clock = _TIME(value < 0, days, *divmod(minutes, 60), seconds)
    return b"\x0c" + clock + microseconds.to_bytes(4, "little") if microseconds else b"\x08" + clock


# -- forms -------------------------------------------------------------------------------------------------------------

# A form names the expression that encodes a value {v} of a column; {n} is the form's number. These give the bytes that
# stand behind their length.
_SIZED = {
    "zerofill": "b'%0*d' % ({n}, {v})",
    "bit": "{v}.to_bytes({n}, 'big')",
    "decimal": "format({v}, 'f').encode()",
    "decimal zerofill": "zerofilled_decimal({v}, {n})",
    "string": "{v}.encode()",
    "bytes": "{v}",
    "time": "time_text({v}, {n}).encode()",
    "float": "float_text({v}, {n}).encode()",
    "double": "double_text({v}, {n}).encode()",
}
_TEXT_CODE = {
    **{form: f"(NULL if {{v}} is None else HEADS[len(b := {code})] + b)" for form, code in _SIZED.items()},
    "int": "(SMALL.get({v}) or HEADS[len(b := b'%d' % {v})] + b)",
    "float zerofill": "(NULL if {v} is None else HEADS[len(b := zerofilled(float_text({v}, {n[0]}), {n[1]}))] + b)",
    "double zerofill": "(NULL if {v} is None else HEADS[len(b := zerofilled(double_text({v}, {n[0]}), {n[1]}))] + b)",
    "null": "NULLS[{v}]",
}
_FIXED = {"tiny": "b", "short": "h", "long": "i", "longlong": "q"}
_FIXED |= {f"{name} unsigned": code.upper() for name, code in _FIXED.items()} | {"float": "f", "double": "d"}
_BINARY_CODE = {
    form: "(b'' if {v} is None else " + code + ")"
    for form, code in {
        **{form: f"HEADS[len(b := {code})] + b" for form, code in _SIZED.items()},
        **{form: form.replace(" ", "_") + "({v})" for form in _FIXED},
        "date": "date({v})",
        "datetime": "datetime({v})",
        "time": "time({v})",
        "null": "NOTHING[{v}]",
    }.items()
}
_NAMES: dict[str, object] = {
    "NULL": _NULL,
    "NULLS": {None: _NULL},
    "NOTHING": {None: b""},
    "SMALL": _SMALL,
    "HEADS": _HEADS,
    "zerofilled": _zerofilled,
    "zerofilled_decimal": _zerofilled_decimal,
    "time_text": time_text,
    "float_text": float_text,
    "double_text": double_text,
    "date": _binary_date,
    "datetime": _binary_datetime,
    "time": _binary_time,
    **{form.replace(" ", "_"): struct.Struct("<" + code).pack for form, code in _FIXED.items()},
}
_WIDTHS = {"tinyint": "tiny", "smallint": "short", "year": "short", "mediumint": "long", "int": "long"}

# (a key of _TEXT_CODE or _BINARY_CODE, its number)
Form = tuple[str, int | tuple[int | None, int] | None]


def _sized_form(column: ResultColumn) -> Form:
    """The form of what both protocols send as a string."""
    type_, zerofill = column.type, column.flags & ZEROFILL
    if type_.name == "decimal":
        return ("decimal zerofill", column.length) if zerofill else ("decimal", None)
    if type_.name == "bit":
        return "bit", ((type_.length or 1) + 7) // 8
    if type_.is_string or type_.name == "json":
        return "string", None
    if type_.is_binary:
        return "bytes", None
    if type_.name == "null":
        return "null", None
    raise InvariantViolated(f"no wire form for columns of type {type_.name!r}")


def _text_form(column: ResultColumn) -> Form:
    type_, zerofill = column.type, column.flags & ZEROFILL
    if type_.is_integer:
        return ("zerofill", column.length) if zerofill else ("int", None)
    if type_.is_approximate:
        return (f"{type_.name} zerofill", (type_.scale, column.length)) if zerofill else (type_.name, type_.scale)
    if type_.name == "time":
        return "time", type_.scale or 0
    if type_.name in ("date", "datetime", "timestamp"):
        return "string", None
    return _sized_form(column)


def _binary_form(column: ResultColumn) -> Form:
    type_ = column.type
    if type_.is_integer:
        width = _WIDTHS.get(type_.name, "longlong")
        return (f"{width} unsigned" if type_.unsigned or type_.name == "year" else width), None
    if type_.is_approximate or type_.name in ("time", "date"):
        return type_.name, None
    if type_.name in ("datetime", "timestamp"):
        return "datetime", None
    return _sized_form(column)


# -- encoders ----------------------------------------------------------------------------------------------------------


def _text_row(names: Sequence[str], forms: Sequence[Form]) -> list[str]:
    return [_TEXT_CODE[form].format(v=name, n=number) for name, (form, number) in zip(names, forms, strict=True)]


def _binary_row(names: Sequence[str], forms: Sequence[Form]) -> list[str]:
    """A zero byte, a bitmap of the columns that are NULL (the first two bits are not used), the other columns."""
    size = (len(names) + 9) // 8
    whole = " and ".join(f"{name} is not None" for name in names) or "True"
    # A sum of a tuple: a chain of operators would nest as deep as a row is wide, and a row may have 4,096 columns.
    bits = "".join(f"({name} is None) << {bit}, " for bit, name in enumerate(names, 2))
    nulls = f"({bytes(1 + size)!r} if {whole} else b'\\0' + sum(({bits})).to_bytes({size}, 'little'))"
    values = [_BINARY_CODE[form].format(v=name, n=number) for name, (form, number) in zip(names, forms, strict=True)]
    return [nulls, *values]


@lru_cache(maxsize=256)
def _headers(first: int) -> tuple[int, ...]:
    """What the sequence numbers from `first` on add to the headers of 256 packets, as little-endian integers."""
    return tuple((first + number & 0xFF) << 24 for number in range(256))


@lru_cache(maxsize=512)
def _ends(first: int, eof: bool) -> tuple[bytes, ...]:
    """The packets that may end an answer, by the number of packets before them modulo 256."""
    payload = end_payload(STATUS_AUTOCOMMIT, deprecate_eof=not eof)
    return tuple(packet(payload, first + number) for number in range(256))


def _encoder_of_forms(forms: tuple[Form, ...], binary: bool, eof: bool) -> Encoder:
    """Of many columns none is generated: that takes 0.02 ms a column, in one step."""
    return (_generated if len(forms) <= WIDE else _by_column)(forms, binary, eof)


def _by_column(forms: tuple[Form, ...], binary: bool, eof: bool) -> Encoder:
    """As `_generated`, with a call for each value."""
    encoders = [_one(form, number, binary) for form, number in forms]
    first = len(forms) + (3 if eof else 2) & 0xFF
    headers, ends, size = _headers(first), _ends(first, eof), (len(forms) + 9) // 8

    def encode(rows: Sequence[Row]) -> bytes:
        out: list[bytes] = []
        for header, values in zip(cycle(headers), rows, strict=False):
            pieces = [encoded(value) for encoded, value in zip(encoders, values, strict=True)]
            if binary:
                nulls = sum(1 << bit for bit, value in enumerate(values, 2) if value is None)
                pieces.insert(0, b"\0" + nulls.to_bytes(size, "little"))
            row = b"".join(pieces)
            out.append(_HEADER(header | len(row)) + row)
        out.append(ends[len(out) & 0xFF])
        whole = b"".join(out)
        if len(whole) >= LARGEST:
            return _split(out, first, eof)
        return OneRow(whole) if len(out) == 2 else whole

    return encode


@lru_cache(maxsize=1024)
def _one(form: str, number: object, binary: bool) -> Callable[[object], bytes]:
    """The encoder of one value."""
    code = (_BINARY_CODE if binary else _TEXT_CODE)[form].format(v="v", n=number)
    made: Callable[[object], bytes] = eval(f"lambda v: {code}", dict(_NAMES))  # of nothing but names and numbers
    return made


@lru_cache(maxsize=1024)
def _generated(forms: tuple[Form, ...], binary: bool, eof: bool) -> Encoder:
    names = [f"c{index}" for index in range(len(forms))]
    pieces = (_binary_row if binary else _text_row)(names, forms)
    source = (
        "def encode(rows):\n"
        "    out = []\n"
        f"    for header, ({''.join(name + ', ' for name in names)}) in zip(cycle(HEADERS), rows):\n"
        f"        row = join(({''.join(piece + ', ' for piece in pieces)}))\n"
        "        out.append(pack(header | len(row)) + row)\n"
        "    out.append(ENDS[len(out) & 255])\n"
        "    whole = join(out)\n"
        f"    if len(whole) >= {LARGEST}:\n"
        "        return split(out)\n"
        "    return one(whole) if len(out) == 2 else whole\n"
    )
    first = len(forms) + (3 if eof else 2) & 0xFF
    scope: dict[str, object] = {
        **_NAMES,
        "join": b"".join,
        "one": OneRow,
        "cycle": cycle,
        "pack": _HEADER,
        "HEADERS": _headers(first),
        "ENDS": _ends(first, eof),
        "split": partial(_split, first=first, eof=eof),
    }
    # The text holds nothing but names and numbers from above.
    exec(compile(source, f"<encoder of {', '.join(form for form, _ in forms)}>", "exec"), scope)
    encode: Encoder = scope["encode"]  # type: ignore[assignment]  # made by exec: mypy sees an object
    return encode


def _split(packets: Sequence[bytes], first: int, eof: bool) -> bytes:
    """The packets of a large answer, with rows that are too large for one packet in several. Headers are written anew:
    in that of a large row the length ran into the sequence number."""
    out, sequence = [], first
    for row in packets[:-1]:
        payload = row[4:]
        out.append(packet(payload, sequence))
        sequence += len(payload) // LARGEST + 1
    return b"".join((*out, _ends(first, eof)[sequence - first & 0xFF]))


def forms_of(columns: tuple[ResultColumn, ...], *, binary: bool) -> tuple[Form, ...] | None:
    """All that rows of these columns are encoded by: columns of equal forms have equal encoders. None where there is no
    encoder for one of them."""
    try:
        return tuple(map(_binary_form if binary else _text_form, columns))
    except InvariantViolated:
        return None


def encoder_for(columns: tuple[ResultColumn, ...], *, binary: bool, eof: bool) -> Encoder:
    """The encoder of rows of these columns. It raises InvariantViolated for a value that is not of its column's
    canonical form.
    """
    form = _binary_form if binary else _text_form
    generated = _encoder_of_forms(tuple(map(form, columns)), binary, eof)

    def encode(rows: Sequence[Row]) -> bytes:
        try:
            return generated(rows)
        except (AttributeError, TypeError, ValueError, KeyError, OverflowError, struct.error) as error:
            names = ", ".join(f"{column.name} {column.type.name}" for column in columns)
            raise InvariantViolated(f"a row does not fit its columns ({names}): {error}") from error

    return encode


# -- answers -----------------------------------------------------------------------------------------------------------

_ORDER = tuple(bytes(first + number & 0xFF for number in range(256)) for first in range(256))
_NUMBERS = tuple(bytes((number,)) for number in range(256))
JOINED_AT_ONCE = 200_000  # bytes of rows that are numbered in one step of the loop: 2 ms, where all are short
_END_SIZE = {eof: len(packet(end_payload(0, deprecate_eof=not eof), 0)) for eof in (False, True)}
_WITHOUT_END = {size: itemgetter(slice(None, -size)) for size in _END_SIZE.values()}


class OneRow(bytes):
    """An answer of one row: as those of lookups by a unique key are."""

    __slots__ = ()


_ALONE = {OneRow}


def end_size(*, eof: bool) -> int:
    """The bytes of the packet that ends an answer; one without rows has no others behind its head."""
    return _END_SIZE[eof]


def join(parts: Sequence[bytes], *, eof: bool, short: bool = False) -> bytes:
    """One answer with the rows of several of the same columns, in order. Requires: at least one part.

    `short`: raises TooLong where that is more than a short step: packets are numbered one by one, unless each part has
    one row.
    """
    size = _END_SIZE[eof]
    first = parts[0][3]
    if set(map(type, parts)) != _ALONE:
        some = [part for part in parts if len(part) > size]  # keys without rows
        if set(map(type, some)) != _ALONE:
            if short and sum(map(len, parts)) > JOINED_AT_ONCE:
                raise TooLong
            return at_once(join_in_steps(parts, eof=eof))
        parts = some
    rows = [*map(_WITHOUT_END[size], parts[:-1]), parts[-1]]
    out = bytearray().join(rows)
    numbers, count = _ORDER[first], len(rows)
    if len(set(map(len, parts))) == 1:
        out[3 : -size : len(parts[0]) - size] = (numbers * (count // 256 + 1))[:count]
    else:
        for at, number in zip(accumulate(map(len, rows[:-1]), initial=3), cycle(numbers), strict=False):
            out[at] = number
    out[3 - size] = numbers[count & 0xFF]
    return bytes(out)


def join_in_steps(parts: Sequence[bytes], *, eof: bool) -> Steps[bytes]:
    """`join`, of answers with any number of rows."""
    size = _END_SIZE[eof]
    sequence = parts[0][3 - size]  # of the packet that ends the first part: there the second one begins
    out: list[bytes | bytearray] = [parts[0][:-size]]
    done = 0
    for part in parts[1:]:
        end = len(part) - size
        if not end:
            continue
        if part[3] == sequence:  # as it should be: one of many parts of one answer
            out.append(part[:end])
            sequence = part[3 - size]
        elif (part[0] | part[1] << 8 | part[2] << 16) + 4 == end:  # one row: a lookup by a unique key
            out += part[:3], _NUMBERS[sequence], part[4:end]
            sequence = sequence + 1 & 0xFF
        else:
            rows, at = bytearray(part[:end]), 0
            while at < end:
                begun = at
                sequence, at = _renumber(rows, sequence, at, min(end, at + JOINED_AT_ONCE))
                done += at - begun
                if done >= JOINED_AT_ONCE:
                    done = 0
                    yield
            out.append(rows)
    out += parts[-1][-size : 3 - size], _NUMBERS[sequence], parts[-1][4 - size :]
    return b"".join(out)


def _renumber(packets: bytearray, sequence: int, at: int, end: int) -> tuple[int, int]:
    """Numbers the packets that begin at `at` and before `end`, from `sequence` on. The number of the
    next one, and where that begins."""
    while at < end:
        packets[at + 3] = sequence
        sequence = sequence + 1 & 0xFF
        at += 4 + (packets[at] | packets[at + 1] << 8 | packets[at + 2] << 16)
    return sequence, at


def with_status(body: bytes, status: int, *, eof: bool) -> bytes:
    """The answer with other status flags (STATUS_... of `packets`) in the packet that ends it."""
    flags = status.to_bytes(2, "little")
    return body[:-2] + flags if eof else b"%b%b%b" % (body[:-4], flags, body[-2:])


def joined(head: bytes, body: bytes, status: int, *, eof: bool) -> bytes:
    """A whole answer with these status flags; a long one in one copy. `head`, `body`: as for STATUS_AUTOCOMMIT
    alone."""
    flags = status.to_bytes(2, "little")
    rows = body if len(body) <= COPIED else memoryview(body)
    if eof:  # the packet behind the column definitions has them too
        return b"".join((head[:-2], flags, rows[:-2], flags))
    return b"".join((head, rows[:-4], flags, rows[-2:]))


def head(definitions: Sequence[bytes], *, eof: bool, status: int = STATUS_AUTOCOMMIT) -> bytes:
    """What goes before the rows: the number of columns, their definitions (payloads as MySQL announced them), and for
    `eof` the packet that ends those, with these status flags."""
    payloads = [lenenc_int(len(definitions)), *definitions]
    if eof:
        payloads.append(end_payload(status, deprecate_eof=False))
    return b"".join(packet(payload, sequence) for sequence, payload in enumerate(payloads, 1))


def _format(binary: bool, eof: bool) -> WireFormat:
    encoder: Callable[[tuple[ResultColumn, ...]], Encoder] = partial(encoder_for, binary=binary, eof=eof)
    short = partial(join, eof=eof, short=True)
    return WireFormat(encoder, partial(join, eof=eof), short, partial(join_in_steps, eof=eof))


FORMATS = {
    TEXT: _format(binary=False, eof=False),
    TEXT_EOF: _format(binary=False, eof=True),
    BINARY: _format(binary=True, eof=False),
    BINARY_EOF: _format(binary=True, eof=True),
}
"""All of them by name, for `proxy.port.api.Formats`."""
