"""`make hammer-vitess`: a proxy before a real Vitess, everything at once, while shards are split and merged, tablets,
vtgate and a shard's MySQL are restarted; green, or what went wrong.

Half of the groups are distributed by numbers, with lookups in another keyspace (one that the table owns, and one that
nobody writes); half by texts. Each transaction on a group writes one new version into all of its rows, which are on one
shard. So an answer that shows two versions of a group is a mix; one that shows a version that nobody has sent a COMMIT
for is impossible; and one that shows less than was committed before a read that asks for the newest is stale. Nobody
compares moments of two shards: there is none that they share.

Exit status: 0 nothing was found, 1 something was, 3 it could not be set up.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import pymysql

from examples.lobsters.proxy_process import ProxyFailed, ProxyProcess
from integration.clients.tools import NotObtainable
from integration.vitess.built import programs
from integration.vitess.cluster import Cluster, DoesNotStart, running
from integration.vitess.operations import FOUR, Reshard
from integration.vitess.proxy import address
from upwell.client import Client
from upwell.errors import UpwellError
from upwell.freshness import Freshness

KEYSPACE, TWO = "shop", ("-80", "80-")
LOOKUPS = "side"  # the keyspace of the lookups' tables
GROUPS, ROWS = 48, 4
ALL = 2 * GROUPS  # the first half is distributed by numbers, the second half by texts
VSCHEMA = {
    "sharded": True,
    "vindexes": {
        "hash": {"type": "xxhash"},
        "loose": {"type": "unicode_loose_xxhash"},
        "by_ref": {
            "type": "lookup_unique",
            "params": {"table": f"{LOOKUPS}.by_ref", "from": "ref", "to": "keyspace_id"},
            "owner": "grouped",
        },
        "by_mark": {
            "type": "lookup",
            "params": {"table": f"{LOOKUPS}.by_mark", "from": "mark", "to": "keyspace_id", "no_verify": "true"},
        },
    },
    "tables": {
        "grouped": {
            "column_vindexes": [
                {"column": "grp", "name": "hash"},
                {"column": "ref", "name": "by_ref"},
                {"column": "mark", "name": "by_mark"},
            ]
        },
        "named": {"column_vindexes": [{"column": "name", "name": "loose"}]},
        "kind": {"type": "reference"},
    },
}
TABLES = (
    "CREATE TABLE grouped (grp BIGINT, id BIGINT, version BIGINT, parity INT, note VARCHAR(40), ref BIGINT,"
    " mark BIGINT, PRIMARY KEY (grp, id), KEY (parity), KEY (ref), KEY (mark))",
    "CREATE TABLE named (name VARCHAR(36), grp BIGINT, id BIGINT, version BIGINT, note VARCHAR(40),"
    " PRIMARY KEY (name, id))",
    "CREATE TABLE kind (id BIGINT PRIMARY KEY, label VARCHAR(20))",
)
LOOKUP_TABLES = (
    "CREATE TABLE by_ref (ref BIGINT PRIMARY KEY, keyspace_id VARBINARY(128))",
    "CREATE TABLE by_mark (mark BIGINT, keyspace_id VARBINARY(128), PRIMARY KEY (mark, keyspace_id))",
)
CACHES = {
    "rows": "SELECT grp, id, version FROM grouped WHERE grp = ?",
    "sums": "SELECT grp, MIN(version), MAX(version), COUNT(*) FROM grouped WHERE grp = ? GROUP BY grp",
    "first": "SELECT grp, id, version FROM grouped WHERE grp = ? ORDER BY id DESC LIMIT 3",
    "one": "SELECT grp, id, version FROM grouped WHERE grp = ? AND id = ?",
    "pairs": "SELECT a.grp, a.version, b.version FROM grouped a JOIN grouped b ON b.grp = a.grp"
    " WHERE a.grp = ? AND a.id = 0 AND b.id = 1",
    "even": "SELECT grp, MIN(version), MAX(version), COUNT(*) FROM grouped WHERE parity = ? GROUP BY grp",
    "by_ref": "SELECT grp, id, version FROM grouped WHERE ref = ?",
    "by_mark": "SELECT grp, id, version FROM grouped WHERE mark = ?",
    "texts": "SELECT grp, id, version FROM named WHERE name = ?",
    "text_pairs": "SELECT a.grp, a.version, b.version FROM named a JOIN named b ON b.name = a.name"
    " WHERE a.name = ? AND a.id = 0 AND b.id = 1",
}
SUMS = frozenset({"sums", "even", "pairs", "text_pairs"})  # whose second and third columns are versions
LOOKED_UP = frozenset({"by_ref", "by_mark"})
"""Of these vtgate may find no row, where its lookup has none yet: nobody writes those of `by_mark`."""
OF_KINDS = "SELECT g.grp, g.id, g.version FROM grouped g JOIN kind k ON k.id = g.id WHERE g.grp = ?"
"""Of a reference table: no cache may have that."""
OF_ALL = frozenset({"even"})
"""Those whose answers come from all shards."""
NEWEST = Freshness(max_staleness=0.0, wait=20.0)
MEMORY = ("1MiB", "6MiB", "64MiB")
WRITERS, READERS, OWNERS = 2, 3, 2
PAUSE = 1.0  # seconds of load between two disturbances
STUCK = 60.0
SHOWN = 5  # findings that are printed


@dataclass
class Versions:
    """Of each group: up to which version a COMMIT was sent, and up to which one was confirmed; and the last reference
    of its first row that a COMMIT was sent for."""

    sent: list[int] = field(default_factory=lambda: [0] * ALL)
    committed: list[int] = field(default_factory=lambda: [0] * ALL)
    refs: list[int] = field(default_factory=lambda: [first_ref(group, 0) for group in range(GROUPS)])
    next_ref: Iterator[int] = field(default_factory=lambda: count(10**6))


@dataclass
class Scene:
    """What all have in common. `findings`: what was wrong; `log`: what was done, and when."""

    cluster: Cluster
    proxy: ProxyProcess
    rng: random.Random
    versions: Versions = field(default_factory=Versions)
    findings: list[str] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    started: float = field(default_factory=monotonic)

    def note(self, what: str) -> None:
        self.log.append(f"{monotonic() - self.started:7.1f} s  {what}")

    def judge(self, cache: str, rows: Iterable[Sequence[Any]], least: Sequence[int], what: str) -> None:
        """`least`: of each group the version that the answer must have."""
        seen: dict[int, set[int]] = {}
        for row in rows:
            seen.setdefault(row[0], set()).update(row[1:3] if cache in SUMS else row[2:3])
        for group, found in seen.items():
            versions = sorted(found)
            wrong = ""
            if len(versions) != 1:
                wrong = "a mix"
            elif versions[-1] > self.versions.sent[group]:
                wrong = f"impossible: {self.versions.sent[group]} were sent"
            elif versions[0] < least[group]:
                wrong = f"stale: {least[group]} was committed before"
            if wrong:
                self.findings.append(f"{what} {cache}: group {group} has {versions}, {wrong}")


class Worker(ABC, threading.Thread):
    """Does something again and again until it is told to stop. What may happen while something is restarted is no
    finding."""

    def __init__(self, scene: Scene, name: str, seed: str) -> None:
        super().__init__(name=name, daemon=True)
        self.scene, self.rng, self.over = scene, random.Random(seed), threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            try:
                with self.connected() as connection:
                    while not self.over.is_set():
                        self.step(connection)
            except (pymysql.err.MySQLError, UpwellError, OSError) as error:
                self.scene.tally[f"{self.name.split()[0]} begun anew: {type(error).__name__}"] += 1
                self.over.wait(0.05)
            except Exception as error:  # noqa: BLE001 - a thread's top level: it is a finding
                self.scene.findings.append(f"{self.name}: {error!r}")
                return

    @abstractmethod
    def connected(self) -> Any: ...

    @abstractmethod
    def step(self, connection: Any) -> None: ...


def write_version(connection: pymysql.Connection[Any], scene: Scene, group: int) -> int:
    """One transaction on a group. The version that it has committed."""
    with connection.cursor() as cursor:
        table, where = ("grouped", f"grp = {group}") if group < GROUPS else ("named", f"name = '{text_of(group)}'")
        ref = next(scene.versions.next_ref) if group < GROUPS and group % 3 == 0 else 0
        cursor.execute("BEGIN")
        cursor.execute(f"SELECT version FROM {table} WHERE {where} AND id = 0 FOR UPDATE")
        ((found,),) = cursor.fetchall()
        if found < scene.versions.committed[group]:
            raise AssertionError(f"group {group} is at {found}, and {scene.versions.committed[group]} was committed")
        scene.versions.committed[group] = found  # one that was not answered has become one
        cursor.execute(f"UPDATE {table} SET version = {found + 1}, note = 'v{found + 1}' WHERE {where}")
        if ref:
            cursor.execute(f"UPDATE grouped SET ref = {ref} WHERE {where} AND id = 0")
            scene.versions.refs[group] = ref
        scene.versions.sent[group] = found + 1
        cursor.execute("COMMIT")
        scene.versions.committed[group] = found + 1
    scene.tally["versions committed"] += 1
    return int(found) + 1


class Writer(Worker):
    """Writes the groups of its own, through vtgate."""

    def __init__(self, scene: Scene, number: int, seed: str) -> None:
        super().__init__(scene, f"writer {number}", seed)
        self.groups = [group for group in range(ALL) if group % (WRITERS + OWNERS) == number]

    def connected(self) -> Any:
        return closing(self.scene.cluster.connect(KEYSPACE))

    def step(self, connection: pymysql.Connection[Any]) -> None:
        write_version(connection, self.scene, self.rng.choice(self.groups))


class Owner(Writer):
    """Likewise through the proxy, where it must be shown what it has written."""

    def connected(self) -> Any:
        return closing(session(self.scene))

    def step(self, connection: pymysql.Connection[Any]) -> None:
        group = self.rng.choice(self.groups)
        if self.rng.random() < 0.3:
            write_version(connection, self.scene, group)
        least = list(self.scene.versions.committed)
        read_by_session(connection, self.scene, self.rng, group % GROUPS, [
            version if other in self.groups else 0 for other, version in enumerate(least)
        ], "its own writes by")  # fmt: skip


class SessionReader(Worker):
    def connected(self) -> Any:
        return closing(session(self.scene))

    def step(self, connection: pymysql.Connection[Any]) -> None:
        read_by_session(connection, self.scene, self.rng, self.rng.randrange(GROUPS), [0] * ALL, "in a session")
        if self.rng.random() < 0.05:
            self.read_kinds(connection)

    def read_kinds(self, connection: pymysql.Connection[Any]) -> None:
        """A reference table is in no cache."""
        with connection.cursor() as cursor:
            cursor.execute(OF_KINDS.replace("?", str(self.rng.randrange(GROUPS))))
            self.scene.judge("rows", cursor.fetchall(), [0] * ALL, "of a reference table")
            cursor.execute("EXPLAIN LAST STATEMENT")
            if (served := str(cursor.fetchall()[0][0])) != "passed":
                self.scene.findings.append(f"a read of a reference table is a {served}")


class TransactionReader(Worker):
    """Reads in transactions. In REPEATABLE READ a group has one version as long as caches answer, and none that is less
    once vtgate does. In READ COMMITTED none goes back. (vtgate itself, asked directly, shows two versions in one
    REPEATABLE READ transaction now and then while shards are copied. And where sessions set different levels, one SET
    of twenty leaves the level as it was: measured with v24.0.4. So it is asked for.)"""

    def connected(self) -> Any:
        return closing(session(self.scene))

    def step(self, connection: pymysql.Connection[Any]) -> None:
        rng = self.rng
        repeatable, by_autocommit = rng.random() < 0.7, rng.random() < 0.5
        hits: dict[int, int] = {}
        passed: dict[int, int] = {}
        with connection.cursor() as cursor:
            level = "REPEATABLE-READ" if repeatable else "READ-COMMITTED"
            cursor.execute(f"SET SESSION transaction_isolation = '{level}'")
            cursor.execute("SELECT @@transaction_isolation")
            repeatable = cursor.fetchall()[0][0] == "REPEATABLE-READ"
            cursor.execute("SET autocommit = 0" if by_autocommit else rng.choice(("BEGIN", "START TRANSACTION")))
            groups = rng.sample(range(GROUPS), 3)
            for _ in range(rng.randint(2, 8)):
                self.read(cursor, rng.choice(groups), hits, passed, repeatable=repeatable)
                self.over.wait(rng.choice((0, 0, 0.002, 0.02)))
            cursor.execute(rng.choice(("COMMIT", "ROLLBACK")))
            if by_autocommit:
                cursor.execute("SET autocommit = 1")
        kind = "hits only" if not passed else "vtgate only" if not hits else "both"
        self.scene.tally[f"transactions of {kind}"] += 1

    def read(self, cursor: Any, group: int, hits: dict[int, int], passed: dict[int, int], *, repeatable: bool) -> None:
        """`hits`, `passed`: the version of each group that caches and vtgate have shown the transaction."""
        scene = self.scene
        name = self.rng.choice([name for name in CACHES if name not in OF_ALL | LOOKED_UP])
        cursor.execute(written(CACHES[name], parameters(scene, name, group, self.rng)))
        rows = cursor.fetchall()
        cursor.execute("EXPLAIN LAST STATEMENT")
        served = str(cursor.fetchall()[0][0])
        what = f"{served}, in a transaction, repeatable {repeatable},"
        scene.judge(name, rows, [0] * ALL, what)
        if not rows:
            scene.findings.append(f"{what} {name}: group {group} has no rows")
            return
        group, version = rows[0][0], rows[0][1 if name in SUMS else 2]
        shown = passed if served == "passed" else hits
        if repeatable and shown is hits and not passed and version != hits.get(group, version):
            scene.findings.append(f"{what} {name}: group {group} has {version}, and had {hits[group]}")
        if version < hits.get(group, 0) and shown is passed:
            scene.findings.append(f"{what} {name}: group {group} has {version}, and a hit had {hits[group]}")
        if not repeatable and version < max(hits.get(group, 0), passed.get(group, 0)):
            scene.findings.append(f"{what} {name}: group {group} has gone back to {version}")
        shown[group] = version


class ClientReader(Worker):
    """By gRPC; now and then it asks for the newest."""

    def connected(self) -> Any:
        return Client(self.scene.proxy.target)

    def step(self, connection: Client) -> None:
        name, group = self.rng.choice([*CACHES]), self.rng.randrange(GROUPS)
        newest = self.rng.random() < 0.15
        least = list(self.scene.versions.committed) if newest else [0] * ALL
        answer = connection.cache(name).get(
            *parameters(self.scene, name, group, self.rng), fresh=NEWEST if newest else None
        )
        self.scene.tally[f"by gRPC: {answer.served}"] += 1
        self.scene.judge(name, answer, least, f"{answer.served} ({answer.why}), newest {newest},")


def session(scene: Scene) -> pymysql.Connection[Any]:
    return pymysql.connect(
        host="127.0.0.1", port=scene.proxy.mysql_port, user="root", database=KEYSPACE, autocommit=True,
        ssl_disabled=True, read_timeout=STUCK,
    )  # fmt: skip


def text_of(group: int) -> str:
    return f"a group-{group:08x}"


def first_ref(group: int, number: int) -> int:
    """What a row refers to by at first."""
    return group * 10 + number


def parameters(scene: Scene, name: str, group: int, rng: random.Random) -> tuple[int | str, ...]:
    """`group`: of the first half."""
    match name:
        case "one":
            return group, rng.randrange(ROWS)
        case "by_ref":
            return (rng.choice((scene.versions.refs[group], first_ref(group, rng.randrange(ROWS)))),)
        case "by_mark":
            return (5000 + group,)
        case "texts" | "text_pairs":
            return (text_of(GROUPS + group),)
    return (group % 2 if name in OF_ALL else group,)


def written(sql: str, values: Sequence[int | str]) -> str:
    return sql.replace("?", "{!r}").format(*values)


def read_by_session(
    connection: pymysql.Connection[Any], scene: Scene, rng: random.Random, group: int, least: Sequence[int], what: str
) -> None:
    name = rng.choice([*CACHES])
    text = written(CACHES[name], parameters(scene, name, group, rng))
    with connection.cursor() as cursor:
        cursor.execute(text)
        rows = cursor.fetchall()
        scene.tally["in sessions"] += 1
        if rng.random() < 0.05:
            cursor.execute("EXPLAIN LAST STATEMENT")
            scene.tally[f"in sessions: {cursor.fetchall()[0][0]} (one of twenty)"] += 1
    scene.judge(name, rows, least, what)


# -- what is done meanwhile --------------------------------------------------------------------------------------------


def disturbances(scene: Scene, *, brief: bool) -> Iterator[tuple[str, Callable[[], None]]]:
    """One lap: the shards are split, and merged again behind it. `brief`: only split."""
    cluster = scene.cluster
    split, state = Reshard(cluster, KEYSPACE, FOUR), scene.rng

    def tablet() -> None:
        cluster.restart_tablet(KEYSPACE, state.choice(cluster.shards_now(KEYSPACE)))

    def lookups_held_back() -> None:
        """Nothing is committed meanwhile where the lookups' tables are: rows are, and vtgate does not find them."""
        with closing(cluster.mysqls[LOOKUPS, "0"].connect()) as connection:
            connection.cursor().execute("FLUSH TABLES WITH READ LOCK")
            threading.Event().wait(PAUSE)

    yield "the lookups' commits are held back", lookups_held_back
    yield "a tablet is restarted", tablet
    yield "vtgate is restarted", cluster.restart_vtgate
    yield "the shards are copied", split.begin
    yield "traffic is switched to four shards", split.switch
    yield "the two are removed", split.complete
    yield "a tablet of the four is restarted", tablet
    if brief:
        return
    yield "vtgate is restarted again", cluster.restart_vtgate
    merge = Reshard(cluster, KEYSPACE, TWO)
    yield "the shards are copied back", merge.begin
    yield "traffic is switched to two shards", merge.switch
    yield "the four are removed", merge.complete


