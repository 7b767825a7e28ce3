"""From the bytes of a COM_QUERY to the cache that they are for and the values of its parameters, quickly.

`planner/matcher.py` decides which text is for which cache; it takes tens of microseconds. What it says about one text
is kept here for all texts that have the same segments (`text_cuts.py`) and agree in the literals that decide: those
that a cache fixes, and those of select items without an alias. Where that cannot be told, the matcher is asked each
time. So `TextMatcher.find` always says what `QueryMatcher.match` says, but that bytes inside of comments need not be
UTF-8.

Comments that steer. `/* upwell: skip */` anywhere in a text: MySQL answers, never a cache. `/* upwell: force */`: a
cache answers, or there is an error that says why none can. It is a comment of the plain kind because every driver and
ORM can send one (as a prefix or suffix, or as an annotation) and MySQL ignores it: of a hint that it does not know
(`/*+ ... */`) it warns. The `mysql` command of MySQL 8 strips comments unless it is started with --comments. Other
comments, such as those by which ORMs and sqlcommenter trace statements, do not matter, and may differ from text to
text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Generic, TypeVar

from planner.matcher import ParameterValue, QueryMatcher
from planner.text.fingerprint import Fingerprint, LongList, is_list
from planner.text.long_lists import without_lists
from planner.text.scan import Token, scan_all, tokens_at_most
from proxy.mysql.text.list_texts import LEAST_LISTED, ListTexts
from proxy.mysql.text.text_cuts import COMMENT, LISTS, MOST_CUTS, SLASH, cut, one_outline, ranges, sample
from proxy.mysql.text.text_templates import Role, Values, comments_only, roles_of, values_of
from sqltypes.errors import ParseError

LONGEST = 1 << 16  # bytes: longer texts are not looked at
LONGEST_LARGE = 1 << 13  # of those that are too large for a cache, and are remembered
TOKENS_OF_LARGE = 1000  # of these: they are read twice, by what cuts them and by what tells their kind, in 3 ms
LONGEST_OTHER = 1 << 11  # of those that do not begin as a SELECT does
REMEMBERED_BYTES = 8 << 20  # of what is learned, in either half
MOST_SLASHES = 2000  # of a long text: each takes as long to look at as a literal
MOST_TOKENS = 400
"""Of a text, lists of literals counted as one: it is learned in less than 5 ms. One that has more is not looked at."""
MOST_COMMENTS = 16  # of a text that is taken apart; one with more is remembered as it is
MOST_GROUPS, MOST_TEMPLATES, MOST_TEXTS = 8, 256, 64  # of one list of segments

A = TypeVar("A")


class Steer(Enum):
    """What a text asks for by a comment."""

    NOT = ""
    SKIP = "skip"
    FORCE = "force"


@dataclass(slots=True, eq=False)
class Entry(Generic[A]):
    """What texts of one kind have in common. `cache`: the name of the one that they are for, None: of none.

    `attached` is the caller's own: what it has found out about all of them, whatever literals and comments they have.
    It is forgotten with the entry. An entry without cache stands for texts whose literals may differ in number and
    string, so nothing that depends on a literal's value (SET autocommit = 0) can be attached to it.

    `alike`: a key for texts that MySQL prepares alike if they are for the same cache with the same plan, or for none,
    whatever other caches come and go meanwhile; b"": there is none, for it is of one text alone.

    `more`: more than spaces may stand behind a semicolon. To a comment there MySQL gives a result of its own, where
    the session may send several statements.
    """

    cache: str | None
    steer: Steer = Steer.NOT
    attached: A | None = None
    large: bool = False  # too large to be looked at
    more: bool = True
    alike: bytes = b""


Found = tuple[Entry[A], tuple[ParameterValue, ...]]


@dataclass(slots=True, eq=False)
class _Group(Generic[A]):
    """Texts of the same kinds of literals. `decisive`: the parts on which it depends what they are for; `pick` gives
    their bytes. `templates`: by those bytes, the entry and what gives the values."""

    identity: tuple[object, ...]
    compared: frozenset[int]
    pick: Callable[[list[bytes]], Any]
    templates: dict[Any, tuple[Entry[A], Values]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Known(Generic[A]):
    """What is known of one list of segments. `key`: these, and the database. `always`: no cache, whatever literals are
    between them. `texts`: found one by one, where the cuts are not the literals."""

    key: tuple[object, ...] = ()
    always: Found[A] | None = None
    groups: list[_Group[A]] = field(default_factory=list)
    texts: dict[bytes, Found[A]] | None = None


class TextMatcher(Generic[A]):
    """Texts to caches.

    Invariants: (1) what is held was learned of the matcher as it is now; (2) `_old` and `_young` share no key,
    and each holds about `REMEMBERED_BYTES` at most.
    """

    def __init__(self, matcher: QueryMatcher) -> None:
        self._matcher = matcher
        self.clear()

    def clear(self) -> None:
        """Forgets all entries. Not needed when caches come and go."""
        self._changes = self._matcher.changes
        self._young: dict[tuple[object, ...], _Known[A]] = {}
        self._old: dict[tuple[object, ...], _Known[A]] = {}
        self._bytes = 0
        self._lists: ListTexts[Entry[A]] = ListTexts()

    def find(self, text: bytes, database: str) -> Found[A]:
        """(entry, values of the cache's parameters). The same entry for all texts that are known to be alike; a new
        one for a text that is not to be remembered."""
        if self._changes != self._matcher.changes:
            self.clear()
        if LEAST_LISTED <= len(text) <= LONGEST and (listed := self._lists.find(text, database)) is not None:
            return listed
        if len(text) > LONGEST_OTHER and not _may_be_read(text):
            return Entry(None, steering(text)), ()
        parts = cut(text)
        known = self._young.get((database, *parts[::2]))
        if known is None:
            if len(text) > MOST_TOKENS and is_large(parts[::2]):
                return self._large(text, database, parts)
            known = self._known(text, database, parts)
        if known.always is not None and not (b"/*" in text and has_comment(parts)):
            return known.always
        for group in known.groups:
            template = group.templates.get(group.pick(parts))
            if template is not None:
                try:
                    values = template[1](parts)
                except ValueError:
                    continue  # a literal of another kind
                if values is not None:
                    if len(text) >= LEAST_LISTED and tuple in map(type, values):
                        self._lists.learn(text, database, parts, group.compared, template[0], values)
                    return template[0], values
        return self._learn(known, text, database, parts)

    # -- learning ----------------------------------------------------------------------------------------------------

    def _large(self, text: bytes, database: str, parts: list[bytes]) -> Found[A]:
        """A text that is too large for a cache. One of literals alone stands for all with its segments."""
        entry: Entry[A] = Entry(None, steering(text), large=True)
        if len(text) > LONGEST_LARGE or has_comment(parts):
            return entry, ()
        try:
            sql = text.decode()
            tokens = scan_all(sql) if tokens_at_most(sql, TOKENS_OF_LARGE) else []
            alike = tokens != [] and one_outline(tokens) and ranges(parts, tokens) is not None
        except (UnicodeDecodeError, ParseError):
            return entry, ()
        if alike:
            known = self._known(text, database, parts)
            known.always, entry.alike = (entry, ()), digest(known.key)
        return entry, ()

    def _known(self, text: bytes, database: str, parts: list[bytes]) -> _Known[A]:
        key = (database, *parts[::2])
        known = self._old.pop(key, None)
        if known is None:
            known = _Known(key)
        self._young[key] = known
        self._took(len(text) + 64 * len(parts))
        return known

    def _took(self, count: int) -> None:
        self._bytes += count
        if self._bytes > REMEMBERED_BYTES:
            self._old, self._young, self._bytes = self._young, {}, 0

    def _learn(self, known: _Known[A], text: bytes, database: str, parts: list[bytes]) -> Found[A]:
        """Asks the matcher, and keeps what it says for the texts for which it surely says the same."""
        if known.always is not None and known.always[0].large:
            return Entry(None, steering(text), large=True), ()
        if known.texts is not None and text in known.texts:
            return known.texts[text]
        entry: Entry[A] = Entry(None, steering(text))
        short = sample(parts)
        try:
            sql = b"".join(short).decode()
            tokens = scan_all(sql)
            entry.more = has_more(tokens)
            spans = ranges(short, tokens)
            if spans is None and short != parts:  # perhaps lists that stand in comments or names
                sql = text.decode()
                entry.large = not tokens_at_most(without_lists(sql)[0], MOST_TOKENS)
            fingerprint = None
            if not entry.large and not _OTHER.match(parts[0]):
                fingerprint = self._matcher.fingerprint(sql, database)
        except (UnicodeDecodeError, ParseError):
            return entry, ()
        if spans is None:
            return (entry, ()) if entry.large else self._remember_text(known, text, entry, fingerprint)
        if fingerprint is None or self._is_none(fingerprint, tokens):
            return self._without_cache(known, parts, entry)
        roles = roles_of(short, spans, tokens)
        if sum(role.kind == COMMENT for role in roles) > MOST_COMMENTS:
            return self._remember_text(known, text, entry, fingerprint)
        try:
            whole = _with_lists(fingerprint, roles, parts)
        except ValueError:  # a number of more digits than are read, behind the list's first items
            return entry, ()
        matched = self._matcher.match_fingerprint(whole, ())
        entry.cache, values = matched if matched is not None else (None, ())
        self._template(known, parts, roles, fingerprint, entry)
        return entry, values

    def _is_none(self, fingerprint: Fingerprint, tokens: list[Token]) -> bool:
        """Whether no text with these segments can be a cache's."""
        if fingerprint.placeholders:
            return True  # they have no values here
        return one_outline(tokens) and not self._matcher.resembles(fingerprint)

    def _without_cache(self, known: _Known[A], parts: list[bytes], entry: Entry[A]) -> Found[A]:
        """A text without comments stands for all with its segments; one with comments for those that have comments
        there: LAST_INSERT_ID(/* */) is not LAST_INSERT_ID(5)."""
        comments = [part for part in range(1, len(parts), 2) if parts[part][0] == SLASH]
        if comments:
            group = _group(known, [], [Role(part, COMMENT) for part in comments])
            group.templates[None] = entry, comments_only(comments)
            return entry, ()
        known.always = entry, ()
        return known.always

    def _remember_text(
        self, known: _Known[A], text: bytes, entry: Entry[A], fingerprint: Fingerprint | None
    ) -> Found[A]:
        """What is found holds for this very text."""
        matched = self._matcher.match_fingerprint(fingerprint, ()) if fingerprint is not None else None
        entry.cache, values = matched if matched is not None else (None, ())
        if known.texts is None or len(known.texts) >= MOST_TEXTS:
            known.texts = {}
        known.texts[text] = entry, values
        self._took(len(text))
        return entry, values

    def _template(
        self, known: _Known[A], parts: list[bytes], roles: list[Role], fingerprint: Fingerprint, entry: Entry[A]
    ) -> None:
        decisive = self._matcher.decisive(fingerprint)
        free = [slot for slot in range(len(fingerprint.slots)) if slot not in decisive]
        if entry.cache is not None:
            values = values_of(roles, fingerprint, self._matcher.parameter_slots(entry.cache, fingerprint))
        else:
            values = values_of(roles, fingerprint, free, answered=False)
        fixed = {None, *decisive}
        compared = [
            role.part
            for role in roles
            if (names_a_column(parts, role.part) if role.kind == COMMENT else role.slot in fixed)
        ]
        group = _group(known, compared, roles)
        if len(group.templates) >= MOST_TEMPLATES:
            group.templates.clear()
        decided = group.pick(parts)
        group.templates[decided] = entry, values
        if entry.cache is not None:
            entry.alike = digest((known.key, group.identity, decided))
        self._took(sum(len(parts[part]) for part in compared) + 64 * len(parts))


def _group(known: _Known[A], compared: list[int], roles: list[Role]) -> _Group[A]:
    identity = (*compared, *((role.part, role.kind) for role in roles if role.part not in compared))
    for group in known.groups:
        if group.identity == identity:
            return group
    if len(known.groups) >= MOST_GROUPS:
        known.groups.clear()
    made: _Group[A] = _Group(identity, frozenset(compared), itemgetter(*compared) if compared else _nothing)
    known.groups.append(made)
    return made


def has_comment(parts: Sequence[bytes]) -> bool:
    """Whether a comment is among the cuts. LAST_INSERT_ID(/* */) is not LAST_INSERT_ID(5), and `f /* */ (1)` calls what
    `f 5 (1)` does not."""
    return any(part[0] == SLASH for part in parts[1::2])


def digest(key: object) -> bytes:
    """Equal for equal keys of strings, bytes and numbers, and of 16 bytes however long they are."""
    return blake2b(repr(key).encode(), digest_size=16).digest()


def has_more(tokens: Sequence[Token]) -> bool:
    """Whether anything but semicolons stands behind one. `tokens`: of `scan_all`."""
    texts = [token.text for token in tokens]
    return ";" in texts and any([text != ";" for text in texts[texts.index(";") :]])


def _nothing(parts: list[bytes]) -> None:
    return None


def names_a_column(parts: list[bytes], part: int) -> bool:
    """Whether this comment may stand inside of a select item: MySQL names a column without an alias as it is written,
    comments included."""
    before = b"".join(piece for piece in parts[:part] if piece[:2] != b"/*")
    return _LISTS.match(before) is not None and _NEXT_ITEM.match(parts[part + 1]) is None


def _may_be_read(text: bytes) -> bool:
    """Whether a long text is to be looked at."""
    return len(text) <= LONGEST and _READ.match(text) is not None and text.count(b"/") <= MOST_SLASHES


_OTHER = re.compile(rb"\s*(?!(?:select|with|table|values)\b)[a-z]", re.IGNORECASE)
_READ = re.compile(rb"[\s\x80-\xff]*(?:[(/#-]|select\b|with\b|table\b|values\b)", re.IGNORECASE)
_LISTS = re.compile(rb"\s*select(?:\s+distinct)?\s+\S(?!.*\bfrom\b)", re.IGNORECASE | re.DOTALL)
_NEXT_ITEM = re.compile(rb"\s*(?:,|from\b)", re.IGNORECASE)
_STEERING = re.compile(rb"/\*\s*upwell\s*:\s*(skip|force)\s*\*/", re.IGNORECASE)


# What stands before a comment that steers: strings, names and other comments are passed over whole.
_OTHERS = re.compile(
    rb"""
    (?: [^'"`/\#-]++
      | '[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'
      | "[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*+"
      | `[^`]*+`
      | \#[^\n]*+
      | --(?=[\s\x00-\x1f])[^\n]*+
      | /\*(?!!|\s*+(?i:upwell)\s*+:\s*+(?i:skip|force)\s*+\*/)[^*]*+(?:\*(?!/)[^*]*+)*+\*/
      | /\*!
      | /(?!\*)
      | -
    )*+
    """,
    re.VERBOSE | re.DOTALL,
)


def steering(text: bytes) -> Steer:
    """What the text asks for, by the first of its comments that asks for anything. Of a text that is too long to be
    looked at only the beginning counts."""
    head = text[:LONGEST]
    if _STEERING.search(head) is None:
        return Steer.NOT
    before = _OTHERS.match(head)
    asked = _STEERING.search(head, before.end() if before is not None else 0)
    return Steer(asked.group(1).decode().lower()) if asked is not None else Steer.NOT


_ROUGHLY = re.compile(rb"`[^`]*`|[\w\x80-\xff]+|[^\w\s]")  # a quoted name is one token


def is_large(segments: Sequence[bytes]) -> bool:
    """Whether a text with these segments has more than `MOST_TOKENS`."""
    if len(segments) > MOST_CUTS:
        return True
    rest = b" ? ".join(segments)
    return len(rest) > 16 * MOST_TOKENS or len(_ROUGHLY.findall(rest)) > MOST_TOKENS


def _with_lists(found: Fingerprint, roles: Sequence[Role], parts: Sequence[bytes]) -> Fingerprint:
    """The fingerprint with the lists as they are in these parts, which may be longer. Raises ValueError."""
    slots = list(found.slots)
    for role in roles:
        if role.whole and role.slot is not None and is_list(slots[role.slot]):
            slots[role.slot] = LongList(LISTS[role.kind](parts[role.part]))
    return replace(found, slots=tuple(slots))
