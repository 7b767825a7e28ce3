"""Literals cut out of a query text's bytes by one regular expression, and functions that turn them into values.

`cut(text)` gives [segment, cut, segment, ... segment]: a cut is a literal, an ordinary comment or a hint as written,
the segments are what stands between. Texts with equal segments differ in those only. An IN-list of numbers, of strings
or of 0x... is one cut, however long it is, so lists of any length have the same segments. Which cuts are literals that
`planner/text/scan.py` would see is asked once for each list of segments (`ranges`), of the first text that has it; it
then holds for all of them, because

* a cut begins where no word, number, name or variable can reach into it, and is what the scanner matches there;
* a token of the scanner inside a segment ends inside it, whatever the cut behind it is, if that is so once.

Not cut, so that such a text is never taken apart here: strings with a prefix (`x'0a'`, `_utf8mb4'a'`), numbers that
touch a letter or begin with a point. Comments that steer stay in their segment.

Cutting takes time in proportion to the text, whatever it is: repetitions are possessive, and what is not closed is one
cut to the end of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

from planner.text.fingerprint import literal_of, moment_of, unquote
from planner.text.scan import Token
from sqltypes.expression import Value

# Behind the first item's first byte: whether IN and a bracket stand before it, with no space or one beside the bracket,
# and perhaps a minus.
_BEFORE_FIRST = (rb"\(.", rb"\([ ].", rb"\(-.", rb"\([ ]-.")
_IN = rb"[^\w$@`.\x80-\xff][iI][nN]"
_BRACKET = b"|".join(b"(?<=%b)" % opened for opened in _BEFORE_FIRST)
_OPENED = b"|".join(b"(?<=%b%b%b)" % (_IN, space, opened) for opened in _BEFORE_FIRST for space in (b"", b"[ ]"))
_COMMA, _CLOSED = rb"\s*+,\s*+", rb"(?=\s*+\))"
_SINGLE = rb"[^'\\]*+ (?: (?:\\.|'') [^'\\]*+ )*+"  # what stands in a string
_DOUBLE = rb'[^"\\]*+ (?: (?:\\.|"") [^"\\]*+ )*+'
_NUMBER = rb"-?[0-9]++(?:\.[0-9]*+)?"
_CUT = re.compile(
    rb"""
    ( [0-9'"/]  # one set of first bytes, by which the search skips the rest of the text quickly
      (?:
        (?: %(bracket)s ) (?: %(opened)s )
        (?:
          (?<=[0-9]) [0-9]*+ (?:\.[0-9]*+)? (?: %(comma)s %(number)s )++ %(closed)s
        | (?<=') %(single)s ' (?: %(comma)s ' %(single)s ' )++ %(closed)s
        | (?<=") %(double)s " (?: %(comma)s " %(double)s " )++ %(closed)s
        | (?<=0) x[0-9a-fA-F]++ (?: %(comma)s 0x[0-9a-fA-F]++ )++ %(closed)s
        )
      | (?<=[0-9]) (?<! [\w$@`.\x80-\xff] [0-9] ) (?<! [0-9.] [eE] [+-] [0-9] )
        (?: (?<=0) (?: x[0-9a-fA-F]+ | b[01]+ ) | [0-9]* (?:\.[0-9]*)? (?:[eE][+-]?[0-9]+)? )
        (?! [\w$.\x80-\xff] )
      | (?<=') (?<! [\w$@`\x80-\xff] ' ) %(single)s (?: ' | \\?\Z )
      | (?<=") (?<! [\w$@`\x80-\xff] " ) %(double)s (?: " | \\?\Z )
      | (?<=/) \* (?! ! | \s*+ (?i:upwell) \s*+ : ) [^*]*+ (?: \*(?!/) [^*]*+ )*+ (?: \*/ | \Z )
      )
    )
    """
    % {
        b"bracket": _BRACKET,
        b"opened": _OPENED,
        b"comma": _COMMA,
        b"closed": _CLOSED,
        b"number": _NUMBER,
        b"single": _SINGLE,
        b"double": _DOUBLE,
    },
    re.VERBOSE | re.DOTALL,
)
MOST_CUTS = 500


def cut(text: bytes) -> list[bytes]:
    """Segments and cuts in turns. Where there are more than `MOST_CUTS` cuts, the last segment is all that is left."""
    return _CUT.split(text, MOST_CUTS)


COMMENT = "comment"
HINT = "hint"
ALWAYS_CUT = frozenset({"number", "string", "hex", "bit", HINT})


def ranges(parts: Sequence[bytes], tokens: Sequence[Token]) -> list[tuple[int, int]] | None:
    """The tokens [first, end) of each cut; None where the cuts are not just the literals, lists of them, and comments
    that the scanner sees. `tokens`: of `scan_all`, of the text that `parts` is of."""
    lengths = [len(part.decode()) for part in parts]
    ends = list(accumulate(lengths))
    cuts = [token.kind in ALWAYS_CUT or (token.kind == COMMENT and _is_cut_comment(token)) for token in tokens]
    found: list[tuple[int, int]] = []
    at = 0
    for end, length, part in zip(ends[1::2], lengths[1::2], parts[1::2], strict=True):
        while at < len(tokens) and not cuts[at]:
            at += 1
        if at == len(tokens) or tokens[at].start != end - length:
            return None
        first = at
        while at < len(tokens) and tokens[at].end < end and is_list(part):
            at += 1
        if at == len(tokens) or tokens[at].end != end:
            return None
        at += 1
        found.append((first, at))
    # A `/*` that is not closed, or a version comment: the scanner would look further than the segment.
    opens = [one.text == "/" and two.text == "*" and one.end == two.start for one, two in pairwise(tokens)]
    return None if any(cuts[at:]) or any(opens) else found


def one_outline(tokens: Sequence[Token]) -> bool:
    """Whether all texts with the segments of this one have its outline (`planner.text.fingerprint.outline`): no name
    begins with a digit, and no two minuses touch each other, which before a space would be a comment."""
    return not any([token.kind == "word" and token.text[0].isdigit() for token in tokens]) and not any(
        [one.text == two.text == "-" and one.end == two.start for one, two in pairwise(tokens)]
    )


def _is_cut_comment(token: Token) -> bool:
    return token.text.startswith("/*") and cut(token.text.encode()) != [token.text.encode()]


# ----------------------------------------------------------------------------------------------------------------------
# Values. Each function is for one kind of literal and raises ValueError where another stands.

Convert = Callable[[bytes], Value]
_QUOTES = (0x22, 0x27)
SLASH = 0x2F


def is_list(cut_out: bytes) -> bool:
    """Whether a cut is an IN-list of several literals."""
    return b"," in cut_out and cut_out[0] != SLASH and _ONE.fullmatch(cut_out) is None


_ONE = re.compile(rb"' %b ' | \" %b \"" % (_SINGLE, _DOUBLE), re.VERBOSE | re.DOTALL)
LONGEST_SAMPLE = 200  # bytes of a list; of a longer one the first items stand for all


def sample(parts: Sequence[bytes]) -> list[bytes]:
    """The parts with long lists shortened: what is found out of them holds for all texts with these segments."""
    return [
        _first_items(part) if number & 1 and len(part) > LONGEST_SAMPLE and is_list(part) else part
        for number, part in enumerate(parts)
    ]


def _first_items(items: bytes) -> bytes:
    if items[0] in _QUOTES:
        first = _ONE.match(items)
        return first[0] + b"," + first[0] if first is not None else items  # one that is not closed
    return b",".join(items.split(b",", 2)[:2])


def list_kind(kind: str) -> str:
    """The kind of a list, of the kind of its first literal; "" for those that are cut one by one."""
    return _LIST_KINDS.get(kind, "")


_LIST_KINDS = {"int": "numbers", "decimal": "numbers", "string": "strings", "hex": "hexes"}


def kind_of(literal: bytes) -> str:
    """int, decimal, float, hex, bit, string, comment or hint: of a cut; of a list, of its first literal."""
    first = literal[0]
    if first in _QUOTES:
        return "string"
    if first == SLASH:
        return HINT if literal[2:3] == b"+" else COMMENT
    prefix = literal[1:2]
    if prefix in (b"x", b"b"):
        return "hex" if prefix == b"x" else "bit"
    if b"e" in literal or b"E" in literal:
        return "float"
    return "decimal" if b"." in literal else "int"


def string_value(literal: bytes) -> str:
    """Raises ValueError also for a string that is not closed."""
    if literal[0] not in _QUOTES:
        raise ValueError(literal)
    quotes = literal.count(literal[:1])
    if b"\\" in literal or quotes > 2:
        if _ONE.fullmatch(literal) is None:
            raise ValueError(literal)
        return unquote(literal.decode())
    if quotes < 2:
        raise ValueError(literal)
    return literal[1:-1].decode()


def _of_kind(kind: str, token_kind: str, sign: str) -> Convert:
    def convert(literal: bytes) -> Value:
        if kind_of(literal) != kind:
            raise ValueError(literal)
        return literal_of(Token(token_kind, sign + literal.decode(), 0, 0)).value

    return convert


def _moment_of(kind: str) -> Convert:
    def convert(literal: bytes) -> Value:
        found = moment_of(kind, literal.decode())
        if found is None:
            raise ValueError(literal)
        return found

    return convert


def is_comment(cut_out: bytes) -> bool:
    """Whether it is a comment, and closed."""
    return cut_out[2:3] != b"+" and is_closed(cut_out)


def is_closed(cut_out: bytes) -> bool:
    """Whether it is a comment or a hint, and closed."""
    return cut_out[0] == SLASH and cut_out.endswith(b"*/") and len(cut_out) > 3


def numbers(items: bytes) -> tuple[Value, ...]:
    """The values of an IN-list of whole numbers, or with digits behind the point. Raises ValueError."""
    if b"." not in items:
        return tuple(map(int, items.split(b",")))
    if items[0] in _QUOTES:
        raise ValueError(items)
    return tuple(literal_of(Token("number", item.strip(), 0, 0)).value for item in items.decode().split(","))


def strings(items: bytes) -> tuple[Value, ...]:
    """The values of an IN-list of strings. Raises ValueError."""
    if items[0] not in _QUOTES:
        raise ValueError(items)
    quote = items[:1]
    if b"\\" not in items and quote * 2 not in items:
        return tuple(items.decode().split(quote.decode())[1::2])
    return tuple(unquote(item.decode()) for item in _ONE.findall(items))


def numbers_signed(items: bytes) -> tuple[Value, ...]:
    """As `numbers`, of a list before which a minus stands."""
    return numbers(b"-" + items)


def hexes(items: bytes) -> tuple[Value, ...]:
    """The values of an IN-list of 0x... Raises ValueError."""
    return tuple(CONVERTERS["hex", False](item.strip()) for item in items.split(b","))


LISTS: dict[str, Callable[[bytes], tuple[Value, ...]]] = {
    "numbers": numbers, "numbers_signed": numbers_signed, "strings": strings, "hexes": hexes,
}  # fmt: skip
CONVERTERS: dict[tuple[str, bool], Convert] = {
    ("int", False): int,
    ("int", True): lambda literal: -int(literal),
    ("string", False): string_value,
    ("decimal", False): _of_kind("decimal", "number", ""),
    ("decimal", True): _of_kind("decimal", "number", "-"),
    ("float", False): _of_kind("float", "number", ""),
    ("float", True): _of_kind("float", "number", "-"),
    ("hex", False): _of_kind("hex", "hex", ""),
    ("bit", False): _of_kind("bit", "bit", ""),
    ("date", False): _moment_of("date"),
    ("timestamp", False): _moment_of("timestamp"),
}