def at_rest(scene: Scene, client: Client) -> None:
    """Nobody writes: each answer is vtgate's, and is held."""
    limit = monotonic() + STUCK
    for name, sql in CACHES.items():
        keys = {parameters(scene, name, group, scene.rng) for group in range(GROUPS)}
        for key in sorted(keys):
            itself = sql.replace("FROM grouped", "FROM grouped IGNORE VINDEX (by_ref, by_mark)")
            expected = sorted(scene.cluster.execute(KEYSPACE, written(itself if name in LOOKED_UP else sql, key)))
            while True:
                answer = client.cache(name).get(*key)
                found = sorted(map(tuple, answer))
                if found == expected and answer.served == "hit":
                    break
                if monotonic() > limit:
                    scene.findings.append(f"at rest {name} {key}: {answer.served} {answer.why} {found} for {expected}")
                    return
            scene.tally["compared at rest"] += 1


def one_lap(scene: Scene, client: Client, seed: str, *, brief: bool = False) -> None:
    workers: list[Worker] = [Writer(scene, number, f"{seed} {number}") for number in range(WRITERS)]
    workers += [Owner(scene, WRITERS + number, f"{seed} own {number}") for number in range(OWNERS)]
    for number in range(1 if brief else READERS):
        workers.append(SessionReader(scene, f"reader {number}", f"{seed} reads {number}"))
        workers.append(TransactionReader(scene, f"transactions {number}", f"{seed} transactions {number}"))
        workers.append(ClientReader(scene, f"client {number}", f"{seed} calls {number}"))
    for worker in workers:
        worker.start()
    pause = threading.Event()
    try:
        pause.wait(PAUSE)
        for what, done in disturbances(scene, brief=brief):
            scene.note(what)
            done()
            pause.wait(PAUSE)
            if scene.findings:
                break
    finally:
        for worker in workers:
            worker.over.set()
        for worker in workers:
            worker.join(STUCK)
    scene.findings += [f"{worker.name} does not end" for worker in workers if worker.is_alive()]
    scene.note("at rest")
    if not scene.findings:
        at_rest(scene, client)
    scene.tally["laps"] += 1


