"""MySQL's binary JSON -> MySQL's own text of it, as SELECT prints it.

The text is exact: keys in stored order, ", " and ": " between, doubles with MySQL's digits, decimals and dates as their
opaque values print. Nothing is turned into Python objects on the way.
"""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from collections.abc import Callable, Generator, Iterator

from vstream.values import decimal_size, decimal_value

_DOUBLE = struct.Struct("<d")
_LITERALS = {0: "null", 1: "true", 2: "false"}
_INTEGERS = {5: (2, True), 6: (2, False), 7: (4, True), 8: (4, False), 9: (8, True), 10: (8, False)}
_ESCAPES = re.compile(r'[\x00-\x1f"\\]')
_ESCAPED = {
    **{chr(n): f"\\u{n:04x}" for n in range(32)},
    **{"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"},
}
_DECIMAL, _TIMESTAMP, _DATE, _TIME, _DATETIME = 246, 7, 10, 11, 12
_MAX_PLAIN_EXPONENT = 15  # beyond it, and below its negative, MySQL prints doubles with an exponent
_BASE64_LINE = 76
_SMALL = 2048  # bytes of a container whose text is made in one step: a fifth of a millisecond


def json_text(data: bytes) -> str:
    """The document as text. Raises ValueError for what is not a document."""
    if not data:
        return "null"  # what INSERT IGNORE of NULL into a NOT NULL column leaves
    try:
        return _value(data[0], data, 1)
    except (IndexError, KeyError, struct.error) as error:
        raise _no_document(data) from error


def json_steps(data: bytes) -> Generator[None, None, str]:
    """`json_text`, in short steps. Requires: the document is not empty."""
    pieces: list[str] = []
    try:
        yield from _steps(data[0], data, 1, pieces.append)
    except (IndexError, KeyError, struct.error) as error:
        raise _no_document(data) from error
    return "".join(pieces)


def _no_document(data: bytes) -> ValueError:
    return ValueError(f"not a binary JSON document: {data[:32]!r}...")


def _steps(kind: int, data: bytes, base: int, add: Callable[[str], None]) -> Iterator[None]:
    """As `_value`: adds the text in pieces."""
    wide = 4 if kind & 1 else 2
    if kind > 3 or int.from_bytes(data[base + wide : base + 2 * wide], "little") <= _SMALL:
        add(_value(kind, data, base))
        return
    count = int.from_bytes(data[base : base + wide], "little")
    keys = base + 2 * wide
    entries = keys if kind >= 2 else keys + count * (wide + 2)
    add("[" if kind >= 2 else "{")
    for number in range(count):
        if number:
            add(", ")
        if kind < 2:
            add(f"{_key(data, base, keys + number * (wide + 2), wide)}: ")
        yield from _steps(*_element(data, base, entries + number * (1 + wide), wide), add)
        yield
    add("]" if kind >= 2 else "}")


def _value(kind: int, data: bytes, at: int) -> str:
    if kind <= 3:
        return _container(kind, data, at)
    if kind == 4:
        return _LITERALS[data[at]]
    if kind in _INTEGERS:
        size, signed = _INTEGERS[kind]
        return str(int.from_bytes(data[at : at + size], "little", signed=signed))
    if kind == 11:
        return double_text(_DOUBLE.unpack_from(data, at)[0])
    if kind == 12:
        size, at = _varint(data, at)
        return quoted(data[at : at + size].decode())
    if kind == 15:
        size, start = _varint(data, at + 1)
        return _opaque(data[at], data[start : start + size])
    raise ValueError(f"a value of an unknown JSON type: {kind}")


def _container(kind: int, data: bytes, base: int) -> str:
    """`base` is where offsets count from: the container's own start behind its type."""
    wide = 4 if kind & 1 else 2
    count = int.from_bytes(data[base : base + wide], "little")
    at = base + 2 * wide
    if kind >= 2:
        return "[" + ", ".join(_elements(data, base, at, count, wide)) + "]"
    values = _elements(data, base, at + count * (wide + 2), count, wide)
    return "{" + ", ".join(f"{_key(data, base, at + n * (wide + 2), wide)}: {v}" for n, v in enumerate(values)) + "}"


