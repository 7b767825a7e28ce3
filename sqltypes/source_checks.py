"""The checks that a source must pass for its change stream to be followed. The doctor makes them, and the stream at
each login.

`stream_findings` is a function of the server's own statements, so both ask the same and find the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

OLDEST = (8, 0, 0)
# The spellings of a statement, the newest first. REPLICATION CLIENT is needed for each.
BINLOG_STATUS = ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")
REPLICA_STATUS = ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
REPLICAS = ("SHOW REPLICAS", "SHOW SLAVE HOSTS")
"""Of these REPLICATION SLAVE is needed: who may not see them may not read the binlog either."""


class Severity(Enum):
    """ERROR: nothing can be cached. WARNING: something cannot, or could not be checked."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `mend`: the statements that put it right, in order; "" as `needed` where nothing is wrong.

    Where SQL cannot mend it, `mend` is empty and `needed` says what to do.
    """

    name: str
    severity: Severity
    seen: str
    needed: str = ""
    mend: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What a server says of itself. The rows of the two statements by column name; None where they may not be seen."""

    account: str  # ours, as it is written in a GRANT
    variables: Mapping[str, str]  # global ones, names in lower case
    binlog_status: Sequence[Mapping[str, Any]] | None
    replica_status: Sequence[Mapping[str, Any]] | None


def stream_findings(facts: SourceFacts) -> list[Finding]:
    """All findings, in the order in which to mend them; of a version that is too old, that one alone."""
    version = _version(facts.variables)
    if version.severity is Severity.ERROR:
        return [version]
    found = [version, _log_bin(facts.variables), *_settings(facts.variables)]
    if facts.variables.get("log_bin") == "ON":
        found.append(_filters(facts))
    return [*found, _replica(facts)]


LOUD = frozenset({"binlog_format", "binlog_row_image", "binlog_row_value_options"})
"""Errors with which the stream can be followed, and every write empties what it may concern: nothing stays held."""


def why_unfit(findings: Iterable[Finding]) -> str:
    """Why this source cannot be followed: changes would be missing from its stream. "" where it can."""
    unfit = [one for one in findings if one.severity is Severity.ERROR and one.name not in LOUD]
    return "; ".join(f"{one.seen} ({one.needed})" for one in unfit)


def quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''")


def as_granted(account: str) -> str:
    """What CURRENT_USER() says, as a GRANT takes it."""
    user, _, host = account.rpartition("@")
    return f"'{quoted(user)}'@'{quoted(host)}'"


def _version(variables: Mapping[str, str]) -> Finding:
    text = variables.get("version", "")
    needed = "MySQL 8.0 or newer"
    if "mariadb" in (text + variables.get("version_comment", "")).lower():
        return Finding("version", Severity.ERROR, f"MariaDB {text}", f"{needed}: MariaDB's GTIDs are of another kind")
    numbers = tuple(int(part) for part in text.split("-", 1)[0].split(".") if part.isdigit())
    if numbers < OLDEST:
        return Finding("version", Severity.ERROR, f"MySQL {text}", needed)
    return Finding("version", Severity.OK, f"MySQL {text}")


def _log_bin(variables: Mapping[str, str]) -> Finding:
    seen = f"log_bin={variables.get('log_bin', 'OFF')}"
    if variables.get("log_bin") == "ON":
        return Finding("log_bin", Severity.OK, seen)
    needed = "log_bin=ON: remove skip-log-bin from the server's option file (or add log_bin=binlog) and restart it"
    return Finding("log_bin", Severity.ERROR, seen, needed)


@dataclass(frozen=True, slots=True)
class Setting:
    """A global variable that must have one value. `why` completes "needed, ..."."""

    name: str
    wanted: str
    why: str
    severity: Severity = Severity.ERROR
    steps: Callable[[str], tuple[str, ...]] | None = None  # from the value seen, where one statement is not enough
    absent: str = ""  # the value of a server that has no such variable any more


