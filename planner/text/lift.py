"""From one client's text to the query that all like it share: literals that are compared become parameters.

The result is itself a text that can be cached. It is narrower than a fingerprint (`fingerprint.py`), where every
literal is a slot: a literal is lifted only where a parameter means the same to MySQL and to the planner, and where it
varies in practice: beside a comparison in a WHERE or an ON, in a row that is compared, as an argument of a function
that is there for what a user has given (`_CALLS`). Literals of LIMIT, of ORDER BY and GROUP BY (which may be ordinals),
of HAVING, of select items and inside of other functions stay; so do those of a text with placeholders, whose author has
said by them what varies.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.text.fingerprint import Constant, ListSlot, Piece, Placeholder, pieces, respelled
from planner.text.long_lists import put_back, without_lists
from planner.text.scan import (
    DEFAULT_VERSION,
    ServerVersion,
    Token,
    is_keyword,
    scan,
    tokens_at_most,
    unwrap_version_comments,
    words,
)

_COMPARISONS = frozenset({"=", "<", ">", "<=", ">=", "<>", "!=", "<=>"})
_LIFTED = ("int", "decimal", "string", "date", "timestamp")  # a parameter of another kind is compared by MySQL itself
_CONDITION = ("WHERE", "ON")
_CALLS = words(
    """
    LOWER LCASE UPPER UCASE TRIM DATE FROM_UNIXTIME UNIX_TIMESTAMP UNHEX UUID_TO_BIN MD5 SHA SHA1 SHA2 INET_ATON
    INET6_ATON FIND_IN_SET AGAINST
    """
)
_ORDERING = frozenset({"FIELD"})  # wherever it is
_PATTERN = frozenset({"CONCAT"})  # behind LIKE
MOST_IN_ROW = 16
_NO_CONDITION = words("SELECT FROM GROUP HAVING ORDER LIMIT WINDOW UNION EXCEPT INTERSECT FOR LOCK INTO USING JOIN")
# What may stand before a literal on the left of a comparison, and behind one on the right.
_BEFORE = words("WHERE ON AND OR XOR NOT")
_BEHIND = words(
    """
    AND OR XOR GROUP HAVING ORDER LIMIT WINDOW UNION EXCEPT INTERSECT FOR LOCK WHERE JOIN INNER LEFT RIGHT CROSS
    NATURAL STRAIGHT_JOIN
    """
)


def lifted(sql: str, version: ServerVersion = DEFAULT_VERSION) -> str:
    """The query in the one spelling of `normalised`, compared literals as `?`, lists of them as `IN (?)`. Raises
    ParseError for what is no SQL text at all.

    >>> lifted("select id from t where a=7 and b in (1,2) and c like 'x%' order by 1 limit 5")
    'SELECT id FROM t WHERE a = ? AND b IN (?) AND c LIKE ? ORDER BY 1 LIMIT 5'
    """
    shape = lifted_of(sql, None, version)
    assert shape is not None
    return shape


def lifted_of(sql: str, most: int | None, version: ServerVersion = DEFAULT_VERSION) -> str | None:
    """As `lifted`; None where about more than so many tokens had to be looked at. A long list that becomes a parameter
    is one, but not beside a version comment."""

    def too_many(text: str) -> bool:
        return most is not None and not tokens_at_most(text, most)

    short, lists = without_lists(sql)
    if "/*!" in sql:
        if too_many(sql):
            return None
        short, lists = without_lists(unwrap_version_comments(sql, version))
    if too_many(short):
        return None
    tokens = scan(short)
    found = pieces(tokens)
    lift = _lifted(found)
    lifts = {tokens[first].start for first in lift}
    if any(one.start not in lifts for one in lists):
        text = put_back(short, [one for one in lists if one.start not in lifts])
        if too_many(text):
            return None
        tokens = scan(text)
        found = pieces(tokens)
        lift = _lifted(found)

    def mark(piece: Piece) -> str:
        if piece.first in lift:
            return "?"
        return "".join(", " if token.text == "," else token.text for token in tokens[piece.first : piece.end])

    return respelled(tokens, found, mark)


def _lifted(found: Sequence[Piece]) -> frozenset[int]:
    """The first tokens of the slots that become parameters."""
    lift: set[int] = set()
    walk = _Walk()
    prepared = any(_has_placeholder(piece) for piece in found)
    for at, piece in enumerate(found):
        if piece.slot is None:
            assert piece.token is not None
            walk.token(piece.token, at, _text(found, at - 1) == ".")
        elif _has_placeholder(piece) or (
            not prepared
            and (
                (walk.condition and _is_compared(found, at, between=walk.between))
                or _is_given(found, at, walk.opened, in_condition=walk.condition)
            )
        ):
            lift.add(piece.first)
    return frozenset(lift)


def _has_placeholder(piece: Piece) -> bool:
    slot = piece.slot
    items = slot.items if isinstance(slot, ListSlot) else (slot,)
    return any(isinstance(item, Placeholder) for item in items)


class _Walk:
    """Where the text is: inside of a condition, behind a BETWEEN whose AND is still to come, and in which bracket."""

    def __init__(self) -> None:
        self.condition = False
        self.between = ""  # "BETWEEN", then "AND" behind its AND, then ""
        self.opened = -1  # the piece that is the bracket around
        self._outer: list[tuple[bool, str, int]] = []

    def token(self, token: Token, at: int, after_dot: bool) -> None:
        if token.text == "(":
            self._outer.append((self.condition, self.between, self.opened))
            self.between, self.opened = "", at
        elif token.text == ")":
            self.condition, self.between, self.opened = self._outer.pop() if self._outer else (False, "", -1)
        elif token.kind == "word" and not after_dot:
            self._word(token.text.upper())

    def _word(self, word: str) -> None:
        if word in _CONDITION:
            self.condition, self.between = True, ""
        elif word in _NO_CONDITION:
            self.condition = False
        elif word == "BETWEEN":
            self.between = word
        elif word == "AND":
            self.between = word if self.between == "BETWEEN" else ""
        elif word in ("OR", "XOR"):
            self.between = ""


def _is_compared(found: Sequence[Piece], at: int, *, between: str) -> bool:
    slot = found[at].slot
    if isinstance(slot, ListSlot):
        return all(isinstance(item, Constant) and item.kind in _LIFTED for item in slot.items)
    if not isinstance(slot, Constant) or slot.kind not in _LIFTED:
        return False
    before, behind = _token(found, at - 1), _token(found, at + 1)
    ends = at + 1 == len(found) or _text(found, at + 1) in (")", ";") or _is(behind, _BEHIND)
    if _text(found, at - 1) in _COMPARISONS:
        return ends and not _is_slot(found, at - 2)
    if _is(before, frozenset({"LIKE"})):
        return ends
    if between == "BETWEEN":
        return _is(before, frozenset({"BETWEEN"})) and _is(behind, frozenset({"AND"}))
    if between == "AND":
        return ends and _is(before, frozenset({"AND"}))
    begins = _text(found, at - 1) == "(" or _is(before, _BEFORE)
    return begins and _text(found, at + 1) in _COMPARISONS and not _is_slot(found, at + 2)


def _is_given(found: Sequence[Piece], at: int, opened: int, *, in_condition: bool) -> bool:
    """Whether it is a whole part of a row that is compared, or an argument of one of `_CALLS` and its kind. `opened`:
    the bracket around."""
    slot = found[at].slot
    if not isinstance(slot, Constant) or slot.kind not in _LIFTED or opened < 1:
        return False
    if _text(found, at - 1) not in ("(", ","):
        return False
    before = _token(found, opened - 1)
    if _is(before, frozenset({"AGAINST"})):  # words may follow
        return in_condition
    if _text(found, at + 1) not in (")", ","):
        return False
    if _is(before, _ORDERING):
        return True
    if _is(before, _PATTERN):
        return in_condition and _is(_token(found, opened - 2), frozenset({"LIKE"}))
    return in_condition and (_is(before, _CALLS) or _is_row(found, opened))


def _is_row(found: Sequence[Piece], opened: int) -> bool:
    """Whether the bracket is one around a row of literals, which is compared or is one of an IN-list."""
    end = opened + 1
    while end - opened <= 2 * MOST_IN_ROW and isinstance(found[end].slot, Constant) and _text(found, end + 1) == ",":
        end += 2
    if end == opened + 1 or not isinstance(found[end].slot, Constant) or _text(found, end + 1) != ")":
        return False
    before, word = _text(found, opened - 1), _token(found, opened - 2)
    return before in _COMPARISONS or before == "," or (before == "(" and _is(word, frozenset({"IN"})))


def _token(found: Sequence[Piece], at: int) -> Token | None:
    return found[at].token if 0 <= at < len(found) else None


def _text(found: Sequence[Piece], at: int) -> str:
    token = _token(found, at)
    return token.text if token is not None and token.kind == "op" else ""


def _is(token: Token | None, keywords: frozenset[str]) -> bool:
    return token is not None and is_keyword(token, *keywords)


def _is_slot(found: Sequence[Piece], at: int) -> bool:
    return 0 <= at < len(found) and found[at].slot is not None
