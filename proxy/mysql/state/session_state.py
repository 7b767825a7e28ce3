"""What is known of a client's session at MySQL, and what of it keeps reads from being answered by a cache.

MySQL itself tells: the session trackers are switched on in each session, so that what a stored procedure or an unknown
SET changed is known as well as what can be read in the client's text. What they do not tell is asked for before the
next read that may be a hit (`proxy/mysql/session/questions_to_mysql.py`): collation_connection after SET NAMES, what a
statement did that ended in an error, GTIDs of what a SELECT wrote for a client whose rows end with EOF, temporary
tables. https://dev.mysql.com/doc/refman/en/session-state-tracking.html

Invariants:
1. While `known` is False nothing is answered by a cache.
2. `touched` and `wrote` are False outside of a transaction, once `known`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from external_upquery.mysql.other_session import Settings
from gtid_tracker.gtid import GtidSet
from planner.session.needs import COLLATION, ESCAPES, LOCAL, PACKET, STEADY
from proxy.mysql.state.announces import NOBODY, Announces
from proxy.mysql.state.ansi_quotes import with_backticks
from proxy.mysql.state.lacking import OTHER_BYTES, lacks
from proxy.mysql.state.rights_read import NEVER, RightsRead, doubted, parted, read_anew, settled
from proxy.mysql.state.session_variables import (
    ALIKE,
    ALWAYS,
    ASCII,
    ASKED,
    AUTOCOMMIT,
    BMP,
    KNOWN,
    LEAST_PACKET,
    LOG_BIN,
    OF_BMP,
    OF_QUERIES,
    OTHERS,
    OWN_CLOCK,
    PINNED_VALUES,
    RAW,
    READ_ONLY,
    ROW_LIMIT,
    SAME,
    SOMETIMES,
    TIMESTAMP,
    UNICODE,
    ZONE_AS_SET,
    first_difference,
    same,
    settings_of,
    switched_on,
    tail_of,
    untracked,
)
from proxy.mysql.state.set_names import DEFAULT, SET_BY_NAMES, Names, SetNames
from proxy.mysql.state.sql_modes import ALL_MARKS, BACKSLASH, QUOTES, hint_for, marks_in, marks_of, value_of
from proxy.mysql.state.targets import keyspace_of
from proxy.mysql.wire.packets import (
    STATUS_AUTOCOMMIT,
    STATUS_IN_TRANS,
    STATUS_IN_TRANS_READONLY,
    STATUS_OF_SESSION,
    read_lenenc,
)
from proxy.mysql.wire.responses import NO_STATUS, Outcome
from proxy.mysql.wire.tracker_entries import (
    CHARACTERISTICS,
    GTIDS,
    SCHEMA,
    SHOW_ALL,
    STATE,
    TRANSACTION,
    VARIABLE,
    entries,
    gtid_set,
    shown_entries,
    string_at,
)
from proxy.port.accounts import Accounts
from proxy.port.reasons import Reason, Why
from sqltypes.collation import character_set
from sqltypes.zone import UTC, Zone, fixed

ZoneOf = Callable[[str], Zone | None]
"""From a zone's name to its clocks; None where they are not known, or not yet (`proxy/source/zones.py`)."""
KEEP_ALIVE = 300.0
"""Seconds after which a session that lives by its hits is shown to MySQL to be in use, at the latest."""


