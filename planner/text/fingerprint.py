"""Which cache is a query text for? Literals are lifted, spelling is folded, so that equal queries have equal
fingerprints.

A fingerprint has a `shape` (every literal and placeholder is `?`, every IN-list of them is `IN (?...)`) and the
`slots` that stand there, in order. A cache's text fixes some slots to constants and leaves the others as its
parameters; a client's text is for that cache if the shapes are equal and its values agree with all the constants
(`planner/matcher.py`).

What is not lifted: literals in select items without an alias, because MySQL names the column by the item's text.
Hints stay in the shape; comments go; version comments count as the server counts them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from planner.text.keywords import WORDS
from planner.text.long_lists import MOST_DIGITS, Taken, shortened
from planner.text.scan import (
    DEFAULT_VERSION,
    KEYWORDS,
    ServerVersion,
    Token,
    folded,
    is_keyword,
    is_named,
    scan,
    select_items,
    spell,
    unwrap_version_comments,
)
from sqltypes.errors import ParseError
from sqltypes.expression import Value
from sqltypes.parameters import Moment


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal: `kind` is int, decimal, float, string, hex, bit, date or timestamp; the value is canonical for that
    kind."""

    kind: str
    value: Value

    def agrees(self, value: Value) -> bool:
        """Whether a client's value is this constant, type and digits behind the point included."""
        return type(value) is type(self.value) and str(value) == str(self.value)


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The client's own `?`, by its index from 0. `list`: written `?...`, its value is a tuple."""

    index: int
    list: bool = False


Scalar = Constant | Placeholder


@dataclass(frozen=True, slots=True)
class ListSlot:
    """The items of a collapsed IN-list."""

    items: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class LongList:
    """An IN-list of many literals of one kind: their values only, without an object for each."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class LongPlaceholders:
    """An IN-list of many `?`: the client's own, from `first` on."""

    first: int
    count: int


Slot = Constant | Placeholder | ListSlot | LongList | LongPlaceholders


