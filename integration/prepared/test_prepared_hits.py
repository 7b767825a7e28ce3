"""Prepared statements of which a cache answers some executions and MySQL the others: each answer is what a session
with MySQL itself gets, though MySQL has not seen all that the client has sent."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.protocol.test_hits_same_bytes import KINDS, comparable
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient, bound
from integration.support.served import last_served, read_until_hit
from proxy.mysql.reads.bound_types import BY_CURSOR
from proxy.mysql.wire.bound_values import UNSIGNED
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, ERR, lenenc, lenenc_int

ITEM = (
    "CREATE TABLE item (id INT PRIMARY KEY, s VARCHAR(20), d DECIMAL(9,2), t TIMESTAMP NULL)",
    "INSERT INTO item VALUES (1, 'é', 10, '2024-01-01'), (2, 'Ã©', 20, '2024-01-02'), (3, 's', 30, NULL)",
)
BY_ID = "SELECT id, s FROM item WHERE id = ?"
CACHES = (
    BY_ID,
    "SELECT id, s FROM item WHERE s = ?",
    "SELECT id, d / 3 AS third FROM item WHERE id = ?",
    "SELECT id, t FROM item WHERE t = ?",
    "SELECT id, d FROM item WHERE id > ? ORDER BY id LIMIT ?",
    "SELECT id, \"s\" AS s FROM item WHERE id = ?",
)  # fmt: skip
LONGLONG, STRING, DOUBLE, DECIMAL, DATE, DATETIME, YEAR, NULL = 0x08, 0xFD, 0x05, 0xF6, 0x0A, 0x0C, 0x0D, 0x06
CURSOR_READ_ONLY = 1
HIDE = "CREATE TEMPORARY TABLE item SELECT 1 id, 'hidden' s"


@pytest.fixture(scope="module")
def items(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = f"t{os.getpid()}_prepared_hits"
    mysql.execute(f"CREATE DATABASE {database}", f"USE {database}", *ITEM)
    with proxy_in_thread(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            make_caches(client)
        found.caught_up()
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE `{database}`")


def make_caches(client: RawClient) -> None:
    for query in CACHES:
        assert client.query(f"CREATE CACHE FROM {query}")[4] == 0, client.transcript[-1]


def parameters(client: RawClient, values: list[bytes], types: list[int] | None) -> bytes:
    """Of an execution; `types` None: it does not tell them."""
    out = lenenc_int(len(values)) if client.attributes else b""
    out += bytes((len(values) + 7) // 8) + (b"\0" if types is None else b"\1")
    for type_ in types or ():
        out += struct.pack("<H", type_) + (b"\0" if client.attributes else b"")
    return out + b"".join(values)


def number(value: int) -> bytes:
    return struct.pack("<q", value)


@pytest.mark.parametrize("kind", list(KINDS))
def test_types_that_were_told_with_a_hit_are_told_to_mysql(items: Beside, kind: str) -> None:
    """libmysqlclient tells them with the first execution only."""
    steps: tuple[tuple[list[bytes], list[int] | None, str], ...] = (
        ([number(1)], [LONGLONG], ""),
        ([number(1)], None, ""),
        ([number(1)], None, HIDE),
        ([number(1)], None, "DROP TEMPORARY TABLE item"),
        ([lenenc(b"1")], [STRING], ""),
        ([lenenc(b"1")], None, HIDE),
        ([number(1)], [LONGLONG], ""),
        ([number(1)], None, "DROP TEMPORARY TABLE item"),
        ([struct.pack("<d", 1.0)], [DOUBLE], ""),
        ([struct.pack("<d", 1.0)], None, HIDE),
        ([struct.pack("<d", 2.0)], None, "DROP TEMPORARY TABLE item"),
    )
    served = set()
    with items.direct(capabilities=KINDS[kind]) as direct, items.client(capabilities=KINDS[kind]) as client:
        statements = direct.prepare(BY_ID), client.prepare(BY_ID)
        for values, types, before in steps:
            for one in (direct, client):
                if before:
                    assert one.query(before)[4] == 0
            wanted = direct.execute(statements[0].id, parameters(direct, values, types))
            found = client.execute(statements[1].id, parameters(client, values, types))
            assert comparable(client, found) == comparable(direct, wanted), (values, types, before)
            served.add(last_served(items).split(" ")[0])
    assert served >= {"hit", "passed"}


def test_what_asks_about_a_prepared_hit_finds_its_rows(items: Beside) -> None:
    with items.client() as client:
        statement = client.prepare(BY_ID)
        client.execute(statement.id, parameters(client, [number(1)], [LONGLONG]))
        read_until_hit(items, client, client.execute, statement.id, parameters(client, [number(1)], None))
        assert client.query("SELECT FOUND_ROWS()").count(b"\x011") == 1


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    "closes", ["an execution", "an execution of another text", "a reset", "the last row", "nothing"]
)
def test_an_execution_closes_the_cursor_of_the_one_before(items: Beside, closes: str, kind: str) -> None:
    def fetched(client: RawClient, *, hits: bool) -> list[object]:
        statement, other = client.prepare(BY_ID), client.prepare(BY_ID + " ")
        given = parameters(client, [number(1)], [LONGLONG])
        for one in (statement, other):
            client.execute(one.id, given)
            if hits:
                read_until_hit(items, client, client.execute, one.id, given)
        client.execute(statement.id, given, flags=CURSOR_READ_ONLY)
        told: list[object] = []
        if closes == "a reset":
            client.reset_statement(statement.id)
        elif closes == "the last row":
            told += [client.fetch(statement.id, 5)]
        elif closes == "an execution of another text":
            client.execute(other.id, given)
        elif closes == "an execution":
            for _ in range(2):
                told.append(comparable(client, client.execute(statement.id, given)))
            assert not hits or last_served(items, client).endswith(BY_CURSOR)
        told.append(client.fetch(statement.id, 1))
        client.query(HIDE)  # MySQL answers
        told.append(comparable(client, client.execute(statement.id, given)))
        client.query("DROP TEMPORARY TABLE item")
        return [*told, client.fetch(statement.id, 1)]

    with items.direct(capabilities=KINDS[kind]) as direct, items.client(capabilities=KINDS[kind]) as client:
        assert fetched(client, hits=True) == fetched(direct, hits=False)


@pytest.mark.parametrize("kind", list(KINDS))
def test_an_execution_that_fails_closes_no_cursor_but_the_hit_before_it_has(items: Beside, kind: str) -> None:
    def told(client: RawClient, *, hits: bool) -> list[object]:
        statement = client.prepare(BY_ID)
        given = parameters(client, [number(1)], [LONGLONG])
        client.execute(statement.id, given)
        if hits:
            read_until_hit(items, client, client.execute, statement.id, given)
        client.execute(statement.id, given, flags=CURSOR_READ_ONLY)
        client.execute(statement.id, given)
        assert not hits or last_served(items, client).endswith(BY_CURSOR)
        failed = client.execute(statement.id, b"")
        return [failed[4], without_numbers(client.fetch(statement.id, 1))]

    with items.direct(capabilities=KINDS[kind]) as direct, items.client(capabilities=KINDS[kind]) as client:
        wanted = told(direct, hits=False)
        assert told(client, hits=True) == wanted and wanted[0] == ERR


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("fetches", [False, True], ids=["then executed", "then fetched"])
def test_pieces_of_no_parameter_behind_a_hit_that_closed_a_cursor(items: Beside, fetches: bool, kind: str) -> None:
    """MySQL refuses the next execution for them, which closes no cursor then."""

    def told(client: RawClient, *, hits: bool) -> list[object]:
        statement = client.prepare("SELECT id, s FROM item WHERE id = 1")
        if hits:
            read_until_hit(items, client, client.execute, statement.id)
        else:
            client.execute(statement.id)
        client.execute(statement.id, flags=CURSOR_READ_ONLY)
        answers = [comparable(client, client.execute(statement.id)) for _ in range(2)]
        assert not hits or last_served(items, client).endswith(BY_CURSOR)
        client.long_data(statement.id, 0, b"9")
        if fetches:
            answers.append(without_numbers(client.fetch(statement.id, 1)))
        answers.append(client.execute(statement.id))
        return [*answers, without_numbers(client.fetch(statement.id, 1)), client.execute(statement.id)[4]]

    with items.direct(capabilities=KINDS[kind]) as direct, items.client(capabilities=KINDS[kind]) as client:
        client.query("CREATE CACHE IF NOT EXISTS pieces FROM SELECT id, s FROM item WHERE id = 1")
        assert told(client, hits=True) == told(direct, hits=False)


def without_numbers(answer: bytes) -> bytes:
    """An error that names a statement, of which the proxy has prepared others."""
    return re.sub(rb"\([0-9]+\)", b"()", answer[4:])


@pytest.mark.parametrize("eof", [False, True], ids=["ok", "eof"])
@pytest.mark.parametrize(
    ("differs", "query", "value"),
    [
        ("SET NAMES latin1", "SELECT id, s FROM item WHERE s = 'é'", None),
        ("SET character_set_client = latin1", "SELECT id, s FROM item WHERE s = 'é'", None),
        ("SET div_precision_increment = 1", "SELECT id, d / 3 AS third FROM item WHERE id = ?", number(1)),
        ("SET sql_mode = ANSI_QUOTES", "SELECT id, \"s\" AS s FROM item WHERE id = ?", number(1)),
        ("SET time_zone = '+05:00'", "SELECT id, t FROM item WHERE t = '2024-01-01 00:00:00'", None),
    ],
)  # fmt: skip
def test_a_statement_means_what_it_meant_when_it_was_prepared(
    items: Beside, differs: str, query: str, value: bytes | None, eof: bool
) -> None:
    """MySQL resolves a text once."""
    capabilities = 0 if eof else CLIENT_DEPRECATE_EOF
    back = "SET NAMES utf8mb4, sql_mode = DEFAULT, div_precision_increment = DEFAULT, time_zone = '+00:00'"
    answers = []
    with items.direct(capabilities=capabilities) as direct, items.client(capabilities=capabilities) as client:
        for one in (direct, client):
            found = []
            for before in (back, differs, back):
                assert one.query(before)[4] == 0
                statement = one.prepare(query)
                assert one.query(back)[4] == 0
                given = parameters(one, [value], [LONGLONG]) if value is not None else b""
                found += [comparable(one, one.execute(statement.id, given)) for _ in range(3)]
            answers.append(found)
        for answer in read_until_hit(items, client, client.execute, statement.id, given):
            assert comparable(client, answer) == found[-1]
    assert answers[1] == answers[0]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("begin", ["BEGIN", "START TRANSACTION READ ONLY", "SET autocommit = 0"])
def test_in_a_transaction_the_status_is_mysqls(items: Beside, kind: str, begin: str) -> None:
    with items.direct(capabilities=KINDS[kind]) as direct, items.client(capabilities=KINDS[kind]) as client:
        statements = [(one, one.prepare(BY_ID)) for one in (direct, client)]
        read_until_hit(items, client, client.query, "SELECT id, s FROM item WHERE id = 1")
        given = parameters(client, [number(1)], [LONGLONG])
        read_until_hit(items, client, client.execute, statements[1][1].id, given)
        for one in (direct, client):
            one.query(begin)
        for _ in range(3):
            texts = [comparable(one, one.query("SELECT id, s FROM item WHERE id = 1")) for one in (direct, client)]
            assert texts[1] == texts[0]
            rows = [
                comparable(one, one.execute(statement.id, parameters(one, [number(1)], [LONGLONG])))
                for one, statement in statements
            ]
            assert rows[1] == rows[0]
        assert last_served(items).startswith("hit")


def test_rights_are_asked_for_in_the_database_of_the_statement(items: Beside) -> None:
    """Not in the session's own: there the text may be about another table, which everybody may read, or about none."""
    database, account = items.proxy.database, f"u{os.getpid()}_prepared"
    for other_has_the_table in (False, True):
        other = f"{database}_{'other' if other_has_the_table else 'empty'}"
        items.mysql.execute(
            f"CREATE DATABASE `{other}`",
            *([f"CREATE TABLE `{other}`.item LIKE `{database}`.item"] if other_has_the_table else []),
            f"CREATE USER {account}",
            f"GRANT SELECT ON `{database}`.* TO {account}",
            f"GRANT SELECT ON `{other}`.* TO {account}",
        )
        items.caught_up()
        try:
            with items.client(user=account) as client:
                statement = client.prepare(BY_ID)
                given = parameters(client, [number(3)], [LONGLONG])
                wanted = client.execute(statement.id, given)
                client.use(other)
                items.mysql.execute("CREATE ROLE another", "DROP ROLE another")  # what was known of rights is forgotten
                items.caught_up()
                for _ in range(2):
                    assert client.execute(statement.id, given)[-20:-11] == wanted[-20:-11]
                client.use(database)
                for answer in read_until_hit(items, client, client.execute, statement.id, given):
                    assert answer[-20:-11] == wanted[-20:-11]
                client.use(other)
                items.mysql.execute(f"REVOKE SELECT ON `{database}`.* FROM {account}")
                items.caught_up()
                for _ in range(2):
                    assert b"SELECT command denied" in client.execute(statement.id, given)
        finally:
            items.mysql.execute(f"DROP USER {account}", f"DROP DATABASE `{other}`")


