"""Quick hits of transactions: in REPEATABLE READ all that hits show is one state, whatever is written meanwhile; in
READ COMMITTED it is the newest. Every write changes all rows, so that each answer tells the state that it is of. Now
and then all that is held is evicted: there is nothing then that what was shown could be compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from integration.oracle.trees import integer, payload
from integration.prepared.test_own_sql_prepared import table
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit
from proxy.mysql.reads.gate import AGAIN
from proxy.mysql.reads.shown import MOST_GIVEN, Shown
from proxy.settings.quantities import Transactions
from tests.simulation.mutant import always, attribute

ROWS = 5
DATABASE = "quick_in_transactions"
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, state INT)",
    "INSERT INTO item VALUES " + ", ".join(f"({n}, 0)" for n in range(ROWS)),
)
ONE = "SELECT state FROM item WHERE id = {}"
LIST = "SELECT state FROM item WHERE id IN ({}, {}) ORDER BY id"
ALL = "SELECT COUNT(DISTINCT state), MAX(state) FROM item WHERE id > {}"
STEPS = 400


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *TABLES)
    with proxy_in_thread(mysql, DATABASE, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            for text in (ONE.format("?"), "SELECT state FROM item WHERE id IN (?) ORDER BY id", ALL.format("?")):
                assert client.query(f"CREATE CACHE FROM {text}")[4] == 0
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {DATABASE}")


class Reader:
    """A session that reads in transactions. `states`: what its transaction was shown, by who has answered."""

    def __init__(self, beside: Beside, client: RawClient, seed: int) -> None:
        self.beside = beside
        self.client = client
        self.random = Random(seed)
        self.served: Counter[str] = Counter()
        self.states: dict[str, set[int]] = {"hit": set(), "passed": set()}

    def session(self) -> Any:
        number = self.client.greeting.connection_id
        return next(one for one in self.beside.shared.sessions if one.connection_id == number)

    def was_quick(self) -> bool:
        """Whether the last read was a quick hit."""
        return self.beside.call(lambda: self.session().context.last_hit.cache is not None)

    def warm(self) -> None:
        for text in (ONE.format(1), LIST.format(1, 2), ALL.format(-1)):
            read_until_hit(self.beside, self.client, self.client.query, text)

    def read(self) -> None:
        key, other = self.random.randrange(ROWS), self.random.randrange(ROWS)
        text = self.random.choice([ONE.format(key), ONE.format(key), LIST.format(key, other), ALL.format(-1)])
        _, rows = table(self.client, self.client.query(text), binary=False)
        quick = self.was_quick()
        served = last_served(self.beside, self.client).split(" ")[0]
        self.served["quick" if quick else served] += 1
        found = {int(str(row[-1])) for row in rows}
        assert all(row[0] == 1 for row in rows if len(row) == 2), "a mix within one answer"
        self.states["passed" if served == "passed" else "hit"] |= found

    def begin(self) -> None:
        self.client.query("BEGIN")
        self.states = {"hit": set(), "passed": set()}

    def mixed(self) -> bool:
        return any(len(found) > 1 for found in self.states.values())


def life(beside: Beside, seed: int, level: str) -> tuple[Counter[str], int]:
    """How reads were answered, and how many transactions were shown a mix by one that answers."""
    random, state, mixes = Random(seed), 0, 0
    beside.mysql.execute(f"UPDATE {DATABASE}.item SET state = 0")
    beside.caught_up()
    with beside.client() as client, beside.client() as another:
        client.query(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        reader = Reader(beside, client, seed)
        reader.warm()
        reader.begin()
        for _ in range(STEPS):
            match random.choice(["read"] * 30 + ["write"] * 2 + ["end"] * 4 + ["evict"]):
                case "read":
                    reader.read()
                    if level == "READ COMMITTED":
                        assert reader.states["hit"] | reader.states["passed"] <= {state}
                case "write":
                    state += 1
                    beside.mysql.execute(f"UPDATE {DATABASE}.item SET state = {state}")
                    beside.caught_up()
                    for key in range(ROWS):  # so that the bytes of the new state are at hand
                        another.query(ONE.format(key))
                    if level == "READ COMMITTED":
                        reader.states = {"hit": set(), "passed": set()}
                case "evict":
                    beside.call(lambda: beside.proxy.app.engine.sieve.evict_to(0))
                case "end":
                    mixes += reader.mixed()
                    client.query(random.choice(["COMMIT", "ROLLBACK"]))
                    reader.warm()
                    reader.begin()
            beside.call(lambda: reader.session().context.shown.check_invariants())
    return reader.served, mixes


@pytest.mark.parametrize("level", ["REPEATABLE READ", "READ COMMITTED"])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_transaction_is_shown_two_states(beside: Beside, level: str, seed: int) -> None:
    served, mixes = life(beside, seed, level)
    assert mixes == 0
    assert served["quick"] > STEPS / 4, served


def test_a_quick_hit_of_another_state_would_be_found(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    attribute(Shown, "goes_on", always)(monkeypatch)
    assert life(beside, 1, "REPEATABLE READ")[1] > 0


@pytest.mark.parametrize(
    ("mode", "level", "served"),
    [
        (Transactions.STRICT, "REPEATABLE READ", "passed"),
        (Transactions.STRICT, "READ COMMITTED", "hit"),
        (Transactions.OFF, "REPEATABLE READ", "passed"),
        (Transactions.OFF, "READ COMMITTED", "passed"),
    ],
)
@pytest.mark.parametrize("binary", [False, True], ids=["text", "prepared"])
def test_where_transactions_have_no_hits_the_quick_way_gives_none(
    beside: Beside, monkeypatch: pytest.MonkeyPatch, mode: Transactions, level: str, served: str, binary: bool
) -> None:
    monkeypatch.setattr(beside.shared, "options", replace(beside.shared.options, transactions=mode))
    with beside.client() as client:
        client.query(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        statement, given = client.prepare(ONE.format("?")).id, payload([integer(3)])

        def read(_: object = None) -> bytes:
            return client.execute(statement, given) if binary else client.query(ONE.format(3))

        for _ in range(2):
            read_until_hit(beside, client, read, "")
            client.query("BEGIN")  # of which MySQL need not hear: what is at hand stays so
            client.query("COMMIT")
        read_until_hit(beside, client, read, "")
        client.query("BEGIN")
        for _ in range(2):
            read()
            assert last_served(beside, client).startswith(served)


def test_what_a_quick_hit_has_shown_is_shown_again(beside: Beside) -> None:
    with beside.client() as client:
        read_until_hit(beside, client, client.query, ONE.format(3))
        client.query("BEGIN")
        shown = [client.query(ONE.format(3)) for _ in range(MOST_GIVEN + 10)]
        assert len(set(shown)) == 1
        beside.mysql.execute(f"UPDATE {DATABASE}.item SET state = state + 1")
        beside.caught_up()
        assert client.query(ONE.format(3)) == shown[0]
        assert last_served(beside, client).startswith("hit")
        client.query("COMMIT")
        assert client.query(ONE.format(3)) != shown[0]


def none_is_sampled(beside: Beside) -> None:
    """One hit in some dozens goes the long way, where it is timed: none of the next ones."""
    for cache in beside.proxy.app.catalog.caches.values():
        cache.look_at = cache.hits + 1_000


def test_a_miss_of_one_kind_leaves_the_others_quick(beside: Beside) -> None:
    with beside.client() as client:
        reader = Reader(beside, client, 1)
        for _ in range(2):  # what MySQL has answered has made the kinds before it new ones
            reader.warm()
        beside.call(lambda: none_is_sampled(beside))
        client.query(ONE.format(1))
        assert reader.was_quick()
        client.query(ONE.format(1_000_000))  # nobody has asked for it before
        assert last_served(beside, client).startswith("miss")
        client.query(ALL.format(-1))
        assert reader.was_quick()
        client.query("SELECT 2 + 2")  # MySQL answers this
        client.query(ALL.format(-1))
        assert not reader.was_quick()


def test_what_is_held_no_more_is_shown_again(beside: Beside) -> None:
    with beside.client() as client:
        read_until_hit(beside, client, client.query, ONE.format(4))
        client.query("BEGIN")
        client.query("SELECT 2 + 2")  # nothing is at hand behind it, so the long way gives the next hit
        shown = client.query(ONE.format(4))
        assert last_served(beside, client).startswith("hit")

        beside.call(lambda: beside.proxy.app.engine.sieve.evict_to(0))
        assert client.query(ONE.format(4)) == shown
        assert last_served(beside, client) == f"hit {AGAIN}"
        client.query("COMMIT")
