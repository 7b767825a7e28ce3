"""No client sees a fault of ours: what may fail is broken on purpose, and MySQL's own bytes are what comes.

`READS` and `CHANGES` are functions that fail, wherever that is noticed. `EDGES` are the functions that notice: a test
holds this list to the sources, and each of them has a fault that it is seen to notice.
"""

from __future__ import annotations

import ast
import inspect
import os
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

import dataflow.changes.dispatch
import dataflow.engine
import dataflow.fills.fill
import dataflow.fills.inserting
import dataflow.fills.insertion
import dataflow.fills.state
import dataflow.fills.under_way
import dataflow.fills.waiting_reads
import dataflow.readers.derivation
import dataflow.readers.eviction
import dataflow.readers.reader
import external_upquery.executor
import planner.matcher
import proxy.cache.answer_columns
import proxy.cache.key_binder
import proxy.mysql.reads.announced
import proxy.mysql.reads.bound_types
import proxy.mysql.reads.gate
import proxy.mysql.reads.grants
import proxy.mysql.reads.routes
import proxy.mysql.session.answered_here
import proxy.mysql.session.cached_reads
import proxy.mysql.session.known_texts
import proxy.mysql.text.text_matcher
import proxy.port.faults
import proxy.read.held_answers
import proxy.read.misses
import proxy.read.open_cache
import proxy.read.planned
from dataflow.changes.large_change import Sizes
from integration.protocol.test_hits_same_bytes import comparable
from integration.servers.mysql_server import Server
from integration.sessions.session_commands import results
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient, bound
from proxy.mysql.session.session import Session
from sqltypes.errors import InvariantViolated
from upwell.client import Client

LONGLONG = 0x08
BY_ID = "SELECT id, n, name FROM item WHERE id = {}"
SUMS = "SELECT grp, COUNT(*), SUM(n) FROM item WHERE grp = {} GROUP BY grp"
UNGROUPED = "SELECT COUNT(*), SUM(n) FROM item WHERE grp = {}"
YEARS = "SELECT DISTINCT YEAR(made) FROM item WHERE grp = {}"
TEXTS = (BY_ID, SUMS, YEARS)
TABLE = (
    "CREATE TABLE item (id INT PRIMARY KEY, grp INT NOT NULL, n INT NOT NULL, name VARCHAR(40), made DATETIME,"
    " KEY (grp))",
    "INSERT INTO item VALUES " + ", ".join(f"({n}, {n % 3}, {n * 10}, 'i{n}', '20{n:02}-01-01')" for n in range(40)),
)

