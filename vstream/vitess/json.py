"""A JSON document as Vitess prints it -> MySQL's own text of it. Pure.

Vitess prints strings as MySQL does, and numbers except some of more than 15 digits (v24, tried on random documents). It
orders an object's keys by their bytes; MySQL orders them by length first. It prints a TIME inside a document as an
empty string, and a long binary value without MySQL's line breaks. If a document may have one, its text cannot be told.

A document takes 70 ns a byte. The text of a large one is made in steps (`LateText`), by hand: json's own decoder has
none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator
from itertools import count
from json.decoder import scanstring  # type: ignore[attr-defined]  # missing in the stubs
from operator import itemgetter

from vstream.jsonb import double_text, quoted
from vstream.late_values import AT_ONCE, Late

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


class LateText(Late):
    """A large document, as Vitess prints it."""

    __slots__ = ()

    def steps(self) -> Generator[None, None, str]:
        return mysql_steps(self)


def text_or_late(data: bytes) -> str | LateText:
    """The document as SELECT prints it; of a large one what makes it later."""
    return mysql_text(data) if len(data) <= AT_ONCE else LateText(data)


def mysql_text(data: bytes) -> str:
    """The document as SELECT prints it. Raises ValueError where that cannot be told."""
    _refuse_ambiguous(data)
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


def _refuse_ambiguous(data: bytes) -> None:
    if any(map(data.__contains__, AMBIGUOUS)):
        raise ValueError("a JSON document that may have a TIME or a binary value in it")


# -- in steps ---------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_SPACE = re.compile(r"[ \t\n\r]*")
_WORDS = {"n": "null", "t": "true", "f": "false"}
_A_STEP = 50  # values
_JOINED = 1000  # pieces of a text


class _Pieces:
    """A text that grows. No piece is copied often, and no join is a long one."""

    __slots__ = ("_joined", "_pieces")

    def __init__(self, first: str = "") -> None:
        self._joined: list[str] = []
        self._pieces = [first]

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        if len(self._pieces) == _JOINED:
            self._joined.append("".join(self._pieces))
            self._pieces.clear()

    def text(self) -> str:
        return "".join((*self._joined, *self._pieces))


_Members = dict[
    int, list[tuple[bytes, str]]
]  # an object's keys with their texts and their values', by the key's length


def mysql_steps(data: bytes) -> Generator[None, None, str]:
    """`mysql_text`, in short steps."""
    _refuse_ambiguous(data)
    text = data.decode()
    pieces = _Pieces()
    try:
        end = yield from _value(text, 0, pieces, count(1))
    except (IndexError, RecursionError) as error:
        raise ValueError("a JSON document that ends too early, or is too deep") from error
    if _space(text, end) != len(text):
        raise ValueError("a JSON document that goes on behind its end")
    return pieces.text()


def _space(text: str, at: int) -> int:
    """Where something is."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, pieces: _Pieces, counter: Iterator[int]) -> Generator[None, None, int]:
    """Adds the text of the value that is there. Where it ends."""
    if not next(counter) % _A_STEP:
        yield
    at = _space(text, at)
    first = text[at]
    if first == '"':
        value, at = scanstring(text, at + 1, False)
        pieces.add(quoted(value))
        return at
    if first == "{":
        return (yield from _object_steps(text, at + 1, pieces, counter))
    if first == "[":
        return (yield from _array_steps(text, at + 1, pieces, counter))
    word = _WORDS.get(first)
    if word is not None and text.startswith(word, at):
        pieces.add(word)
        return at + len(word)
    number = _NUMBER.match(text, at)
    if number is None:
        raise ValueError(f"not a JSON value: {text[at : at + 32]!r}...")
    pieces.add(_double(number[0]) if number[1] or number[2] else number[0])
    return number.end()


def _array_steps(text: str, at: int, pieces: _Pieces, counter: Iterator[int]) -> Generator[None, None, int]:
    pieces.add("[")
    at = _space(text, at)
    more = text[at] != "]"
    while more:
        at = _space(text, (yield from _value(text, at, pieces, counter)))
        more = _goes_on(text, at, "]")
        if more:
            pieces.add(", ")
            at += 1
    pieces.add("]")
    return at + 1


def _object_steps(text: str, at: int, pieces: _Pieces, counter: Iterator[int]) -> Generator[None, None, int]:
    """By the lengths of its keys, then as they come, which is by their bytes."""
    members: _Members = {}
    ordered = True
    at = _space(text, at)
    more = text[at] != "}"
    while more:
        if text[at] != '"':
            raise ValueError(f"not a JSON object's key: {text[at : at + 32]!r}...")
        key, at = scanstring(text, at + 1, False)
        at = _space(text, at)
        if text[at] != ":":
            raise ValueError(f"a JSON object's key without a value: {key[:32]!r}")
        member = _Pieces(f"{quoted(key)}: ")
        at = _space(text, (yield from _value(text, at + 1, member, counter)))
        name = key.encode()
        alike = members.setdefault(len(name), [])
        ordered = ordered and (not alike or alike[-1][0] < name)
        alike.append((name, member.text()))
        more = _goes_on(text, at, "}")
        if more:
            at = _space(text, at + 1)
    yield from _in_order(members, pieces, counter, ordered=ordered)
    return at + 1


def _in_order(members: _Members, pieces: _Pieces, counter: Iterator[int], *, ordered: bool) -> Iterator[None]:
    """They are freed one by one, too: of many at once that takes long."""
    pieces.add("{")
    between = ""
    for length in sorted(members):
        alike = members.pop(length)
        if not ordered:
            alike.sort(key=itemgetter(0))
        alike.reverse()
        while alike:
            pieces.add(between)
            pieces.add(alike.pop()[1])
            between = ", "
            if not next(counter) % _A_STEP:
                yield
    pieces.add("}")


def _goes_on(text: str, at: int, end: str) -> bool:
    if text[at] not in (",", end):
        raise ValueError(f"not what follows a JSON value: {text[at : at + 32]!r}...")
    return text[at] == ","