def date_time(year: int, month: int, day: int) -> bytes:
    return lenenc(struct.pack("<HBB", year, month, day))


# (type, value) of executions of one statement, one after the other
HISTORIES: tuple[tuple[str, list[tuple[int, bytes]]], ...] = (
    ("SELECT id, s FROM item WHERE s = ?", [(STRING, lenenc(b"s")), (LONGLONG, number(0)), (STRING, lenenc(b"s"))]),
    ("SELECT id, s FROM item WHERE s = ?", [(DOUBLE, struct.pack("<d", 0.0)), (STRING, lenenc(b"s"))]),
    ("SELECT id, s FROM item WHERE s = ?", [(DATETIME, lenenc(b"")), (STRING, lenenc(b"s"))]),
    ("SELECT id, s FROM item WHERE s = ?", [(DATETIME, date_time(2024, 1, 1)), (DATE, date_time(2024, 1, 1))]),
    ("SELECT id, t FROM item WHERE t = ?", [(DATETIME, date_time(2024, 1, 1)), (DATE, date_time(2024, 1, 2))]),
    (BY_ID, [(STRING, lenenc(b"1")), (LONGLONG, number(1)), (DOUBLE, struct.pack("<d", 1.0))]),
    (BY_ID, [(LONGLONG, number(1)), (YEAR, b"\1\0")]),
)


