"""From a client's text to a syntax tree whose placeholders know their number.

sqlglot parses; the text that it sees has `:p0`, `:p1` ... where placeholders stand, because its tree does not keep
their order. Text is never generated back from the tree.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from planner.text.brackets import without_brackets
from planner.text.fingerprint import Constant, ListSlot, Piece, Placeholder, normalised, pieces, unnamed_items
from planner.text.hints import collation_of, mode_of, without_hints
from planner.text.json_table import is_json_table, lateral
from planner.text.parser_text import is_values, replacements
from planner.text.scan import (
    ServerVersion,
    Token,
    counts_found,
    is_keyword,
    place,
    places_of,
    scan,
    select_items,
    unwrap_version_comments,
)
from sqltypes.errors import ParseError, UnsupportedQuery

# It warns of JSON paths that only MySQL knows, on standard error where nothing is set up: once for each such text.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

NOT_READ = "JSON_TABLE with ERROR ON ERROR, or columns of a character set or collation, is not supported"
# What the parser itself stumbles over in some texts, and those nested too deeply.
PARSER_FAILS = (TypeError, AttributeError, ValueError, LookupError, RecursionError)


@dataclass(frozen=True)
class ParsedQuery:
    """A client's text, parsed."""

    text: str  # as the client sent it, version comments resolved
    tokens: tuple[Token, ...]  # of the text
    pieces: tuple[Piece, ...]  # of the tokens
    normalised: str
    tree: exp.Query
    lists: tuple[bool, ...]  # for each parameter: whether it is an IN-list
    template: str  # the text with `{n}` for each parameter
    item_names: tuple[str, ...]  # the source text of each item of the outermost select list
    modes: frozenset[str] | None = None  # the sql_mode that the text sets for itself (`planner/text/hints.py`)
    collation: str = ""  # likewise the collation of its literals
    counts: bool = False  # it has SQL_CALC_FOUND_ROWS, which the tree has not
    rows: bool = False  # it has VALUES ROW()

    @property
    def asked(self) -> str:
        """The text with one placeholder for each parameter, `?...` for a list."""
        return self.template.format(*("?..." if is_list else "?" for is_list in self.lists))


def parse(sql: str, version: ServerVersion) -> ParsedQuery:
    """Raises ParseError with the place, or UnsupportedQuery for what is no single SELECT."""
    text = unwrap_version_comments(sql, version)
    tokens = tuple(scan(text))
    if not tokens:
        raise ParseError("the text is empty; a SELECT is expected")
    if any([token.text == ";" for token in tokens]):
        raise ParseError("several statements; one SELECT is expected")
    if tokens[0].text != "(" and not is_keyword(tokens[0], "SELECT", "WITH", "TABLE") and not is_values(tokens, 0):
        raise UnsupportedQuery("not_a_select", "only a SELECT can be cached", tokens[0].text)
    items = select_items(tokens)
    kept = unnamed_items(tokens, items)
    found = tuple(pieces(tokens, kept))
    spans = [span for piece in found if piece.slot is not None for span in _spans_of(piece, tokens)]
    counts = counts_found(tokens)
    tree = _tree(without_hints(text, tokens), tokens, spans, counts)
    names = tuple([text[tokens[first].start : tokens[end - 1].end] for first, end in items])
    lists = tuple([is_list for _, _, is_list in spans])
    template = _template(text, tokens, spans)
    return ParsedQuery(
        text,
        tokens,
        found,
        normalised(tokens, found, kept),
        tree,
        lists,
        template,
        names,
        mode_of(tokens),
        collation_of(text),
        counts=counts is not None,
        rows=any([is_values(tokens, at) for at in places_of(tokens, "VALUES")]),
    )


Span = tuple[int, int, bool]  # tokens [first, end) of one parameter, and whether it is a list


def _spans_of(piece: Piece, tokens: Sequence[Token]) -> list[Span]:
    if isinstance(piece.slot, Placeholder):
        if piece.slot.list:
            raise UnsupportedQuery("list_outside_in", "?... is the list of an IN (?...)", "?...")
        return [(piece.first, piece.end, False)]
    if isinstance(piece.slot, ListSlot):
        items = piece.slot.items
        if all(isinstance(item, Placeholder) for item in items):
            return [(piece.first, piece.end, True)]
        if not all(isinstance(item, Constant) for item in items):
            where = " ".join(token.text for token in tokens[piece.first : piece.end])
            raise UnsupportedQuery(
                "mixed_list", "an IN-list of placeholders or one of constants can be cached, not a mixture", where
            )
    return []


def _tree(text: str, tokens: Sequence[Token], spans: Sequence[Span], counts: Token | None) -> exp.Query:
    if any([is_json_table(tokens, at) and not lateral(tokens, at) for at in places_of(tokens, "JSON_TABLE")]):
        raise UnsupportedQuery("table_function", NOT_READ, "JSON_TABLE")
    marks = [(first, end, f":p{number}") for number, (first, end, _) in enumerate(spans)]
    instead = [(at, at + 1, by) for at, by in replacements(tokens, counts)]
    marked, offsets = _replaced(text, tokens, sorted(marks + instead))
    try:
        statements = sqlglot.parse(marked, dialect="mysql")
    except SqlglotError as error:
        raise ParseError(f"does not parse {place(text, _offset(error, marked, offsets, len(text)))}") from error
    except PARSER_FAILS as error:
        raise ParseError(f"is not understood by the parser ({type(error).__name__}): {text[:60]!r}") from error
    tree = statements[0] if len(statements) == 1 else None
    if not isinstance(tree, exp.Query):
        raise UnsupportedQuery("not_a_select", "only a single SELECT can be cached", text[:60])
    without_brackets(tree)
    return tree


def _replaced(
    text: str, tokens: Sequence[Token], by: Sequence[tuple[int, int, str]]
) -> tuple[str, list[tuple[int, int]]]:
    """The text with tokens [first, end) replaced, and pairs (offset there, offset in `text`) from which others are
    found."""
    out: list[str] = []
    offsets = [(0, 0)]
    position = length = 0
    for first, end, mark in by:
        start, stop = tokens[first].start, tokens[end - 1].end
        out += [text[position:start], mark]
        length += start - position + len(mark)
        position = stop
        offsets.append((length, stop))
    out.append(text[position:])
    return "".join(out), offsets


def _offset(error: SqlglotError, marked: str, offsets: Sequence[tuple[int, int]], length: int) -> int:
    """The place of a parse error in the client's text; sqlglot gives the line and the column where the token ends."""
    details = getattr(error, "errors", None) or [{}]
    line, column, highlight = (details[0].get(key) for key in ("line", "col", "highlight"))
    if not line or not column:
        return max(0, length - 1)
    start = 0
    for _ in range(line - 1):
        start = marked.find("\n", start) + 1
    there = max(0, start + column - len(highlight or " "))
    base, own = max((pair for pair in offsets if pair[0] <= there), default=(0, 0))
    return min(length, int(own + there - base))


def _template(text: str, tokens: Sequence[Token], spans: Sequence[Span]) -> str:
    """The text for str.format: `{n}` for each parameter (inside the brackets of IN for a list), literal braces
    doubled."""
    end = tokens[-1].end
    out: list[str] = []
    position = 0
    for number, (first, stop, _) in enumerate(spans):
        out += [_braces(text[position : tokens[first].start]), f"{{{number}}}"]
        position = tokens[stop - 1].end
    out.append(_braces(text[position:end]))
    return "".join(out)


def _braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def parameter_number(node: exp.Expr) -> int:
    """The parameter that a placeholder of the tree is."""
    return int(str(node.this)[1:])
