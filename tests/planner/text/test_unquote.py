"""The value of a quoted string, compared with a reading letter by letter."""

from __future__ import annotations

import random

from planner.text.fingerprint import unquote

ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def letter_by_letter(text: str) -> str:
    quote, body, out, at = text[0], text[1:-1], "", 0
    while at < len(body):
        if body[at] == "\\":
            escaped = body[at + 1]
            out += "\\" + escaped if escaped in "%_" else ESCAPES.get(escaped, escaped)
            at += 2
        else:
            out += body[at]
            at += 2 if body[at] == quote else 1
    return out


def test_the_value_of_random_strings() -> None:
    rng = random.Random(5)
    for quote in "'\"":
        pieces = [
            "\\\\",
            "\\'",
            '\\"',
            quote * 2,
            "\\n",
            "\\%",
            "\\_",
            "\\Z",
            "\\0",
            "\\\n",
            "\\é",
            "a",
            "%",
            "é",
            "\n",
        ]
        for _ in range(2_000):
            text = quote + "".join(rng.choices(pieces, k=rng.randrange(12))) + quote
            assert unquote(text) == letter_by_letter(text), text


def test_a_long_string_of_every_escape() -> None:
    body = "".join(f"\\{chr(code)}x''" for code in range(1, 0x3000))
    assert unquote(f"'{body}'") == letter_by_letter(f"'{body}'")