@pytest.mark.parametrize("number_of_history", range(len(HISTORIES)))
def test_mysql_goes_on_comparing_by_types_that_were_bound_before(items: Beside, number_of_history: int) -> None:
    query, history = HISTORIES[number_of_history]
    with items.direct() as direct, items.client() as client:
        statements = direct.prepare(query), client.prepare(query)
        for type_, value in [*history, *history, *history]:
            wanted = direct.execute(statements[0].id, parameters(direct, [value], [type_]))
            found = client.execute(statements[1].id, parameters(client, [value], [type_]))
            assert comparable(client, found, ordered=False) == comparable(direct, wanted, ordered=False), (type_, value)


@pytest.mark.parametrize("number_of_history", range(len(HISTORIES)))
def test_types_count_that_were_bound_when_there_was_no_cache(items: Beside, number_of_history: int) -> None:
    query, history = HISTORIES[number_of_history]
    *bound, (last, value) = history
    with items.direct() as direct, items.client() as client:
        for name in items.call(lambda: list(items.proxy.app.catalog.caches)):
            assert client.query(f"DROP CACHE {name}")[4] == 0
        try:
            statements = direct.prepare(query), client.prepare(query)
            for type_, given in bound:
                direct.execute(statements[0].id, parameters(direct, [given], [type_]))
                client.execute(statements[1].id, parameters(client, [given], [type_]))
        finally:
            make_caches(client)
        items.caught_up()
        for _ in range(3):
            wanted = direct.execute(statements[0].id, parameters(direct, [value], [last]))
            found = client.execute(statements[1].id, parameters(client, [value], [last]))
            assert comparable(client, found, ordered=False) == comparable(direct, wanted, ordered=False)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (LONGLONG, number(0)),
        (LONGLONG, number(2)),
        (LONGLONG, number(-1)),
        (LONGLONG | UNSIGNED, struct.pack("<Q", 2**64 - 1)),
        (DOUBLE, struct.pack("<d", 1.0)),
        (STRING, lenenc(b"1")),
        (DECIMAL, lenenc(b"1")),
        (NULL, b""),
    ],
)
def test_a_limit_takes_what_mysql_takes(items: Beside, type_: int, value: bytes) -> None:
    query = "SELECT id, d FROM item WHERE id > ? ORDER BY id LIMIT ?"
    with items.direct() as direct, items.client() as client:
        statements = direct.prepare(query), client.prepare(query)
        for _ in range(3):
            given = parameters(client, [number(0), value], [LONGLONG, type_])
            wanted = comparable(direct, direct.execute(statements[0].id, given))
            assert comparable(client, client.execute(statements[1].id, given)) == wanted


