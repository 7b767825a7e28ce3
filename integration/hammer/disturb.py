"""What happens to MySQL, to its connections and to its tables while others read and write.

Each disturbance is a function of the scene. One lap does each of them once, in a random order.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

import pymysql

from examples.lobsters.load import DATABASE as SAMPLE
from examples.lobsters.proxy_process import ProxyProcess
from integration.hammer.judge import MUST_COUNT, SWAPS, Finding, History
from integration.hammer.readers import Trouble
from integration.hammer.sessions import APP, THIRD
from integration.hammer.tables import DATABASE, VERSIONED
from integration.hammer.writers import Tracked
from integration.servers.mysql_server import Server
from upwell.client import Client
from upwell.errors import UpwellError

USER = "proxy"
AFTER = 1.0  # seconds after an outage during which a read may be begun that fails
PATIENCE = 3.0  # seconds to look for a connection to kill
RECOVERY = 60.0  # seconds that the proxy may take to follow again
LOOK = 0.02
NO_SUCH_THREAD = 1094
# Tables of the sample that a column is added to, and of ours. Only `heads` is read by SELECT *, its version last.
ALTERED = tuple(
    (f"{SAMPLE}.{table}", "LAST") for table in ("stories", "votes", "comments", "taggings", "users")
) + tuple((f"{DATABASE}.{table}", "FIRST") for table in ("heads", "pieces", "shown", "hidden", "tokens"))


@dataclass
class Scene:
    """What a disturbance acts on. `log`: what was done, with the seconds since the start."""

    server: Server
    proxy: ProxyProcess
    client: Client
    history: History
    rng: random.Random
    trouble: Trouble
    findings: list[Finding]
    tally: Counter[str]
    ahead: bool = True  # whether the proxy holds keys ahead of its position
    brief: bool = False  # nothing may take ten seconds only because MySQL does
    log: list[str] = field(default_factory=list)
    started: float = field(default_factory=monotonic)
    pause: threading.Event = field(default_factory=threading.Event)

    def note(self, what: str) -> None:
        self.log.append(f"{monotonic() - self.started:7.2f} s  {what}")

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Reads may fail from here until a while after; ends when the proxy follows the stream again."""
        self.trouble.until = float("inf")
        yield
        self.until(self.follows, "the proxy follows MySQL again", RECOVERY)
        self.trouble.until = monotonic() + AFTER

    def follows(self) -> bool:
        try:
            return self.client.status().source_up
        except UpwellError:
            return False

    def until(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        """Raises TimeoutError."""
        deadline = monotonic() + seconds
        while not condition():
            if monotonic() > deadline:
                raise TimeoutError(f"not within {seconds:.0f} s: {what}")
            self.pause.wait(LOOK)

    def kill(self, which: str, user: str = USER) -> int:
        """Kills an account's connections (the proxy's own) by a condition on the processlist; how many."""
        rows = self.server.execute(
            f"SELECT id, command FROM information_schema.processlist WHERE user = '{user}' AND {which}"
        )
        killed = 0
        for number, _ in rows:
            try:
                self.server.execute(f"KILL {number}")
                killed += 1
            except pymysql.MySQLError as error:
                if error.args[0] != NO_SUCH_THREAD:
                    raise
        return killed


def kill_upqueries(scene: Scene) -> None:
    """Connections that run a statement at this moment; of a few milliseconds each, so several looks are needed."""
    deadline, killed = monotonic() + PATIENCE, 0
    with scene.outage():
        while killed < 2 and monotonic() < deadline:
            killed += scene.kill("command NOT LIKE 'Binlog Dump%' AND info IS NOT NULL")
    scene.tally["upqueries killed"] += killed


def kill_idle(scene: Scene) -> None:
    """All of its connections but the stream's: the next upquery of each finds a dead socket."""
    with scene.outage():
        scene.tally["connections killed"] += scene.kill("command NOT LIKE 'Binlog Dump%'")


def kill_stream(scene: Scene) -> None:
    with scene.outage():
        scene.tally["streams killed"] += scene.kill("command LIKE 'Binlog Dump%'")


def kill_all(scene: Scene) -> None:
    with scene.outage():
        scene.tally["connections killed"] += scene.kill("TRUE")


def kill_sessions(scene: Scene) -> None:
    """Connections of the listener's clients: some of them, or all of one account."""
    with scene.outage():
        which = scene.rng.choice(("TRUE", "id % 2", "command = 'Sleep'", "command = 'Query'"))
        scene.tally["sessions killed"] += scene.kill(which, APP) + scene.kill(which, THIRD)


def rotate(scene: Scene) -> None:
    scene.server.execute(*["FLUSH BINARY LOGS"] * scene.rng.randint(1, 3))
    scene.tally["binlogs rotated"] += 1


def flush_tables(scene: Scene) -> None:
    scene.server.execute("FLUSH TABLES")
    scene.server.execute("FLUSH TABLES WITH READ LOCK", "SELECT SLEEP(0.05)", "UNLOCK TABLES")
    scene.tally["tables flushed"] += 1


def purge(scene: Scene) -> None:
    """While the proxy follows: it loses nothing."""
    (*_, newest) = scene.server.execute("FLUSH BINARY LOGS", "SHOW BINARY LOGS")
    scene.server.execute(f"PURGE BINARY LOGS TO '{newest[0]}'")
    scene.tally["binlogs purged"] += 1


def without_stream(scene: Scene, do: Callable[[], None]) -> None:
    """Does something while the proxy is not allowed to read the binlog."""
    rights = "REPLICATION SLAVE, REPLICATION CLIENT ON *.*"
    scene.server.execute(f"REVOKE {rights} FROM {USER}@'%'")
    try:
        scene.until(lambda: scene.kill("command LIKE 'Binlog Dump%'") == 0, "the stream is cut", PATIENCE)
        scene.note("  the stream is cut")
        do()
        scene.note("  and let in again")
    finally:
        scene.server.execute(f"GRANT {rights} TO {USER}@'%'")


def purge_what_is_needed(scene: Scene) -> None:
    """What the proxy has not read is gone, so everything held must become a hole."""

    def write_and_purge() -> None:
        scene.server.execute(f"UPDATE {SAMPLE}.users SET karma = karma + 1")
        purge(scene)

    with scene.outage():
        without_stream(scene, write_and_purge)
    scene.tally["binlogs purged unread"] += 1


def restart_clean(scene: Scene) -> None:
    with scene.outage():
        if scene.brief:  # MySQL shuts down ten seconds later if anybody reads its binlog
            without_stream(scene, scene.server.restart)
        else:
            scene.server.restart()
    scene.tally["clean restarts"] += 1


def restart_after_crash(scene: Scene) -> None:
    with scene.outage():
        scene.server.kill()
        scene.server.start()
    scene.tally["crashes"] += 1


def alter(scene: Scene) -> None:
    """A column comes and goes: caches of the table are planned anew, twice."""
    table, place = scene.rng.choice(ALTERED)
    where = " FIRST" if place == "FIRST" else ""
    scene.server.execute(f"ALTER TABLE {table} ADD COLUMN hammered INT DEFAULT 7{where}")
    scene.pause.wait(scene.rng.random() * 0.3)
    scene.server.execute(f"ALTER TABLE {table} DROP COLUMN hammered")
    scene.note(f"  on {table}")
    scene.tally["DDL"] += 2


def swap(scene: Scene) -> None:
    """Two tables change names in one statement, a few times."""
    tracked = Tracked(scene.server)
    for _ in range(scene.rng.randint(1, 4)):
        version = scene.history.begin(SWAPS, scene.history.last(SWAPS))
        scene.history.committing(SWAPS, version)
        tracked.run("RENAME TABLE shown TO aside, hidden TO shown, aside TO hidden")
        scene.history.committed(SWAPS, version, tracked.gtid())
        scene.pause.wait(scene.rng.random() * 0.1)
        scene.tally["DDL"] += 1
    tracked.close()


def big_transaction(scene: Scene) -> None:
    """Thousands of changes at once."""
    table, change = scene.rng.choice(
        (
            ("votes", "vote = 1 - vote WHERE id % 2"),
            ("comments", "upvotes = upvotes + 1"),
            ("stories", "hotness = hotness + 0.25, downvotes = downvotes + 1"),
        )
    )
    scene.server.execute(f"UPDATE {SAMPLE}.{table} SET {change}")
    scene.tally["big transactions"] += 1


def stall(scene: Scene) -> None:
    """The proxy stands still while others write, and then has to catch up."""
    os.kill(scene.proxy.pid, signal.SIGSTOP)
    scene.pause.wait(0.2 + scene.rng.random() * 0.4)
    os.kill(scene.proxy.pid, signal.SIGCONT)
    scene.tally["stalls"] += 1


def restart_proxy(scene: Scene) -> None:
    """The proxy ends, or is killed, and another process takes up its snapshot while others write."""
    with scene.outage():
        if scene.rng.random() < 0.5:
            scene.proxy.kill()
        else:
            scene.proxy.stop()
        scene.pause.wait(scene.rng.random())
        scene.proxy.again()
    scene.tally.pop(MUST_COUNT, None)  # the process that had counted them is no more
    scene.tally["restarts of the proxy"] += 1


def take_over(scene: Scene) -> None:
    """Another process takes over while others read and write. Only who has a session that stays longer than the old
    process may notice."""
    before = scene.proxy.succeed()
    scene.trouble.until = float("inf")
    before.wait()
    scene.trouble.until = monotonic() + AFTER
    scene.until(scene.follows, "the proxy follows MySQL", RECOVERY)
    scene.tally.pop(MUST_COUNT, None)  # the process that had counted them is no more
    scene.tally["takeovers"] += 1


def recreate(scene: Scene) -> None:
    """A cache is dropped and made again."""
    name = scene.rng.choice(list(VERSIONED))
    scene.trouble.remade = name
    scene.client.drop_cache(name)
    scene.client.create_cache(VERSIONED[name].sql, name=name, database=DATABASE)
    scene.tally["caches made anew"] += 1


def recreate_by_sql(scene: Scene) -> None:
    """The same over MySQL's protocol."""
    name = scene.rng.choice(list(VERSIONED))
    scene.trouble.remade = name
    port = scene.proxy.mysql_port
    with pymysql.connect(host="127.0.0.1", port=port, user=USER, database=DATABASE) as connection:
        cursor = connection.cursor()
        cursor.execute(f"DROP CACHE {name}")
        cursor.execute(f"CREATE CACHE {name} FROM {VERSIONED[name].sql}")
    scene.tally["caches made anew"] += 1


def show_late(scene: Scene) -> None:
    """Commits that the stream tells of and MySQL shows some milliseconds later: it waits for the word of a replica that
    is not there, for each commit that is the first after this is switched on."""
    if not scene.server.execute("SELECT 1 FROM information_schema.plugins WHERE plugin_name = 'rpl_semi_sync_source'"):
        return
    for _ in range(scene.rng.randint(5, 20)):
        show_commits_late(scene.server)
        scene.pause.wait(LOOK)
        scene.tally["commits shown late"] += 1
    show_commits_at_once(scene.server)


def show_commits_late(server: Server) -> None:
    """The next commit is shown late, where the server can do that."""
    server.execute(*(f"SET GLOBAL rpl_semi_sync_source_enabled = {how}" for how in ("OFF", "ON")))


def show_commits_at_once(server: Server) -> None:
    server.execute("SET GLOBAL rpl_semi_sync_source_enabled = OFF")


DISTURBANCES: tuple[Callable[[Scene], None], ...] = (
    kill_upqueries, kill_idle, kill_stream, kill_all, rotate, flush_tables, purge, purge_what_is_needed, restart_clean,
    restart_after_crash, alter, alter, swap, swap, big_transaction, stall, restart_proxy, take_over, recreate,
    recreate_by_sql, kill_sessions, kill_sessions, show_late, show_late,
)  # fmt: skip


def lap(scene: Scene, between: float, over: Callable[[], bool]) -> None:
    """Each disturbance once, with `between` seconds of load before each; ends early where `over` says so."""
    for disturb in scene.rng.sample(DISTURBANCES, len(DISTURBANCES)):
        scene.pause.wait(between * scene.rng.uniform(0.5, 1.5))
        if over():
            return
        scene.note(disturb.__name__)
        disturb(scene)