def first_rows(group: int) -> tuple[str, str]:
    """Of a group of the first half, and its counterpart of the second."""
    rows, named, text = [], [], text_of(GROUPS + group)
    for number in range(ROWS):
        rows.append(f"({group}, {number}, 0, {group % 2}, '', {first_ref(group, number)}, {5000 + group})")
        named.append(f"('{text}', {GROUPS + group}, {number}, 0, '')")
    return (
        f"INSERT INTO grouped (grp, id, version, parity, note, ref, mark) VALUES {', '.join(rows)}",
        f"INSERT INTO named (name, grp, id, version, note) VALUES {', '.join(named)}",
    )


@contextmanager
def set_up(seed: int) -> Iterator[tuple[Scene, Client]]:
    """Raises NotObtainable, DoesNotStart, ProxyFailed."""
    rng = random.Random(seed)
    with ExitStack() as stack:
        cluster = stack.enter_context(running(programs(), {KEYSPACE: TWO, LOOKUPS: ("0",)}))
        cluster.execute(LOOKUPS, *LOOKUP_TABLES)
        cluster.apply_vschema(KEYSPACE, VSCHEMA)
        cluster.execute(KEYSPACE, *TABLES)
        for group in range(GROUPS):
            cluster.execute(KEYSPACE, *first_rows(group))
        for shard in TWO:
            kinds = ", ".join(f"({number}, 'of {number}')" for number in range(ROWS))
            cluster.execute("", f"USE `{KEYSPACE}:{shard}`", f"INSERT INTO kind (id, label) VALUES {kinds}")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="upwell-hammer-")))
        options = ["--check", f"--memory-limit={rng.choice(MEMORY)}", "--own-writes-wait=30s"]
        proxy = ProxyProcess(
            address(cluster, KEYSPACE), folder, options=options, grpc_port=0, http_port=0, mysql_port=0
        )
        stack.callback(proxy.stop)
        client = stack.enter_context(proxy.wait_ready())
        for name, sql in CACHES.items():
            client.create_cache(sql, name=name)
        scene = Scene(cluster, proxy, rng)
        yield scene, client
        log = proxy.log.read_text(errors="replace").splitlines()
        scene.findings += [line for line in log if "[error" in line and "history is lost" not in line]
        if (status := proxy.wait(0)) is not None:
            scene.findings.append(f"the proxy ended with status {status}: {log[-5:]}")
        status_now = None
        with suppress(UpwellError):
            status_now = client.status()
        if status_now is not None:
            scene.tally |= Counter(
                {f"the proxy's {name}": count for name, count in status_now.counters.items() if count}
            )