def test_statements_that_differ_in_what_they_spell_out_have_a_cache_each(items: Beside) -> None:
    """Their texts are of one shape: the numbers of a LIMIT, and a constant of a cache."""
    texts = [
        *(f"SELECT id, d FROM item WHERE id > ? ORDER BY id LIMIT {limit}" for limit in ("1", "2", "1, 1", "2, 9")),
        *(f"SELECT id, {word} AS said FROM item WHERE id > ? ORDER BY id" for word in ("1", "2", "'a'")),
    ]
    with items.direct() as direct, items.client() as client:
        statements = [(direct.prepare(text).id, client.prepare(text).id) for text in texts]
        for text in texts[:4]:
            client.query(f"CREATE CACHE FROM {text}")
        given = parameters(client, [number(0)], [LONGLONG])
        served = set()
        for _ in range(5):
            for text, (plain, through) in zip(texts, statements, strict=True):
                wanted = comparable(direct, direct.execute(plain, given))
                assert comparable(client, client.execute(through, given)) == wanted, text
                if last_served(items).startswith("hit"):
                    served.add(text)
        assert served >= set(texts[:4])


@pytest.mark.parametrize("shown", ["BIN(id)", "oct (id)", "CONV(s, 36, 10)", "HEX(id)"])
def test_columns_that_mysql_announces_otherwise_once_they_were_computed(items: Beside, shown: str) -> None:
    query = f"SELECT id, {shown} AS told FROM item WHERE id = ?"
    with items.direct() as direct, items.client() as client:
        assert client.query(f"CREATE CACHE FROM {query}")[4] == 0
        statements = direct.prepare(query).id, client.prepare(query).id
        given = parameters(client, [number(1)], [LONGLONG])
        served = set()
        for _ in range(6):
            wanted = comparable(direct, direct.execute(statements[0], given))
            assert comparable(client, client.execute(statements[1], given)) == wanted
            served.add(last_served(items).split(" ")[0])
        assert ("hit" in served) == shown.startswith("HEX")


