"""Random scripts of one to four sessions, played in lock step at MySQL and through the proxy, on twin databases.

`integration/session_pairs.py` says what is compared, `integration/session_steps.py` has what sessions do.

    make sessions SECONDS=600 SEED=7

A finding is made small and printed, with its seed. The seeds of a run follow each other.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic

from integration.mysql_server import Server
from integration.private_mysql import NoMySQL, find_mysql
from integration.proxy_thread import proxy_in_thread
from integration.session_pairs import LOCKING, EndedBoth, Script, Step, World, Wrong
from integration.session_steps import (
    ASKING,
    BOUND,
    CACHES,
    GONE,
    IDS,
    KINDS_OF_TRANSACTION,
    LEVELS,
    READS,
    STATE,
    TABLES,
    TRANSACTIONS,
    WRITES,
)
from proxy.mysql.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_MULTI_STATEMENTS,
    CLIENT_QUERY_ATTRIBUTES,
    CLIENT_SESSION_TRACK,
    OK,
)

KINDS = (
    *(0, CLIENT_SESSION_TRACK, CLIENT_DEPRECATE_EOF, CLIENT_DEPRECATE_EOF | CLIENT_SESSION_TRACK),
    CLIENT_DEPRECATE_EOF | CLIENT_QUERY_ATTRIBUTES,
)
CALM = ("BEGIN", "COMMIT", *WRITES[:6])
"""Of this the first session alone writes: the transactions of the others last."""


def drawn(seed: int) -> Script:
    """The script of a seed. One session has any state; several have transactions, whose levels are known."""
    rng = random.Random(seed)
    capabilities = rng.choice(KINDS) | CLIENT_MULTI_STATEMENTS
    count = rng.choice((1, 2, 2, 3, 4))
    hiding = tuple(step for step in STATE if "TEMPORARY" in step or "hides" in step or " x " in step)
    pools = [TRANSACTIONS, TRANSACTIONS + WRITES, TRANSACTIONS + KINDS_OF_TRANSACTION, WRITES + hiding]
    if count > 1:
        pools += [CALM] * 3
    else:
        pools += [WRITES, STATE, hiding, TRANSACTIONS + WRITES + STATE + KINDS_OF_TRANSACTION]
    pool = rng.choice(pools)
    if count > 1 and pool is not CALM:
        pool = tuple(step for step in pool if "UNCOMMITTED" not in step)
    known = count > 1 and KINDS_OF_TRANSACTION[0] not in pool
    levels = tuple(rng.choice((*LEVELS, "REPEATABLE READ")) if known else "" for _ in range(count))
    focus = [*rng.sample(pool, min(len(pool), rng.choice((8, 15, 40)))), "BEGIN", "BEGIN", "COMMIT", "ROLLBACK"]
    if rng.random() < 0.2:
        focus += ASKING * 2
    if pool is CALM:
        focus = list(CALM)
    elif count > 1:
        focus += rng.sample(WRITES[:8], 3)
    hot = rng.sample(READS, 5)
    steps: list[Step] = [(who, read) for who in range(count) for read in hot * 2]
    for _ in range(rng.choice((15, 30, 45))):
        who, chance = rng.randrange(count), rng.random()
        if chance < 0.1:
            steps.append((who, f"!prepare {rng.choice((*hot, *BOUND))}"))
        elif chance < 0.25:
            steps.append((who, f"!execute {rng.randrange(100)} {rng.choice(IDS)}"))
        else:
            step = rng.choice(focus)
            steps.append((0 if pool is CALM and step in WRITES else who, step))
        if steps[-1][1].startswith(LOCKING):
            steps += [(who, rng.choice(hot)), (who, rng.choice(focus)), (who, "UNLOCK TABLES")]
        steps += [(rng.choice((who, rng.randrange(count))), rng.choice(hot)) for _ in range(rng.randrange(4))]
    if not capabilities & CLIENT_DEPRECATE_EOF:  # to them MySQL tells of what a view has written with its next OK
        steps = [(who, step) for who, step in steps if step != "SELECT x FROM wv"]
    return Script(seed, capabilities, levels, tuple(steps))


def differs(world: World, script: Script) -> str:
    """What is wrong in it; "" if nothing is."""
    with suppress(EndedBoth):
        try:
            world.play(script)
        except Wrong as wrong:
            return str(wrong)
    return ""


def smaller(world: World, script: Script, seconds: float) -> Script:
    """Fewer steps that still show it."""
    end, steps = monotonic() + seconds, script.steps
    for size in (30, 10, 3, 1):
        for at in range(len(steps) - size, -1, -size):
            fewer = steps[:at] + steps[at + size :]
            if monotonic() < end and differs(world, replace(script, steps=fewer)):
                steps = fewer
    return replace(script, steps=steps)


@contextmanager
def world_beside(mysql: Server, name: str, state: Path) -> Iterator[World]:
    names = (f"{name}_directl", f"{name}_through")  # as long as each other
    for one in names:
        mysql.execute(f"CREATE DATABASE {one}2", f"USE {one}2", *TABLES[:2], "UPDATE t SET s = 'other'")
        mysql.execute(f"CREATE DATABASE {one}", f"USE {one}", *TABLES)
    try:
        with proxy_in_thread(mysql, names[1], state, own_writes_wait="10s") as beside:
            with beside.client() as client:
                for query in CACHES:
                    assert client.query(f"CREATE CACHE FROM {query}")[4] == OK, client.transcript[-1]
            world = World(beside, names)
            yield world
            world.watcher.close()
    finally:
        for one in names:
            mysql.execute(*(statement.format(db=one) for statement in GONE))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one", action="store_true", help="the script of this seed only")
    options = parser.parse_args(arguments)
    try:
        server = find_mysql(os.environ.get("UPSTREAM_TEST"), report=lambda _: None)
    except NoMySQL as error:
        print(error, file=sys.stderr)
        return 3
    found = played = 0
    with (
        server,
        tempfile.TemporaryDirectory() as state,
        world_beside(server, f"t{os.getpid()}_s", Path(state)) as world,
    ):
        end = monotonic() + options.seconds
        while monotonic() < end and not (options.one and played):
            script = drawn(options.seed + played)
            played += 1
            wrong = differs(world, script)
            if wrong:
                found += 1
                print(f"seed {script.seed}: {wrong}", flush=True)
                small = smaller(world, script, 60)
                print(f"{small}\n{differs(world, small) or 'differed once only'}\n", flush=True)
    for name, count in world.counts.most_common():
        print(f"{count:>9,}  {name}")
    print(f"{played} scripts, {found or 'nothing'} differed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
