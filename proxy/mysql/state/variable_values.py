"""The values of a session's variables, as far as MySQL has told of them, and what follows from them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from external_upquery.mysql.other_session import Settings
from planner.session.needs import COLLATION, ESCAPES, LOCAL, PACKET, STEADY
from proxy.mysql.state.announces import NOBODY, Announces
from proxy.mysql.state.ansi_quotes import with_backticks
from proxy.mysql.state.lacking import OTHER_BYTES, lacks
from proxy.mysql.state.session_variables import (
    ALWAYS,
    ASCII,
    BMP,
    KNOWN,
    LEAST_PACKET,
    LOG_BIN,
    OF_BMP,
    OF_QUERIES,
    OTHERS,
    PINNED_VALUES,
    RAW,
    READ_ONLY,
    ROW_LIMIT,
    SOMETIMES,
    TIMESTAMP,
    UNICODE,
    ZONE_AS_SET,
    first_difference,
    same,
    settings_of,
    tail_of,
    untracked,
)
from proxy.mysql.state.sql_modes import ALL_MARKS, BACKSLASH, QUOTES, hint_for, marks_in, marks_of, value_of
from proxy.port.reasons import Reason, Why
from sqltypes.collation import character_set
from sqltypes.zone import UTC, Zone, fixed

ZoneOf = Callable[[str], Zone | None]
"""From a zone's name to its clocks; None where they are not known, or not yet (`proxy/source/zones.py`)."""
KEEP_ALIVE = 300.0
"""Seconds after which a session that lives by its hits is shown to MySQL to be in use, at the latest."""