def is_list(slot: Slot) -> bool:
    """Whether it is an IN-list."""
    return isinstance(slot, (ListSlot, LongList, LongPlaceholders))


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """`placeholders`: how many `?` the client's text has."""

    database: str
    shape: str
    slots: tuple[Slot, ...]
    placeholders: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text in order: a token as it is, or a slot with its span of tokens [first, end)."""

    token: Token | None
    slot: Slot | None
    first: int
    end: int


def fingerprint(sql: str, database: str, version: ServerVersion = DEFAULT_VERSION) -> Fingerprint:
    """Quick: one pass over the tokens, no parse. Raises ParseError for what is no SQL text at all.

    >>> fingerprint("select * from t where a=3 and b in (1,2)", "d").shape
    'SELECT * FROM t WHERE a = ? AND b IN (?...)'
    """
    text = unwrap_version_comments(sql, version)
    short, taken = shortened(text, unquote)
    found = _fingerprint(short, database, taken)
    if found is None:  # a list in the text of a select item without an alias, which is the name of its column
        if len(text) > LONGEST_NAME:
            raise ParseError("a long list in a select item without an alias")
        found = _fingerprint(text, database, ())
        assert found is not None
    return found


def fingerprint_of(text: str, found: Sequence[Piece], database: str) -> Fingerprint:
    """As `fingerprint`, of a text that is `normalised`. `found`: its `pieces`."""
    slots = tuple([piece.slot for piece in found if piece.slot is not None])
    if all([isinstance(slot, Placeholder) for slot in slots]):  # nothing of it has another mark in the shape
        return Fingerprint(database, text, slots, len(slots))
    return fingerprint(text, database)


def _fingerprint(text: str, database: str, taken: Sequence[Taken]) -> Fingerprint | None:
    """The fingerprint of a text from which these lists were taken; None where one of them stands in no slot."""
    tokens = scan(text)
    kept = unnamed_items(tokens)
    found = pieces(tokens, kept)
    slots = tuple([piece.slot for piece in found if piece.slot is not None])
    count = len([token for token in tokens if token.kind == "param"])
    if taken:
        starts = [tokens[piece.first].start for piece in found if piece.slot is not None]
        if not {one.start for one in taken} <= set(starts):
            return None
        slots, count = _with_long(slots, starts, taken, count)
    return Fingerprint(database, _spell(found, tokens, kept, _slot_mark), slots, count)


LONGEST_NAME = 4096  # characters of a text with a long list in a column's name


def _with_long(
    slots: Sequence[Slot], starts: Sequence[int], long: Sequence[Taken], count: int
) -> tuple[tuple[Slot, ...], int]:
    """The slots with the lists that were shortened, and the number of placeholders. `starts`: where each slot begins in
    the shortened text."""
    taken = {one.start: one for one in long}
    out: list[Slot] = []
    more = 0  # placeholders that were taken out before
    for slot, start in zip(slots, starts, strict=True):
        one = taken.pop(start, None)
        if one is None:
            out.append(_moved(slot, more))
        elif one.values is not None:
            out.append(LongList(one.values))
        else:
            assert isinstance(slot, ListSlot) and isinstance(slot.items[0], Placeholder)
            out.append(LongPlaceholders(slot.items[0].index + more, one.count))
            more += one.count - 1
    return tuple(out), count + more


def _moved(slot: Slot, more: int) -> Slot:
    """The slot behind so many placeholders more."""
    if isinstance(slot, Placeholder):
        return Placeholder(slot.index + more, slot.list)
    if isinstance(slot, ListSlot) and more:
        return ListSlot(
            tuple(Placeholder(x.index + more, x.list) if isinstance(x, Placeholder) else x for x in slot.items)
        )
    return slot


def outline(shape: str) -> str:
    """What is left of a shape without all that other values could change: the letters of its words and names. Shapes
    with different outlines are different; texts that differ in literals, hints and comments only have the same outline
    (but for oddities: `proxy/mysql/text/text_cuts.py`, `one_outline`).

    >>> outline("SELECT * FROM t WHERE a = ? AND b2 IN (?...)")
    'SELECTFROMTWHEREAANDBIN'
    """
    named = [token.text for token in scan(shape) if token.kind in ("word", "quoted", "variable")]
    return "".join(filter(str.isalpha, "".join(named))).upper()


def normalised(tokens: Sequence[Token], found: Sequence[Piece], kept: Items) -> str:
    """The one spelling of a cache's text: placeholders are `?` and `?...`, constants stay. `found`: its `pieces`,
    `kept`: its `unnamed_items`."""

    def mark(piece: Piece) -> str:
        if isinstance(piece.slot, ListSlot) and not all(isinstance(item, Placeholder) for item in piece.slot.items):
            return ", ".join(_scalar_text(item) for item in piece.slot.items)
        if isinstance(piece.slot, Constant):
            texts = [token.text for token in tokens[piece.first : piece.end]]
            return "".join(texts) if piece.slot.kind not in ("date", "timestamp") else f"{texts[0].upper()}{texts[1]}"
        return _slot_mark(piece)

    return _spell(found, tokens, kept, mark)


def respelled(tokens: Sequence[Token], found: Sequence[Piece], mark: Callable[[Piece], str]) -> str:
    """The one spelling, each slot outside of unnamed select items as `mark` writes it. `found`: as of `normalised`."""
    return _spell(found, tokens, unnamed_items(tokens), mark)


def _slot_mark(piece: Piece) -> str:
    return "?..." if isinstance(piece.slot, ListSlot) or getattr(piece.slot, "list", False) else "?"


def _scalar_text(item: Scalar) -> str:
    if isinstance(item, Placeholder):
        return "?"
    if isinstance(item.value, str):
        return "'" + item.value.replace("\\", "\\\\").replace("'", "''") + "'"
    return f"x'{item.value.hex()}'" if isinstance(item.value, bytes) else str(item.value)


def _spell(found: Sequence[Piece], tokens: Sequence[Token], kept: Items, mark: Callable[[Piece], str]) -> str:
    out: list[tuple[str, bool, bool]] = []
    keep_until = 0
    before = 0
    for number, piece in enumerate(found):
        start = tokens[piece.first].start
        if piece.first in kept:
            keep_until = kept[piece.first]
        if piece.first < keep_until:
            text = _verbatim(piece, tokens)
            parted = start != before and bool(out)
            if out and piece.first not in kept:
                last = out[-1]
                out[-1] = (last[0] + (" " if parted else "") + text, False, last[2])
            else:
                out.append((text, False, True))
        elif piece.slot is not None:
            out.append((mark(piece), False, True))
        else:
            assert piece.token is not None
            after_dot = bool(out) and out[-1][0] == "."
            text = folded(piece.token, after_dot)
            if piece.token.kind == "quoted":
                text = _bare(text, after_dot, found[number + 1] if number + 1 < len(found) else None)
            is_name = piece.token.kind == "quoted" or (
                piece.token.kind == "word" and piece.token.text.upper() not in _NEVER_CALLED
            )
            out.append((text, is_name, start != before))
        before = tokens[piece.end - 1].end
    return spell(out)


def _bare(quoted: str, after_dot: bool, following: Piece | None) -> str:
    """A name without its quotes, where they surely change nothing: it is no word of the grammar (behind a dot those
    that are not reserved are names, too), calls nothing, and is no prefix of a string."""
    name = quoted[1:-1]
    if not _PLAIN_NAME.fullmatch(name) or name.upper() in (KEYWORDS if after_dot else WORDS):
        return quoted
    if following is not None and (following.token is None or following.token.text == "("):
        return quoted
    return name


_PLAIN_NAME = re.compile("[A-Za-z][A-Za-z0-9_$]*")
_NEVER_CALLED = (
    "AND",
    "AS",
    "BY",
    "FROM",
    "HAVING",
    "IN",
    "JOIN",
    "NOT",
    "ON",
    "OR",
    "SELECT",
    "USING",
    "WHERE",
    "XOR",
    "UNION",
    "ALL",
)


def _verbatim(piece: Piece, tokens: Sequence[Token]) -> str:
    return "".join(token.text for token in tokens[piece.first : piece.end])


# ----------------------------------------------------------------------------------------------------------------------
# Slots.


Items = Mapping[int, int]


def unnamed_items(tokens: Sequence[Token], items: Sequence[tuple[int, int]] | None = None) -> Items:
    """The select items whose columns are called as they are spelled: the end of each by its first token. `items`: as
    `select_items`."""
    found = select_items(tokens) if items is None else items
    return {first: end for first, end in found if not is_named(tokens, (first, end))}


def pieces(tokens: Sequence[Token], kept: Items | None = None) -> list[Piece]:
    """The text as tokens and slots: signs folded into numbers, IN-lists of literals and placeholders collapsed.
    `kept`: as `unnamed_items`."""
    singles = _scalars(tokens, unnamed_items(tokens) if kept is None else kept)
    out: list[Piece] = []
    index = 0
    while index < len(singles):
        token = singles[index].token
        if token is not None and token.text in _IN and token.kind == "word" and _is_opening(singles, index + 1):
            collapsed, after = _collapse(singles, index + 2)
            if collapsed is not None:
                out += [*singles[index : index + 2], collapsed]
                index = after
                continue
        out.append(singles[index])
        index += 1
    return out


_IN = ("IN", "in", "In", "iN")


def _is_opening(singles: Sequence[Piece], index: int) -> bool:
    bracket = singles[index].token if index < len(singles) else None
    return bracket is not None and bracket.text == "("


def _collapse(singles: Sequence[Piece], index: int) -> tuple[Piece | None, int]:
    """The list slot that starts at `index`, and where to go on (at the closing bracket)."""
    items: list[Scalar] = []
    first = index
    while index + 1 < len(singles):
        slot, separator = singles[index].slot, singles[index + 1].token
        if not isinstance(slot, (Constant, Placeholder)) or separator is None:
            return None, first
        if (
            isinstance(slot, Constant) and slot.kind.upper() in MOMENTS
        ):  # has a word before it: no list of literals alone
            return None, first
        items.append(slot)
        if separator.text == ")":
            return Piece(None, ListSlot(tuple(items)), singles[first].first, singles[index].end), index + 1
        if separator.text != ",":
            return None, first
        index += 2
    return None, first


def _scalars(tokens: Sequence[Token], kept: Items) -> list[Piece]:
    out: list[Piece] = []
    placeholders = 0
    index = 0
    keep_until = 0
    while index < len(tokens):
        token = tokens[index]
        keep_until = kept.get(index, keep_until)
        if token.kind == "param":
            out.append(Piece(None, Placeholder(placeholders, len(token.text) > 1), index, index + 1))
            placeholders += 1
        elif index < keep_until:
            out.append(Piece(token, None, index, index + 1))
        elif token.text == "-" and _is_sign(tokens, index):
            out.append(Piece(None, _number("-" + tokens[index + 1].text), index, index + 2))
            index += 1
        elif token.kind in ("number", "string", "hex", "bit"):
            out.append(Piece(None, literal_of(token), index, index + 1))
        elif token.text.upper() in MOMENTS and (moment := _moment(tokens, index)) is not None:
            out.append(Piece(None, moment, index, index + 2))
            index += 1
        else:
            out.append(Piece(token, None, index, index + 1))
        index += 1
    return out


def _is_sign(tokens: Sequence[Token], index: int) -> bool:
    """Whether the minus at `index` belongs to a number: something that ends no operand stands before it."""
    if index + 1 >= len(tokens) or tokens[index + 1].kind != "number" or index == 0:
        return False
    before = tokens[index - 1]
    if before.kind == "op":
        return before.text in ("=", "<", ">", "<=", ">=", "<>", "!=", "<=>", "(", ",")
    return is_keyword(
        before, "AND", "OR", "BETWEEN", "IN", "THEN", "ELSE", "WHEN", "LIKE", "WHERE", "ON", "HAVING", "BY"
    )


def _moment(tokens: Sequence[Token], index: int) -> Constant | None:
    """The DATE'...' or TIMESTAMP'...' that begins there; None where there is none in the plain form."""
    word = tokens[index]
    if index + 1 >= len(tokens) or tokens[index + 1].kind != "string" or word.kind != "word":
        return None
    if index and tokens[index - 1].text == ".":
        return None
    kind = word.text.lower()
    value = moment_of(kind, tokens[index + 1].text)
    return None if value is None else Constant(kind, value)


MOMENTS = {
    "DATE": re.compile("'[0-9]{4}-[0-9]{2}-[0-9]{2}'"),
    "TIMESTAMP": re.compile(r"'[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?'"),
}
"""The words before a date or date-time, and its plain form. MySQL reads others, too."""


def moment_of(kind: str, literal: str) -> Moment | None:
    """The value of a literal behind the word of this kind, None where it is in another form than the plain one."""
    return Moment(literal[1:-1]) if MOMENTS[kind.upper()].fullmatch(literal) else None


def literal_of(token: Token) -> Constant:
    """The value of a literal token."""
    match token.kind:
        case "number":
            return _number(token.text)
        case "string":
            return Constant("string", unquote(token.text))
        case "hex":
            digits = token.text[2:].rstrip("'")
            return Constant("hex", bytes.fromhex("0" * (len(digits) % 2) + digits))
        case _:
            bits = token.text[2:].rstrip("'")
            return Constant("bit", int(bits or "0", 2).to_bytes((len(bits) + 7) // 8, "big"))


def _number(text: str) -> Constant:
    if "e" in text or "E" in text:
        return Constant("float", float(text))
    if "." in text:
        return Constant("decimal", Decimal(text))
    if len(text.lstrip("-")) > MOST_DIGITS:
        raise ParseError(f"a number of {len(text)} digits, at most {MOST_DIGITS} are read")
    return Constant("int", int(text))


_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def unquote(text: str) -> str:
    """The value of a quoted string: doubled quotes and backslash escapes (`\\%` and `\\_` keep their backslash, for
    LIKE).

    >>> unquote("'it''s'")
    "it's"
    """
    body = text[1:-1]
    if "\\" not in body:
        return body.replace(text[0] * 2, text[0])
    rest = body.replace("\\\\", "")
    if "\\" not in rest and text[0] not in rest:  # nothing but backslashes is escaped
        return body.replace("\\\\", "\\")
    parts = _ESCAPED[text[0]].split(body)  # each second one is matched
    found = parts[1::2]
    values = {one: _unescaped(one) for one in set(found)}
    parts[1::2] = map(values.__getitem__, found)  # no call for each: there may be tens of thousands
    return "".join(parts)


_ESCAPED = {quote: re.compile(rf"(\\.|{quote}{quote})", re.DOTALL) for quote in "'\""}


def _unescaped(pair: str) -> str:
    """Of a backslash with what follows, or of a doubled quote."""
    escaped = pair[1]
    return pair if pair[0] == "\\" and escaped in "%_" else _ESCAPES.get(escaped, escaped)
