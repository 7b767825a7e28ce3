"""`make hammer`: a private MySQL, a proxy process beside it, and everything at once; green, or what went wrong.

Exit status: 0 nothing was found, 1 something was (printed with all that is known of it), 3 it could not be set up.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import pymysql

from examples.lobsters.cached import Made, create_caches
from examples.lobsters.data import Shape
from examples.lobsters.load import DATABASE as SAMPLE
from examples.lobsters.load import load
from examples.lobsters.proxy_process import ProxyFailed, ProxyProcess
from examples.lobsters.queries import CATALOGUE
from integration.hammer import own
from integration.hammer.disturb import USER, Scene, lap
from integration.hammer.judge import SWAPS, Finding, History
from integration.hammer.readers import Asked, Filler, FreshReader, Reader, SampleReader, Trouble, VersionReader, Visitor
from integration.hammer.rest import at_rest
from integration.hammer.session_writers import ROLE, OwnWriter, RightsChanger
from integration.hammer.sessions import (
    APP,
    THIRD,
    AutocommitReader,
    CommittedReader,
    Common,
    SessionWorker,
    TransactionReader,
    not_counted,
)
from integration.hammer.tables import DATABASE, GROUPS, TABLES, VERSIONED, first_rows
from integration.hammer.writers import VersionWriter, Worker
from integration.servers.private_mysql import NoMySQL, Server, find_mysql
from upwell.client import Client
from upwell.errors import UpwellError

SHAPE = Shape("hammered", users=80, stories=400, comments=1_200, votes=6_000)
BRIEF = Shape("brief", users=30, stories=120, comments=300, votes=1_200)
MEMORY = ("1MiB", "3MiB", "6MiB", "24MiB")  # less than what is read, by much or by little; room for fills
WRITERS, READERS, FRESH_READERS, VISITORS, SAMPLE_READERS = 3, 2, 1, 2, 1
SESSIONS: tuple[Callable[..., SessionWorker], ...] = (
    AutocommitReader,
    AutocommitReader,
    TransactionReader,
    TransactionReader,
    CommittedReader,
)
BRIEF_SESSIONS: tuple[Callable[..., SessionWorker], ...] = (AutocommitReader, TransactionReader, CommittedReader)
LATE = ("--loose-plugin-load-add=semisync_source.so", "--loose-rpl-semi-sync-source-timeout=15")
METADATA = ("--binlog-row-metadata=FULL", "--binlog-row-metadata=MINIMAL")  # by seed; the second is MySQL's default
BETWEEN = 0.25  # seconds of load before each disturbance
STUCK = 60.0  # seconds in which a worker that was told to stop must end
DURABLE = ("--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1")  # else a transaction is on the stream sooner
SHOWN = 5  # findings that are printed
MORE_LAPS, MORE_SECONDS = 3, 15.0  # after the time is over, while not enough was seen: laps, and each one's load


@dataclass
class Result:
    """What a run found and did. `counters`: the proxy's, from its Status."""

    seed: int
    findings: list[Finding] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)
    counters: dict[str, int] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    proxy_log: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}"]
        lines += [f"  {count:>10,}  {name}" for name, count in sorted(self.tally.items())]
        lines += ["the proxy's counters"]
        lines += [f"  {count:>10,}  {name}" for name, count in sorted(self.counters.items())]
        lines += ["what was done", *self.log[-60:]]
        if self.findings:
            lines += ["the end of the proxy's log", *self.proxy_log[-15:]]
            lines += [f"{len(self.findings)} findings; the first:", *map(str, self.findings[:SHOWN])]
            lines += [f"again, though not in the same order in time: make hammer SEED={self.seed}"]
        else:
            lines += ["nothing was found"]
        return "\n".join(lines)