@dataclass(slots=True)
class VariableValues:
    """Of one session."""

    values: dict[str, str] = field(default_factory=dict)
    zone_of: ZoneOf = fixed
    packet_of: Callable[[], int | None] = lambda: None  # bytes of the longest string of the sessions that fill caches
    eof: bool = False  # the client has no CLIENT_DEPRECATE_EOF
    zone: Zone | None = None  # the session's time zone, where its clocks are known
    clocks: Zone | None = None  # the same unless they are those of UTC
    own_clock: bool = False  # it may have set `timestamp`: NOW() says that then
    # Which texts and strings MySQL reads as in the sessions that fill caches: "" all, else those of this character set.
    narrow: str = ""
    # What of an answer is other bytes in the session's character set of results; None: nothing.
    outside: re.Pattern[bytes] | None = None
    raw: bool = False  # or where a column has another character set than those of Unicode: it is sent as it is
    # What in a text MySQL reads otherwise than where caches are filled, or may, where it is not known.
    marks: bytes = ALL_MARKS
    # With which a text means in the sessions that fill caches what it means here, where it does not without.
    mode_hint: bytes = b""
    row_limit: int | None = None  # rows that an answer has at most, but of a text with a LIMIT of its own
    announces: Announces = NOBODY
    keep_alive: float = KEEP_ALIVE
    _refusals: dict[frozenset[str], Why] = field(default_factory=dict)
    _different: frozenset[str] | None = None  # `differences` of a text that is not misread, while they are known
    _settings: Settings | None = None  # `settings`, while it is known
    # All values, where MySQL tells of each change of them, else empty; None: not put together yet.
    _told: frozenset[tuple[str, str]] | None = None

    # -- what MySQL tells ----------------------------------------------------------------------------------------------

    def learn(self, character_set: int) -> None:
        """All values are told. `character_set`: the number of that of results."""
        self.values[ZONE_AS_SET] = self.values["time_zone"]
        self.note_zone()
        self.note_packet()
        self.note_announces(character_set)

    def note(self, name: str, value: str) -> None:
        """A variable has another value, of which nothing else is asked for."""
        self.own_clock |= name == TIMESTAMP
        self.values[name] = value
        if name == COLLATION:  # MySQL tells of this one alone
            self.values["character_set_connection"] = character_set(value)
        if name == "time_zone":
            self.values[ZONE_AS_SET] = value
            self.note_zone()
        self.note_announces(self.announces.character_set)

    def forget(self) -> None:
        """No variable has a value that is the caches', as far as is known."""
        self.values, self.zone, self.clocks = {}, None, None
        self.note_values()
        self.narrow, self.outside, self.raw = "", None, False

    def judge_anew(self) -> None:
        """Some of the values are others."""
        self._refusals.clear()
        self._told = self._settings = None
        self._different = None

    def note_zone(self) -> None:
        """Its time zone is another one, or more is known of that."""
        name = self.values.get(ZONE_AS_SET, "")
        zone = self.zone_of(name) if name else None
        self.zone, self.clocks = zone, None if zone is UTC else zone
        self.values["time_zone"] = UTC.name if zone is UTC else name
        self.values[LOCAL] = KNOWN if zone is not None else name
        self.values[STEADY] = KNOWN if zone is not None and zone.is_steady else name
        self.judge_anew()

    def note_packet(self) -> None:
        """How long strings may be where caches are filled is known, or another."""
        own = self.values.get("max_allowed_packet", "")
        filled = self.packet_of()
        alike = own.isdecimal() and int(own) >= LEAST_PACKET and filled in (None, int(own))
        self.values[PACKET] = KNOWN if alike else own
        self.judge_anew()

    def note_values(self) -> None:
        """Some of the values are others, and how columns are announced is not."""
        self.judge_anew()
        self.note_marks(self.values.get("character_set_client", ""))
        self.mode_hint = hint_for(self.values)
        limit = self.values.get(ROW_LIMIT, "")
        self.row_limit = int(limit) if limit.isdigit() and limit != PINNED_VALUES[ROW_LIMIT] else None
        waits = self.values.get("wait_timeout", "")
        self.keep_alive = min(KEEP_ALIVE, int(waits) / 2) if waits.isdigit() else KEEP_ALIVE

    def note_marks(self, client: str) -> None:
        """character_set_client is this one."""
        mode = self.values.get("sql_mode")
        self.marks = ALL_MARKS if mode is None else marks_of(mode) + tail_of(client)

    def note_announces(self, character_set: int) -> None:
        """Some of the values are others. `character_set`: the number of that of results."""
        values = self.values
        client = values.get("character_set_client", "")
        mode, results = values.get("sql_mode", ""), values.get("character_set_results", "")
        collation = values.get("collation_connection", "")
        self.announces = Announces(self.eof, character_set, collation, client, results, mode)
        read = {client, values.get("character_set_connection", "")}
        self.narrow = ASCII if not read <= UNICODE else "" if read == {"utf8mb4"} else BMP
        self.raw = results in RAW
        self.outside = None if self.raw or results == "utf8mb4" else OTHER_BYTES[BMP if results in OF_BMP else ASCII]
        self.note_values()

    # -- what follows --------------------------------------------------------------------------------------------------

    @property
    def unlogged(self) -> bool:
        """Whether what the session writes is in no binlog."""
        return self.values.get(LOG_BIN, "1").lower() in ("0", "off")

    @property
    def reads_only(self) -> bool:
        """Whether the next transaction is one that only reads."""
        return self.values.get(READ_ONLY, "").upper() in ("1", "ON")

    @property
    def settings(self) -> Settings:
        """What of them is not as in the sessions that fill caches."""
        if self._settings is None:
            self._settings = settings_of(self.values)
        return self._settings

    @property
    def told(self) -> frozenset[tuple[str, str]]:
        """All of them, where MySQL tells of each change; else nothing."""
        if self._told is None:
            told = self.values.get(OTHERS) and not untracked(self.values)
            self._told = frozenset(self.values.items() if told else ())
        return self._told

    @property
    def told_as(self) -> Hashable:
        """On what it depends which bytes the same answer is to the session."""
        return self.announces, self.clocks

    def differing(self, needs: frozenset[str]) -> Why:
        """The variable, of those that count for a query, whose value is not the one that caches are filled with, and
        its value; "" if there is none."""
        found = self._refusals.get(needs)
        if found is None:
            found = self._refusals[needs] = Reason.SETTING.why(first_difference(self.values, needs))
        return found

    def differences(self, text: bytes = b"") -> frozenset[str]:
        """All variables by whose values this text means something else than where caches are filled. Requires:
        `known`."""
        found = self._different
        if found is None:
            names = (*ALWAYS, *SOMETIMES, *OF_QUERIES)
            found = frozenset(name for name in names if not same(name, value_of(name, self.values)))
            self._different = found
        return found | {"character_set_client"} if self.misreads(text) else found

    def misreads(self, text: bytes, values: Sequence[object] = ()) -> bool:
        """Whether MySQL may read a text, or strings that are bound beside it, otherwise than in the sessions that fill
        caches: what the session's character sets lack becomes `?`, or an error. `values`: strings, lists of them, and
        what is none."""
        return self.narrow != "" and lacks(self.narrow, text, values)

    def as_filled(self, text: bytes) -> bytes | None:
        """A text as a session that fills caches would be sent it, as far as its marks go; None where that is not
        known."""
        marks = self.marks_of(text)
        if not marks:
            return text
        return with_backticks(text) if marks == QUOTES and not self.misreads(text) else None

    def marks_of(self, text: bytes) -> bytes:
        """What of the text MySQL reads otherwise than where caches are filled, or may."""
        return marks_in(text, self.marks) if self.marks else b""

    def escapes(self, execution: bytes, differed: frozenset[str] = frozenset()) -> bool:
        """Whether there is a backslash in what an execution binds, and in a pattern it may be none that escapes.
        `differed`: of its statement."""
        return BACKSLASH in execution[9:] and (BACKSLASH in self.marks or ESCAPES in differed)

    def changes_marks(self, text: bytes) -> bool:
        """Whether MySQL may read marks in the text otherwise than where caches are filled: what it does is not known
        then."""
        return self.marks_of(text) != b""
