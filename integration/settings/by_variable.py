"""Every function and operator under every session variable: what changes an answer must be a need of the query.

Of each template of the oracle some expressions are made. Each is asked of MySQL in a session as caches are filled in,
and in sessions in which one variable has another value: all variables that this server knows, two values each. Where
the answer differs, Upwell must not give such a session a hit: either the query cannot be cached, or
`session_variables.first_difference` names the variable. Likewise for expressions of VIRTUAL columns: where the value
differs, the binlog's is not to be believed (`planner/session/virtual_columns.py`).

    python -m integration.settings.by_variable            # all, on a private MySQL
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pymysql

from external_upquery.address import parse_upstream
from external_upquery.login import PIN_SESSION, SQL_MODE
from external_upquery.mysql.schema_source import SchemaSource
from integration.oracle import expressions
from integration.servers.mysql_server import Server
from planner.api import plan_query
from planner.session.needs import LOCAL, PACKET, STEADY
from planner.session.session_needs import session_needs
from planner.session.virtual_columns import told_by_rows
from proxy.mysql.state.session_variables import (
    ASK,
    ASKED,
    IDENTITY,
    KNOWN,
    asked_values,
    first_difference,
    track_statement,
)
from sqltypes.errors import NeedRelations, UpwellError
from sqltypes.schema import SchemaSnapshot, Table

DATABASE = "by_variable"
LONG = "REPEAT('abc ', 2000)"
CREATE = (
    "CREATE TABLE {table} (id INT PRIMARY KEY, n INT, u INT UNSIGNED, x DECIMAL(20, 8), f DOUBLE,"
    " s VARCHAR(60), l TEXT, c CHAR(9), w VARCHAR(20) CHARACTER SET latin1, d DATE, dt DATETIME(3),"
    " ts TIMESTAMP NULL, t TIME(2), j JSON, b VARBINARY(60), y YEAR{more})"
)
ROWS = (
    f"(1, 7, 3, 1.25, 0.5, '12', {LONG}, 'ab', 'é', '2024-03-01', '2024-02-29 23:30:00.5', '2024-02-29 23:30:00',"
    ' \'10:11:12.5\', \'{"a": "2024-01-01", "b": [1, "x"]}\', \'ab\', 2024)',
    "(2, -3, 0, 99.99999999, 3e9, 'İstanbul', 'I', 'I', 'I', '2024-00-10', '0000-00-00', '2024-07-01 10:00:00',"
    " '-01:00:00', '[\"A\", 1.5]', x'ff00', 1999)",
    "(3, NULL, 4294967295, 0, 0, '2024-01-07 20:30:00', 'x\\\\_y', '', 'ß', '2024-12-31', '2024-12-29 01:02:03',"
    " '2000-01-01 00:00:00', '838:59:59', 'null', 'b', 0)",
)
SLOTS: Mapping[str, tuple[str, ...]] = {
    "n": ("n", "u", "x", "f", "10", "1700000000", "1.5"),
    "i": ("2", "1", "3", "y"),
    "s": ("s", "l", "c", "w", "'ab'", "'I'", "'2024-01-07'", LONG),
    "d": ("d", "dt", "ts", "'2024-02-29 10:00:00'", "s"),
    "t": ("t", "'10:11:12.5'", "dt", "ts"),
    "j": ("j", '\'{"a": "x", "b": [1]}\''),
    "p": ("'$.a'", "'$.b[0]'"),
    "c": ("n > 3", "s = 'I'", "dt > '2024-03-01'"),
    "v": ("n", "s", "dt", "ts", "t", "j", "b", "x", "'I'", "c"),
    "b": ("b", "x'6162'", "s"),
    "g": ("POINT(0, 1)", "ST_GEOMFROMTEXT('POINT(1 2)')"),
    "w": ("STRING_TO_VECTOR('[1,2]')",),
    "u": ("DAY", "MICROSECOND", "MONTH", "HOUR"),
    "a": ("q",),
}
DEFAULT_PACKET = "67108864"
FILLED = 4  # expressions of each template
UNTRIED: Mapping[str, str] = {
    **dict.fromkeys(
        ("autocommit", "gtid_next", "pseudo_thread_id", "transaction_isolation", "transaction_read_only"),
        "it is of transactions, not of what a SELECT computes",
    ),
    **dict.fromkeys(
        ("character_set_client", "character_set_filesystem"), "the texts would be others; `make literals` tries them"
    ),
    **dict.fromkeys(
        ("character_set_results", "resultset_metadata"), "how an answer is sent, not what it is: the judge reads it"
    ),
    **dict.fromkeys(
        (
            "max_execution_time", "wait_timeout", "net_read_timeout", "net_write_timeout", "timestamp",
            "interactive_timeout",
        ),
        "it is of the clock",
    ),
    "sql_select_limit": "it counts rows of an answer, which is looked at by itself",
    **dict.fromkeys(("rand_seed1", "rand_seed2", "insert_id", "last_insert_id", "identity"), "it is of one statement"),
}  # fmt: skip
GIVEN: Mapping[str, tuple[str, ...]] = {
    "time_zone": ("'+09:00'", "'-11:30'"),
    "lc_time_names": ("'de_DE'", "'ja_JP'"),
    "collation_connection": ("utf8mb4_bin", "utf8mb4_tr_0900_ai_ci", "latin1_swedish_ci", "utf16_general_ci"),
    "character_set_connection": ("latin1", "binary", "gbk", "utf16"),
    "block_encryption_mode": ("'aes-256-ecb'", "'aes-128-cbc'"),
    "default_collation_for_utf8mb4": ("utf8mb4_general_ci",),
    "default_week_format": ("3", "6"),
    "div_precision_increment": ("8", "0"),
    "group_concat_max_len": ("8", "5000"),
    "cte_max_recursion_depth": ("1", "5000"),
    "sql_mode": ("''", *(
        f"'{','.join(sorted(set(SQL_MODE.split(',')) ^ {mode}))}'"  # the default, and one switched
        for mode in (
            "ALLOW_INVALID_DATES", "ERROR_FOR_DIVISION_BY_ZERO", "HIGH_NOT_PRECEDENCE", "IGNORE_SPACE",
            "NO_BACKSLASH_ESCAPES", "NO_UNSIGNED_SUBTRACTION", "NO_ZERO_DATE", "NO_ZERO_IN_DATE", "ONLY_FULL_GROUP_BY",
            "PAD_CHAR_TO_FULL_LENGTH", "PIPES_AS_CONCAT", "REAL_AS_FLOAT", "STRICT_ALL_TABLES", "STRICT_TRANS_TABLES",
            "TIME_TRUNCATE_FRACTIONAL",
        )
    )),
}  # fmt: skip
OF_LOGINS: Mapping[str, tuple[str, ...]] = {"max_allowed_packet": ("1024", "16777216")}
"""Variables that a session has from its login on: set for the server, and seen by who logs in then."""


@dataclass(frozen=True, slots=True)
class Setting:
    variable: str
    value: str

    @property
    def text(self) -> str:
        return f"SET {'GLOBAL' if self.variable in OF_LOGINS else 'SESSION'} {self.variable} = {self.value}"


@dataclass(slots=True)
class Session:
    """A session of MySQL's as caches are filled in, but for one setting. `values`: as a session of ours has them."""

    connection: Any
    values: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def begin(server: Server, setting: Setting | None) -> Session | None:
        """None where the server does not take the setting."""
        if setting is not None and setting.variable in OF_LOGINS:
            server.execute(setting.text)
        found = Session(server.connect(database=DATABASE, charset="utf8mb4", conv={}, use_unicode=False))
        found.ask(PIN_SESSION.replace("transaction_read_only=1", "transaction_read_only=0"))
        found.ask(track_statement({}))
        if setting is not None and setting.variable in OF_LOGINS:
            server.execute(f"SET GLOBAL {setting.variable} = DEFAULT")
        elif setting is not None and found.ask(setting.text)[:1] == ("error",):
            found.connection.close()
            return None
        told = found.rows(ASK)[0]
        row = [
            None if value is None else bytes(value).decode() if not isinstance(value, str) else value for value in told
        ]
        values = asked_values(row)[1 + len(IDENTITY) :]
        found.values = {name: value or "" for name, value in zip(ASKED, values, strict=True)}
        own = found.values["max_allowed_packet"]
        zone = found.values["time_zone"]  # a hit has other bytes there, where its clocks are known: not compared here
        local = KNOWN if zone == "+00:00" else zone
        found.values |= {LOCAL: local, STEADY: KNOWN, PACKET: KNOWN if own == DEFAULT_PACKET else own}
        return found

    def ask(self, sql: str) -> tuple[object, ...]:
        """The rows, or the error's number: its text is MySQL's in any case, for a cache has no errors."""
        try:
            return ("rows", *self.rows(sql))
        except pymysql.err.MySQLError as error:
            return ("error", error.args[0])

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return [
                tuple(value.encode() if isinstance(value, str) else value for value in row) for row in cursor.fetchall()
            ]


