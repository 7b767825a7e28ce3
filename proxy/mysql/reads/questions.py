"""Questions about the session itself that are answered without MySQL. Pure.

Drivers, pools and frameworks ask at each login, or before each use of a connection: `SELECT @@sql_mode`, `SELECT
VERSION()`, `SELECT DATABASE()`, `SELECT 1`, `SHOW VARIABLES LIKE 'lower_case_table_names'`. The answer is the one that
MySQL has given before to the very same text, in a session that was the same in all that is known of it: its variables,
database, account, and how columns are announced to it. So it is the same bytes. A text may name only

* variables of the session of which MySQL tells each change, and of which it has told the value (`QUESTIONED`,
  `ANSWERED`);
* variables of the server that cannot be changed while it runs (`CONSTANT`), of which each session has been told, too;
* DATABASE(), VERSION(), CONNECTION_ID(), CURRENT_USER(); literals.

FOUND_ROWS() by itself is answered by the number of the last hit (`LastHit.found`), in the row that MySQL's answer had.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from planner.text.scan import Token, is_keyword, scan
from proxy.mysql.state.session_variables import ANSWERED, AUTOCOMMIT, CONSTANT, QUESTIONED
from proxy.mysql.wire.packets import EOF, STATUS_OF_SESSION, lenenc, packet, read_lenenc_int
from proxy.mysql.wire.responses import NOT_PLAIN
from sqltypes.errors import ParseError

LONGEST = 2048  # bytes of a text, and of an answer without its end
KEPT = 500  # texts, and answers of sessions that are alike; then all are forgotten
KEPT_STATES = 200  # kinds of session; then all are forgotten
_MAY_BE = re.compile(rb"\s*+(?:/\*(?![!+])[^*]*+(?:\*(?!/)[^*]*+)*+\*/\s*+)*+(?:select|show)\b", re.IGNORECASE)
_FUNCTIONS = frozenset({"database", "schema", "version", "connection_id", "current_user"})
_FOUND = "found_rows"
_WORDS = frozenset({"SELECT", "AS", "NULL", "TRUE", "FALSE", "FROM", "DUAL", "LIMIT"})
_SCOPES = ("", "session.", "local.")
_PATTERNS = {"lower_case_%": ("lower_case_file_system", "lower_case_table_names")}
"""Patterns of SHOW VARIABLES of which it is known which variables they find."""


class Question(NamedTuple):
    """What a text asks. `found`: FOUND_ROWS() alone. `own`: the number of the connection is in the answer. `shows`: it
    is a SHOW VARIABLES, which reads tables of MySQL's."""

    found: bool = False
    own: bool = False
    shows: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of MySQL's: its packets' payloads. `ends`: the packet behind the definitions, where there is one, and
    the last one."""

    head: tuple[bytes, ...]
    rows: tuple[bytes, ...]
    ends: tuple[bytes, ...]

    def packets(self, status: int) -> tuple[bytes, bytes]:
        """What stands before the rows, and the rest, in a session with these flags."""
        ends = [_with_status(end, status) for end in self.ends]
        before = [*self.head, *ends[:-1]]
        behind = [*self.rows, ends[-1]]
        numbered = [packet(payload, number) for number, payload in enumerate((*before, *behind), 1)]
        return b"".join(numbered[: len(before)]), b"".join(numbered[len(before) :])

    @property
    def warned(self) -> bool:
        """Whether its end counts warnings."""
        at = _at(self.ends[-1])
        at += -2 if len(self.ends[-1]) == 5 else 2
        return self.ends[-1][at : at + 2] != b"\0\0"

    def of(self, number: int) -> Reply:
        """The same with another number in its only column."""
        return replace(self, rows=(lenenc(str(number).encode()),))


def may_be_question(text: bytes) -> bool:
    """Whether `question_of` is worth asking."""
    return len(text) <= LONGEST and _MAY_BE.match(text) is not None


def question_of(text: bytes) -> Question | None:
    """What a text asks of the session, None where it may ask anything else."""
    try:
        tokens = scan(text.decode())
    except (ParseError, UnicodeDecodeError):
        return None
    if not tokens or any(token.text == ";" or token.kind in ("hint", "param") for token in tokens):
        return None
    return _selected(tokens) if is_keyword(tokens[0], "SELECT") else _shown(tokens)


def _selected(tokens: Sequence[Token]) -> Question | None:
    asked = set()
    at = 1
    while at < len(tokens):
        token, behind = tokens[at], tokens[at + 1 : at + 3]
        name = token.text.lower().strip("`")
        if token.kind == "variable":
            if not _is_known(token.text) or (behind and behind[0].text == "."):
                return None
        elif [each.text for each in behind] == ["(", ")"] and token.kind in ("word", "quoted"):
            if name != _FOUND and (name not in _FUNCTIONS or token.kind == "quoted"):
                return None
            asked.add(name)
            at += 2
        elif token.kind == "word" and name == "current_user":
            asked.add(name)
        elif token.kind in ("word", "quoted"):
            if token.text.upper() not in _WORDS and not _is_alias(tokens, at):
                return None
        elif token.kind not in ("number", "string") and token.text != ",":
            return None
        at += 1
    if _FOUND in asked:
        return Question(found=True) if _is_lone(tokens) else None
    return Question(own="connection_id" in asked)


def _is_alias(tokens: Sequence[Token], at: int) -> bool:
    """Whether a word can be nothing but the name of the item before it, as MySQL knows only that in such a place."""
    before = tokens[at - 1]
    ends_item = before.kind in ("number", "string", "variable") or before.text == ")" or is_keyword(before, "AS")
    behind = tokens[at + 1] if at + 1 < len(tokens) else None
    return ends_item and (behind is None or behind.text == "," or is_keyword(behind, "FROM", "LIMIT"))


def _is_lone(tokens: Sequence[Token]) -> bool:
    """SELECT FOUND_ROWS() [[AS] name]."""
    rest = tokens[4:]
    if tokens[1].text.lower().strip("`") != _FOUND:
        return False
    if rest and is_keyword(rest[0], "AS"):
        rest = rest[1:]
    return not rest or (len(rest) == 1 and rest[0].kind in ("word", "quoted", "string"))


def _is_known(variable: str) -> bool:
    """Whether the session knows the value of a variable, as it is written."""
    name = variable.lower()
    if not name.startswith("@@"):
        return False
    name = name[2:].replace("`", "")
    plain = next((name.removeprefix(scope) for scope in _SCOPES[1:] if name.startswith(scope)), name)
    if plain == AUTOCOMMIT or plain in ANSWERED or plain in QUESTIONED:
        return True
    return name.removeprefix("global.") in CONSTANT


def _shown(tokens: Sequence[Token]) -> Question | None:
    """SHOW [SESSION | LOCAL] VARIABLES LIKE 'name'."""
    words = [token.text.upper() for token in tokens]
    at = 2 if words[1:2] in (["SESSION"], ["LOCAL"]) else 1
    if words[0] != "SHOW" or words[at:-1] != ["VARIABLES", "LIKE"] or tokens[-1].kind != "string":
        return None
    name = tokens[-1].text[1:-1].lower()
    known = all(each in CONSTANT or each in QUESTIONED or each in ANSWERED for each in _PATTERNS.get(name, (name,)))
    return Question(shows=True) if known else None


def reply_of(payloads: Sequence[bytes], *, eof: bool) -> Reply | None:
    """MySQL's answer, from all its packets; None where it is no plain one, or long."""
    if len(payloads) < 3 or sum(map(len, payloads)) > LONGEST or not 0 < payloads[0][0] < 0xFB:
        return None
    columns, _ = read_lenenc_int(payloads[0], 0)
    head, last = tuple(payloads[: columns + 1]), payloads[-1]
    first = (payloads[columns + 1],) if eof else ()
    rows = tuple(payloads[columns + 1 + len(first) : -1])
    ends = (*first, last)
    if any(len(end) != (5 if eof else 7) or end[0] != EOF or _status_of(end) & NOT_PLAIN for end in ends):
        return None
    return Reply(head, rows, ends)