@pytest.mark.parametrize("value", [None, number(1)], ids=["NULL", "value"])
def test_types_that_mysql_refuses(items: Beside, value: bytes | None) -> None:
    """It refuses those that nothing can be bound with, also for NULL, and such with bits that mean nothing."""
    types = list(range(256)) if value is None else []
    types += [0x0100 | LONGLONG, 0x4000 | LONGLONG, UNSIGNED | 0x4000 | LONGLONG, 0x0100 | NULL]
    refused = 0
    with items.direct() as direct, items.client() as client:
        statement = client.prepare(BY_ID).id
        read_until_hit(items, client, client.execute, statement, bound([LONGLONG], [value]))
        for type_ in types:
            statements = direct.prepare(BY_ID).id, client.prepare(BY_ID).id
            wanted = direct.execute(statements[0], bound([type_], [value]))
            refused += wanted[4] == ERR
            found = client.execute(statements[1], bound([type_], [value]))
            assert comparable(client, found) == comparable(direct, wanted), f"{type_:#x}"
    assert refused


@pytest.mark.parametrize(("type_", "attribute"), [(LONGLONG, number(1)), (STRING, lenenc(b"traced"))])
def test_attributes_of_an_execution_are_whole(items: Beside, type_: int, attribute: bytes) -> None:
    """MySQL refuses an execution of whose attributes some bytes are missing."""
    kind = KINDS["query-attributes"]
    with items.direct(capabilities=kind) as direct, items.client(capabilities=kind) as client:
        statements = direct.prepare(BY_ID).id, client.prepare(BY_ID).id
        first = lenenc_int(2) + b"\0\1" + struct.pack("<HBHB", LONGLONG, 0, type_, 0) + number(1)
        read_until_hit(items, client, client.execute, statements[1], first + attribute)
        direct.execute(statements[0], first + attribute)
        for size in range(len(attribute) + 1):
            given = first + attribute[:size]
            wanted = comparable(direct, direct.execute(statements[0], given))
            assert comparable(client, client.execute(statements[1], given)) == wanted, size


