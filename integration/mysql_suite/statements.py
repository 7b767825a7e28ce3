"""What the tap does with a statement, by its text alone."""

from __future__ import annotations

import re
from enum import Enum

GAP = r"(?:\s|/\*(?!!).*?\*/|\#[^\n]*\n|--\s[^\n]*\n)*"
FLAGS = re.IGNORECASE | re.DOTALL
READS = re.compile(rf"{GAP}[(\s]*(?:select|with|table|values)\b", FLAGS)
CHANGES = re.compile(
    rf"{GAP}(?:insert|update|delete|replace|load|commit|rollback|call|with|begin|alter|truncate)\b", FLAGS
)
# The answer is another each time, or tells of the server or the session.
VARIES = re.compile(
    r"\b(?:sleep|benchmark|get_lock|release_lock|release_all_locks|is_(?:free|used)_lock|rand|uuid|uuid_short|random_bytes"
    r"|connection_id|now|sysdate|current_timestamp|current_time|current_date|localtime|localtimestamp|curdate|curtime"
    r"|utc_\w+|unix_timestamp|last_insert_id|found_rows|row_count|load_file|into|information_schema|performance_schema"
    r"|mysql|sys|for\s+update|for\s+share|lock\s+in|procedure)\b|@",
    FLAGS,
)
# Would change the server for the tests that follow, or end it. They are answered with OK.
OF_SERVERS = re.compile(
    rf"{GAP}(?:shutdown|restart|reset\s+(?:binary|master|replica|slave|persist)|install|uninstall|change\s+repl"
    r"|(?:start|stop)\s+(?:repl|slave|group)|clone|alter\s+instance|purge|kill|lock\s+instance|binlog|drop\s+schema\s+mtr"
    r"|(?:create|alter|drop)\s+(?:undo\s+)?(?:tablespace|resource|logfile)|import\s+table"
    r"|set\b[^;]*?\b(?:global|persist|persist_only)\b|set\b[^;]*\b(?:sql_log_bin|gtid_next|gtid_purged|debug(?:_sync)?)\b"
    r"|(?:insert|update|delete|replace|truncate|alter|drop|create|rename|load)\b[^;]*?\bmysql`?\s*\.)",
    FLAGS,
)
DROPS_OURS = re.compile(rf"{GAP}drop\s+(?:database|schema)\s+(?:if\s+exists\s+)?`?(?:mtr|mysql|sys)\b", FLAGS)
NAMES_PID = re.compile(r"@@(?:global\s*\.\s*)?`?pid_file", FLAGS)
MYISAM = re.compile(rb"\bmyisam\b", re.IGNORECASE)
MORE_BEHIND = re.compile(r";(?!\s*\Z)")


class Treatment(Enum):
    COMPARE = "compare"
    FORWARD = "forward"
    ANSWER_OK = "answer OK"
    REFUSE = "refuse"


def treatment(text: str) -> Treatment:
    if OF_SERVERS.match(text) or DROPS_OURS.match(text):
        return Treatment.ANSWER_OK
    if NAMES_PID.search(text):  # by which mysqltest would end the server
        return Treatment.REFUSE
    if READS.match(text) and not VARIES.search(text) and not MORE_BEHIND.search(text):
        return Treatment.COMPARE
    return Treatment.FORWARD


def changes_rows(text: str) -> bool:
    """Whether it may change what was read before."""
    return CHANGES.match(text) is not None


def changes_names(text: str) -> bool:
    """Whether the same text may mean another table behind it."""
    return re.match(rf"{GAP}(?:use|drop\s+(?:database|schema))\b", text, FLAGS) is not None


def on_innodb(text: bytes) -> bytes:
    return MYISAM.sub(b"InnoDB", text)


def without_end(text: bytes) -> bytes:
    """Without the semicolon that `mysqltest` may leave."""
    return text.strip().rstrip(b"; \n\t\r")


def names_session_variable(reason: str) -> str:
    """The variable by whose value a read was passed through, "" for another reason."""
    found = re.match(r"(\w+) (?:is '|was another when the statement)", reason)
    return found[1] if found else ""
