"""The paths that are compared, and the tables that they read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.bench import SCRATCH
from benchmarks.changes import CASES, Case
from benchmarks.compare import changes
from benchmarks.compare.asked import Asked, Reads
from benchmarks.compare.load import Beside, Load, Running
from benchmarks.compare.others import PASSWORD, USER, GrpcHits, Logins
from benchmarks.compare.side import Side
from examples.lobsters.load import Connection
from integration.servers.mysql_server import Server

FIRST = 100_000  # ids have as many digits each, and texts of them as many bytes
HOT, COLD = 2_000, 60_000  # rows that are held before, and those that are asked for once
KINDS, FACTS = 4, 40_000  # to read those of a kind takes MySQL some 5 ms
LIST = 10

POINT = "SELECT c FROM {} WHERE id = ?"
SLOW = "SELECT COUNT(*), MAX(amount) FROM facts WHERE kind = ? AND part = ?"
IN_LIST = f"SELECT id, c FROM listed WHERE id IN ({', '.join('?' * LIST)})"
POINTS, COLD_POINTS, SLOW_CACHE, LISTS = "points", "cold_points", "slow", "lists"


def load_tables(server: Server) -> None:
    """Makes the scratch database, without a word in the binlog, and the account that logs in."""
    numbers = "WITH RECURSIVE n AS (SELECT {0} AS i UNION ALL SELECT i + 1 FROM n WHERE i < {1})"
    statements = ["SET sql_log_bin = 0", f"DROP DATABASE IF EXISTS {SCRATCH}", f"CREATE DATABASE {SCRATCH}"]
    statements += [f"USE {SCRATCH}", f"SET cte_max_recursion_depth = {max(COLD, FACTS)}"]
    for table, rows in (("points", HOT), ("listed", HOT), ("passed", HOT), ("cold", COLD)):
        statements.append(f"CREATE TABLE {table} (id INT PRIMARY KEY, c CHAR(120) NOT NULL)")
        text = "CONCAT(SHA2(i, 256), LEFT(SHA2(-i, 256), 56))"
        statements.append(f"INSERT INTO {table} {numbers.format(FIRST, FIRST + rows - 1)} SELECT i, {text} FROM n")
    statements += [
        "CREATE TABLE facts (id INT PRIMARY KEY, kind INT NOT NULL, part INT NOT NULL, amount INT NOT NULL,"
        " note CHAR(40) NOT NULL, KEY (kind))",
        f"INSERT INTO facts {numbers.format(0, FACTS - 1)} SELECT i, i % {KINDS}, i, i * 7919 % 100003, i FROM n",
        *changes.schema(),
        "ANALYZE TABLE points, listed, passed, cold, facts, written",
        f"DROP USER IF EXISTS {USER}",
        f"CREATE USER {USER} IDENTIFIED BY '{PASSWORD}'",
        f"GRANT SELECT ON {SCRATCH}.* TO {USER}",
    ]
    server.execute(*statements)
    server.connect(user=USER, password=PASSWORD).close()  # MySQL knows the password from here on


def create_caches(side: Side) -> None:
    for name, sql in {
        POINTS: POINT.format("points"),
        COLD_POINTS: POINT.format("cold"),
        SLOW_CACHE: SLOW,
        LISTS: IN_LIST,
    }.items():
        side.client.create_cache(sql, name=name, database=SCRATCH)


@dataclass(frozen=True)
class Path:
    """`name`: words with hyphens, the first of which is its group. `begin`: warms both sides. `usual`: no others are
    taken unless their own name or "group-all" asks for them."""

    name: str
    begin: Callable[[Side, Side, Connection], Running]
    usual: bool = True


def reads(name: str, what: Reads) -> Path:
    return loads(name, lambda side: Asked(what, side))


def loads(name: str, begin: Callable[[Side], Load]) -> Path:
    return Path(name, lambda base, tree, connection: Beside(base, tree, begin))


def changed(case: Case) -> Path:
    """Its name has the number of caches, the percentage of the keys that are held, and the rows of a transaction."""
    name = f"changes-{case.caches}-{case.held * 100:.0f}-{case.rows_per_transaction}"
    operations = 2_400 if case.rows_per_transaction == 1 else 4_000
    return Path(
        name,
        lambda base, tree, connection: changes.Changes(base, tree, connection, case, operations),
        usual=(case.caches, case.held) == (10, 0.3),
    )


HELD = [(key,) for key in range(FIRST, FIRST + HOT)]
LISTED = [tuple(range(first, first + LIST)) for first in range(FIRST, FIRST + HOT, LIST)]
ONCE = [(key,) for key in range(FIRST, FIRST + COLD // 3)]
EIGHT_AT_ONCE = [(key,) for key in range(FIRST + COLD // 3, FIRST + COLD)]
SLOW_ONCE = [(part % KINDS, part) for part in range(FACTS)]
REPEATABLE = ("SET autocommit = 0",)

PATHS: Sequence[Path] = (
    reads("hits-prepared", Reads(POINT.format("points"), "hit", HELD, 1_000, prepared=True)),
    reads("hits-text", Reads(POINT.format("points"), "hit", HELD, 1_000)),
    reads(
        "hits-transaction-prepared",
        Reads(POINT.format("points"), "hit", HELD, 80, prepared=True, before=REPEATABLE, in_transaction=10),
    ),
    reads(
        "hits-transaction-text",
        Reads(POINT.format("points"), "hit", HELD, 80, before=REPEATABLE, in_transaction=10),
    ),
    reads("passes-prepared", Reads(POINT.format("passed"), "pass", HELD, 600, prepared=True)),
    reads("passes-text", Reads(POINT.format("passed"), "pass", HELD, 600)),
    reads("misses-one", Reads(POINT.format("cold"), "miss", ONCE, 50, prepared=True, sessions=1)),
    reads("misses-eight", Reads(POINT.format("cold"), "miss", EIGHT_AT_ONCE, 80)),
    reads("misses-slow", Reads(SLOW, "miss", SLOW_ONCE, 5, prepared=True, sessions=1)),
    *map(changed, CASES),
    loads("logins", lambda side: Logins(side, POINT.format("points").replace("?", str(FIRST)), 16)),
    reads("lists-prepared", Reads(IN_LIST, "hit", LISTED, 240, prepared=True)),
    reads("lists-text", Reads(IN_LIST, "hit", LISTED, 240)),
    loads("grpc-hits", lambda side: GrpcHits(side, POINTS, range(FIRST, FIRST + HOT), 240)),
)


def wanted(only: str) -> list[Path]:
    """Those that `only` names, separated by commas: whole names or groups, and "group-all" for a group with what is not
    usual in it; all usual ones where it is empty. Raises ValueError."""
    words = [word.strip() for word in only.split(",") if word.strip()]
    for word in words:
        if not any(named(path, word) for path in PATHS):
            groups = ", ".join(dict.fromkeys(path.name.split("-")[0] for path in PATHS))
            raise ValueError(
                f"no path is called {word!r}: there are {groups}, and of these {', '.join(p.name for p in PATHS)}"
            )
    return [path for path in PATHS if (any(named(path, word) for word in words) if words else path.usual)]


def named(path: Path, word: str) -> bool:
    if word in (path.name, path.name.split("-")[0] + "-all"):
        return True
    return path.usual and path.name.startswith(word + "-")
