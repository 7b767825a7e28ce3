"""Long texts of gRPC's `Query`, looked at in slices: others have their turn in between, and what is cancelled ends.

A text that is longer than a cache's query can be is for no cache. So only two things are done with it: it is checked to
be a read, and its parameters are put in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from planner.text.long_lists import without_lists
from planner.text.scan import Token, scan, scan_each, tokens_at_most
from proxy.loop.slices import in_slices
from proxy.port.api import ParameterValue
from sqltypes.errors import BadParameters, NotARead, ParseError
from sqltypes.values import client_literal

LONGEST = 1 << 16  # characters of a text that may be a cache's
MOST_TOKENS = 400  # of it, a list of literals counted as one
SLICE = 500  # tokens, or values, that are looked at in one turn of the loop
READS = frozenset({"SELECT", "WITH", "TABLE", "VALUES", "SHOW", "EXPLAIN", "DESCRIBE", "DESC"})
WRITES = frozenset({"UPDATE", "DELETE", "INSERT"})


def is_long(sql: str) -> bool:
    """Whether the text is longer than what is looked at in one step."""
    if len(sql) > LONGEST:
        return True
    try:
        return not tokens_at_most(without_lists(sql)[0], MOST_TOKENS)
    except ParseError:
        return False


async def read_text(sql: str, parameters: Sequence[ParameterValue]) -> str:
    """The text with each placeholder replaced by its parameter. Raises NotARead unless it is one statement that reads,
    ParseError, BadParameters."""
    found = _Found()
    out: list[str] = []
    at = given = 0
    for number, token in enumerate(scan_each(sql), 1):
        if number % SLICE == 0:
            await asyncio.sleep(0)
        if token.kind == "param":
            if given < len(parameters):
                out += (sql[at : token.start], await literal_in_slices(parameters[given]))
                at = token.end
            given += 1
        elif token.kind != "comment":
            found.add(token)
    found.check()
    if given != len(parameters):
        raise BadParameters(f"{len(parameters)} parameters were given, the query takes {given}")
    return "".join((*out, sql[at:]))


class _Found:
    """What has been seen of a text. `first`: its first word, in upper case."""

    def __init__(self) -> None:
        self.first = ""
        self.words: set[str] = set()
        self.ended = False

    def add(self, token: Token) -> None:
        if token.text == ";":
            self.ended = bool(self.first)
            return
        if self.ended:
            raise NotARead("the text holds several statements, one SELECT is accepted")
        if token.kind == "word":
            self.words.add(token.text.upper())
        if not self.first and token.text != "(":
            self.first = token.text.upper()

    def check(self) -> None:
        """Raises NotARead."""
        first, words = self.first, self.words
        if not first:
            raise NotARead("the text holds no statement, one SELECT is accepted")
        if first not in READS:
            raise NotARead(f"{first} is not a read: writes go to MySQL itself, a single SELECT is accepted here")
        if "INTO" in words or (first == "WITH" and not WRITES.isdisjoint(words)):
            raise NotARead("a statement that writes (INTO, or WITH before a write) is not a read")


def literal(value: ParameterValue) -> str:
    """A parameter as the literal, or the list of literals, that stands for it."""
    if not isinstance(value, tuple):
        return client_literal(value)
    return ", ".join(map(str if set(map(type, value)) == _INT else client_literal, value))


async def literal_in_slices(value: ParameterValue) -> str:
    """As `literal`; of a long list in several steps of the loop."""
    if not isinstance(value, tuple) or len(value) <= SLICE:
        return literal(value)
    firsts = range(0, len(value), SLICE)
    return ", ".join([literal(value[first : first + SLICE]) async for first in in_slices(firsts)])


_INT = {int}


def put_in(sql: str, literals: Sequence[str]) -> str:
    """The text with each placeholder replaced by one of these, in order. Raises BadParameters."""
    tokens = [token for token in scan(sql) if token.kind == "param"]
    if len(tokens) != len(literals):
        raise BadParameters(f"{len(literals)} parameters were given, the query takes {len(tokens)}")
    out: list[str] = []
    at = 0
    for token, text in zip(tokens, literals, strict=True):
        out += (sql[at : token.start], text)
        at = token.end
    return "".join((*out, sql[at:]))


def substituted(sql: str, parameters: Sequence[ParameterValue]) -> str:
    """The text with each placeholder replaced by its parameter as a literal."""
    return put_in(sql, list(map(literal, parameters)))


async def substituted_in_slices(sql: str, parameters: Sequence[ParameterValue]) -> str:
    """As `substituted`, of lists of any length."""
    return put_in(sql, [await literal_in_slices(value) for value in parameters])
