"""Texts of others, such as queries and names, as a terminal may show them."""

from __future__ import annotations


def one_line(text: str) -> str:
    """Without line breaks, and without what a terminal would obey."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def lines(text: str) -> str:
    """Likewise, with its line breaks."""
    return "".join(letter if letter == "\n" or letter.isprintable() else " " for letter in text)