def hammer(
    seconds: float, seed: int, *, brief: bool = False, enough: Callable[[Counter[str]], bool] = lambda tally: True
) -> Result:
    """Laps until the time is over, at least one. `brief`: as little of everything as shows something. `enough`: whether
    the run has seen what it is to see; on a busy machine that can take `MORE_LAPS` further laps.

    In most runs no new cache is checked: what a check finds no client would get, and no reader here could judge it. In
    the others a check that finds a difference is a complaint of the proxy's log.

    Raises NoMySQL, ProxyFailed.
    """
    shape = BRIEF if brief else SHAPE
    result = Result(seed)
    rng = random.Random(seed)
    with ExitStack() as stack:
        flags = ["--max-binlog-size=262144", *LATE, *rng.choice([(), DURABLE]), METADATA[seed % 2]]
        server = stack.enter_context(find_mysql(extra_flags=flags, report=lambda line: None))
        prepare(server, shape)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="upwell-hammer-")))
        ahead = brief or rng.random() < 0.7
        checks = not brief and rng.random() < 0.3
        options = [
            "--check",
            f"--verify-new-caches={32 if checks else 'off'}",
            f"--ahead-fills={'on' if ahead else 'off'}",
            f"--memory-limit={MEMORY[0] if brief else rng.choice(MEMORY)}",
            "--snapshot=1s",
            "--takeover-drain=2s",
            "--log-json",
        ]
        upstream = server.url.replace("root@", f"{USER}@")
        proxy = ProxyProcess(upstream, folder, options=options, grpc_port=0, http_port=0, mysql_port=0)
        stack.callback(proxy.stop)
        client = stack.enter_context(proxy.wait_ready())
        history = History([*range(GROUPS), SWAPS])
        scene = Scene(server, proxy, client, history, rng, Trouble(), result.findings, result.tally, ahead, brief)
        scene.log = result.log
        made = make_caches(client)
        try:
            end = scene.started + seconds
            while not result.findings and wanted(result.tally, end, enough):
                until = end if monotonic() < end else monotonic() + MORE_SECONDS
                one_lap(scene, made, shape, f"{seed}.{result.tally['laps']}", until)
            status = client.status()
            result.counters = {"hits": status.hits, "misses": status.misses, "passed": status.passed}
            result.counters |= dict(status.counters)
            result.findings += not_counted(result.tally, result.counters["mixed_snapshots"])
        except (UpwellError, pymysql.MySQLError, TimeoutError, AssertionError) as error:
            result.findings.append(Finding("broken", f"{type(error).__name__}: {error}"))
        result.tally["versions committed"] = history.count()
        result.proxy_log = proxy.log.read_text(errors="replace").splitlines()
        result.findings += complaints(proxy, result.proxy_log)
    return result


def wanted(tally: Counter[str], end: float, enough: Callable[[Counter[str]], bool]) -> bool:
    """Whether one more lap is to be made."""
    laps = tally["laps"]
    return laps == 0 or monotonic() < end or (laps <= MORE_LAPS and not enough(tally))


def prepare(server: Server, shape: Shape) -> None:
    """The sample, the versioned tables, and the proxy's account."""
    load(server, shape)
    server.execute(f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *TABLES, *first_rows())
    server.execute(f"USE {DATABASE}", *own.TABLES, *own.first_rows())
    server.execute(f"CREATE USER {USER}@'%'", f"GRANT ALL ON *.* TO {USER}@'%'")
    server.execute(f"CREATE USER {APP}, {THIRD}", f"CREATE ROLE {ROLE}", f"GRANT SELECT ON {DATABASE}.heads TO {ROLE}")
    server.execute(f"GRANT ALL ON {DATABASE}.* TO {APP}")
    server.execute(f"GRANT INSERT ON {DATABASE}.own TO {THIRD}", f"GRANT {ROLE} TO {THIRD}")


def make_versioned_caches(client: Client) -> None:
    for name, versioned in VERSIONED.items():
        client.create_cache(versioned.sql, name=name, database=DATABASE)
    for name, sql in own.CACHES.items():
        client.create_cache(sql, name=name, database=DATABASE)


