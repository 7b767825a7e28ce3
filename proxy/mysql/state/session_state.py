"""What is known of a client's session at MySQL, and what of it keeps reads from being answered by a cache.

MySQL itself tells: the session trackers are switched on in each session, so that what a stored procedure or an unknown
SET changed is known as well as what can be read in the client's text. What they do not tell is asked for before the
next read that may be a hit (`proxy/mysql/session/questions_to_mysql.py`): collation_connection after SET NAMES, what a
statement did that ended in an error, GTIDs of what a SELECT wrote for a client whose rows end with EOF, temporary
tables. https://dev.mysql.com/doc/refman/en/session-state-tracking.html

Invariant: while `known` is False nothing is answered by a cache.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from external_upquery.mysql.other_session import Settings
from gtid_tracker.gtid import GtidSet
from proxy.mysql.state.client_tracks import ClientTracks
from proxy.mysql.state.rights_read import NEVER, RightsRead, doubted, parted, read_anew, settled
from proxy.mysql.state.session_variables import (
    ALIKE,
    ASKED,
    AUTOCOMMIT,
    LOG_BIN,
    OWN_CLOCK,
    READ_ONLY,
    TIMESTAMP,
)
from proxy.mysql.state.set_names import DEFAULT, SET_BY_NAMES, Names, SetNames
from proxy.mysql.state.targets import keyspace_of
from proxy.mysql.state.transaction_state import TransactionState
from proxy.mysql.state.variable_values import VariableValues
from proxy.mysql.wire.packets import read_lenenc
from proxy.mysql.wire.responses import NO_STATUS, Outcome
from proxy.mysql.wire.tracker_entries import (
    CHARACTERISTICS,
    GTIDS,
    SCHEMA,
    STATE,
    TRANSACTION,
    VARIABLE,
    entries,
    gtid_set,
    string_at,
)
from proxy.port.accounts import Accounts
from sqltypes.zone import Zone


@dataclass(slots=True)
class SessionState:
    """A session as far as MySQL has told of it. Its parts stay the same objects."""

    transaction: TransactionState = field(default_factory=TransactionState)
    variables: VariableValues = field(default_factory=VariableValues)
    tracks: ClientTracks = field(default_factory=ClientTracks)
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
    # Nothing was known of it when a text by the clock came, or its database may be another one: before the next command
    # it is asked about.
    asks_first: bool = False
    # Its tables.
    hiding: bool = False  # temporary tables may hide cached ones
    not_hidden: set[tuple[str, str]] = field(default_factory=set)  # of which MySQL has said since that none does
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

    @property
    def plain(self) -> bool:
        """Whether nothing but variables can stand in the way of a hit."""
        now = self.transaction
        return now.autocommit and not (now.in_transaction or now.begun) and self.calm

    @property
    def calm(self) -> bool:
        """Whether nothing can but variables, and what a transaction was shown."""
        now = self.transaction
        return (
            (self.known and self.token_known)
            and not (now.touched or now.wrote or now.unsettled or now.locked or now.one_shot)
            and not (self.hiding or self.token.intervals or self.shown.intervals or self.passed)
        )

    @property
    def uniform(self) -> bool:
        """Whether a read may be a hit whatever its rows are, if another one of its kind may, it has no characters that
        the session's character sets lack, and its transaction's rules let it."""
        return self.calm and self.variables.row_limit is None

    @property
    def hint(self) -> bytes | None:
        """With which a text means elsewhere what it means here (`hint_for`); None where that is not known."""
        return self.variables.mode_hint if self.known else None

    def begin_with_hit(self) -> None:
        """A cache answers a read: at MySQL it would begin a transaction where autocommit is off."""
        transaction = self.transaction
        if not (transaction.autocommit or transaction.in_transaction or transaction.begun):
            transaction.begin(reads_only=self.variables.reads_only)

    @property
    def askable(self) -> bool:
        """Whether a question about the session would be no part of a transaction of the client, as far as is known."""
        return not (self.transaction.in_transaction or self.transaction.touched or self.flags_lag)

    # -- what MySQL tells ----------------------------------------------------------------------------------------------

    def absorb(self, outcome: Outcome) -> None:
        """What the end of an answer tells. Raises Malformed."""
        if outcome.status != NO_STATUS:
            self.transaction.on_status(outcome.status)
        if outcome.state:
            self.on_trackers(outcome.state)

    def on_trackers(self, state: bytes) -> None:
        """The session-state information of an answer. Raises Malformed."""
        for kind, data in entries(state):
            if kind == VARIABLE:
                self._on_variable(data)
            elif kind == SCHEMA:
                self.database = string_at(data, 0)
                self.note_rights(database=True)
            elif kind == STATE:
                self.tracks.reported |= data[-1:] == b"1"
            elif kind == GTIDS:
                self.token = self.token.union(gtid_set(string_at(data, 1)))
            elif kind == CHARACTERISTICS:
                text = string_at(data, 0)
                self.transaction.one_shot = text if text.startswith("SET TRANSACTION") else ""
            elif kind == TRANSACTION:
                self.transaction.on_told(string_at(data, 0))

    def _on_variable(self, data: bytes) -> None:
        raw, at = read_lenenc(data, 0)
        name, transaction = raw.decode("utf-8", "replace"), self.transaction
        if name.startswith("session_track"):
            self.tracks.changed = True
            self.tracks.set_.add(name)
            self.token_known &= name != "session_track_gtids"
        elif name.startswith("character_set") or name in ("optimizer_switch", "max_sort_length"):
            self.known, self.names = False, None  # the collation is not told, nor what the server has
            if name == "character_set_client":
                self.variables.note_marks(string_at(data, at))
        elif name == AUTOCOMMIT:
            self.known &= not transaction.misflagged
        else:
            if name == "transaction_isolation" and transaction.in_transaction:
                transaction.touched = transaction.wrote = True  # this one goes on as it began: let it be MySQL's
            if name == DEFAULT:  # what SET NAMES has made was by the one before
                self.names = None
            transaction.kind_changed |= name in ("transaction_isolation", READ_ONLY)
            self.may_be_unlogged |= name == LOG_BIN
            self.variables.note(name, string_at(data, at))

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
        variables, number = self.variables, int.from_bytes(definition[-12:-10], "little")
        variables.values = values = {name: text or "" for name, text in zip(ASKED, row[4:], strict=True)}
        is_off = values.pop(AUTOCOMMIT) == "0"
        variables.own_clock |= values.pop(TIMESTAMP) == OWN_CLOCK
        self.transaction.misflagged = is_off and self.transaction.autocommit
        variables.learn(number)
        if self.names is not None:
            self.set_names.learn(self.names, values, number)
            self.names = None
        self.may_be_unlogged |= variables.unlogged
        self.hides_writes = False
        self.known = self.token_known

    def named(self, names: Names) -> None:
        """A lone SET NAMES has taken effect in a session that was known but for what it sets. Requires: what the
        trackers tell of it has been taken over."""
        found = self.set_names.find(names, self.variables.values)
        if found is None:
            self.names = names
            return
        self.variables.values.update(zip(SET_BY_NAMES, found.values, strict=True))
        self.variables.note_announces(found.number)
        self.known = self.token_known

    @property
    def rights(self) -> tuple[int, int, int]:
        """As of which versions of accounts its rights are. What MySQL says to one session is another's where they and
        `identity` are the same."""
        now, versions = self.accounts.version, self.rights_read.versions
        if versions != (now, now, now):  # as a rule nothing has changed since
            self.rights_read = settled(self.rights_read, self.accounts)
            versions = self.rights_read.versions
        return versions

    def note_rights(self, *, login: bool = False, database: bool = False) -> None:
        """MySQL has just read these rights of the session."""
        self.rights_read = read_anew(self.rights_read, self.accounts, login=login, database=database)

    def doubt_rights(self) -> None:
        """The roles may be others."""
        self.rights_read = doubted(self.rights_read, self.accounts)

    def forget_values(self) -> None:
        """No variable has a value that is the caches', as far as is known."""
        self.variables.forget()
        self.known = self.token_known = True

    def renew(self) -> None:
        """After COM_CHANGE_USER or COM_RESET_CONNECTION: MySQL has begun a new session."""
        self.known = self.hiding = self.variables.own_clock = False
        self.names = None
        self.not_hidden.clear()
        self.transaction.renew()
        self.tracks.renew()

    # -- what follows --------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """What of its variables is not as in the sessions that fill caches."""
        return self.variables.settings if self.tells else ALIKE

    @property
    def known_whole(self) -> Hashable | None:
        """All that is known of the session, comparable; None where a question about it is MySQL's to answer."""
        if not self.known or self.transaction.misflagged:
            return None
        told, announces = self.variables.told, self.variables.announces
        return (told, announces, self.identity, self.database, self.transaction.autocommit) if told else None

    @property
    def now_zone(self) -> Zone | None:
        """The time zone of the session's NOW(); None where it is not known, or the session has a clock of its own."""
        return self.variables.zone if self.known and not self.variables.own_clock else None
