"""Literals cut out of a query text's bytes by one regular expression, and functions that turn them into values.

`cut(text)` gives [segment, cut, segment, ... segment]: a cut is a literal, an ordinary comment or a hint as written,
the segments are what stands between. Texts with equal segments differ in those only. Which cuts are
literals that `planner/scan.py` would see is asked once for each list of segments (`aligned`), of the first text that
has it; it then holds for all of them, because

* a cut begins where no word, number, name or variable can reach into it, and is what the scanner matches there;
* a token of the scanner inside a segment ends inside it, whatever the cut behind it is, if that is so once.

Not cut, so that such a text is never taken apart here: strings with a prefix (`x'0a'`, `_utf8mb4'a'`), numbers that
touch a letter or begin with a point. Comments that steer stay in their segment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

from planner.fingerprint import literal_of, unquote
from planner.scan import Token
from sqltypes.expression import Value

_CUT = re.compile(
    rb"""
    ( [0-9'"/]  # one set of first bytes, by which the search skips the rest of the text quickly
      (?:
        (?<=[0-9]) (?<! [\w$@`.\x80-\xff] [0-9] ) (?<! [0-9.] [eE] [+-] [0-9] )
        (?: (?<=0) (?: x[0-9a-fA-F]+ | b[01]+ ) | [0-9]* (?:\.[0-9]*)? (?:[eE][+-]?[0-9]+)? )
        (?! [\w$.\x80-\xff] )
      | (?<=') (?<! [\w$@`\x80-\xff] ' ) [^'\\]* (?: (?:\\.|'') [^'\\]* )* '
      | (?<=") (?<! [\w$@`\x80-\xff] " ) [^"\\]* (?: (?:\\.|"") [^"\\]* )* "
      | (?<=/) \* (?! ! | \s* (?i:upwell) \s* : ) [^*]* (?: \*(?!/) [^*]* )* \*/
      )
    )
    """,
    re.VERBOSE | re.DOTALL,
)
cut: Callable[[bytes], list[bytes]] = _CUT.split

COMMENT = "comment"
HINT = "hint"
ALWAYS_CUT = frozenset({"number", "string", "hex", "bit", HINT})


def aligned(parts: Sequence[bytes], tokens: Sequence[Token]) -> bool:
    """Whether the cuts are just the literals and comments that the scanner sees. `tokens`: of `scan_all`, of the text
    that `parts` is of."""
    lengths = [len(part.decode()) for part in parts]
    ends = list(accumulate(lengths))
    spans = [(end - length, end) for length, end in zip(lengths[1::2], ends[1::2], strict=True)]
    expected = [(token.start, token.end) for token in tokens if token.kind in ALWAYS_CUT or _is_cut_comment(token)]
    return spans == expected and not any(_opens_comment(one, two) for one, two in pairwise(tokens))


def one_outline(tokens: Sequence[Token]) -> bool:
    """Whether all texts with the segments of this one have its outline (`planner.fingerprint.outline`): no name begins
    with a digit, and no two minuses touch each other, which before a space would be a comment."""
    return not any(token.kind == "word" and token.text[0].isdigit() for token in tokens) and not any(
        one.text == two.text == "-" and one.end == two.start for one, two in pairwise(tokens)
    )


def _is_cut_comment(token: Token) -> bool:
    return token.kind == COMMENT and token.text.startswith("/*") and cut(token.text.encode()) != [token.text.encode()]


def _opens_comment(one: Token, two: Token) -> bool:
    """A `/*` that is not closed, or a version comment: the scanner would look further than the segment."""
    return one.text == "/" and two.text == "*" and one.end == two.start


# ----------------------------------------------------------------------------------------------------------------------
# Values. Each function is for one kind of literal and raises ValueError where another stands.

Convert = Callable[[bytes], Value]
_QUOTES = (0x22, 0x27)
SLASH = 0x2F


def kind_of(literal: bytes) -> str:
    """int, decimal, float, hex, bit, string, comment or hint: of a cut."""
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
    if literal[0] not in _QUOTES:
        raise ValueError(literal)
    if b"\\" in literal or literal.count(literal[:1]) > 2:
        return unquote(literal.decode())
    return literal[1:-1].decode()


def _of_kind(kind: str, token_kind: str, sign: str) -> Convert:
    def convert(literal: bytes) -> Value:
        if kind_of(literal) != kind:
            raise ValueError(literal)
        return literal_of(Token(token_kind, sign + literal.decode(), 0, 0)).value

    return convert


def is_comment(cut_out: bytes) -> bool:
    return cut_out[0] == SLASH and cut_out[2:3] != b"+"


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
}
