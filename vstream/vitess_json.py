"""A JSON document as Vitess prints it -> MySQL's own text of it. Pure.

Vitess prints strings as MySQL does, and numbers but for some of more than 15 digits (v24, tried on random documents).
The keys of an object are in the order of their bytes: MySQL's is by their lengths first. A TIME inside a document is
printed as an empty string, and a long binary value without MySQL's line breaks: where one may be, the text cannot be
told.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from vstream.jsonb import double_text, quoted

AMBIGUOUS = (b'""', b'"base64:type')


class _Number(str):
    """A number's text."""

    __slots__ = ()


class _Object(list[tuple[str, object]]):
    """An object's keys and values, in MySQL's order."""

    __slots__ = ()


def _object(pairs: list[tuple[str, object]]) -> _Object:
    return _Object(sorted(pairs, key=_place))


def _place(pair: tuple[str, object]) -> tuple[int, bytes]:
    key = pair[0].encode()
    return len(key), key


def _double(text: str) -> _Number:
    """Vitess writes an exponent from 1e15 on, MySQL not where digits are behind the point. DECIMALs never have one, and
    keep their digits."""
    return _Number(double_text(float(text)) if "e" in text else text)


DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_double, parse_int=_Number, strict=False)


def mysql_text(data: bytes) -> str:
    """The document as SELECT prints it. Raises ValueError where that cannot be told."""
    if any(map(data.__contains__, AMBIGUOUS)):
        raise ValueError("a JSON document that may have a TIME or a binary value in it")
    pieces: list[str] = []
    try:
        _print(DECODER.decode(data.decode()), pieces.append)
    except RecursionError as error:
        raise ValueError("a JSON document that is too deep") from error
    return "".join(pieces)


def _print(value: object, add: Callable[[str], None]) -> None:
    if isinstance(value, _Number):
        add(value)
    elif isinstance(value, str):
        add(quoted(value))
    elif isinstance(value, list):
        is_object = isinstance(value, _Object)
        add("{" if is_object else "[")
        for number, item in enumerate(value):
            if number:
                add(", ")
            if is_object:
                add(f"{quoted(item[0])}: ")
                item = item[1]
            _print(item, add)
        add("}" if is_object else "]")
    else:
        add({None: "null", True: "true", False: "false"}[value])  # type: ignore[index]  # JSON has no others
