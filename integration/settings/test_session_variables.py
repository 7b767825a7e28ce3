"""Every session variable, set to other values: what a session is then answered through the proxy is what MySQL answers.

Which variables there are, and which values they take, MySQL says. That the queries are hits while nothing is set is
what makes each comparison one of a hit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.protocol.test_hits_same_bytes import comparable, without
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit
from proxy.mysql.state.session_variables import ALWAYS, SOMETIMES
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, ERR

TABLES = (
    "CREATE TABLE a (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, n INT, d DECIMAL(9,2), t TIMESTAMP NULL,"
    " w DATE, s VARCHAR(40), l TEXT, f FLOAT, tm TIME, g VARCHAR(9) COLLATE utf8mb4_general_ci,"
    " u VARCHAR(9), KEY (k))",
    "CREATE TABLE b (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, s VARCHAR(40), KEY (k))",
    *(
        f"INSERT INTO a (k, n, d, t, w, s, l, f, tm, g, u) VALUES"
        f" (1, {n}, {n}.25, '2024-03-0{n} 12:00:00', '2024-12-2{n}',"
        f" 'Nr {n % 2}', CONCAT(REPEAT('x', 2000), {9 - n}), {n}.1, '0{n}:00:00', 'xyz{9 - n}', x'f09f9880')"
        for n in range(1, 8)
    ),
    *(f"INSERT INTO b (k, s) VALUES ({n % 3}, 'nr {n % 2}')" for n in range(1, 8)),
)
QUERIES = (
    "SELECT id, n, s FROM a WHERE id = 1",
    "SELECT id, t FROM a WHERE id = 1",
    "SELECT n FROM a WHERE k = 1 ORDER BY l, n",
    "SELECT l FROM a WHERE k = 1 ORDER BY l DESC LIMIT 2",
    "SELECT id FROM a WHERE k = 1 ORDER BY g, id",
    "SELECT DISTINCT YEAR(w) y, l FROM a WHERE k = 1 ORDER BY l, y",
    "SELECT SUM(n), AVG(n), AVG(d), SUM(d) / 7, STD(n), SUM(f) FROM a WHERE k = 1",
    "SELECT GROUP_CONCAT(s ORDER BY id), GROUP_CONCAT(l ORDER BY id) FROM a WHERE k = 1",
    "SELECT a.id, b.id, b.s FROM a JOIN b ON b.k = a.k WHERE a.k = 1 ORDER BY a.id, b.id",
    "SELECT a.id FROM a WHERE a.k = 1 AND a.s IN (SELECT s FROM b) ORDER BY a.id",
    "SELECT DAYNAME(w), MONTHNAME(w), DATE_FORMAT(w, '%a %M'), WEEK(w), YEARWEEK(w) FROM a WHERE id = 2",
    "SELECT n, SUM(n) OVER (ORDER BY id), AVG(d) OVER (ORDER BY id) FROM a WHERE k = 1 ORDER BY id",
    "SELECT id FROM a WHERE k = 1 AND CONVERT(l USING utf8mb4) < 'Xxxx' ORDER BY id",
    "SELECT id, CONVERT(s USING utf8mb4) = 'nr 1' FROM a WHERE k = 1 ORDER BY id",
    "SELECT id FROM a WHERE id IS NULL",
    "SELECT s FROM a WHERE k = 1 UNION SELECT s FROM b WHERE k = 1 ORDER BY s",
    "SELECT HEX(AES_ENCRYPT(s, 'k')) FROM a WHERE id = 1",
    "SELECT id, s || 'x', s = \"nr 1\" FROM a WHERE id = 1",
    "SELECT id, n / 0, n - 9, CAST(n AS UNSIGNED) FROM a WHERE id = 1",
    "SELECT id, LENGTH(REPEAT(s, 1000)) FROM a WHERE id = 1",
    "SELECT s, COUNT(*) FROM a WHERE k = 1 GROUP BY s ORDER BY s",
    "SELECT id, FROM_UNIXTIME(n * 1000), UNIX_TIMESTAMP(t) FROM a WHERE id = 3",
    "SELECT id, 0.1 + f, f, d * 1.10 FROM a WHERE id = 4",
    "SELECT id, _utf8mb4 x'c39f' = _utf8mb4'ss' FROM a WHERE id = 4",
    "SELECT id, CAST(s AS CHAR), CONCAT(s, n), u, CONCAT(u, 'é') FROM a WHERE id = 5",
    "SELECT id, s LIKE 'nr%', UPPER(s), s < 'z' FROM a WHERE id = 5",
)
VALUES = (
    "ON", "OFF", "0", "1", "2", "4", "8", "100", "1000", "100000", "'NONE'", "'FORCED'", "''", "'utf8mb4_general_ci'",
    "'utf8mb4_bin'", "latin1", "'latin1_swedish_ci'", "utf8mb3", "ascii", "'de_DE'", "'+05:00'", "'aes-256-ecb'",
    "'ANSI'", "'PIPES_AS_CONCAT'", "'NO_UNSIGNED_SUBTRACTION'", "'TIME_TRUNCATE_FRACTIONAL'", "'REAL_AS_FLOAT'",
    "'PAD_CHAR_TO_FULL_LENGTH'", "'NO_BACKSLASH_ESCAPES'", "'HIGH_NOT_PRECEDENCE'", "'MEMORY'", "'READ-COMMITTED'",
    "'materialization=off,semijoin=off'", "'derived_merge=off,hash_join=off'", "'index_merge=off,mrr=off'",
    "'prefer_ordering_index=off,use_index_extensions=off'", "'subquery_to_derived=on'", "'hypergraph_optimizer=on'",
)  # fmt: skip
SHARE = int(os.environ.get("VARIABLES_SHARE", "4"))  # one in so many; 1: all
DAY = int(time.time() / 86_400)
WAS_SLOW = 0x0800  # of the status flags
# What a session would not come back from, or what only says how long something may take.
LEFT_OUT = frozenset(
    {"max_execution_time", "net_read_timeout", "net_write_timeout", "wait_timeout", "interactive_timeout"}
)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = f"t{os.getpid()}_variables"
    mysql.execute(f"CREATE DATABASE {database}", f"USE {database}", *TABLES)
    with proxy_in_thread(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        yield found
    mysql.execute(f"DROP DATABASE `{database}`")


def variables(mysql: Server) -> list[str]:
    """What a session may set: those that are known to count, and another share of the others each day."""
    found = [str(name) for name, _ in mysql.execute("SHOW SESSION VARIABLES")]
    names = [name for name in found if name not in LEFT_OUT and not name.startswith("session_track")]
    return [name for at, name in enumerate(names) if at % SHARE == DAY % SHARE or name in (*ALWAYS, *SOMETIMES)]


def shown(client: RawClient, answer: bytes) -> object:
    """Without the number of warnings, nor the flag of a slow query."""
    found = comparable(client, answer)
    if not isinstance(found, tuple):
        return found
    head, rows, end = found
    return head, rows, without(without(end, 9, 0xFFFF), 7, WAS_SLOW)


def test_no_variable_of_a_session_makes_a_hit_another_answer_than_mysqls(beside: Beside) -> None:
    cached = []
    with beside.client(capabilities=CLIENT_DEPRECATE_EOF) as client:
        for sql in QUERIES:
            if client.query(f"CREATE CACHE FROM {sql}")[4] == 0:
                cached.append(sql)
        for sql in cached:
            read_until_hit(beside, client, client.query, sql)
    assert len(cached) >= len(QUERIES) - 2, cached
    wrong, tried = [], 0
    for name in variables(beside.mysql):
        for value in VALUES:
            setting = f"SET SESSION {name} = {value}"
            with beside.direct(capabilities=CLIENT_DEPRECATE_EOF) as direct:
                if direct.query(setting)[4] == ERR:
                    continue
                tried += 1
                with beside.client(capabilities=CLIENT_DEPRECATE_EOF) as client:
                    client.query(setting)
                    for sql in cached:
                        wanted, found = shown(direct, direct.query(sql)), shown(client, client.query(sql))
                        if wanted != found:
                            wrong.append(f"{setting}: {last_served(beside)}: {sql}\n  {wanted}\n  {found}"[:700])
    assert tried > 900 // SHARE, tried
    of = sorted({text.split(":", 1)[0] for text in wrong})
    assert not wrong, f"{len(wrong)} of {tried} settings, {of}:\n" + "\n".join(wrong[:: max(1, len(wrong) // 12)])