# Classes or modules, and what of them is called on behalf of a read, a fill or a change.
READS: tuple[tuple[Any, str], ...] = (
    (proxy.mysql.text.text_matcher.TextMatcher, "find"),
    (proxy.mysql.session.known_texts.KnownTexts, "_attach"),
    (proxy.mysql.session.known_texts.KnownTexts, "target"),
    (proxy.mysql.session.known_texts.KnownTexts, "route"),
    (proxy.mysql.reads.bound_types.BoundTypes, "values"),
    (proxy.mysql.reads.routes.Target, "bind"),
    (proxy.mysql.reads.routes.Target, "learn"),
    (proxy.mysql.reads.routes.Target, "resolved_otherwise"),
    (proxy.mysql.reads.routes.Route, "opened"),
    (proxy.mysql.reads.routes.Route, "learn"),
    (proxy.mysql.reads.grants.Grants, "refusal"),
    (proxy.mysql.reads.grants.Grants, "note"),
    (proxy.mysql.reads.announced.AnnouncedTexts, "of"),
    (proxy.mysql.reads.announced.Announced, "learn"),
    (proxy.mysql.reads.announced.Announced, "head"),
    (proxy.mysql.reads.gate, "refusal"),
    (proxy.mysql.session.cached_reads.CachedReads, "look"),
    (proxy.mysql.session.cached_reads.CachedReads, "_filling"),
    (proxy.mysql.session.cached_reads.CachedReads, "_ask_rights"),
    (proxy.mysql.session.cached_reads.CachedReads, "_fill_beside"),
    (planner.matcher.QueryMatcher, "match"),
    (proxy.read.planned.Planned, "bind"),
    (proxy.read.held_answers.HeldAnswers, "look"),
    (proxy.read.open_cache.OpenCache, "_planned"),
    (proxy.read.misses.Misses, "_miss"),
    (proxy.read.open_cache.OpenCache, "encode_as"),
    (proxy.cache.answer_columns.Encoding, "learn"),
    (proxy.cache.key_binder.KeyBinder, "bind"),
    (dataflow.readers.reader.ReaderNode, "body"),
    (dataflow.readers.reader.ReaderNode, "derive"),
    (dataflow.readers.derivation.ReaderProgram, "finish_passed"),
    (dataflow.fills.waiting_reads.Reads, "read"),
    (dataflow.fills.waiting_reads.Reads, "_start"),
    (dataflow.fills.waiting_reads.Reads, "tell"),
    (dataflow.fills.under_way.FillsUnderWay, "begin"),
    (dataflow.fills.inserting.Inserting, "_place"),
    (dataflow.readers.eviction.Sieve, "hold"),
    (dataflow.fills.fill.Fill, "request"),
    (dataflow.fills.fill.Fill, "take"),
    (dataflow.fills.fill.Fill, "answer"),
    (dataflow.fills.fill.Fill, "bring_forward"),
    (dataflow.fills.fill.Fill, "prove"),
    (dataflow.fills.insertion.Insertion, "steps"),
)
CHANGES: tuple[tuple[Any, str], ...] = (
    (dataflow.changes.dispatch.TableNodes, "process"),
    (dataflow.fills.state.State, "_process"),
    (dataflow.fills.state.State, "advance"),
    (dataflow.engine.Engine, "on_stream"),
    (dataflow.engine.Engine, "begin"),
    (dataflow.engine.Engine, "between"),
)
DAY = int(time.time() / 86_400)
OTHERS = TypeError("planted"), RecursionError("planted"), AssertionError("planted")