def _gtid_steps(seen: str) -> tuple[str, ...]:
    """gtid_mode moves only one step at a time."""
    modes = ("OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")
    at = modes.index(seen) if seen in modes else 0
    return tuple(f"SET PERSIST gtid_mode = {mode}" for mode in modes[at + 1 :])


SETTINGS = (
    Setting("enforce_gtid_consistency", "ON", "because gtid_mode=ON asks for it"),
    Setting("gtid_mode", "ON", "because positions are GTID sets", steps=_gtid_steps),
    Setting("binlog_format", "ROW", "because changes are read from row events", absent="ROW"),
    Setting("binlog_row_image", "FULL", "because a change is applied by all columns before and after it"),
    Setting("binlog_row_value_options", "", "because partial JSON updates do not carry the value"),
    Setting(
        "binlog_order_commits",
        "ON",
        "as otherwise positions have gaps, and more answers are too uncertain to be kept",
        Severity.WARNING,
    ),
)


NAMES = Setting(
    "binlog_row_metadata", "FULL", "because rows of any age are read by the names in the stream", absent="MINIMAL"
)
"""For who reads rows that were written before he looked at their tables: a change stream of Spark's."""


NAMED = Finding(NAMES.name, Severity.OK, f"{NAMES.name}={NAMES.wanted}")


def _settings(variables: Mapping[str, str]) -> Iterator[Finding]:
    yield from (judged(setting, variables) for setting in SETTINGS)
    names = judged(NAMES, variables)
    by_schema = "" if names.severity is Severity.OK else " (names of columns are taken from the schema)"
    yield Finding(names.name, Severity.OK, names.seen + by_schema)


def judged(setting: Setting, variables: Mapping[str, str]) -> Finding:
    """Whether the variable has the value that it must have."""
    value = variables.get(setting.name, setting.absent)
    seen = f"{setting.name}={value or repr(value)}"
    if value.upper() == setting.wanted:
        return Finding(setting.name, Severity.OK, seen)
    wanted = setting.wanted or "''"
    mend = setting.steps(value.upper()) if setting.steps else (f"SET PERSIST {setting.name} = {wanted}",)
    return Finding(setting.name, setting.severity, seen, f"{setting.name}={wanted}, {setting.why}", mend)


def _filters(facts: SourceFacts) -> Finding:
    name = "binlog_filters"
    status = facts.binlog_status
    if status is None:
        grant = f"GRANT REPLICATION CLIENT ON *.* TO {facts.account}"
        needed = "REPLICATION CLIENT, to see whether changes of some databases are left out of the binlog"
        return Finding(name, Severity.WARNING, "the filters of the binlog cannot be seen", needed, (grant,))
    filters = [
        f"{column}={row[column]}" for row in status for column in ("Binlog_Do_DB", "Binlog_Ignore_DB") if row[column]
    ]
    if filters:
        needed = "no filter: remove binlog-do-db and binlog-ignore-db from the server's option file and restart it"
        return Finding(name, Severity.ERROR, ", ".join(filters), needed)
    return Finding(name, Severity.OK, "all databases are in the binlog")


def _replica(facts: SourceFacts) -> Finding:
    name = "log_replica_updates"
    value = facts.variables.get(name) or facts.variables.get("log_slave_updates", "")
    if value == "ON":
        return Finding(name, Severity.OK, f"{name}=ON")
    channels = facts.replica_status
    if channels is not None and not channels:
        return Finding(name, Severity.OK, f"{name}={value}, and the source is no replica")
    needed = f"{name}=ON in the server's option file and a restart, because what it replicates must be in its binlog"
    if channels is None:
        return Finding(
            name, Severity.WARNING, f"{name}={value}; whether the source is a replica cannot be seen", needed
        )
    return Finding(name, Severity.ERROR, f"{name}={value} on a replica", needed)


# The variables that are judged above.
VARIABLES = (
    "version",
    "version_comment",
    "log_bin",
    "log_replica_updates",
    "log_slave_updates",
    *(setting.name for setting in (*SETTINGS, NAMES)),
)
