"""Reads without ORDER BY, in lock step with MySQL: lists that an index finds come in its order, and where LIMIT chooses
rows, hits have those that MySQL reads first. The rows are compared in their order, before and after changes."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Iterator

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient, bound, payloads_of
from integration.support.served import last_served
from proxy.mysql.wire.packets import lenenc

ROWS, SMALL = 3000, 40
WORDS = ("abc", "Zebra", "ähre", "Straße", "zoo", "B", "b2", "", "éa", "-1")
COLUMNS = "id INT PRIMARY KEY, k INT, c VARCHAR(20), b INT, n INT NOT NULL"
TABLES = {
    "large": f"CREATE TABLE large ({COLUMNS}, KEY (k), KEY (c, n))",
    "small": f"CREATE TABLE small ({COLUMNS}, KEY (k, b), KEY (c, n))",
    "plain": f"CREATE TABLE plain ({COLUMNS})",
    "falling": "CREATE TABLE falling (id INT, k INT, c VARCHAR(20), b INT, n INT NOT NULL, PRIMARY KEY (id DESC),"
    " KEY (k DESC))",
    "parted": f"CREATE TABLE parted ({COLUMNS}, KEY (k)) PARTITION BY HASH (id) PARTITIONS 3",
    "composed": f"CREATE TABLE composed ({COLUMNS}, KEY (k, n DESC), KEY (b DESC, k))",
    "signed": "CREATE TABLE signed (id BIGINT, k INT, c VARCHAR(20) COLLATE utf8mb4_bin, b INT, n INT NOT NULL,"
    " PRIMARY KEY (id), KEY (k), KEY (c))",
}
INDEXED = frozenset({"large", "signed", "falling"})  # of so many rows that MySQL looks lists up
LISTED = {
    "SELECT id, n FROM {t} WHERE id IN ({ids})": INDEXED,
    "SELECT id, k, n FROM {t} WHERE k IN ({ks})": INDEXED | {"composed"},
    "SELECT id, k FROM {t} WHERE k IN ({ks})": INDEXED,  # a part of the index that follows is not held
    "SELECT c, id, b FROM {t} WHERE c IN ({cs})": frozenset(),  # they are many of the rows
    "SELECT k, COUNT(*) FROM {t} WHERE k IN ({ks}) GROUP BY k": INDEXED,
    "SELECT k, n, MAX(b) FROM {t} WHERE k IN ({ks}) GROUP BY k, n": {"composed"},
    "SELECT id FROM {t} WHERE n IN ({ks})": frozenset(),
    "SELECT id, n FROM {t} WHERE k = {k}": INDEXED,
    "SELECT id, n, k FROM {t} WHERE c = {c}": {"large", "signed"},
    "SELECT id, k, b FROM {t} WHERE k IN ({ks}) AND b IN ({bs})": {"composed"},
    "SELECT a.id, a.k, o.n FROM {t} a LEFT JOIN {t} o ON o.id = a.n WHERE a.k IN ({ks})": INDEXED,
}
"""Lists without LIMIT, and the tables whose index tells the order of the rows."""
LIMITED = (
    "SELECT id, n FROM {t} WHERE id IN ({ids}) LIMIT 3",
    "SELECT id, k, n FROM {t} WHERE k IN ({ks}) LIMIT 4",
    "SELECT id, k, n FROM {t} WHERE k = {k} LIMIT 3",
    "SELECT id FROM {t} WHERE k = {k} LIMIT 2, 3",
    "SELECT id, b FROM {t} WHERE c IN ({cs}) LIMIT 5",
    "SELECT id, b FROM {t} WHERE c = {c} LIMIT 3",
    "SELECT id, n FROM {t} WHERE b IN ({ks}) LIMIT 6",
    "SELECT id, n FROM {t} WHERE k IN ({ks}) AND id > {id} LIMIT 4",
    "SELECT id, c FROM {t} WHERE k = {k} AND b IN ({ks}) LIMIT 3",
    "SELECT DISTINCT b FROM {t} WHERE k IN ({ks}) LIMIT 3",
    "SELECT b, COUNT(*) FROM {t} WHERE k = {k} GROUP BY b LIMIT 3",
    "SELECT k, MAX(n) FROM {t} WHERE k IN ({ks}) GROUP BY k LIMIT 2",
    "SELECT a.id, o.id FROM {t} a JOIN {t} o ON o.id = a.n WHERE a.k = {k} LIMIT 3",
    "SELECT id, n FROM {t} WHERE id > {id} LIMIT 3",
    "SELECT id FROM {t} LIMIT 5",
    "SELECT n, k FROM {t} WHERE k = {k} ORDER BY k LIMIT 3",
)
READS = 12


def rows_of_table(rng: random.Random, count: int) -> list[tuple[object, ...]]:
    ids = rng.sample(range(-count, 3 * count), count)
    return [(one, rng.randrange(-5, count // 20), rng.choice(WORDS), rng.randrange(9), rng.choice(ids)) for one in ids]


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    rng = random.Random(5)
    database = "t_order_of_lists"
    made = (*TABLES.values(),)
    with beside_database(mysql, database, tmp_path_factory.mktemp("state"), *made, verify_new_caches="32") as found:
        with mysql.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {database}")
            for name in TABLES:
                rows = rows_of_table(rng, SMALL if name in ("small", "plain") else ROWS)
                cursor.executemany(f"INSERT INTO {name} VALUES (%s, %s, %s, %s, %s)", rows)
            connection.commit()
            cursor.execute(f"ANALYZE TABLE {', '.join(TABLES)}")
        found.caught_up()
        yield found


class Asked:
    """One query with values, as a text and prepared."""

    def __init__(self, form: str, table: str, rng: random.Random) -> None:
        large = table not in ("small", "plain")
        count = rng.choice((2, 3, 5, 10))
        span = ROWS if large else SMALL
        ids = [rng.randrange(-span, 3 * span) for _ in range(10 * count)]
        ks = [rng.randrange(-6, span // 20) for _ in range(count)]
        cs = rng.sample(WORDS, min(count, len(WORDS)))
        bs = rng.sample(range(9), 2)
        lists: dict[str, list[object]] = {
            "ids": [*ids],
            "ks": [*ks],
            "cs": [*cs],
            "bs": [*bs],
            "id": [*ids[:1]],
            "k": [*ks[:1]],
            "c": [*cs[:1]],
        }
        self.concerned = rng.choice(ks), rng.choice(ids)
        self.values: list[object] = []
        self.shape = form.format(t=table, **{name: "{" + name + "}" for name in lists})
        marks, literals = dict[str, str](), dict[str, str]()
        for name in sorted(lists, key=lambda one: self.shape.find("{" + one + "}")):
            if "{" + name + "}" in self.shape:
                self.values += lists[name]
                marks[name] = ", ".join("?" * len(lists[name]))
                literals[name] = ", ".join(f"'{one}'" if isinstance(one, str) else str(one) for one in lists[name])
        self.text = self.shape.format(**literals)
        self.prepared = self.shape.format(**marks)
        self.cached = self.shape.format(**dict.fromkeys(lists, "?"))

    def rows(self, client: RawClient, *, prepared: bool) -> list[bytes]:
        if not prepared:
            return payloads_of(client.query(self.text))[:-1]
        statement = client.prepare(self.prepared).id
        kinds = tuple(0xFD if isinstance(one, str) else 0x08 for one in self.values)
        given = [lenenc(one.encode()) if isinstance(one, str) else struct.pack("<q", one) for one in self.values]
        answer = client.execute(statement, bound(kinds, given)) if given else client.execute(statement)
        client.close_statement(statement)
        return payloads_of(answer)[:-1]


def writes(table: str, rng: random.Random, asked: Asked) -> list[str]:
    """Rows of the answer, or near it, become others, go, and come."""
    k, id = asked.concerned
    return [
        f"UPDATE {table} SET n = n + 1, b = (b + 1) % 9 WHERE k = {k} ORDER BY id LIMIT 2",
        f"DELETE FROM {table} WHERE k = {k} ORDER BY id LIMIT 1",
        f"INSERT IGNORE INTO {table} VALUES ({rng.randrange(-ROWS, 3 * ROWS)}, {k}, 'abc', 3, 7)",
        f"UPDATE {table} SET k = {k}, c = '{rng.choice(WORDS)}' WHERE id >= {id} ORDER BY id LIMIT 3",
    ]


def differing(beside: Beside, form: str, table: str, rng: random.Random, *, ordered: bool) -> list[str]:
    """What is not as at MySQL; at least one read of each way must be a hit."""
    found: list[str] = []
    with beside.client() as client, beside.direct() as direct:
        asked = Asked(form, table, rng)
        refused = client.query(f"CREATE CACHE FROM {asked.cached}")[4] == 0xFF
        served: Counter[str] = Counter()
        for write in ["", *writes(table, rng, asked)]:
            if write:
                assert direct.query(write)[4] != 0xFF
                beside.caught_up()
            for prepared in (False, True):
                wanted = asked.rows(direct, prepared=prepared)
                for _ in range(READS):
                    got = asked.rows(client, prepared=prepared)
                    how = last_served(beside, client) if not prepared else ""
                    served[how.split(" ")[0]] += 1
                    if (got if ordered else sorted(got)) != (wanted if ordered else sorted(wanted)):
                        found.append(
                            f"{how} {asked.prepared if prepared else asked.text} behind {write!r}:\n  {wanted}\n  {got}"
                        )
                        break
                    if how.startswith("hit"):
                        break
        assert refused or served["hit"], (asked.text, served)
    return found


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("form", LIMITED)
def test_limit_chooses_the_rows_that_mysql_reads_first(beside: Beside, form: str, table: str) -> None:
    rng = random.Random(f"{form} {table}")
    wrong = differing(beside, form, table, rng, ordered=True)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("form", LISTED)
def test_lists_come_in_the_order_of_their_index(beside: Beside, form: str, table: str) -> None:
    rng = random.Random(f"{form} {table}")
    wrong = differing(beside, form, table, rng, ordered=table in LISTED[form])
    assert not wrong, "\n".join(wrong)
