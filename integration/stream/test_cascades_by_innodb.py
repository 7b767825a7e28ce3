"""Where InnoDB itself follows foreign keys, as before MySQL 9.6 and with innodb_native_foreign_keys=ON, the binlog has
nothing of the children's rows. They are cached all the same: what their parents' rows say empties them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from integration.oracle.asker import Asker, asker_beside
from integration.servers.mysql_server import Server
from integration.servers.server_pool import ServerPool

CHILDREN = (
    "CREATE TABLE top (id INT PRIMARY KEY, code VARCHAR(9) UNIQUE, v INT)",
    "CREATE TABLE deleted (id INT PRIMARY KEY, p INT, v INT, FOREIGN KEY (p) REFERENCES top (id) ON DELETE CASCADE)",
    "CREATE TABLE updated (id INT PRIMARY KEY, p INT, v INT, FOREIGN KEY (p) REFERENCES top (id) ON UPDATE CASCADE)",
    "CREATE TABLE nulled (id INT PRIMARY KEY, p VARCHAR(9), v INT,"
    " FOREIGN KEY (p) REFERENCES top (code) ON DELETE SET NULL ON UPDATE CASCADE)",
    "CREATE TABLE below (id INT PRIMARY KEY, p INT, v INT, FOREIGN KEY (p) REFERENCES deleted (id) ON DELETE CASCADE)",
    "CREATE TABLE own (id INT PRIMARY KEY, p INT, v INT, FOREIGN KEY (p) REFERENCES own (id) ON DELETE CASCADE)",
    "CREATE TABLE plain (id INT PRIMARY KEY, p INT, v INT)",
)
ROWS = (
    "INSERT INTO top VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
    "INSERT INTO deleted VALUES (1, 1, 1), (2, 2, 2), (3, 2, 3)",
    "INSERT INTO updated VALUES (1, 3, 1), (2, NULL, 2)",
    "INSERT INTO nulled VALUES (1, 'a', 1), (2, 'b', 2), (3, 'b', 3)",
    "INSERT INTO below VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)",
    "INSERT INTO own VALUES (1, NULL, 1), (2, 1, 2), (3, 2, 3)",
    "INSERT INTO plain VALUES (1, 1, 1), (2, 2, 2)",
)
FOLLOWS = ("deleted", "updated", "nulled", "below", "own")
READS = tuple(
    text
    for name in (*FOLLOWS, "plain")
    for text in (
        f"SELECT id, p, v FROM {name} WHERE id = 1",
        f"SELECT COUNT(*) AS c, SUM(v) AS s FROM {name} WHERE v < 9",
        f"SELECT t.id, f.p FROM top t JOIN {name} f ON f.v = t.v WHERE t.id = 1 ORDER BY f.id",
        f"SELECT id, UPPER(p) AS u FROM {name} ORDER BY id",
    )
)
WRITES = (  # and which tables' rows they change, by a key
    ("DELETE FROM top WHERE id = 1", {"deleted", "below", "nulled"}),
    ("DELETE top, plain FROM top JOIN plain ON plain.id = top.id WHERE top.id = 2", {"deleted", "below", "nulled"}),
    ("UPDATE top SET id = 9 WHERE id = 3", {"updated"}),
    ("UPDATE top SET code = 'z' WHERE id = 2", {"nulled"}),
    ("REPLACE INTO top VALUES (1, 'a', 1)", {"deleted", "below", "nulled"}),
    ("INSERT INTO top VALUES (3, 'c', 3) ON DUPLICATE KEY UPDATE id = 8", {"updated"}),
    ("DELETE FROM own WHERE id = 1", {"own"}),
    ("DELETE FROM deleted WHERE id = 2", {"below"}),
    ("XA START 'c'; DELETE FROM top WHERE id = 1; XA END 'c'; XA PREPARE 'c'; XA COMMIT 'c'", {"deleted", "below"}),
)


@pytest.fixture(scope="module")
def native(server_pool: ServerPool) -> Iterator[Server]:
    server = server_pool.lend(("--loose-innodb-native-foreign-keys=ON",))
    yield server
    server_pool.take_back(server)


@pytest.fixture(scope="module")
def asker(native: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    with asker_beside(native, "cascades", Path(tmp_path_factory.mktemp("state"))) as found:
        yield found


def holds_all(asker: Asker) -> None:
    for number, text in enumerate(READS):
        template = text.replace("id = 1", "id = ?")
        if template not in READS or template == text:
            answer = asker.create_cache(f"c{number}", template)
            assert answer.errno == 0, answer.message
    for text in READS:
        asker.until_hit(text)


def compare(asker: Asker, said: str) -> dict[str, str]:
    """Each read as MySQL answers it; how each was served."""
    served = {}
    for text in READS:
        expected = asker.ask("direct", text, None)
        found = asker.ask("through", text, None)
        served[text] = asker.served()[0]
        assert found.rows == expected.rows, (said, text, served[text])
    return served


@pytest.mark.parametrize("write", WRITES, ids=[text for text, _ in WRITES])
def test_children_are_cached_and_change_with_their_parents(asker: Asker, write: tuple[str, set[str]]) -> None:
    text, changed = write
    asker.begin([*CHILDREN, *ROWS])
    holds_all(asker)
    before = {name: asker.ask("direct", f"SELECT * FROM {name} ORDER BY id", None).rows for name in FOLLOWS}
    assert not asker.run(text.split("; "))
    asker.wait()
    compare(asker, text)
    after = {name: asker.ask("direct", f"SELECT * FROM {name} ORDER BY id", None).rows for name in FOLLOWS}
    assert {name for name in FOLLOWS if before[name] != after[name]} >= changed, "the write does what it is to do"
    for read in READS:
        asker.until_hit(read)
    compare(asker, text)


def test_what_no_key_follows_is_held_on(asker: Asker) -> None:
    asker.begin([*CHILDREN, *ROWS])
    holds_all(asker)
    assert not asker.run(["INSERT INTO top VALUES (7, 'q', 7)", "UPDATE plain SET v = 8 WHERE id = 2"])
    asker.wait()
    served = compare(asker, "an insert")
    assert all(served[text] == "hit" for text in READS if " below " in text or " own " in text), served
    texts = ["UPDATE top SET v = 5 WHERE id = 3", "UPDATE top SET v = 1 - v, id = id, code = code"]
    for text in (*texts, "INSERT INTO top VALUES (3, 'c', 3) ON DUPLICATE KEY UPDATE v = 6"):
        assert not asker.run([text])
        asker.wait()
        served = compare(asker, text)
        assert all(how == "hit" for text, how in served.items() if " top " not in text), served
    assert not asker.run(["SET foreign_key_checks = 0", "DELETE FROM own WHERE id = 1", "SET foreign_key_checks = 1"])
    asker.wait()
    served = compare(asker, "without checks no key is followed")
    assert served["SELECT id, p, v FROM below WHERE id = 1"] == "hit"


def random_write(rng: random.Random) -> str:
    name = rng.choice(("top", *FOLLOWS))
    key, other = rng.randint(1, 6), rng.randint(1, 6)
    if rng.random() < 0.3:
        return f"DELETE FROM {name} WHERE id = {key}"
    if name == "top":
        change = rng.choice((f"id = {other}", f"code = '{'abcdefg'[other]}'", f"v = {other}"))
        row = f"{key}, '{'abcdefg'[other]}', {other}"
    else:
        p = rng.choice((f"'{'abcdefg'[other]}'" if name == "nulled" else str(other), "NULL"))
        change = rng.choice((f"p = {p}", f"v = {other}"))
        row = f"{key}, {p}, {other}"
    return rng.choice(
        (
            f"UPDATE {name} SET {change} WHERE id = {key}",
            f"REPLACE INTO {name} VALUES ({row})",
            f"INSERT INTO {name} VALUES ({row}) ON DUPLICATE KEY UPDATE {change}",
        )
    )


@pytest.mark.parametrize("seed", range(1, 7))
def test_random_writes(asker: Asker, seed: int) -> None:
    rng = random.Random(seed)
    asker.begin([*CHILDREN, *ROWS])
    holds_all(asker)
    done: list[str] = []
    hits = columns = 0
    for step in range(60):
        write = random_write(rng)
        if step % 15 == 14:  # the other columns of the parent move
            columns += 1
            write = f"ALTER TABLE top ADD COLUMN c{columns} INT FIRST"
            if columns > 1:
                write += f", DROP COLUMN c{columns - 1}, ALGORITHM=COPY"
        done.append(write)
        asker.run(["SET SESSION sql_mode = ''", write.replace("INTO top VALUES", "INTO top (id, code, v) VALUES")])
        if "ALTER" in write and rng.random() < 0.5:
            asker.settled()
        asker.wait()
        hits += list(compare(asker, f"seed {seed}: {done[-6:]}").values()).count("hit")
    assert hits > 300, "hardly an answer of a cache was compared"


def test_a_key_that_comes_later_is_followed(asker: Asker, native: Server) -> None:
    asker.begin([*CHILDREN, *ROWS])
    holds_all(asker)
    for statement in (
        "ALTER TABLE plain ADD FOREIGN KEY (p) REFERENCES top (id) ON DELETE CASCADE",
        "DELETE FROM top WHERE id = 1",
    ):
        assert not asker.run([statement])
    asker.wait()
    compare(asker, "at once")
    asker.settled()
    for text in READS:
        asker.until_hit(text)
    with closing(native.connect(database=asker.database)) as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM top WHERE id = 2")
        connection.commit()
    asker.wait()
    compare(asker, "later")