def templates() -> list[str]:
    kinds = (
        expressions.NUMERIC, expressions.TEXTUAL, expressions.TEMPORAL, expressions.JSONS, expressions.CONDITIONS,
        expressions.AGGREGATES, expressions.GEOMETRIC, expressions.VECTORS, expressions.UNUSUAL,
    )  # fmt: skip
    found = [each for text in kinds for each in expressions.templates(text)]
    found += [f"{each} OVER (ORDER BY id)" for each in expressions.templates(expressions.WINDOWS)]
    return list(dict.fromkeys(found))


def filled(template: str, seed: int) -> list[str]:
    """Some expressions over the table `q`, the same each time."""
    rng = random.Random(f"{template} {seed}")
    found: dict[str, None] = {}
    for _ in range(FILLED):
        text = template
        while "{" in (rest := text.replace('{"', "")):
            slot = rest[rest.index("{") + 1]
            if slot not in SLOTS:
                break
            text = text.replace("{" + slot + "}", rng.choice(SLOTS[slot]), 1)
        found[text] = None
    return list(found)


def settings(server: Server) -> list[Setting]:
    """Two values of each variable of a session, as the server describes it."""
    rows = server.execute(
        "SELECT VARIABLE_NAME, DATA_TYPE, MIN_VALUE, MAX_VALUE, VARIABLE_VALUE"
        " FROM performance_schema.variables_metadata JOIN performance_schema.session_variables USING (VARIABLE_NAME)"
        " ORDER BY VARIABLE_NAME"
    )
    found = []
    for name, kind, least, _, value in rows:
        if name in UNTRIED or name in OF_LOGINS or name.startswith(("session_track_", "performance_schema")):
            continue
        if name in GIVEN:
            found += [Setting(name, each) for each in GIVEN[name]]
        elif str(kind).lower() == "boolean":
            found.append(Setting(name, "OFF" if value in ("ON", "1") else "ON"))
        elif str(kind).lower() in ("integer", "numeric"):
            middle = str(max(int(least), int(value) // 2 + 1)) if str(value).isdigit() else str(least)
            found += [Setting(name, each) for each in dict.fromkeys((str(least), middle)) if each != value]
        else:
            found += [Setting(name, each) for each in ("1", "2", "'off'", "DEFAULT")]
    return [*found, *(Setting(name, each) for name, several in OF_LOGINS.items() for each in several)]


@dataclass(slots=True)
class Sweep:
    """`differences`: what no need told; `depends`: by variable, the templates whose answers it changes; `tried`: the
    variables that were set."""

    server: Server
    differences: list[str] = field(default_factory=list)
    depends: dict[str, set[str]] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    asked: int = 0
    refused: int = 0

    def prepare(self) -> None:
        create = CREATE.format(table="q", more="")
        self.server.execute(
            f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}",
            "SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'", create,
            *(f"INSERT INTO q VALUES {row}" for row in ROWS),
        )  # fmt: skip

    def close(self) -> None:
        self.server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")

    def run(self, texts: Sequence[tuple[str, str]], sessions: Mapping[Setting, Session]) -> None:
        """`texts`: templates and expressions of theirs."""
        pinned = Session.begin(self.server, None)
        assert pinned is not None
        source = SchemaSource(parse_upstream(self.server.url))
        snapshot = SchemaSnapshot()
        try:
            for template, expression in texts:
                sql = f"SELECT {expression} AS v FROM q WHERE id <= 3"
                if " OVER " not in template and template not in _AGGREGATES:
                    sql += " ORDER BY id"
                needs, snapshot = _needs(sql, source, snapshot)
                if needs is None:
                    self.refused += 1
                    continue
                wanted = pinned.ask(sql)
                for setting, session in sessions.items():
                    self.asked += 1
                    told = session.ask(sql)
                    if told == wanted:
                        continue
                    self.depends.setdefault(setting.variable, set()).add(template)
                    if not first_difference(session.values, needs) and pinned.ask(sql) == wanted:
                        self.differences.append(f"{setting.text}; {sql}: {_short(wanted)} becomes {_short(told)}")
        finally:
            source.close()
            pinned.connection.close()

    def virtual(self, texts: Sequence[tuple[str, str]], sessions: Mapping[Setting, Session]) -> None:
        """The same expressions as VIRTUAL columns, one table for each."""
        pinned = Session.begin(self.server, None)
        assert pinned is not None
        writer = Session.begin(self.server, None)
        assert writer is not None
        writer.ask("SET sql_mode = ''")
        source = SchemaSource(parse_upstream(self.server.url))
        try:
            for _, expression in texts:
                for statement in (
                    "DROP TABLE IF EXISTS vq",
                    CREATE.format(table="vq", more=f", v LONGTEXT AS ({expression}) VIRTUAL"),
                ):
                    made = writer.ask(statement)
                names = "id, n, u, x, f, s, l, c, w, d, dt, ts, t, j, b, y"
                if made[0] == "error" or writer.ask(f"INSERT IGNORE INTO vq ({names}) SELECT * FROM q")[0] == "error":
                    self.refused += 1
                    continue
                table = source.snapshot_now([(DATABASE, "vq")]).relations[DATABASE, "vq"]
                assert isinstance(table, Table)
                told = any(column.name == "v" for column in told_by_rows(table, source_version(self.server)))
                if not told:
                    continue
                sql = "SELECT v FROM vq ORDER BY id"
                wanted = pinned.ask(sql)
                for setting, session in sessions.items():
                    if setting.variable in ("default_collation_for_utf8mb4", *OF_LOGINS):
                        continue  # an error, or none, by who has opened the table; a need of every such query
                    self.asked += 1
                    found = session.ask(sql)
                    if found != wanted and found[0] == "rows":
                        self.differences.append(
                            f"VIRTUAL {expression}; {setting.text}: {_short(wanted)}, {_short(found)}"
                        )
        finally:
            source.close()
            pinned.connection.close()
            writer.connection.close()


_AGGREGATES = frozenset(expressions.templates(expressions.AGGREGATES))


def source_version(server: Server) -> tuple[int, int, int]:
    major, minor, patch = str(server.execute("SELECT VERSION()")[0][0]).split("-")[0].split(".")
    return int(major), int(minor), int(patch)


def _needs(sql: str, source: SchemaSource, snapshot: SchemaSnapshot) -> tuple[frozenset[str] | None, SchemaSnapshot]:
    for _ in range(2):
        try:
            return session_needs(plan_query(sql, DATABASE, snapshot), snapshot), snapshot
        except NeedRelations as need:
            snapshot = source.snapshot_now(need.names)
        except UpwellError:
            break
    return None, snapshot


def _short(answer: tuple[object, ...]) -> str:
    text = repr(answer)
    return text if len(text) < 160 else text[:120] + "..." + text[-40:]


def sessions_of(server: Server, wanted: Sequence[Setting]) -> Iterator[tuple[Setting, Session]]:
    """Of the settings that the server takes, and with which a session may have hits."""
    probe = Session.begin(server, None)
    assert probe is not None
    for setting in wanted:
        if setting.variable not in OF_LOGINS and probe.ask(setting.text)[0] == "error":
            continue  # it is no variable of a session, or no value of this one
        for restored in (f"SET SESSION {setting.variable} = DEFAULT", "SET NAMES utf8mb4", PIN_SESSION):
            probe.ask(restored)
        session = Session.begin(server, setting)
        if session is not None and first_difference(session.values, frozenset()):
            session.connection.close()
        elif session is not None:
            yield setting, session
    probe.connection.close()


def texts(every: int = 1, seed: int = 1) -> list[tuple[str, str]]:
    """Expressions of each `every`-th template."""
    return [(each, text) for each in templates()[seed % every :: every] for text in filled(each, seed)]


def sweep(server: Server, every: int = 1, seed: int = 1) -> Sweep:
    found = Sweep(server)
    found.prepare()
    sessions = dict(sessions_of(server, settings(server)))
    found.tried = {setting.variable for setting in sessions}
    try:
        chosen = texts(every, seed)
        found.run(chosen, sessions)
        found.virtual(chosen, sessions)
    finally:
        for session in sessions.values():
            with closing(session.connection):
                pass
        found.close()
    return found


def main() -> int:
    from integration.servers.private_mysql import find_mysql

    with find_mysql() as server:
        found = sweep(server, seed=int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    for variable, depending in sorted(found.depends.items()):
        print(f"{variable}: {len(depending)} templates")
    for line in found.differences:
        print("DIFFERENCE", line)
    print(
        f"{found.asked} asked, {found.refused} expressions that cannot be cached, {len(found.differences)} differences"
    )
    return bool(found.differences)


if __name__ == "__main__":
    sys.exit(main())
