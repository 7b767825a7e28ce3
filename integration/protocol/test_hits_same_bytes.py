"""What a cache answers is, byte by byte, what MySQL would have sent in the same session: columns, rows, end."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from examples.lobsters.data import SETS
from examples.lobsters.load import load
from examples.lobsters.queries import CATALOGUE, Compare, Parameter, Sample, Template
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import UTF8MB4, Prepared, RawClient, bound, joined, nulls
from integration.support.served import last_served, read_until_hit
from proxy.mysql.wire.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_QUERY_ATTRIBUTES,
    CLIENT_SESSION_TRACK,
    COM_RESET_CONNECTION,
    lenenc,
    lenenc_int,
    packet,
)

TINY = SETS["tiny"]
HOW_IT_RAN = 0x0430  # status flags: no index used, no good index used, the statement was prepared anew
KINDS = {
    "plain": 0,
    "deprecate-eof": CLIENT_DEPRECATE_EOF,
    "session-track": CLIENT_DEPRECATE_EOF | CLIENT_SESSION_TRACK,
    "query-attributes": CLIENT_QUERY_ATTRIBUTES,
}
LONGLONG, STRING = 0x08, 0xFD


def packets(data: bytes) -> list[bytes]:
    found = []
    while data:
        size = 4 + int.from_bytes(data[:3], "little")
        found.append(data[:size])
        data = data[size:]
    return found


def comparable(client: RawClient, data: bytes, *, ordered: bool = True) -> object:
    """An answer without what only a run at MySQL can say; the rows in an order where the query has none."""
    found = packets(data)
    if found[0][4] in (0x00, 0xFF):
        return found
    columns = found[0][4]
    start = 1 + columns + client.eof
    head, rows, end = found[:start], found[start:-1], found[-1]
    if client.eof:
        head[-1] = without(head[-1], 7)
    end = without(end, 7)
    if not ordered:
        rows = sorted(row[:3] + row[4:] for row in rows)
    return head, rows, end


def without(data: bytes, at: int, flags: int = HOW_IT_RAN) -> bytes:
    kept = int.from_bytes(data[at : at + 2], "little") & ~flags
    return data[:at] + kept.to_bytes(2, "little") + data[at + 2 :]


def written(sql: str, parameters: Sequence[Parameter]) -> str:
    """The text of a template with its parameters as literals."""
    pieces = sql.split("?")
    literals = [
        "(" + ", ".join(map(repr, value)) + ")" if isinstance(value, tuple) else repr(value) for value in parameters
    ]
    return "".join(piece + literal for piece, literal in zip(pieces, [*literals, ""], strict=True))


def given(client: RawClient, parameters: Sequence[Parameter]) -> bytes:
    """Parameters of an execution."""
    types = [LONGLONG if isinstance(value, int) else STRING for value in parameters]
    values = [
        struct.pack("<q", value) if isinstance(value, int) else lenenc(str(value).encode()) for value in parameters
    ]
    if not client.attributes or not parameters:
        return bound(types, values) if parameters else b""
    named = b"".join(struct.pack("<H", type_) + b"\0" for type_ in types)
    return lenenc_int(len(values)) + nulls(values) + b"\1" + named + joined(values)


# -- the sample --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = f"t{os.getpid()}_hits"
    load(mysql, TINY, database=database)
    with proxy_in_thread(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            refused = [template.id for template in CATALOGUE.values() if not create(client, template)]
        assert len(refused) <= 3, refused
        yield found
    mysql.execute(f"DROP DATABASE `{database}`")


def create(client: RawClient, template: Template) -> bool:
    answer = client.query(f"CREATE CACHE {template.cache_name} FROM {template.sql}")
    return answer[4] == 0


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_samples_queries(sample: Beside, kind: str) -> None:
    """Each as a text and prepared, by a client that has not asked anything yet, and again."""
    drawn = Sample(TINY, 5)
    wrong, served = [], dict.fromkeys(("hit", "miss", "passed"), 0)
    with sample.direct(capabilities=KINDS[kind]) as direct, sample.client(capabilities=KINDS[kind]) as client:
        for template in CATALOGUE.values():
            ordered = template.compare is Compare.ORDERED
            for parameters in (drawn.of(template), drawn.of(template)):
                for ask in ways_to_ask(template, parameters):
                    wanted = comparable(direct, ask(direct), ordered=ordered)
                    for _ in range(3):
                        found = comparable(client, ask(client), ordered=ordered)
                        how = last_served(sample)
                        served[how.split()[0]] += 1
                        if found != wanted and template.compare is not Compare.ONE_OF:
                            wrong.append(f"{template.id} {ask.__name__} {how}: {wanted} {found}"[:800])
    assert not wrong, "\n".join(wrong[:2])
    assert served["hit"] > served["miss"] + served["passed"], served


def ways_to_ask(template: Template, parameters: Sequence[Parameter]) -> Iterator[Callable[[RawClient], bytes]]:
    def text(client: RawClient) -> bytes:
        return client.query(written(template.sql, parameters))

    prepared: dict[RawClient, Prepared] = {}

    def execution(client: RawClient) -> bytes:
        if client not in prepared:
            prepared[client] = client.prepare(template.sql)
        return client.execute(prepared[client].id, given(client, parameters))

    yield text
    if not any(isinstance(value, tuple) for value in parameters):
        yield execution


# -- one table, all ways to write --------------------------------------------------------------------------------------

ITEM = (
    "CREATE TABLE item (id INT PRIMARY KEY, n INT NOT NULL, Name VARCHAR(40), d DECIMAL(9,2), t DATETIME(3), b BLOB,"
    " l VARCHAR(9) CHARACTER SET latin1, e ENUM('a','b') NOT NULL DEFAULT 'a', KEY (n))",
    "INSERT INTO item VALUES (1, 10, 'one', 1.50, '2020-02-29 12:00:00.5', x'00ff', 'ä', 'b'),"
    " (2, 20, NULL, NULL, NULL, NULL, NULL, 'a'), (3, 20, 'drei 🐬', -0.5, '1970-01-01', '', '', 'a')",
)
CACHES = (
    "CREATE CACHE whole FROM SELECT * FROM item WHERE id = ?",
    "CREATE CACHE by_n FROM SELECT id, Name FROM item WHERE n = ? ORDER BY id",
    "CREATE CACHE sums FROM SELECT COUNT(*), SUM(n), MAX(Name), n + 1 FROM item WHERE n = ? GROUP BY n",
    "CREATE CACHE aliased FROM SELECT i.id AS number, CONCAT(i.Name, 'x') FROM item i WHERE i.id = ?",
)
TEXTS = (
    "SELECT * FROM item WHERE id = 1",
    "SELECT * FROM item WHERE id = 9",
    "select * from item where ID = 1",
    "SELECT item.* FROM item WHERE item.id = 3",
    "SELECT * FROM item i WHERE i.id = 3",
    "SELECT * FROM item AS `other name` WHERE id = 3",
    "SELECT id, Name FROM item WHERE n = 20 ORDER BY id",
    "SELECT ID, NAME FROM item WHERE N = 20 ORDER BY ID",
    "SELECT id, name FROM item WHERE n = 20 ORDER BY id",
    "SELECT `id`, `Name` FROM item WHERE n = 20 ORDER BY id",
    "SELECT item.id, item.Name FROM item WHERE item.n = 20 ORDER BY item.id",
    "SELECT i.id, i.Name FROM item i WHERE i.n = 20 ORDER BY i.id",
    "SELECT id, Name AS Name FROM item WHERE n = 20 ORDER BY id",
    "SELECT id AS a, Name b FROM item WHERE n = 20 ORDER BY id",
    "SELECT id, Name /* traced */ FROM item WHERE n = 20 ORDER BY id -- the end",
    "SELECT COUNT(*), SUM(n), MAX(Name), n + 1 FROM item WHERE n = 20 GROUP BY n",
    "SELECT count(*), sum(n), max(Name), n + 1 FROM item WHERE n = 20 GROUP BY n",
    "SELECT COUNT( * ), SUM( n ), MAX( Name ), n+1 FROM item WHERE n = 20 GROUP BY n",
    "SELECT COUNT(*), SUM(n), MAX(name), n + 1 FROM item WHERE n = 20 GROUP BY n",
    "SELECT COUNT(*), SUM(item.n), MAX(Name), item.n + 1 FROM item WHERE n = 20 GROUP BY n",
    "SELECT COUNT(*) /* all */, SUM(n), MAX(Name), n  +  1 FROM item WHERE n = 20 GROUP BY n",
    "SELECT COUNT(*), SUM(n), MAX(Name), n /* a */ + 1 FROM item WHERE n = 20 GROUP BY n",
    "SELECT COUNT(*), SUM(n), MAX(Name), n /* b */ + 1 FROM item WHERE n = 20 GROUP BY n",
    "SELECT /* c */ COUNT(*), SUM(n), MAX(Name), n + 1 FROM item /* d */ WHERE n = 20 GROUP BY n",
    "SELECT i.id AS number, CONCAT(i.Name, 'x') FROM item i WHERE i.id = 1",
    'SELECT i.id AS NUMBER, concat(i.Name, "x") FROM item i WHERE i.id = 1',
    "SELECT j.id AS number, CONCAT(j.Name, 'x') FROM item j WHERE j.id = 1",
    "SELECT i.id AS 'number', CONCAT(i.Name,'x') FROM item i WHERE i.id = 1",
)


@pytest.fixture(scope="module")
def items(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = f"t{os.getpid()}_items"
    mysql.execute(f"CREATE DATABASE {database}", f"USE {database}", *ITEM)
    with proxy_in_thread(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            for statement in CACHES:
                assert client.query(statement)[4] == 0, client.transcript[-1]
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE `{database}`")


def equal(beside: Beside, before: Callable[[RawClient], None], options: dict[str, int], hits: bool = True) -> None:
    """In a session prepared by `before`, all texts have MySQL's bytes, each as a miss or first hit and as a quick one;
    as prepared statements too."""
    wrong, served = [], []
    with beside.direct(**options) as direct, beside.client(**options) as client:
        before(direct)
        before(client)
        for sql in (*TEXTS, *TEXTS):
            wanted = comparable(direct, direct.query(sql))
            statements = direct.prepare(sql), client.prepare(sql)
            wanted_rows = comparable(direct, direct.execute(statements[0].id))
            for _ in range(2):
                found = comparable(client, client.query(sql))
                served.append(last_served(beside))
                if found != wanted:
                    wrong.append(f"{served[-1]} {sql}\n{wanted}\n{found}")
                found = comparable(client, client.execute(statements[1].id))
                served.append(last_served(beside))
                if found != wanted_rows:
                    wrong.append(f"{served[-1]}, prepared: {sql}\n{wanted_rows}\n{found}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:4])
    assert any(how.startswith("hit") for how in served) == hits, served


def nothing(client: RawClient) -> None:
    pass


@pytest.mark.parametrize("kind", list(KINDS))
def test_texts_written_in_many_ways(items: Beside, kind: str) -> None:
    equal(items, nothing, {"capabilities": KINDS[kind]})


@pytest.mark.parametrize(
    ("collation", "statements"),
    [
        (45, []),
        (224, []),
        (46, []),
        (33, []),
        (8, []),
        (45, ["SET NAMES utf8mb4"]),
        (UTF8MB4, ["SET NAMES utf8mb4 COLLATE utf8mb4_general_ci"]),
        (45, ["SET NAMES utf8mb4 COLLATE utf8mb4_general_ci"]),
        (45, ["SET character_set_results = utf8mb4"]),
        (45, ["SET collation_connection = utf8mb4_0900_ai_ci"]),
        (UTF8MB4, ["SET collation_connection = utf8mb4_general_ci"]),
        (UTF8MB4, ["SET character_set_results = NULL"]),
        (8, ["SET NAMES utf8mb4"]),
        (45, ["SET CHARACTER SET utf8mb4"]),
        (45, ["SET @@session.collation_connection = DEFAULT"]),
    ],
)
def test_columns_are_announced_in_the_sessions_own_character_set(
    items: Beside, collation: int, statements: list[str]
) -> None:
    def before(client: RawClient) -> None:
        for statement in statements:
            client.query(statement)

    equal(items, before, {"collation": collation, "capabilities": CLIENT_DEPRECATE_EOF})


def test_columns_after_a_reset_of_the_connection(items: Beside) -> None:
    equal(items, lambda client: void(client.command(COM_RESET_CONNECTION)), {"collation": 45})


def void(answer: bytes) -> None:
    assert answer[4] == 0


def test_a_statement_prepared_before_the_character_set_changes(items: Beside) -> None:
    with items.direct(collation=45) as direct, items.client(collation=45) as client:
        statements = direct.prepare(TEXTS[0]), client.prepare(TEXTS[0])
        for names in ("DO 0", "SET NAMES utf8mb4", "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci"):
            direct.query(names)
            client.query(names)
            wanted = comparable(direct, direct.execute(statements[0].id))
            for answer in read_until_hit(items, client, client.execute, statements[1].id):
                assert comparable(client, answer) == wanted, names


def test_a_hit_with_a_wrong_packet_number_is_an_error(items: Beside) -> None:
    with items.client() as client:
        for _ in range(2):
            client.query(TEXTS[0])
        client.write(packet(client.text(TEXTS[0]), 1))
        assert b"Got packets out of order" in client.one()
        assert client.at_end()


def test_in_a_transaction_the_status_says_so(items: Beside) -> None:
    equal(items, lambda client: void(client.query("BEGIN")), {})
    equal(items, lambda client: void(client.query("SET autocommit = 0")), {})


def test_a_prepared_statement_outlives_a_change_of_its_table(mysql: Server, database: str, tmp_path: Path) -> None:
    mysql.execute(f"USE `{database}`", *ITEM)
    with (
        proxy_in_thread(mysql, database, tmp_path) as beside,
        beside.client() as client,
        beside.direct() as direct,
    ):
        assert client.query("CREATE CACHE c FROM SELECT * FROM item WHERE id = ?")[4] == 0
        statements = (
            client.prepare("SELECT * FROM item WHERE id = ?"),
            direct.prepare("SELECT * FROM item WHERE id = ?"),
        )
        for change in (
            "ALTER TABLE item ADD COLUMN more INT NOT NULL DEFAULT 5",
            "ALTER TABLE item MODIFY n BIGINT UNSIGNED",
            "ALTER TABLE item DROP COLUMN more",
            "ALTER TABLE item RENAME COLUMN l TO latin",
            "DO 0",
        ):
            for _ in range(3):
                wanted = comparable(direct, direct.execute(statements[1].id, given(client, [1])))
                assert comparable(client, client.execute(statements[0].id, given(client, [1]))) == wanted, last_served(
                    beside
                )
                wanted = comparable(direct, direct.query("SELECT * FROM item WHERE id = 1"))
                assert comparable(client, client.query("SELECT * FROM item WHERE id = 1")) == wanted
            mysql.execute(f"USE `{database}`", change)
            beside.caught_up()
        read_until_hit(beside, client, client.query, "SELECT * FROM item WHERE id = 1")
