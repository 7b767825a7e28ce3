"""Sessions whose character sets lack characters that texts and strings have: MySQL reads `?` there, or refuses."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from integration.protocol.test_hits_same_bytes import KINDS, comparable
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient, bound
from integration.support.served import last_served, read_until_hit
from proxy.mysql.wire.packets import COM_CHANGE_USER, lenenc, packet

TABLE = (
    "CREATE TABLE a (id INT PRIMARY KEY, s VARCHAR(20), KEY (s)) CHARACTER SET utf8mb4",
    "INSERT INTO a VALUES (1, 'é'), (2, 'b'), (4, '?'), (5, '😀'), (7, '??'), (8, '????')",
)
BY_STRING = "SELECT id, s FROM a WHERE s = ?"
ASCII = ("SELECT id, s FROM a WHERE s = 'b'", "SELECT id, s FROM a WHERE s = '?'", "SELECT id, s FROM a WHERE id = 5")
BMP = (
    "SELECT id, s FROM a WHERE s = 'é'",
    "SELECT id, 'é' AS x FROM a WHERE id = 1",
    "SELECT id, CONCAT(s, 'é') AS x FROM a WHERE id = 2",
    "SELECT id AS é FROM a WHERE id = 2",
    "SELECT id, s FROM a WHERE id IN (1, 2) /* é */ ORDER BY id",
)
ASTRAL = ("SELECT id, s FROM a WHERE s = '😀'", "SELECT id, CONCAT(s, '😀') AS x FROM a WHERE id = 2")
BY_ID = "SELECT id, s FROM a WHERE id = ?"
NOT_TYPED = (
    "SELECT id, LENGTH(CONCAT(s, ?)) AS x FROM a ORDER BY id",
    "SELECT id, HEX(COALESCE(?, s)) AS x FROM a ORDER BY id",
    "SELECT id FROM a WHERE LOWER(s) = LOWER(?) ORDER BY id",
    "SELECT id FROM a WHERE s LIKE CONCAT(?, '%') ORDER BY id",
)
CACHES = (BY_STRING, BY_ID, *BMP[1:], *ASTRAL[1:], *NOT_TYPED)
STRINGS = ("b", "?", "é", "😀")
STRING, BLOB = 0xFD, 0xFC
LEVELS = {"b": 1, "?": 1, "é": 2, "😀": 3}  # 1: ASCII; 2: the basic plane of Unicode; 3: all of it
SETTINGS = {
    "SET character_set_client = ascii": (1, 3),
    "SET character_set_client = utf8mb3": (2, 3),
    "SET character_set_connection = utf8mb3": (2, 3),
    "SET character_set_connection = latin1": (1, 3),
    "SET collation_connection = latin1_german1_ci": (1, 3),
    "SET collation_connection = utf8mb3_bin": (2, 3),
    "SET NAMES utf8mb3, character_set_results = utf8mb4": (2, 3),
    "SET NAMES ascii, character_set_results = utf8mb4": (1, 3),
    "SET NAMES utf8mb4": (3, 3),
    "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci": (3, 3),
    "SET NAMES utf8mb3": (2, 3),
    "SET NAMES utf8": (2, 3),
    "SET NAMES ascii": (1, 1),
    "SET NAMES latin1": (1, 3),
    "SET NAMES binary": (3, 3),
    "SET character_set_client = binary": (1, 3),
    "SET character_set_client = gb18030": (1, 3),
    "SET CHARACTER SET utf8mb3": (2, 3),
    "SET character_set_results = NULL": (3, 3),
}
"""What a session sets, and of which characters texts and answers are those that a hit may have then."""


SHOWN = {ASCII[2]: "😀", BMP[2]: "é", BMP[3]: "b", BMP[4]: "é"}
"""The characters of answers, where they are not those of the text."""


def level(text: str) -> int:
    return max(LEVELS.get(character, 1) for character in text)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = f"t{os.getpid()}_character_sets"
    mysql.execute(f"CREATE DATABASE {database}", f"USE {database}", *TABLE)
    with proxy_in_thread(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            for sql in CACHES:
                assert client.query(f"CREATE CACHE FROM {sql}")[4] == 0, client.transcript[-1]
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE `{database}`")


def agreeing(beside: Beside, direct: RawClient, client: RawClient, sql: str) -> str:
    """How a text was served, which MySQL answers alike, at once and again."""
    for _ in range(3):
        assert comparable(client, client.query(sql)) == comparable(direct, direct.query(sql)), sql
    return last_served(beside, client)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("setting", list(SETTINGS))
def test_a_text_is_read_in_the_sessions_character_sets(beside: Beside, setting: str, kind: str) -> None:
    of_texts, of_answers = SETTINGS[setting]
    with (
        beside.direct(capabilities=KINDS[kind]) as direct,
        beside.client(capabilities=KINDS[kind]) as client,
    ):
        for sql in (*ASCII, *BMP, *ASTRAL):
            read_until_hit(beside, client, client.query, sql)
        for one in (direct, client):
            assert one.query(setting)[4] == 0
        texts = (*ASCII, *BMP, *ASTRAL)
        served = {sql: agreeing(beside, direct, client, sql) for sql in (*texts, *texts)}
        for sql in texts:
            computed = "CONCAT" in sql and (
                "connection" in setting or ("NAMES utf8mb4" not in setting and "NAMES" in setting)
            )
            if setting == "SET NAMES binary":  # the caches here are none for such literals; and é is no name there
                computed |= "'" in sql or "AS é" in sql
            if not computed and level(sql) <= of_texts and max(map(level, SHOWN.get(sql, sql))) <= of_answers:
                read_until_hit(beside, client, client.query, sql)
                agreeing(beside, direct, client, sql)
            else:
                assert served[sql].startswith("passed"), (sql, served[sql])
        for one in (direct, client):
            assert one.query("SET NAMES utf8mb4")[4] == 0
        for sql in (*ASCII, *BMP, *ASTRAL):
            assert agreeing(beside, direct, client, sql).startswith("hit")


@pytest.mark.parametrize("before", [True, False], ids=["prepared before", "prepared there"])
@pytest.mark.parametrize("setting", list(SETTINGS))
def test_strings_are_bound_in_the_sessions_character_sets(beside: Beside, setting: str, before: bool) -> None:
    with beside.direct() as direct, beside.client() as client:
        if not before:
            for one in (direct, client):
                one.query(setting)
        texts = (BY_STRING, *ASCII[:1], *BMP[:1], *ASTRAL[:1])
        statements = [(direct.prepare(sql).id, client.prepare(sql).id) for sql in texts]
        if before:
            for string in STRINGS:
                given = bound([STRING], [lenenc(string.encode())])
                read_until_hit(beside, client, client.execute, statements[0][1], given)
                direct.execute(statements[0][0], given)
        for after, allowed in (
            (setting, min(SETTINGS[setting])),
            ("SET NAMES utf8mb4", 3),
            (setting, min(SETTINGS[setting])),
        ):
            for one in (direct, client):
                assert one.query(after)[4] == 0
            for string, type_ in product((*STRINGS, *STRINGS), (STRING, BLOB)):
                served = executed(beside, direct, client, statements[0], bound([type_], [lenenc(string.encode())]))
                assert LEVELS[string] <= allowed or type_ == BLOB or served.startswith("passed"), (
                    after,
                    string,
                    served,
                )
            for ids in statements[1:]:
                executed(beside, direct, client, ids)


@pytest.mark.parametrize("setting", list(SETTINGS))
def test_strings_are_so_where_no_column_tells_their_type(beside: Beside, setting: str) -> None:
    with beside.direct() as direct, beside.client() as client:
        for one in (direct, client):
            assert one.query(setting)[4] == 0
        for sql in NOT_TYPED:
            for string in (*STRINGS, *STRINGS):
                ids = direct.prepare(sql).id, client.prepare(sql).id
                executed(beside, direct, client, ids, bound([STRING], [lenenc(string.encode())]))


def executed(beside: Beside, direct: RawClient, client: RawClient, ids: tuple[int, int], given: bytes = b"") -> str:
    """As `agreeing`, of a prepared statement."""
    for _ in range(3):
        wanted, found = direct.execute(ids[0], given), client.execute(ids[1], given)
        assert comparable(client, found) == comparable(direct, wanted), given
    return last_served(beside, client)


@pytest.mark.parametrize("collation", [11, 33, 8, 63, 255], ids=["ascii", "utf8mb3", "latin1", "binary", "utf8mb4"])
@pytest.mark.parametrize("change", [False, True], ids=["login", "change user"])
def test_a_login_says_the_character_sets(beside: Beside, collation: int, change: bool) -> None:
    name = beside.proxy.database.encode()
    with (
        beside.direct(**({} if change else {"collation": collation})) as direct,
        beside.client(**({} if change else {"collation": collation})) as client,
    ):
        if change:
            for sql in (*ASCII, *BMP, *ASTRAL):
                read_until_hit(beside, client, client.query, sql)
            for one in (direct, client):
                rest = b"root\0\0" + name + b"\0" + struct.pack("<H", collation) + b"caching_sha2_password\0"
                one.write(packet(bytes((COM_CHANGE_USER,)) + rest, 0))
                one.write(packet(b"", one.packet()[3] + 1))
                assert one.authenticated()[4] == 0
        for sql in (*ASCII, *BMP, *ASTRAL):
            served = agreeing(beside, direct, client, sql)
            assert served.startswith("hit" if collation == 255 and change else ("hit", "passed")), (sql, served)