def _key(data: bytes, base: int, at: int, wide: int) -> str:
    start = base + int.from_bytes(data[at : at + wide], "little")
    size = int.from_bytes(data[at + wide : at + wide + 2], "little")
    return quoted(data[start : start + size].decode())


def _elements(data: bytes, base: int, at: int, count: int, wide: int) -> Iterator[str]:
    for _ in range(count):
        yield _value(*_element(data, base, at, wide))
        at += 1 + wide


def _element(data: bytes, base: int, at: int, wide: int) -> tuple[int, bytes, int]:
    """What `_value` is told of the element whose entry is at `at`: short ones stand in their entries."""
    kind = data[at]
    if kind in (4, 5, 6) or (wide == 4 and kind in (7, 8)):
        return kind, data, at + 1
    return kind, data, base + int.from_bytes(data[at + 1 : at + 1 + wide], "little")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    size = shift = 0
    while True:
        byte = data[at]
        size |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return size, at
        shift += 7


def quoted(text: str) -> str:
    """A JSON string as MySQL escapes it: quotes, backslashes and control characters only."""
    if _ESCAPES.search(text):
        text = _ESCAPES.sub(lambda match: _ESCAPED[match[0]], text)
    return f'"{text}"'


def double_text(value: float) -> str:
    """The shortest digits that mean this double, laid out as MySQL does: 0.1, 100.0, 1e20, 1.5e-15."""
    sign, digits, point = _digits(value)
    # Large ones are plain only where digits stand behind the point: 3307372722024319.5, but 1.1e15.
    if point <= -_MAX_PLAIN_EXPONENT or (point > _MAX_PLAIN_EXPONENT and point >= len(digits)):
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    whole = digits[:point].ljust(point, "0")
    return f"{sign}{whole}.{digits[point:] or '0'}"


def _digits(value: float) -> tuple[str, str, int]:
    """(sign, significant digits, place of the point relative to their start)."""
    mantissa, _, exponent = f"{value!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    point = len(whole) + int(exponent or 0)
    digits = whole + fraction
    stripped = digits.lstrip("0")
    if not stripped:
        return sign, "0", 1
    point -= len(digits) - len(stripped)
    return sign, stripped.rstrip("0"), point


def _opaque(kind: int, data: bytes) -> str:
    if kind == _DECIMAL:
        precision, scale = data[0], data[1]
        value = decimal_value(precision, scale)(data[2 : 2 + decimal_size(precision, scale)])
        return f"{value:f}"  # str() would write small ones with an exponent
    if kind in (_DATE, _DATETIME, _TIMESTAMP, _TIME):
        return f'"{_temporal(kind, int.from_bytes(data, "little", signed=True))}"'
    text = b64encode(data).decode()
    # The encoder breaks its lines, and the breaks are escaped as in any string.
    lines = "\\n".join(text[n : n + _BASE64_LINE] for n in range(0, len(text), _BASE64_LINE))
    return f'"base64:type{kind}:{lines}"'


def _temporal(kind: int, packed: int) -> str:
    size = abs(packed)
    whole, micro = size >> 24, size & 0xFFFFFF
    minutes = f"{whole >> 6 & 63:02d}:{whole & 63:02d}.{micro:06d}"
    if kind == _TIME:
        return f"{'-' if packed < 0 else ''}{whole >> 12 & 0x3FF:02d}:{minutes}"
    year, month = divmod(whole >> 22, 13)
    day = f"{year:04d}-{month:02d}-{whole >> 17 & 31:02d}"
    return day if kind == _DATE else f"{day} {whole >> 12 & 31:02d}:{minutes}"
