"""Settings that a session makes between reads whose texts and values have characters of several sets: each answer, and
how its columns are announced, is MySQL's, byte for byte.

UPWELL_SETTINGS_SEED draws other sessions, UPWELL_SETTINGS_ROUNDS more of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from integration.oracle.trees import NULL, Spelled, decimal, double, integer, payload, string
from integration.protocol.test_hits_same_bytes import KINDS
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served
from proxy.mysql.wire.packets import EOF, ERR

SEED = int(os.environ.get("UPWELL_SETTINGS_SEED", "1"))
ROUNDS = int(os.environ.get("UPWELL_SETTINGS_ROUNDS", "20"))
STEPS = 60
TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY, n INT NOT NULL, s VARCHAR(20) NOT NULL,"
    " l VARCHAR(20) CHARACTER SET latin1, b VARBINARY(9), e ENUM('a', 'é'), c CHAR(5),"
    " k VARCHAR(9) COLLATE utf8mb4_bin, at DATETIME, j JSON)",
    r"""INSERT INTO p VALUES
        (1, 1, 'a', 'a', 'a', 'a', 'a', 'a', NOW(), '{"a": "é"}'),
        (2, 2, 'é', 'é', 'é', 'é', 'é', 'é', '2024-01-01', '["a\\\\b"]'),
        (3, 3, '😀', 'ü', '😀', NULL, 'x y', 'A', '2200-01-01', NULL),
        (4, 4, 'a\\b', 'a\\b', '\\', 'a', 'a', '\\', NULL, NULL)""",
)
ITEMS = (
    "CONCAT(s, ?)", "COALESCE(?, s)", "IF(n = ?, s, l)", "CONCAT(l, ?)", "s = ?", "l = ?", "k = ?", "s LIKE ?",
    "s LIKE CONCAT(?, '%')", "e = ?", "REPLACE(s, ?, 'x')", "CASE WHEN n = 1 THEN ? ELSE l END", "?", "IFNULL(l, ?)",
    "CONCAT_WS(?, s, l)", "GREATEST(s, ?)", "NULLIF(l, ?)", "n + ?", "n * ?", "LENGTH(CONCAT(s, ?))",
    "HEX(CONCAT(s, ?))", "CHAR_LENGTH(?)", "UPPER(?)", "LOCATE(?, s)", "FIELD(s, ?, l)", "INSTR(b, ?)", "CONCAT(b, ?)",
    "JSON_OBJECT('k', ?)", "JSON_EXTRACT(j, '$.a') = ?", "s || ?", "'é' = ?", "LPAD(s, 5, ?)", "CONCAT(CURDATE(), ?)",
    "IF(at < NOW(), ?, s)", "s REGEXP ?", "GROUP_CONCAT(s, ? ORDER BY id)", "MAX(CONCAT(s, ?))",
)  # fmt: skip
CACHED: list[str] = []  # those that a cache can be made for
SETTINGS = (
    "SET NAMES latin1", "SET NAMES utf8mb4", "SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET NAMES utf8mb3",
    "SET NAMES ascii", "SET NAMES binary", "SET NAMES gbk", "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci",
    "SET character_set_results = NULL", "SET character_set_results = latin1", "SET character_set_results = utf8mb4",
    "SET character_set_results = cp1251", "SET character_set_client = latin1", "SET character_set_connection = utf16",
    "SET collation_connection = latin1_german1_ci", "SET collation_connection = utf8mb4_0900_as_cs",
    "SET sql_mode = 'ANSI_QUOTES'", "SET sql_mode = 'ANSI'", "SET sql_mode = ''", "SET sql_mode = DEFAULT",
    "SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "SET sql_mode = 'PIPES_AS_CONCAT'",
    "SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'", "SET sql_select_limit = 1", "SET sql_select_limit = DEFAULT",
    "SET time_zone = '+05:00'", "SET time_zone = DEFAULT", "SET timestamp = 1700000000", "SET timestamp = DEFAULT",
    "SET autocommit = 0", "SET autocommit = 1", "BEGIN", "COMMIT", "SET @a = 1",
)  # fmt: skip
LITERALS = (
    "'a'", "'é'", "'😀'", r"'a\\b'", "'a''b'", "'%'", "''", "1", "2.50", "NULL", r"'\\'", r"'b\n'", '"a"', "N'a'",
    "_utf8mb4'é'", "_latin1'é'", "_binary'a'", "x'61'",
)  # fmt: skip
BOUND = (
    *(string(text) for text in ("a", "é", "\\", "x", "😀", "a\\b", "%")), integer(1), NULL, double(1.5), decimal("2.5"),
)  # fmt: skip
KEYS = (1, 2, 3, 5)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    with beside_database(mysql, "settings_between", tmp_path_factory.mktemp("state"), *TABLES) as found:
        with found.client() as client:
            made = [client.query(f"CREATE CACHE c{number} FROM {form(item)}")[4] for number, item in enumerate(ITEMS)]
        CACHED[:] = [item for item, answer in zip(ITEMS, made, strict=True) if answer != ERR]
        assert len(CACHED) > 25
        yield found


def form(item: str) -> str:
    return f"SELECT {item} AS x FROM p WHERE id < ?"


def unwarned(answer: bytes, *, eof: bool) -> bytes:
    """The answer without its counts of warnings: answers from memory count none."""
    at, data = 0, bytearray(answer)
    while at < len(data):
        size = int.from_bytes(data[at : at + 3], "little")
        if data[at + 4] == EOF and size < 9:
            count = at + 5 if eof else at + 9
            data[count : count + 2] = bytes(2)
        at += 4 + size
    return bytes(data)


@dataclass
class Pair:
    """A client of the proxy and one of MySQL, which do the same."""

    beside: Beside
    ours: RawClient
    theirs: RawClient
    served: Counter[str]
    done: list[object] = field(default_factory=list)
    prepared: dict[str, tuple[int, int]] = field(default_factory=dict)

    def sets(self, sql: str) -> None:
        self.done.append(sql)
        assert self.ours.query(sql) == self.theirs.query(sql), self.done[-6:]

    def asks(self, sql: str) -> None:
        """Three times: what was a miss is a hit behind it."""
        for _ in range(3):
            self.done.append(sql)
            self._compare(self.ours.query(sql), self.theirs.query(sql), "text")

    def executes(self, sql: str, values: list[Spelled], *, anew: bool) -> None:
        if sql not in self.prepared or anew:
            self.done.append(f"PREPARE {sql}")
            self.prepared[sql] = self.ours.prepare(sql).id, self.theirs.prepare(sql).id
        ours, theirs = self.prepared[sql]
        for _ in range(2):
            self.done.append((sql, [value.text for value in values]))
            self._compare(
                self.ours.execute(ours, payload(values)), self.theirs.execute(theirs, payload(values)), "prepared"
            )

    def _compare(self, found: bytes, expected: bytes, how: str) -> None:
        served = last_served(self.beside, self.ours)
        self.served[f"{how} {served.split(':')[0]}"] += 1
        ours, theirs = (unwarned(answer, eof=self.ours.eof) for answer in (found, expected))
        both_refuse = found[4] == expected[4] == ERR
        assert both_refuse or ours == theirs, (served, found, expected, self.done[-8:])


def session(pair: Pair, rng: Random) -> None:
    for _ in range(STEPS):
        kind, item = rng.random(), rng.choice(CACHED if rng.random() < 0.9 else ITEMS)
        if kind < 0.1:
            pair.sets(rng.choice(SETTINGS))
        elif kind < 0.7:
            literal, key = rng.choice(LITERALS), rng.choice(KEYS)
            text = form(item).replace("?", literal, 1).replace("id < ?", f"id < {key}")
            pair.asks(text.replace("'", '"') if rng.random() < 0.1 else text)
        else:
            pair.executes(form(item), [rng.choice(BOUND), integer(rng.choice(KEYS))], anew=rng.random() < 0.1)


def test_every_answer_is_mysqls_whatever_the_session_has_set(beside: Beside) -> None:
    rng = Random(SEED)
    served: Counter[str] = Counter()
    for _ in range(ROUNDS):
        capabilities = rng.choice(list(KINDS.values()))
        with beside.client(capabilities=capabilities) as ours, beside.direct(capabilities=capabilities) as theirs:
            session(Pair(beside, ours, theirs, served), rng)
    print(dict(served))
    assert served["text hit"] > 6 * ROUNDS and served["prepared hit"] > ROUNDS, served
