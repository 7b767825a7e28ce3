"""Sessions through the proxy before vtgate: what they do to themselves, what they write, and what they read then is,
byte by byte, what a session at vtgate itself gets that does the same.

But for the number of warnings behind rows: vtgate warns of an ORDER BY that it takes for ambiguous. A hit has none, and
SHOW WARNINGS behind it tells of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from integration.protocol.test_hits_same_bytes import comparable, given
from integration.support.grpc_app import run
from integration.support.raw_client import RawClient, payloads_of
from integration.vitess.cluster import Cluster
from integration.vitess.proxy import VitessProxy, proxy_before
from integration.vitess.shop import PLAIN, SHARDED
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS, ERR

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it

SCRIPTS, STEPS = 40, 40
COLLATIONS = (255, 255, 45, 46, 33, 8, 63)  # utf8mb4's, utf8mb3's, latin1's, none
TABLES = {SHARDED: "item", PLAIN: "thing"}
READS = (
    "SELECT id, n, name FROM {t} WHERE id = {id}",
    "SELECT id, n, name FROM {t} WHERE id = {id}",
    "SELECT id, name FROM {t} WHERE n = {id} ORDER BY id",
    "SELECT COUNT(*), SUM(n) FROM {t} WHERE n = {id}",
    "SELECT id, n FROM {t} WHERE n < {id} ORDER BY id DESC LIMIT 3",
    "SELECT id FROM {t} WHERE name = 'x{id}' ORDER BY id",
    "SELECT id, n / 7 FROM {t} WHERE id = {id}",
)
CACHES = {f"c{number}": text for number, text in enumerate(dict.fromkeys(READS))}
WRITES = (
    "INSERT INTO {t} (id, n, name) VALUES ({id}, {id}, 'é') ON DUPLICATE KEY UPDATE n = n + 1",
    "UPDATE {t} SET n = {id} WHERE id = {id}",
    "UPDATE {t} SET name = 'x{id}' WHERE n % 2 = 0",
    "DELETE FROM {t} WHERE id = {id}",
    "DELETE FROM {t} WHERE n = {id}",
)
AT_LOGIN = (
    *("SET autocommit = 1", "SET NAMES utf8mb4", "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci", "SET NAMES latin1"),
    *("SET character_set_results = NULL", "SET sql_mode = 'STRICT_TRANS_TABLES'", "SET SESSION sql_auto_is_null = 0"),
    *("SET sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')", "SET time_zone = '+00:00'", "SET wait_timeout = 600"),
    *("SELECT @@version", "SELECT @@transaction_isolation", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
    *("SELECT DATABASE()", "SHOW VARIABLES LIKE 'lower_case_table_names'", "SET net_write_timeout = 60"),
)
SETTINGS = (
    *("SET time_zone = '+05:00'", "SET sql_select_limit = 1", "SET sql_select_limit = DEFAULT", "SET @u = 5"),
    *("SET div_precision_increment = 2", "SET div_precision_increment = 4", "SET group_concat_max_len = 4"),
    *("SET workload = 'olap'", "SET workload = 'oltp'", "SET sql_mode = ''", "SET transaction_mode = 'multi'"),
    *("SET sql_mode = 'NO_SUCH_MODE'", "SET no_such_variable = 1", "SET character_set_client = 'latin1'"),
    *(
        "USE `{k}`",
        "USE `{other}`",
        "USE `{k}:{shard}`",
        "USE `{k}/{shard}`",
        "USE `{k}[40]`",
        "USE `{k}@primary`",
        "USE `@primary`",
        "USE nowhere",
        "SET SESSION lc_time_names = 'de_DE'",
    ),
)
TRANSACTIONS = (
    *(
        "BEGIN",
        "BEGIN",
        "START TRANSACTION READ ONLY",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        "COMMIT",
        "COMMIT",
    ),
    *("ROLLBACK", "ROLLBACK", "SAVEPOINT a", "ROLLBACK TO a", "SET autocommit = 0", "SET autocommit = 1"),
    *("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"),
    *("SET transaction_isolation = 'READ-COMMITTED'", "SELECT 1", "SELECT FOUND_ROWS() + 0", "SELECT FOUND_ROWS()"),
)
ODD = (
    *("SELECT * FROM nowhere", "SELEC 1", "LOCK TABLES {t} READ", "UNLOCK TABLES", "SELECT GET_LOCK('a', 0) >= 0"),
    *("CREATE TEMPORARY TABLE {t} (id INT)", "DROP TEMPORARY TABLE IF EXISTS {t}", "CALL nothing()", "!reset", "!ping"),
    *("PREPARE p FROM 'SELECT 1 AS one'", "EXECUTE p", "DEALLOCATE PREPARE p", "KILL 1", "SELECT ROW_COUNT()"),
    *("SELECT id FROM {t} WHERE id = {id} FOR UPDATE", "SHOW WARNINGS", "SELECT LAST_INSERT_ID()", "!use {k}"),
    *("UPDATE {t} SET id = 1 WHERE n = 3", "INSERT INTO {t} (id) VALUES ('x')", "SELECT FOUND_ROWS()", "!use nowhere"),
)
SEVERAL = (
    *(
        "BEGIN; SELECT 1",
        "BEGIN; SET no_such_variable = 1",
        "BEGIN; USE nowhere",
        "COMMIT; BEGIN",
        "SELECT 1; SELECT 2",
    ),
    *(
        "BEGIN; UPDATE {t} SET n = {id} WHERE id = {id}",
        "UPDATE {t} SET n = {id} WHERE id = {id}; SELECT * FROM nowhere",
    ),
    *("SET autocommit = 0; DELETE FROM {t} WHERE id = {id}", "SET autocommit = 1; SELECT id FROM {t} WHERE id = {id}"),
    *("SELECT id FROM {t} WHERE id = {id}; COMMIT", "SET @u = 1; BEGIN; ROLLBACK", "ROLLBACK; SELECT * FROM nowhere"),
)
AGAIN = ("!again",)
KINDS = (
    *((READS, 24), (AGAIN, 6), (WRITES, 8), (AT_LOGIN, 4)),
    *((SETTINGS, 2), (TRANSACTIONS, 4), (ODD, 2), (SEVERAL, 1)),
)


def script(rng: random.Random, keyspace: str) -> list[str]:
    """It begins with what drivers send at their login, and ends without a transaction."""
    other = PLAIN if keyspace == SHARDED else SHARDED
    names = {"t": TABLES[keyspace], "k": keyspace, "other": other, "shard": "-80" if keyspace == SHARDED else "0"}
    texts, weights = zip(*KINDS, strict=True)
    steps = [rng.choice(AT_LOGIN) for _ in range(rng.randrange(4))]
    for _ in range(STEPS):
        (kind,) = rng.choices(texts, weights)
        steps.append(rng.choice(kind).format(id=rng.randrange(6), **names))
    return [*steps, "ROLLBACK"]


@dataclass
class Played:
    """`answers`: of each step, comparable; `hits`: how many of them were hits."""

    answers: list[object] = field(default_factory=list)
    hits: int = 0


def play(port: int, keyspace: str, steps: Sequence[str], eof: bool, binary: bool, collation: int, hits: bool) -> Played:
    """`collation`: of the login. `hits`: the session is asked after each read whether it was one."""
    played, last = Played(), 0
    capabilities = CLIENT_MULTI_STATEMENTS | (0 if eof else CLIENT_DEPRECATE_EOF)
    several = {step for step in steps if ";" in step}
    with RawClient("127.0.0.1", port, database=keyspace, capabilities=capabilities, collation=collation) as client:
        for step in steps:
            if step == "!ping" or (step == "!again" and not last):
                # Its flags are those of the last statement that vtgate has answered without an error, ours among them.
                played.answers.append(client.ping()[:7])
                continue
            if step == "!again":  # the statement that was prepared last, whatever has become of the session since
                answer = client.execute(last, given(client, ()))
            elif step == "!reset":
                client.begin_anew(keyspace)
                played.answers.append("anew")
                continue
            elif step.startswith("!use "):
                answer = client.use(step.removeprefix("!use "))
            elif binary and step.startswith("SELECT id") and "FOR UPDATE" not in step:
                statement = client.prepare(step)
                last = last if statement.error else statement.id
                answer = b"" if statement.error else client.execute(statement.id, given(client, ()))
            else:
                answer = client.query(step)
            if step in several:
                played.answers.append(kinds(answer))
                continue
            played.answers.append(compared(client, answer) if answer else "refused")
            if hits and step.startswith("SELECT") and "@@" not in step:
                told = client.query("EXPLAIN LAST STATEMENT")
                played.hits += b"\x03hit" in told
    return played


def kinds(answer: bytes) -> list[bytes]:
    """Of the packets of several answers, and which error ends them. What has followed is compared by what is read
    then."""
    return [payload[:3] if payload[0] == ERR else payload[:1] for payload in payloads_of(answer)]


def compared(client: RawClient, answer: bytes) -> object:
    """An answer, without the number of warnings behind rows, and of errors without the text, which names the shard
    that failed first."""
    if answer[4] == ERR:
        return answer[4:13]
    found = comparable(client, answer, ordered=False)
    if not isinstance(found, tuple):
        return found
    head, rows, end = found
    at = 5 if client.eof else 9
    return head, rows, end[:at] + b"\0\0" + end[at + 2 :]


async def both(proxy: VitessProxy, keyspace: str, number: int) -> int:
    """One script, at vtgate and through the proxy, on the same rows; the number of hits."""
    rng = random.Random(number)
    steps, table = script(rng, keyspace), TABLES[keyspace]
    eof, binary, collation = rng.random() < 0.4, rng.random() < 0.4, rng.choice(COLLATIONS)
    rows = [f"({key}, {key}, 'x{key}')" for key in range(4)]
    played = []
    for port in (proxy.cluster.sql, proxy.app.mysql_port):
        await proxy.write(f"DELETE FROM {table}", f"INSERT INTO {table} (id, n, name) VALUES {', '.join(rows)}")
        through = port != proxy.cluster.sql
        played.append(await asyncio.to_thread(play, port, keyspace, steps, eof, binary, collation, through))
    direct, through_proxy = played
    for at, (expected, found) in enumerate(zip(direct.answers, through_proxy.answers, strict=True)):
        head = f"script {number} of {keyspace}, eof {eof}, binary {binary}, collation {collation}: the last of"
        assert found == expected, "\n".join([head, *steps[: at + 1]])
    return through_proxy.hits


@pytest.mark.parametrize("keyspace", [SHARDED, PLAIN])
def test_a_session_is_what_it_is_at_vtgate(vitess: Cluster, tmp_path: Path, keyspace: str) -> None:
    table = TABLES[keyspace]
    vitess.execute(keyspace, f"CREATE TABLE IF NOT EXISTS {table} (id BIGINT PRIMARY KEY, n INT, name VARCHAR(20))")

    async def scenario() -> None:
        async with proxy_before(vitess, keyspace, tmp_path, own_writes_wait="30s") as proxy:
            for name, text in CACHES.items():
                sql = text.format(t=table, id="?").replace("'x?'", "?")
                await proxy.client.create_cache(sql, name=name)
            hits = 0
            for number in range(SCRIPTS):
                hits += await both(proxy, keyspace, number)
            assert hits > SCRIPTS * STEPS / 10, hits

    run(scenario, 600)