def make_caches(client: Client) -> Made:
    make_versioned_caches(client)
    return create_caches(client, CATALOGUE.values(), SAMPLE)


def one_lap(scene: Scene, made: Made, shape: Shape, seed: str, end: float) -> None:
    """Everything at once, then the comparison at rest. The first lap is whole; later ones end with the time."""
    asked, first = Asked(12 if scene.brief else 60), not scene.tally["laps"]
    target, number = scene.proxy.target, int(seed.split(".")[1])
    common = (scene.trouble, scene.findings, scene.tally)
    writers: list[Worker] = [
        VersionWriter(scene.server, scene.history, n, seed, scene.findings, scene.tally) for n in range(WRITERS)
    ]
    readers: list[Reader] = [
        VersionReader(target, scene.history, scene.ahead, f"{seed} {n}", *common) for n in range(READERS)
    ]
    readers += [
        FreshReader(target, scene.history, scene.ahead, f"{seed} fresh {n}", *common) for n in range(FRESH_READERS)
    ]
    readers.append(Filler(target, f"{seed} filler", *common))
    readers += [SampleReader(target, made, shape, number + n, asked, *common) for n in range(SAMPLE_READERS)]
    for n in range(VISITORS):
        place = 1 + number * VISITORS + n
        readers.append(Visitor(scene.server, target, made, shape, place, asked, *common))
    workers = [*writers, *readers, *sessions(scene, seed)]
    for worker in workers:
        worker.start()
    try:
        lap(
            scene,
            BETWEEN / 3 if scene.brief else BETWEEN,
            lambda: bool(scene.findings) or (not first and monotonic() > end),
        )
    finally:
        for worker in workers:
            worker.stop.set()
        for worker in workers:
            worker.join(STUCK)
    stuck = [worker.name for worker in workers if worker.is_alive()]
    if stuck:
        scene.findings.append(Finding("broken", f"still running {STUCK:.0f} s after they were told to stop: {stuck}"))
        return
    scene.note("at rest")
    at_rest(scene, made, asked)
    scene.note("compared")
    scene.tally["laps"] += 1


def sessions(scene: Scene, seed: str) -> list[SessionWorker]:
    """Who works over MySQL's protocol, in one of its dialects and the other by turns."""
    common = Common(scene.server, scene.proxy.mysql_port, scene.history, scene.trouble, scene.findings, scene.tally)
    kinds = BRIEF_SESSIONS if scene.brief else SESSIONS
    turn = scene.rng.randrange(2)
    made: list[SessionWorker] = [kind(common, f"{seed} {n}", eof=(n + turn) % 2 == 0) for n, kind in enumerate(kinds)]
    owners = range(1 if scene.brief else 2)
    made += [OwnWriter(common, owner, seed, eof=(owner + turn) % 2 == 0) for owner in owners]
    return [*made, RightsChanger(common, seed, eof=turn == 0)]


def complaints(proxy: ProxyProcess, log: Sequence[str]) -> list[Finding]:
    """Errors in the proxy's log, and its end."""
    found = []
    for line in log:
        try:
            entry = json.loads(line)
        except ValueError:  # not one of its own lines: a traceback, a warning of a library
            found.append(Finding("log", line))
            continue
        if entry.get("level") in ("error", "critical") and "purged" not in entry.get("reason", ""):
            found.append(Finding("log", line))
    status = proxy.wait(0)
    if status is not None:
        found.append(Finding("broken", f"the proxy ended with status {status}"))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m integration.hammer.run", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30, help="at least one lap is made")
    parser.add_argument("--seed", type=int, default=None, help="what is written, read and done, not when")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    try:
        result = hammer(options.seconds, seed)
    except (NoMySQL, ProxyFailed, OSError) as error:
        print(error, file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print(f"stopped; the seed was {seed}", file=sys.stderr)
        return 130
    print(result)
    return 1 if result.findings else 0


if __name__ == "__main__":
    sys.exit(main())