def test_a_text_that_mysql_refuses_says_nothing_of_the_accounts_rights(items: Beside) -> None:
    text = "SELECT id, d FROM item WHERE id > 0 ORDER BY id LIMIT "
    with items.direct() as direct, items.client() as client:
        for limit in ("1", "2", "-1", "'1'", "1.5", "-1"):
            wanted = comparable(direct, direct.query(text + limit))
            assert comparable(client, client.query(text + limit)) == wanted
        for limit in ("2", "1", "1"):
            wanted = comparable(direct, direct.query(text + limit))
            assert comparable(client, client.query(text + limit)) == wanted
        read_until_hit(items, client, client.query, text + "1")


@pytest.mark.parametrize("client", ["utf8mb4", "latin1"])
def test_bytes_that_are_bound_as_a_string(mysql: Server, database: str, tmp_path: Path, client: str) -> None:
    """As drivers bind a UUID: its bytes are no UTF-8. A session of another character set converts them."""
    raw = bytes(range(0xE0, 0xF0))
    mysql.execute(
        f"USE {database}",
        "CREATE TABLE raw (id BINARY(16) PRIMARY KEY, s VARCHAR(40) CHARACTER SET latin1, n INT)",
        f"INSERT INTO raw VALUES (x'{raw.hex()}', x'{raw.hex()}', 1)",
    )
    texts = ("SELECT n FROM raw WHERE id = ?", "SELECT n FROM raw WHERE s = ?")
    with proxy_in_thread(mysql, database, tmp_path) as beside:
        with beside.client() as through, beside.direct() as direct:
            for one in (through, direct):
                one.query(f"SET NAMES utf8mb4, character_set_client = {client}")
            for text in texts:
                through.query(f"CREATE CACHE FROM {text}")
                own, ours = direct.prepare(text), through.prepare(text)
                for value in (raw, raw[:8], b"\xff" * 16):
                    given = bound([0xFD], [bytes((len(value),)) + value])
                    for _ in range(3):
                        assert through.execute(ours.id, given) == direct.execute(own.id, given), (text, value)
                    if text is texts[0]:
                        hit = last_served(beside, through).startswith("hit")
                        assert hit is (client == "utf8mb4"), last_served(beside, through)
        beside.at_rest()
