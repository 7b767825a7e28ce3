"""What a SET statement sets, from its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from planner.text.calls import word
from planner.text.scan import Token


class Scope(Enum):
    """Whose setting it is."""

    SESSION = "session"
    GLOBAL = "global"  # PERSIST and PERSIST_ONLY too
    USER = "user"  # a user variable
    NEXT = "next"  # SET TRANSACTION: of the next transaction only
    OTHER = "other"  # role, password, resource group


@dataclass(frozen=True, slots=True)
class Setting:
    """One assignment. `name` is in lower case, without @ and scope. `value`: as written, with single spaces; a literal
    keeps its quotes.

    SET NAMES sets "names"; SET CHARACTER SET sets "character_set"; SET TRANSACTION sets "transaction_isolation" and
    "transaction_read_only" (values as @@transaction_isolation shows them, and ON or OFF).
    """

    scope: Scope
    name: str
    value: str


_SCOPES = {
    "GLOBAL": Scope.GLOBAL,
    "PERSIST": Scope.GLOBAL,
    "PERSIST_ONLY": Scope.GLOBAL,
    "SESSION": Scope.SESSION,
    "LOCAL": Scope.SESSION,
}
_OTHERS = {"ROLE": "role", "PASSWORD": "password"}


def settings_of(tokens: Sequence[Token]) -> tuple[Setting, ...] | None:
    """The settings of a SET statement, in order; None where it is not understood. `tokens`: those behind SET."""
    first, second = (word(tokens, 0), word(tokens, 1))
    if first == "NAMES":
        return _names(tokens)
    if first in ("CHARSET", "CHARACTER"):
        start = 1 if first == "CHARSET" else 2
        return (Setting(Scope.SESSION, "character_set", spelled(tokens[start:])),) if len(tokens) > start else None
    if first in _OTHERS:
        return (Setting(Scope.OTHER, _OTHERS[first], spelled(tokens[1:])),)
    if (first, second) in (("DEFAULT", "ROLE"), ("RESOURCE", "GROUP")):
        return (Setting(Scope.OTHER, f"{first}_{second}".lower(), spelled(tokens[2:])),)
    if first == "TRANSACTION":
        return _transaction(tokens[1:], Scope.NEXT)
    if first in _SCOPES and second == "TRANSACTION":
        return _transaction(tokens[2:], _SCOPES[first])
    return _assignments(tokens)


def spelled(tokens: Sequence[Token]) -> str:
    """The tokens' text with single spaces where there was any."""
    out: list[str] = []
    end = tokens[0].start if tokens else 0
    for token in tokens:
        out.append(token.text if token.start == end else " " + token.text)
        end = token.end
    return "".join(out)


def _names(tokens: Sequence[Token]) -> tuple[Setting, ...] | None:
    if len(tokens) < 2:
        return None
    if tokens[1].text == "=":
        return None  # an error in MySQL: nothing is called so
    return (Setting(Scope.SESSION, "names", spelled(tokens[1:])),)


_LEVELS = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


def _transaction(tokens: Sequence[Token], scope: Scope) -> tuple[Setting, ...] | None:
    settings: list[Setting] = []
    for part in split(tokens, ","):
        text = " ".join(token.text.upper() for token in part)
        if text.startswith("ISOLATION LEVEL ") and text[16:] in _LEVELS:
            settings.append(Setting(scope, "transaction_isolation", text[16:].replace(" ", "-")))
        elif text in ("READ ONLY", "READ WRITE"):
            settings.append(Setting(scope, "transaction_read_only", "ON" if text == "READ ONLY" else "OFF"))
        else:
            return None
    return tuple(settings)


def _assignments(tokens: Sequence[Token]) -> tuple[Setting, ...] | None:
    settings: list[Setting] = []
    scope = Scope.SESSION  # GLOBAL and SESSION as words hold for what follows
    for part in split(tokens, ","):
        if word(part, 0) in _SCOPES and len(part) > 1 and part[1].kind in ("word", "quoted"):
            scope = _SCOPES[word(part, 0)]
            part = part[1:]
        at = next((index for index, token in enumerate(part) if token.text in ("=", ":=")), 0)
        named = _named(part[:at], scope)
        if named is None or at + 1 >= len(part):
            return None
        settings.append(Setting(*named, spelled(part[at + 1 :])))
    return tuple(settings)


def _named(target: Sequence[Token], scope: Scope) -> tuple[Scope, str] | None:
    """(scope, name) of what stands before the equals sign."""
    text = "".join(token.text for token in target).replace("`", "").lower()
    if len(target) != 1 and not text.startswith("@@") and any(token.kind not in ("word", "quoted") for token in target):
        # `default.key_buffer_size` and its kind: a structured variable, which is global
        return (Scope.GLOBAL, text) if text.count(".") == 1 and "@" not in text else None
    if text.startswith("@@"):
        name = text[2:]
        prefix, _, rest = name.partition(".")
        found = _SCOPES.get(prefix.upper())
        return (found, rest) if found is not None and rest else (Scope.SESSION, name)
    if text.startswith("@"):
        return (Scope.USER, text[1:].strip("'\"")) if len(text) > 1 else None
    return (scope, text) if len(target) == 1 else None


def split(tokens: Sequence[Token], mark: str) -> list[Sequence[Token]]:
    """The tokens between marks that stand outside of brackets."""
    parts: list[Sequence[Token]] = []
    depth = start = 0
    for index, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        if token.text == mark and depth <= 0:
            parts.append(tokens[start:index])
            start = index + 1
    parts.append(tokens[start:])
    return parts