def errors(number: int) -> tuple[Exception, Exception]:
    """What a place fails with: the error that our own code tells apart, and another one every day."""
    return InvariantViolated("planted"), OTHERS[(number + DAY) % len(OTHERS)]


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = f"t{os.getpid()}_faults"
    mysql.execute(f"CREATE DATABASE {database}", f"USE {database}", *TABLE)
    with proxy_in_thread(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            for number, text in enumerate(TEXTS):
                assert client.query(f"CREATE CACHE c{number} FROM {text.format('?')}")[4] == 0
        yield found
    mysql.execute(f"DROP DATABASE `{database}`")


class Broken:
    """A function that fails. `calls`: how often it was called."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.calls = 0

    def __call__(self, *_: object, **__: object) -> Any:
        self.calls += 1
        raise copy(self.error)  # an error holds all frames that it has ever passed


def ways(text: str) -> tuple[Callable[[RawClient, int], bytes], ...]:
    """To read: as a text, and prepared anew."""

    def execution(client: RawClient, key: int) -> bytes:
        return client.execute(client.prepare(text.format("?")).id, bound([LONGLONG], [struct.pack("<q", key)]))

    return lambda client, key: client.query(text.format(key)), execution


def same(direct: RawClient, client: RawClient, keys: tuple[int, ...], times: int = 1) -> list[str]:
    """What differs, of all texts in all ways."""
    return [wrong for text in TEXTS for wrong in differences(direct, client, text, keys, times)]


@pytest.mark.parametrize("kind", range(2), ids=["invariant", "other"])
@pytest.mark.parametrize(("place", "name"), READS, ids=[f"{place.__name__}.{name}" for place, name in READS])
def test_a_fault_in_a_read_leaves_it_to_mysql(
    beside: Beside, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, kind: int
) -> None:
    number = READS.index((place, name))
    broken = Broken(errors(number)[kind])
    new = 3 + (2 * number + kind) % 34  # of keys that may be holes
    # Kinds of query that nothing is known of yet: a cache with an aggregate, and one of rows.
    fresh = [f"{text} AND n < {2_000_000 + 2 * number + kind}" for text in (BY_ID, UNGROUPED)]
    with beside.direct() as direct, beside.client() as client, cached(client, fresh):
        assert not same(direct, client, (1,), 2)
        before = faults(beside)
        with capture_logs() as logged, monkeypatch.context() as patched:
            patched.setattr(place, name, broken)
            with beside.client() as other:  # one that has no hits at hand
                wrong = same(direct, client, (1, new)) + same(direct, other, (1, new))
                for text in fresh:
                    wrong += differences(direct, other, text, (1, 2), 3)
                assert direct.ping() == client.ping() == other.ping(), "the session goes on"
        assert not wrong, wrong[:3]
        told = faults(beside) - before
        assert broken.calls > 0 and told > 0, "called, and counted"
        assert len([one for one in logged if one["event"] == "fault"]) <= max(1, told)
        assert not same(direct, client, (1, new), 2)


@contextmanager
def cached(client: RawClient, texts: Sequence[str]) -> Iterator[None]:
    """Each text has a cache of its own meanwhile."""
    names = [f"cached{at}" for at in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        assert client.query(f"CREATE CACHE {name} FROM {text.format('?')}")[4] == 0
    try:
        yield
    finally:
        dropped = [client.query(f"DROP CACHE {name}")[4] for name in names]
    assert not any(dropped)


def faults(beside: Beside) -> int:
    return beside.call(lambda: beside.proxy.app.router.status().counters["faults"])


@pytest.mark.parametrize("kind", range(2), ids=["invariant", "other"])
@pytest.mark.parametrize(("place", "name"), CHANGES, ids=[f"{place.__name__}.{name}" for place, name in CHANGES])
def test_a_fault_in_a_change_empties_what_it_may_have_left_wrong(
    beside: Beside, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, kind: int
) -> None:
    error = errors(CHANGES.index((place, name)))[kind]
    original = getattr(place, name)
    calls = 0

    def fails_once(*given: object, **named: object) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise copy(error)
        return original(*given, **named)

    with beside.direct() as direct, beside.client() as client:
        assert not same(direct, client, (1, 2), 2)
        with monkeypatch.context() as patched:
            patched.setattr(place, name, fails_once)
            if name == "begin":
                all_are_large(patched, beside)
            beside.mysql.execute(
                f"USE `{beside.proxy.database}`", "UPDATE item SET n = n + 1, grp = (grp + 1) % 3, made = NOW()"
            )
            beside.caught_up()
        assert calls > 0
        assert not same(direct, client, (1, 2), 2)
        beside.mysql.execute(f"USE `{beside.proxy.database}`", "UPDATE item SET n = n + 1 WHERE id < 5")
        beside.caught_up()
        assert not same(direct, client, (1, 2), 3)
        assert last_hit(beside, client)


def all_are_large(patch: pytest.MonkeyPatch, beside: Beside) -> None:
    """Each transaction is begun as one of very many rows is."""
    patch.setattr(beside.proxy.app.router._engine.state, "sizes", Sizes(large=0))


def last_hit(beside: Beside, client: RawClient) -> bool:
    client.query(BY_ID.format(1))
    client.query(BY_ID.format(1))
    beside.until(lambda: True)
    return any(
        session.context.last_statement is not None and session.context.last_statement.served == "hit"
        for session in beside.shared.sessions
        if isinstance(session, Session)
    )


# -- edges -------------------------------------------------------------------------------------------------------------

RELAYS = {
    "OpenCache.fault",
    "Moments.fault",
    "Batches.fault",
    "guarded.<locals>.called",
    "Pump._on_fault",
    "Shared.note_fault",
}  # between the edges and `Faults.note`
OURS = Path(proxy.read.open_cache.__file__).parents[2]
TELLS = {"note_fault", "_on_fault", "fault"}


@dataclass(frozen=True)
class Edge:
    """A function that notices faults. `broken`: what fails, so that it does; `times`: how often, 0: always."""

    name: str
    broken: tuple[tuple[Any, str], ...]
    times: int = 0
    error: type[Exception] = TypeError


Engine = dataflow.engine.Engine
OpenCache = proxy.read.open_cache.OpenCache
EDGES = (
    Edge("OpenCache.encode_as", ((proxy.cache.answer_columns.Encoding, "learn"),)),
    Edge("OpenCache._peeked", ((proxy.read.planned.Planned, "bind"),)),
    Edge("OpenCache.peek_since", ((dataflow.readers.reader.ReaderNode, "since"),)),
    Edge("OpenCache.bound", ((proxy.read.planned.Planned, "bind"),)),
    Edge("Batches._hit_many", ((OpenCache, "ready"),)),
    Edge("OpenCache.look_further", ((proxy.read.held_answers.HeldAnswers, "look"),)),
    Edge("Misses._filled", ((proxy.read.misses.Misses, "_miss"),)),
    Edge("CachedReads._attempt", ((proxy.mysql.session.cached_reads.CachedReads, "_filling"),)),
    Edge("watching.<locals>.ended", ((proxy.mysql.reads.announced.Announced, "learn"),)),
    Edge("QuickPath.answer", ((proxy.mysql.text.text_matcher.TextMatcher, "find"),)),
    Edge("Session._left_to_mysql", ((proxy.mysql.text.text_matcher.TextMatcher, "find"),)),
    Edge("Executions.look", ((proxy.mysql.reads.routes.Target, "bind"),), error=InvariantViolated),
    Edge("Router._matched", ((planner.matcher.QueryMatcher, "match"),)),
    Edge("Guard.flush", ((Engine, "flush"),)),
    Edge("Guard._not_asked", ((dataflow.fills.waiting_reads.Reads, "_ask_for"),)),
    Edge("Guard.on_answer", ((Engine, "on_answer"),)),
    Edge("Guard.on_stream", ((Engine, "on_stream"),), times=1),
    Edge("Guard.begin", ((Engine, "begin"),), times=1),
    Edge("Guard._emptied", ((Engine, "on_stream"),), times=2),
    Edge("Guard.tick", ((Engine, "tick"),)),
    Edge("Pump._submit", ((external_upquery.executor.Executor, "submit"),)),
    Edge("Guard._recovered", ((Engine, "on_answer"), (Engine, "recover")), times=2),
)
OF_A_CHANGED_SCHEMA = {"Leaving._take"}
# Of a fill that fails, or whose wait for the position ends: tests/dataflow/test_guard.py breaks these.
OF_FILLS_THAT_END = {"Guard.on_failed", "Guard._broken", "Guard.go_on"}
# Of a transaction of thousands of rows: tests/dataflow/changes/test_large_change.py breaks it.
OF_LARGE_CHANGES = {"Guard.prepare"}
# Of moments: integration/clock/test_clock_fractions.py and integration/clock/test_growing_moments.py break them.
OF_RESTARTS = {"Restart._restore", "Restart.save"}  # integration/caches/test_restart_edges.py
OF_MOMENTS = {"Moments._between", "Moments._standing"}
OF_QUESTIONS = (
    Edge("OpenCache._found", ((dataflow.readers.reader.ReaderNode, "found"),)),
    Edge(
        "AnsweredHere._watched.<locals>.watched.<locals>.ended",
        ((proxy.mysql.session.answered_here, "reply_of"),),
        error=InvariantViolated,
    ),
    Edge("AnsweredHere.prepared", ((proxy.mysql.session.answered_here.AnsweredHere, "_prepared_question"),)),
)
OF_THE_FIRST_READ = {"OpenCache.encode_as", "OpenCache._peeked", "watching.<locals>.ended"}


def edges_of_the_sources() -> set[str]:
    """The functions that tell of faults, and those that are `guarded`."""
    found: set[str] = set()

    def look(node: ast.AST, within: str, function: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner, inside = within, function
            if isinstance(child, ast.ClassDef):
                inner = f"{within}{child.name}."
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                inside, inner = f"{within}{child.name}", f"{within}{child.name}.<locals>."
                if any(ast.unparse(one).startswith("guarded") for one in child.decorator_list):
                    found.add(inside)
            elif isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
                called = child.func
                if called.attr in TELLS or (called.attr == "note" and ast.unparse(called.value).endswith("faults")):
                    found.add(function)
            look(child, inner, inside)

    for folder in ("dataflow", "proxy"):
        for path in (OURS / folder).rglob("*.py"):
            look(ast.parse(path.read_text()), "", "")
    return found - RELAYS


def test_all_edges_of_the_sources_are_broken_here() -> None:
    elsewhere = OF_A_CHANGED_SCHEMA | OF_FILLS_THAT_END | OF_LARGE_CHANGES | OF_MOMENTS | OF_RESTARTS
    elsewhere |= {edge.name for edge in OF_QUESTIONS}
    assert edges_of_the_sources() == {edge.name for edge in EDGES} | elsewhere


def test_a_cache_that_cannot_be_taken_out_keeps_no_other_from_it(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELECT a FROM altered WHERE id = {}"
    use = f"USE `{beside.proxy.database}`"
    beside.mysql.execute(use, "CREATE TABLE altered (id INT PRIMARY KEY, a INT)", "INSERT INTO altered VALUES (1, 1)")
    beside.caught_up()
    with beside.direct() as direct, beside.client() as client:
        for name, columns in (("leaves1", "a"), ("leaves2", "id, a")):
            assert client.query(f"CREATE CACHE {name} FROM SELECT {columns} FROM altered WHERE id = ?")[4] == 0
        assert not differences(direct, client, text, (1, 2), 3)
        with capture_logs(), monkeypatch.context() as patched:
            noticed = noticing(patched, OF_A_CHANGED_SCHEMA)
            plant(patched, Edge("Leaving._take", ((Engine, "remove"),), times=1))
            beside.mysql.execute(use, "ALTER TABLE altered ADD b INT", "UPDATE altered SET a = 2")
            beside.until(lambda: bool(noticed))
        caches = beside.proxy.app.catalog.caches
        beside.until(lambda: all(caches[name].state == "ready" for name in ("leaves1", "leaves2")))
        beside.caught_up()
        assert not differences(direct, client, text, (1, 2), 3)


def noticing(patch: pytest.MonkeyPatch, beside_them: Iterable[str] = ()) -> set[str]:
    """The edges that notice a fault from now on."""
    noticed: set[str] = set()
    names = {edge.name for edge in EDGES}.union(beside_them)
    note = proxy.port.faults.Faults.note

    def noted(*given: Any, **facts: Any) -> Any:
        frame = inspect.currentframe()
        while frame is not None:
            method = frame.f_locals.get("method") if frame.f_code.co_name == "called" else None
            name = frame.f_code.co_qualname if method is None else method.__qualname__
            if name in names:
                noticed.add(name)
                break
            frame = frame.f_back
        return note(*given, **facts)

    patch.setattr(proxy.port.faults.Faults, "note", noted)
    return noticed


def plant(patch: pytest.MonkeyPatch, edge: Edge) -> None:
    left = edge.times or sys.maxsize
    for place, name in edge.broken:
        original = getattr(place, name)

        def fails(*given: Any, original: Callable[..., Any] = original, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                return original(*given, **named)
            raise edge.error("planted")

        patch.setattr(place, name, fails)


@pytest.mark.parametrize("edge", EDGES, ids=[edge.name for edge in EDGES])
def test_each_edge_notices_a_fault_and_mysql_answers(
    beside: Beside, monkeypatch: pytest.MonkeyPatch, edge: Edge
) -> None:
    text = f"SELECT id, n, name FROM item WHERE id = {{}} AND n < {1_000_000 + EDGES.index(edge)}"
    with beside.direct() as direct, beside.client() as client, grpc(beside) as other_door, cached(client, [text]):
        if edge.name not in OF_THE_FIRST_READ:
            assert not differences(direct, client, text, (1, 2), 3)
        with capture_logs(), monkeypatch.context() as patched:
            noticed = noticing(patched)
            plant(patched, edge)
            if edge.name == "Guard.begin":
                all_are_large(patched, beside)
            assert not differences(direct, client, text, (1, 2, 5), 2)
            read_in_transactions(beside, text)
            wanted = [
                [row[0] for row in other_door.query(text.format(key), database=beside.proxy.database)] for key in (1, 6)
            ]
            assert wanted == [[1], [6]]
            found = other_door.cache("cached0").get_many([(key,) for key in (1, 7)])
            assert [[row[0] for row in answer] for answer in found] == [[1], [7]]
            beside.mysql.execute(f"USE `{beside.proxy.database}`", "UPDATE item SET n = n + 1 WHERE id = 1")
            beside.until(lambda: bool(noticed) or "tick" not in edge.name)
            beside.caught_up()
            assert not differences(direct, client, text, (1, 2), 2)
        assert edge.name in noticed
        assert not differences(direct, client, text, (1, 2, 5), 3)


@pytest.mark.parametrize("edge", OF_QUESTIONS, ids=[edge.name for edge in OF_QUESTIONS])
def test_what_a_session_asks_about_itself_is_mysqls_where_we_fail(
    beside: Beside, monkeypatch: pytest.MonkeyPatch, edge: Edge
) -> None:
    text = f"SELECT SQL_CALC_FOUND_ROWS id FROM item WHERE grp = {{}} AND {OF_QUESTIONS.index(edge)} = 0 LIMIT 1"
    asked = ("SELECT FOUND_ROWS()", f"SELECT {OF_QUESTIONS.index(edge)}, @@sql_mode")

    def differs(direct: RawClient, client: RawClient) -> bool:
        steps = [text.format(1), *asked, text.format(2), asked[0], asked[1]] * 3
        if any(results(direct, direct.query(step)) != results(client, client.query(step)) for step in steps):
            return True
        prepared = [(one, one.prepare(asked[1]).id) for one in (direct, client)]
        executed = [[comparable(one, one.execute(id_)) for one, id_ in prepared] for _ in range(3)]
        return any(wanted != found for wanted, found in executed)

    with beside.direct() as direct, beside.client() as client, cached(client, [text]):
        with capture_logs(), monkeypatch.context() as patched:
            noticed = noticing(patched, {edge.name})
            plant(patched, edge)
            assert not differs(direct, client)
        assert noticed == {edge.name}
        assert not differs(direct, client)


def grpc(beside: Beside) -> Client:
    app = beside.proxy.app
    return Client(f"127.0.0.1:{app.grpc_port}", token=app.grpc_token)


def differences(direct: RawClient, client: RawClient, text: str, keys: tuple[int, ...], times: int) -> list[str]:
    wrong = []
    for ask in ways(text):
        for key in keys * times:
            wanted, found = (comparable(one, ask(one, key), ordered=False) for one in (direct, client))
            if wanted != found:
                wrong.append(f"{text} {key}: {wanted} {found}")
    return wrong


def read_in_transactions(beside: Beside, text: str) -> None:
    """In REPEATABLE READ, while others write; and behind the session's own writes."""
    other = "UPDATE item SET n = n + 1 WHERE id = 1"
    with beside.direct() as direct, beside.client() as client:
        for one in (direct, client):
            assert one.query("BEGIN")[4] == 0
        assert not differences(direct, client, text, (1,), 1)
        beside.mysql.execute(f"USE `{beside.proxy.database}`", other)
        beside.caught_up()
        assert not differences(direct, client, text, (2,), 1)
        for one in (direct, client):
            assert one.query("COMMIT")[4] == 0
        assert client.query(other)[4] == 0
        assert not differences(direct, client, text, (1, 4), 1)