def _at(end: bytes) -> int:
    """Where the flags are in an EOF packet, or in an OK packet of nothing else."""
    return len(end) - 2 if len(end) == 5 else len(end) - 4


def _status_of(end: bytes) -> int:
    at = _at(end)
    return int.from_bytes(end[at : at + 2], "little")


def _with_status(end: bytes, status: int) -> bytes:
    """The session's flags beside those of the answer."""
    at = _at(end)
    flags = (_status_of(end) & ~STATUS_OF_SESSION) | status
    return end[:at] + flags.to_bytes(2, "little") + end[at + 2 :]


class Questions:
    """What all sessions know of them. `_replies`: by what a session is like, then by text."""

    def __init__(self) -> None:
        self._asked: dict[bytes, Question | None] = {}
        self._replies: dict[Hashable, dict[bytes, Reply]] = {}

    def asked_by(self, text: bytes) -> Question | None:
        """As `question_of`."""
        if text not in self._asked:
            if len(self._asked) >= KEPT:
                self._asked.clear()
            self._asked[text] = question_of(text)
        return self._asked[text]

    def find(self, state: Hashable, text: bytes) -> Reply | None:
        """What MySQL has answered in such a session."""
        replies = self._replies.get(state)
        return None if replies is None else replies.get(text)

    def learn(self, state: Hashable, text: bytes, reply: Reply) -> None:
        if state not in self._replies and len(self._replies) >= KEPT_STATES:
            self._replies.clear()
        replies = self._replies.setdefault(state, {})
        if len(replies) >= KEPT:
            replies.clear()
        replies[text] = reply
