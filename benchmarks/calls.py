"""Calls of Python functions that each kind of work takes.

    python -m benchmarks.calls [word ...]       the counts; of the kinds with one of the words, every call, as a tree

A proxy serves in this process, on a loop in a thread, beside a real MySQL. `sys.setprofile` sees each call that its
thread makes. Calls of Upwell's own functions count, and each time that a coroutine or generator goes on; what timers
call does not.

Nothing comes between a command that is answered at once and its answer: the median of REPEATS counts. Where MySQL is
asked, or tells, its bytes may come in several pieces, and other events in between: there the least counts, of as many
more as it takes to come within the budget. So the same program passes on a quiet machine and on a busy one. The budgets
are `[calls]` of `budgets.toml`; `integration/loop_steps/test_calls.py` holds every run of the tests to them.
"""

from __future__ import annotations

import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from benchmarks import budgets
from benchmarks.bench import SCRATCH, Bench
from benchmarks.result import Figure, Result, Sheet
from integration.servers.mysql_server import Server
from integration.servers.private_mysql import find_mysql
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient, bound, bound_before
from integration.support.served import last_served, read_until_hit

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = tuple(
    f"{ROOT / package}/"
    for package in (
        "proxy",
        "bulk",
        "external_upquery",
        "vstream",
        "dataflow",
        "planner",
        "gtid_tracker",
        "sqltypes",
        "upwell",
    )
)
OURS = tuple(f"{ROOT / folder}/" for folder in ("benchmarks", "integration", "tests"))  # what these call is not counted
REPEATS, MOST_REPEATS = 25, 400
TIMERS = f"{ROOT / 'proxy' / 'loop'}/"
LONGLONG = 8
ROWS = 2_000
POINT = "SELECT name, n FROM item WHERE id = ?"
SCHEMA = (
    "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, n INT NOT NULL)",
    "CREATE TABLE passed (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL)",
    "CREATE TABLE other (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL)",
    f"SET cte_max_recursion_depth = {ROWS}",
    f"INSERT INTO item WITH RECURSIVE i AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM i WHERE id < {ROWS})"
    " SELECT id, CONCAT('name ', id), id FROM i",
    "INSERT INTO passed VALUES (1, 'one')",
)


@dataclass(slots=True)
class Calls:
    """Of one piece of work. `tree`: each call with its depth, in order."""

    count: int = 0
    tree: list[tuple[int, str]] = field(default_factory=list)


class Counter:
    """The profile function of the loop's thread."""

    def __init__(self) -> None:
        self.calls = Calls()
        self._depth = 0
        self._left_out = 0  # frames on the stack below which nothing counts
        self._kinds: dict[CodeType, int] = {}  # 1: counts, -1: of the measuring programs, 0: of libraries, 2: of timers

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        kind = self._kinds.get(code)
        if kind is None:
            kind = self._kinds[code] = kind_of(code)
        step = 1 if event == "call" else -1
        if kind < 0 or (self._left_out and kind):
            self._left_out = max(0, self._left_out + step)
        elif kind == 2 and not self._depth:
            self._left_out = 1 if event == "call" else 0
        elif kind:
            self._depth = max(0, self._depth + step)
            if event == "call":
                self.calls.count += 1
                self.calls.tree.append((self._depth - 1, f"{code.co_qualname}  {place_of(code)}"))


def kind_of(code: CodeType) -> int:
    """Comprehensions are no calls: newer Pythons make none of them."""
    if code.co_filename.startswith(OURS):
        return -1
    if code.co_filename.startswith(TIMERS):
        return 2
    return int(code.co_filename.startswith(PACKAGES) and code.co_name not in ("<listcomp>", "<dictcomp>", "<setcomp>"))


def place_of(code: CodeType) -> str:
    return f"{code.co_filename.removeprefix(f'{ROOT}/')}:{code.co_firstlineno}"


