"""What one text says about all texts with its segments: which cut belongs to which slot of the fingerprint, and
functions that take a cache's values out of the cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from planner.matcher import ParameterValue
from planner.text.fingerprint import Constant, Fingerprint, ListSlot, is_list, pieces
from planner.text.scan import Token, without_comments
from proxy.mysql.text.text_cuts import COMMENT, CONVERTERS, LISTS, is_closed, is_comment, kind_of, list_kind

_WITH_WORD = frozenset({"date", "timestamp"})  # kinds of literals that have a word before them
MOST_FUNCTIONS, SHORT = 1024, 1000  # that are kept, letters of one
Values = Callable[[list[bytes]], tuple[ParameterValue, ...] | None]
"""The values out of a text's parts. None, or ValueError: the text is of another kind."""


@dataclass(frozen=True, slots=True)
class Role:
    """What one cut is. `part`: its number in the parts. `slot`: the fingerprint's slot that it is in; None: it is part
    of the shape, or a comment. `signed`: a minus before it belongs to it. `whole`: it is all of an IN-list."""

    part: int
    kind: str
    slot: int | None = None
    signed: bool = False
    whole: bool = False


def roles_of(parts: Sequence[bytes], spans: Sequence[tuple[int, int]], tokens: Sequence[Token]) -> list[Role]:
    """The roles of all cuts, in order. `tokens`: of `scan_all`; `spans`: what `ranges` says of them."""
    kept = without_comments(tokens)
    places = {token.start: index for index, token in enumerate(kept)}
    slots = [piece for piece in pieces(kept) if piece.slot is not None]
    in_slots = {index: number for number, piece in enumerate(slots) for index in range(piece.first, piece.end)}
    roles = []
    for part, (first, end) in zip(range(1, len(parts), 2), spans, strict=True):
        kind = kind_of(parts[part])
        if kind == COMMENT:
            roles.append(Role(part, kind))
            continue
        place = places[tokens[first].start]
        slot = in_slots.get(place)
        if slot is None:
            roles.append(Role(part, kind))
            continue
        piece = slots[slot]
        signed = place > piece.first and kept[place - 1].text == "-"
        last = places[tokens[end - 1].start] + 1
        whole = isinstance(piece.slot, ListSlot) and (place - signed, last) == (piece.first, piece.end)
        if isinstance(piece.slot, Constant) and piece.slot.kind in _WITH_WORD:
            kind = piece.slot.kind
        known = list_kind(kind) if whole else ""
        if known and signed:
            known += "_signed"
        roles.append(Role(part, known or kind, slot, signed, bool(known)))
    return roles


def values_of(roles: Sequence[Role], found: Fingerprint, parameters: Iterable[int], *, answered: bool = True) -> Values:
    """The function that gives the values of these slots, in order; it also sees to it that every cut that is not
    compared by its bytes is of the kind that it is here. `answered` False: there is no cache, so it gives ()."""
    terms = [_term(roles, slot, is_list(found.slots[slot])) for slot in parameters]
    comments = [f"is_comment(p[{role.part}])" for role in roles if role.kind == COMMENT]
    body = f"({''.join(f'{term}, ' for term in terms)})"
    if not answered:
        body = f"({body}, ())[1]"
    if comments:
        body = f"{body} if {' and '.join(comments)} else None"
    return _function(body) if len(body) <= SHORT else _function.__wrapped__(body)


def comments_only(parts: Iterable[int]) -> Values:
    """No values, where comments or hints are at these places, which are closed."""
    checks = " and ".join(f"is_closed(p[{part}])" for part in parts)
    return _function.__wrapped__(f"() if {checks} else None")


@lru_cache(MOST_FUNCTIONS)
def _function(body: str) -> Values:
    """Texts of one form have the same one. `body`: of numbers and the names below only."""
    made: Values = eval(f"lambda p: {body}", _NAMES)
    return made


def _term(roles: Sequence[Role], slot: int, is_list: bool) -> str:
    """One parameter's value as an expression of the parts `p`."""
    own = [role for role in roles if role.slot == slot]
    if not is_list:
        return _one(own[0])
    first = own[0]
    if first.whole:
        return f"{first.kind}(p[{first.part}])"
    alike = all((role.kind, role.signed) == (first.kind, False) for role in own)
    if alike and own[-1].part - first.part == 2 * (len(own) - 1):  # no comment between them
        return f"tuple(map({_name(first)}, p[{first.part}:{own[-1].part + 1}:2]))"
    return f"({''.join(f'{_one(role)}, ' for role in own)})"


def _one(role: Role) -> str:
    return f"{_name(role)}(p[{role.part}])"


def _name(role: Role) -> str:
    return f"{role.kind}_{'signed' if role.signed else 'plain'}"


_NAMES: dict[str, object] = {
    "__builtins__": {},
    "tuple": tuple,
    "is_closed": is_closed,
    "map": map,
    "is_comment": is_comment,
    **LISTS,
    **{f"{kind}_{'signed' if signed else 'plain'}": convert for (kind, signed), convert in CONVERTERS.items()},
}