@dataclass(slots=True)
class SessionState:
    """A session as far as MySQL has told of it."""

    # What it is.
    database: str = ""
    known: bool = False
    login: str = ""  # the user's name as the client said it
    tells: bool = True  # by session trackers; else what they would tell is asked (`proxy/mysql/reads/trackerless.py`)
    flags_lag: bool = False  # vtgate's flags may be of before the statement that they stand behind
    account: str = ""
    identity: str = ""  # the account and its roles, by which rights are remembered
    accounts: Accounts = field(default_factory=Accounts)
    set_names: SetNames = field(default_factory=SetNames)  # what is known of it, for all sessions
    names: Names | None = None  # of a SET NAMES behind which MySQL has not been asked what the session is like
    role_set: bool = False  # by SET ROLE, since MySQL was asked for the roles
    rights_read: RightsRead = NEVER
    values: dict[str, str] = field(default_factory=dict)  # of its variables
    zone_of: ZoneOf = fixed
    packet_of: Callable[[], int | None] = lambda: None  # bytes of the longest string of the sessions that fill caches
    zone: Zone | None = None  # the session's time zone, where its clocks are known
    clocks: Zone | None = None  # the same unless they are those of UTC
    eof: bool = False  # the client has no CLIENT_DEPRECATE_EOF
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
    own_clock: bool = False  # it may have set `timestamp`: NOW() says that then
    # Nothing was known of it when a text by the clock came, or its database may be another one: before the next command
    # it is asked about.
    asks_first: bool = False
    renewed: bool = False  # MySQL has begun it anew, and the trackers have not been switched on since
    # Its transaction.
    flags: int = STATUS_AUTOCOMMIT  # of MySQL's last answer, those that go on to the next one
    autocommit: bool = True
    # It is off, and MySQL's flags say that it is on, as they do in a session that began with it off until it is set.
    misflagged: bool = False
    in_transaction: bool = False
    begun: int = 0  # the flags of a transaction that has begun here, with a hit or a BEGIN: MySQL knows nothing of it
    begun_by: str = ""  # what MySQL is sent for the client's BEGIN, once it must know
    # Something has been executed that may be no statement of a transaction that is known here (XA), since MySQL has
    # last begun or ended one.
    beyond: bool = False
    numbered: bool = False  # it has set `gtid_next`
    saved: bool = False  # a savepoint may have been set while MySQL had begun no transaction: BEGIN would end it
    kind_changed: bool = False  # the answer tells that the kind of transactions was changed
    unsettled: bool = False  # perhaps in one: MySQL takes it over at the next COMMIT, or before
    one_shot: str = ""  # a SET TRANSACTION that waits for its transaction
    vacant: bool = False  # nothing of the client has reached MySQL since it ended the transaction before
    touched: bool = False  # a statement of this transaction has gone to a table at MySQL
    wrote: bool = False  # one of them may have written or locked
    # Its tables.
    hiding: bool = False  # temporary tables may hide cached ones
    not_hidden: set[tuple[str, str]] = field(default_factory=set)  # of which MySQL has said since that none does
    locks: bool = False
    # As `locks`, until UNLOCK TABLES or BEGIN: of other ends the tracker tells where there is none.
    locked: bool = False
    # What it has written and was shown.
    token: GtidSet = field(default_factory=GtidSet.empty)  # of its own writes, which a hit must contain
    token_known: bool = True  # False: it may have written under GTIDs that are not known
    shown: GtidSet = field(default_factory=GtidSet.empty)  # what answers may have shown, some of it beyond the position
    passed: bool = False  # MySQL has answered cached reads, and may have shown more than `shown`
    # `shown` was waited for in vain, and at that time of the clock MySQL was asked whether it still comes.
    behind: float | None = None
    # The session has, or had, sql_log_bin=0, and may have written since: nothing has followed from that yet.
    may_be_unlogged: bool = False
    hides_writes: bool = False  # so it may be, by a procedure that has ended with an error, which tells nothing
    # The session trackers.
    changed: bool = False  # they reported a state change since it was last looked at
    client_tracks: dict[str, str] = field(default_factory=dict)  # what the client itself has asked to be told
    set_tracks: set[str] = field(default_factory=set)  # which of them it has set, as far as it is known
    tracks_changed: bool = False  # a statement of the client has set session_track_...
    tracks_wait: bool = False  # they can be switched on outside of a transaction only
    _refusals: dict[frozenset[str], Why] = field(default_factory=dict)
    _different: frozenset[str] | None = None  # `differences` of a text that is not misread, while they are known
    _settings: Settings | None = None  # `settings`, while it is known
    # All values, where MySQL tells of each change of them, else empty; None: not put together yet.
    _told: frozenset[tuple[str, str]] | None = None

    @property
    def plain(self) -> bool:
        """Whether nothing but variables can stand in the way of a hit."""
        return self.autocommit and not (self.in_transaction or self.begun) and self.calm

    @property
    def calm(self) -> bool:
        """Whether nothing can but variables, and what a transaction was shown."""
        return (self.known and self.token_known) and not (
            self.touched
            or self.wrote
            or self.unsettled
            or self.hiding
            or self.locks
            or self.locked
            or self.one_shot
            or self.token.intervals
            or self.shown.intervals
            or self.passed
        )

    @property
    def hint(self) -> bytes | None:
        """With which a text means elsewhere what it means here (`hint_for`); None where that is not known."""
        return self.mode_hint if self.known else None

    @property
    def uniform(self) -> bool:
        """Whether a read may be a hit whatever its rows are, if another one of its kind may, it has no characters that
        the session's character sets lack, and its transaction's rules let it."""
        return self.calm and self.row_limit is None

    @property
    def status(self) -> int:
        """The status flags of an answer of our own."""
        return self.flags | self.begun

    def begin_with_hit(self) -> None:
        """A cache answers a read: at MySQL it would begin a transaction where autocommit is off."""
        if not (self.autocommit or self.in_transaction or self.begun):
            self._begin(reads_only=False)

    def begin_here(self, *, reads_only: bool) -> None:
        """The client's BEGIN is answered without MySQL. Requires: `gate.begins_here`."""
        self.begun_by = "START TRANSACTION READ ONLY" if reads_only else "BEGIN"
        self._begin(reads_only=reads_only)
        self.vacant = True

    def _begin(self, *, reads_only: bool) -> None:
        reads_only |= self.values.get(READ_ONLY, "").upper() in ("1", "ON")
        self.begun = STATUS_IN_TRANS | (STATUS_IN_TRANS_READONLY if reads_only else 0)

    @property
    def unlogged(self) -> bool:
        """Whether what the session writes is in no binlog."""
        return self.values.get(LOG_BIN, "1").lower() in ("0", "off")

    @property
    def askable(self) -> bool:
        """Whether a question about the session would be no part of a transaction of the client, as far as is known."""
        return not (self.in_transaction or self.touched or self.flags_lag)

    @property
    def under_way(self) -> bool:
        """Whether a transaction is, at MySQL or of hits alone."""
        return self.in_transaction or self.begun != 0

    @property
    def transactional(self) -> bool:
        """Whether the next read is one of a transaction."""
        return self.in_transaction or self.begun != 0 or not self.autocommit

    # -- what MySQL tells ----------------------------------------------------------------------------------------------

    def absorb(self, outcome: Outcome) -> None:
        """What the end of an answer tells. Raises Malformed."""
        if outcome.status != NO_STATUS:
            self.on_status(outcome.status)
        if outcome.state:
            self.on_trackers(outcome.state)

    def on_status(self, status: int) -> None:
        self.flags = status & STATUS_OF_SESSION
        self.autocommit = bool(status & STATUS_AUTOCOMMIT)
        self.in_transaction = bool(status & STATUS_IN_TRANS)
        if not self.in_transaction:
            self.touched = self.wrote = False
        if self.in_transaction or (self.autocommit and not self.begun_by):
            self.begun, self.begun_by = 0, ""
        if self.in_transaction or self.autocommit:
            self.saved = False

    def on_trackers(self, state: bytes) -> None:
        """The session-state information of an answer. Raises Malformed."""
        for kind, data in entries(state):
            if kind == VARIABLE:
                self._on_variable(data)
            elif kind == SCHEMA:
                self.database = string_at(data, 0)
                self.note_rights(database=True)
            elif kind == STATE:
                self.changed |= data[-1:] == b"1"
            elif kind == GTIDS:
                self.token = self.token.union(gtid_set(string_at(data, 1)))
            elif kind == CHARACTERISTICS:
                text = string_at(data, 0)
                self.one_shot = text if text.startswith("SET TRANSACTION") else ""
            elif kind == TRANSACTION:
                self._on_transaction(string_at(data, 0))
        self.locked |= self.locks

    def _on_transaction(self, told: str) -> None:
        """What the transaction under way has done, a letter each, in the order TrRwWsSL: read (R) and written or locked
        (w, W) rows among it."""
        self.locks = told.endswith("L")
        if self.in_transaction:
            wrote = told[3:5] != "__"
            self.wrote |= wrote
            self.touched |= wrote or told[2:3] == "R"

    def _on_variable(self, data: bytes) -> None:
        raw, at = read_lenenc(data, 0)
        name = raw.decode("utf-8", "replace")
        if name.startswith("session_track"):
            self.tracks_changed = True
            self.set_tracks.add(name)
            self.token_known &= name != "session_track_gtids"
        elif name.startswith("character_set") or name in ("optimizer_switch", "max_sort_length"):
            self.known, self.names = False, None  # the collation is not told, nor what the server has
            if name == "character_set_client":
                self._note_marks(string_at(data, at))
        elif name == AUTOCOMMIT:
            self.known &= not self.misflagged
        else:
            if name == "transaction_isolation" and self.in_transaction:
                self.touched = self.wrote = True  # this one goes on as it began: let it be MySQL's
            self.own_clock |= name == TIMESTAMP
            if name == DEFAULT:  # what SET NAMES has made was by the one before
                self.names = None
            self.kind_changed |= name in ("transaction_isolation", READ_ONLY)
            self.values[name] = string_at(data, at)
            if name == COLLATION:  # MySQL tells of this one alone
                self.values["character_set_connection"] = character_set(self.values[name])
            if name == "time_zone":
                self.values[ZONE_AS_SET] = self.values[name]
                self.note_zone()
            self.may_be_unlogged |= name == LOG_BIN
            self.judge_anew()
            self._note_announces(self.announces.character_set)
            self._note_limits()

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
        self._note_limits()

    def _note_limits(self) -> None:
        self._note_marks(self.values.get("character_set_client", ""))
        self.mode_hint = hint_for(self.values)
        limit = self.values.get(ROW_LIMIT, "")
        self.row_limit = int(limit) if limit.isdigit() and limit != PINNED_VALUES[ROW_LIMIT] else None
        waits = self.values.get("wait_timeout", "")
        self.keep_alive = min(KEEP_ALIVE, int(waits) / 2) if waits.isdigit() else KEEP_ALIVE

    def _note_marks(self, client: str) -> None:
        mode = self.values.get("sql_mode")
        self.marks = ALL_MARKS if mode is None else marks_of(mode) + tail_of(client)

    def _note_announces(self, character_set: int) -> None:
        values = self.values
        client = values.get("character_set_client", "")
        mode, results = values.get("sql_mode", ""), values.get("character_set_results", "")
        collation = values.get("collation_connection", "")
        self.announces = Announces(self.eof, character_set, collation, client, results, mode)
        read = {client, values.get("character_set_connection", "")}
        self.narrow = ASCII if not read <= UNICODE else "" if read == {"utf8mb4"} else BMP
        self.raw = results in RAW
        self.outside = None if self.raw or results == "utf8mb4" else OTHER_BYTES[BMP if results in OF_BMP else ASCII]

    def learn(self, row: Sequence[str | None], definition: bytes) -> None:
        """The answer to ASK, value by value (`asked_values`), and the first column's definition."""
        account, role, database = (text or "" for text in row[1:4])
        if not self.tells:
            account = f"{self.login}@%"  # vtgate's own: it was asked of a tablet, where all of its sessions have one
            database = keyspace_of(database)
        identity = f"{account} {role}"
        if (identity, database) != (self.identity, self.database):
            known = self.identity != ""  # or it is as of the login
            self.note_rights(database=known and database != self.database)
            if known and identity != self.identity and not self.role_set:
                # A routine leaves the database's rights as they were with the roles before.
                self.rights_read = parted(self.rights_read)
        self.role_set = False
        self.account, self.identity, self.database = account, identity, database
        self.values = {name: text or "" for name, text in zip(ASKED, row[4:], strict=True)}
        is_off = self.values.pop(AUTOCOMMIT) == "0"
        self.own_clock |= self.values.pop(TIMESTAMP) == OWN_CLOCK
        self.misflagged = is_off and self.autocommit
        self.values[ZONE_AS_SET] = self.values["time_zone"]
        self.note_zone()
        self.note_packet()
        number = int.from_bytes(definition[-12:-10], "little")
        if self.names is not None:
            self.set_names.learn(self.names, self.values, number)
            self.names = None
        self.judge_anew()
        self._note_announces(number)
        self._note_limits()
        self.may_be_unlogged |= self.unlogged
        self.hides_writes = False
        self.known = self.token_known

    def named(self, names: Names) -> None:
        """A lone SET NAMES has taken effect in a session that was known but for what it sets. Requires: what the
        trackers tell of it has been taken over."""
        found = self.set_names.find(names, self.values)
        if found is None:
            self.names = names
            return
        self.values.update(zip(SET_BY_NAMES, found.values, strict=True))
        self.judge_anew()
        self._note_announces(found.number)
        self._note_limits()
        self.known = self.token_known

    @property
    def rights(self) -> tuple[int, int, int]:
        """As of which versions of accounts its rights are. What MySQL says to one session is another's where they and
        `identity` are the same."""
        self.rights_read = settled(self.rights_read, self.accounts)
        return self.rights_read.versions

    def note_rights(self, *, login: bool = False, database: bool = False) -> None:
        """MySQL has just read these rights of the session."""
        self.rights_read = read_anew(self.rights_read, self.accounts, login=login, database=database)

    def doubt_rights(self) -> None:
        """The roles may be others."""
        self.rights_read = doubted(self.rights_read, self.accounts)

    def forget_values(self) -> None:
        """No variable has a value that is the caches', as far as is known."""
        self.values, self.zone, self.clocks = {}, None, None
        self.judge_anew()
        self._note_limits()
        self.narrow, self.outside, self.raw = "", None, False
        self.known = self.token_known = True

    def learn_tracks(self, values: Mapping[str, str]) -> None:
        """The values of session_track_...: what the client has set, known from the trackers, from the statement or
        because it is not what we have set, is what it wants to be told."""
        if not self.client_tracks:
            self.client_tracks = dict(values)
            return
        ours = switched_on(self.client_tracks)
        for name, value in values.items():
            if name in self.set_tracks or SAME.get(value.lower(), value) != SAME.get(ours[name].lower(), ours[name]):
                self.client_tracks[name] = value
        self.set_tracks.clear()

    def renew(self) -> None:
        """After COM_CHANGE_USER or COM_RESET_CONNECTION: MySQL has begun a new session."""
        self.known = self.hiding = self.locks = self.locked = self.changed = self.vacant = False
        self.own_clock, self.renewed, self.names = False, True, None
        self.not_hidden.clear()
        self.one_shot = ""
        self.begun, self.begun_by = 0, ""
        self.beyond = self.numbered = False
        self.touched = self.wrote = self.saved = self.unsettled = False
        self.client_tracks = {}
        self.set_tracks.clear()

    # -- what follows --------------------------------------------------------------------------------------------------

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

    @property
    def settings(self) -> Settings:
        """What of its variables is not as in the sessions that fill caches."""
        if self._settings is None:
            self._settings = settings_of(self.values) if self.tells else ALIKE
        return self._settings

    @property
    def known_whole(self) -> Hashable | None:
        """All that is known of the session, comparable; None where a question about it is MySQL's to answer."""
        if not self.known or self.misflagged:
            return None
        if self._told is None:
            told = self.values.get(OTHERS) and not untracked(self.values)
            self._told = frozenset(self.values.items() if told else ())
        return (self._told, self.announces, self.identity, self.database, self.autocommit) if self._told else None

    @property
    def now_zone(self) -> Zone | None:
        """The time zone of the session's NOW(); None where it is not known, or the session has a clock of its own."""
        return self.zone if self.known and not self.own_clock else None

    @property
    def told_as(self) -> Hashable:
        """On what it depends which bytes the same answer is to the session."""
        return self.announces, self.clocks

    def shown_state(self, state: bytes) -> bytes:
        """What of the trackers' information the client has asked for itself, by the statement that it is about at the
        latest. Raises Malformed."""
        tracks = self.client_tracks
        if self.tracks_changed:  # what it has set of them is what MySQL goes by, until ours are set again
            tracks = {**tracks, **{name: SHOW_ALL[name] for name in self.set_tracks if name in SHOW_ALL}}
        return shown_entries(state, tracks)
