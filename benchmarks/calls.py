"""Calls of Python functions that each kind of work takes: what `[calls]` of `budgets.toml` bounds, and a test counts.

    python -m benchmarks.calls [kind ...]       the counts; of the kinds that are named, every call, as a tree

A proxy serves in this process, on a loop in a thread, beside a real MySQL. `sys.setprofile` sees each call that its
thread makes. Calls of Upwell's own functions count, and each time that a coroutine or generator goes on; what
timers call does not. An answer of MySQL's may come in several pieces, and other events in between, so each kind is done
several times and the least counts: a busy machine only needs more of them.
"""

from __future__ import annotations

import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from benchmarks.bench import SCRATCH
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

Act = Callable[[int], None]  # does one piece of work, the how manyeth; returns when it is done


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


def least(beside: Beside, act: Act, enough: int) -> Calls:
    """Of REPEATS pieces of work the one with the fewest calls; of more, as long as none has taken `enough` or fewer."""
    best: Calls | None = None
    for number in range(MOST_REPEATS):
        if best is not None and (best.count <= enough or (number >= REPEATS and not enough)):
            break
        counter = Counter()
        beside.call(lambda counter=counter: sys.setprofile(counter))  # type: ignore[misc]
        try:
            act(number)
        finally:
            beside.call(lambda: sys.setprofile(None))
        if best is None or counter.calls.count < best.count:
            best = counter.calls
    assert best is not None
    return best


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


def hit_prepared(beside: Beside, reader: Reader, enough: int) -> Calls:
    read_until_hit(beside, reader.client, reader.execute, 1)
    return least(beside, lambda _: ignored(reader.execute(1)), enough)


def hit_text(beside: Beside, reader: Reader, enough: int) -> Calls:
    read_until_hit(beside, reader.client, reader.text, 1)
    return least(beside, lambda _: ignored(reader.text(1)), enough)


def in_transaction(beside: Beside, reader: Reader, read: Callable[[int], bytes], enough: int) -> Calls:
    """In a REPEATABLE READ transaction, behind another hit."""
    reader.client.query("SET autocommit = 0")
    for _ in range(3):
        read_until_hit(beside, reader.client, read, 1)
        reader.client.query("COMMIT")
    read(1)
    found = least(beside, lambda _: ignored(read(1)), enough)
    assert last_served(beside, reader.client).startswith("hit")
    reader.client.query("COMMIT")
    reader.client.query("SET autocommit = 1")
    return found


def passed(beside: Beside, reader: Reader, enough: int) -> Calls:
    """A SELECT that no cache is for, whose text is known."""
    for _ in range(3):
        reader.client.query("SELECT name FROM passed WHERE id = 1")
    return least(beside, lambda _: ignored(reader.client.query("SELECT name FROM passed WHERE id = 1")), enough)


def miss(beside: Beside, reader: Reader, enough: int) -> Calls:
    """Of a row that nobody has asked for yet, by primary key."""
    keys = iter(range(2, ROWS + 1))
    for _ in range(10):
        reader.execute(next(keys))
    found = least(beside, lambda _: ignored(reader.execute(next(keys))), enough)
    assert last_served(beside, reader.client).startswith("miss")
    return found


def change_of_held(beside: Beside, reader: Reader, enough: int) -> Calls:
    """A transaction that updates one row, whose key one cache holds."""
    read_until_hit(beside, reader.client, reader.execute, 1)
    return changes(beside, "UPDATE item SET n = n + 1 WHERE id = 1", enough)


def change_of_hole(beside: Beside, reader: Reader, enough: int) -> Calls:
    """A transaction that updates one row of a cached table, whose key no cache holds."""
    return changes(beside, f"UPDATE item SET n = n + 1 WHERE id = {ROWS}", enough)


def changes(beside: Beside, sql: str, enough: int) -> Calls:
    beside.caught_up()
    engine = beside.proxy.app.router._engine
    with beside.direct() as writer:

        def written(_: int) -> None:
            before = beside.call(lambda: engine.ring.pushed)
            writer.query(sql)
            beside.until(lambda: engine.ring.pushed > before)

        written(0)
        return least(beside, written, enough)


def create_cache(beside: Beside, reader: Reader, enough: int) -> Calls:
    """Of one table by its primary key."""

    def created(number: int) -> None:
        answer = reader.client.query(f"CREATE CACHE made{number} FROM SELECT name FROM other WHERE id = ?")
        assert answer[4] == 0, answer

    return least(beside, created, enough)


KINDS: dict[str, Callable[[Beside, Reader, int], Calls]] = {
    "hit_prepared": hit_prepared,
    "hit_text": hit_text,
    "hit_prepared_in_transaction": lambda beside, reader, enough: in_transaction(
        beside, reader, reader.execute, enough
    ),
    "hit_text_in_transaction": lambda beside, reader, most: in_transaction(beside, reader, reader.text, most),
    "passed": passed,
    "miss": miss,
    "change_of_hole": change_of_hole,
    "change_of_held": change_of_held,
    "create_cache": create_cache,
}


def ignored(_: bytes) -> None:
    """The answer is read; what is in it is for other tests."""


@contextmanager
def measured(mysql: Server, folder: Path) -> Iterator[tuple[Beside, Reader]]:
    """A proxy and a client of it, warm. No check of a cache is on: their number would be that of chance."""
    options = {"verify_new_caches": "off", "check": "false"}
    with beside_database(mysql, SCRATCH, folder, *SCHEMA, **options) as beside:
        client = beside.client()
        client.query("CREATE CACHE points FROM " + POINT)
        reader = Reader(beside)
        yield beside, reader
        reader.client.quit()
        client.quit()


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        print(f"there is no {', '.join(unknown)}: there are {', '.join(KINDS)}", file=sys.stderr)
        return 2
    with (
        find_mysql() as mysql,
        tempfile.TemporaryDirectory() as folder,
        measured(mysql, Path(folder)) as (beside, reader),
    ):
        for name, of in KINDS.items():
            calls = of(beside, reader, 0)
            print(f"{name:30} {calls.count}")
            if name in names:
                print("\n".join(f"    {'  ' * depth}{what}" for depth, what in calls.tree))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