def nothing() -> None:
    """Is done before a piece of work that needs nothing."""


@dataclass(frozen=True, slots=True)
class Work:
    """`act` does one piece of it, and returns when it is done; `before` is not counted. `served`: how the reader's
    statement must have been answered, else the piece was one of another kind. `steady`: nothing comes in between."""

    act: Callable[[], object]
    before: Callable[[], object] = nothing
    served: str = ""
    steady: bool = False


def counted(beside: Beside, reader: Reader, work: Work, enough: float = inf) -> Calls:
    """The calls of a typical piece of steady work; else of the one with the fewest. Raises AssertionError where all
    pieces were of another kind, or one of steady work was."""
    found: list[Calls] = []
    for number in range(MOST_REPEATS):
        if number >= REPEATS and found and (work.steady or min(calls.count for calls in found) <= enough):
            break
        work.before()
        counter = Counter()
        beside.call(lambda counter=counter: sys.setprofile(counter))  # type: ignore[misc]
        try:
            work.act()
        finally:
            beside.call(lambda: sys.setprofile(None))
        served = last_served(beside, reader.client) if work.served else ""
        if served.startswith(work.served):
            found.append(counter.calls)
        else:
            assert not work.steady, served
    assert found, f"no piece was served as {work.served}"
    found.sort(key=lambda calls: calls.count)
    return found[len(found) // 2 if work.steady else 0]


# -- the kinds of work -------------------------------------------------------------------------------------------------


class Reader:
    """A client that reads `POINT` by a prepared statement, as drivers do, or as a text."""

    def __init__(self, beside: Beside) -> None:
        self.beside = beside
        self.client: RawClient = beside.client()
        self.statement = self.client.prepare(POINT).id
        self.execute(1, told=False)

    def execute(self, key: int, *, told: bool = True) -> bytes:
        values = (struct.pack("<q", key),)
        return self.client.execute(self.statement, bound_before(values) if told else bound((LONGLONG,), values))

    def text(self, key: int) -> bytes:
        return self.client.query(POINT.replace("?", str(key)))

    def hold(self, read: Callable[[int], bytes]) -> None:
        """Reads the first row until it is a hit."""
        read_until_hit(self.beside, self.client, read, 1)


Kind = Callable[[Beside, Reader], AbstractContextManager[Work]]


@contextmanager
def hit(reader: Reader, read: Callable[[int], bytes]) -> Iterator[Work]:
    reader.hold(read)
    yield Work(lambda: read(1), served="hit", steady=True)


@contextmanager
def hit_in_transaction(reader: Reader, read: Callable[[int], bytes]) -> Iterator[Work]:
    """In a REPEATABLE READ transaction, behind another hit."""
    reader.client.query("SET autocommit = 0")
    for _ in range(3):
        reader.hold(read)
        reader.client.query("COMMIT")
    read(1)
    yield Work(lambda: read(1), served="hit", steady=True)
    reader.client.query("COMMIT")
    reader.client.query("SET autocommit = 1")


@contextmanager
def passed(beside: Beside, reader: Reader) -> Iterator[Work]:
    """A SELECT that no cache is for, whose text is known."""

    def ask() -> bytes:
        return reader.client.query("SELECT name FROM passed WHERE id = 1")

    for _ in range(3):
        ask()
    yield Work(ask, served="passed")


@contextmanager
def miss(beside: Beside, reader: Reader) -> Iterator[Work]:
    """Of a row that nobody has asked for yet, by primary key."""
    keys = iter(range(2, ROWS + 1))
    for _ in range(10):
        reader.execute(next(keys))
    yield Work(lambda: reader.execute(next(keys)), served="miss")


@contextmanager
def change(beside: Beside, reader: Reader, key: int) -> Iterator[Work]:
    """A transaction that updates one row. The first row's answer is held by then, and no other's is."""
    engine = beside.proxy.app.router._engine
    with beside.direct() as writer:

        def written() -> None:
            before = beside.call(lambda: engine.state.ring.pushed)
            writer.query(f"UPDATE item SET n = n + 1 WHERE id = {key}")
            beside.until(lambda: engine.state.ring.pushed > before)

        beside.caught_up()
        written()
        yield Work(written, before=lambda: reader.hold(reader.execute))


@contextmanager
def create_cache(beside: Beside, reader: Reader) -> Iterator[Work]:
    """Of one table by its primary key, of which there is none."""
    names = [f"made{number}" for number in range(MOST_REPEATS + 1)]
    made: list[str] = []

    def created() -> None:
        name = names[len(made)]
        answer = reader.client.query(f"CREATE CACHE {name} FROM SELECT name FROM other WHERE id = ?")
        assert answer[4] == 0, answer
        made.append(name)

    def dropped() -> None:
        if made:
            reader.client.query(f"DROP CACHE {made[-1]}")

    yield Work(created, before=dropped)
    dropped()


@contextmanager
def login(beside: Beside, reader: Reader) -> Iterator[Work]:
    """A client that logs in, asks once and leaves, as every page of PHP does."""

    def visited() -> None:
        client = beside.client()
        client.query("SELECT 1")
        client.quit()

    visited()
    yield Work(visited)


KINDS: dict[str, Kind] = {
    "a hit, prepared": lambda beside, reader: hit(reader, reader.execute),
    "a hit, text": lambda beside, reader: hit(reader, reader.text),
    "a hit in a transaction, prepared": lambda beside, reader: hit_in_transaction(reader, reader.execute),
    "a hit in a transaction, text": lambda beside, reader: hit_in_transaction(reader, reader.text),
    "a passed statement": passed,
    "a miss": miss,
    "a change of a hole": lambda beside, reader: change(beside, reader, ROWS),
    "a change of a held key": lambda beside, reader: change(beside, reader, 1),
    "CREATE CACHE": create_cache,
    "a login, a statement and the end": login,
}


@contextmanager
def proxy_and_reader(mysql: Server, folder: Path) -> Iterator[tuple[Beside, Reader]]:
    """A proxy and a client of it, warm. No check of a cache is on: their number would be that of chance."""
    options = {"verify_new_caches": "off", "check": "false"}
    with beside_database(mysql, SCRATCH, folder, *SCHEMA, **options) as beside:
        client = beside.client()
        client.query("CREATE CACHE points FROM " + POINT)
        reader = Reader(beside)
        yield beside, reader
        reader.client.quit()
        client.quit()


def all_counted(mysql: Server, folder: Path) -> dict[str, Calls]:
    """By kind the calls that it takes."""
    known = budgets.read()
    found = {}
    with proxy_and_reader(mysql, folder) as (beside, reader):
        for name, kind in KINDS.items():
            budget = known.of("calls", name)
            with kind(beside, reader) as work:
                found[name] = counted(beside, reader, work, inf if budget is None else budget.bound)
    return found


def run(bench: Bench) -> Result:
    sheet = Sheet("calls of Python functions", ("kind of work", "calls"))
    result = Result("calls", sheets=[sheet])
    for name, calls in all_counted(bench.server, bench.folder / "calls").items():
        sheet.rows.append((name, calls.count))
        result.figures.append(Figure(name, calls.count, "calls"))
    return result


def main(words: list[str]) -> int:
    unknown = [word for word in words if not any(word in name for name in KINDS)]
    if unknown:
        print(f"no kind has {', '.join(unknown)} in its name: there are {', '.join(KINDS)}", file=sys.stderr)
        return 2
    with find_mysql() as mysql, tempfile.TemporaryDirectory() as folder:
        for name, calls in all_counted(mysql, Path(folder)).items():
            print(f"{name:35} {calls.count}")
            if any(word in name for word in words):
                print("\n".join(f"    {'  ' * depth}{what}" for depth, what in calls.tree))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