def hammer(seconds: float, seed: int, *, brief: bool = False) -> Scene:
    """Laps until the time is over, at least one. Raises as `set_up`."""
    with set_up(seed) as (scene, client):
        end = monotonic() + seconds
        while not scene.findings and (not scene.tally["laps"] or monotonic() < end):
            try:
                one_lap(scene, client, f"{seed}.{scene.tally['laps']}", brief=brief)
            except (DoesNotStart, UpwellError, pymysql.err.MySQLError, AssertionError, TimeoutError) as error:
                scene.findings.append(f"broken: {error!r}")
    return scene


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m integration.vitess.hammer", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="at least one lap is made")
    parser.add_argument("--seed", type=int, default=None, help="what is written, read and done, not when")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    try:
        scene = hammer(options.seconds, seed)
    except (NotObtainable, DoesNotStart, ProxyFailed, OSError) as error:
        print(error, file=sys.stderr)
        return 3
    print("\n".join([f"seed {seed}", *(f"  {count:>10,}  {name}" for name, count in sorted(scene.tally.items()))]))
    print("\n".join(["what was done", *scene.log]))
    print(
        "\n".join(
            [f"{len(scene.findings)} findings", *scene.findings[:SHOWN]] if scene.findings else ["nothing was found"]
        )
    )
    return 1 if scene.findings else 0


if __name__ == "__main__":
    sys.exit(main())
