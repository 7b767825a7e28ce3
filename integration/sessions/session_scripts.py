"""Random scripts of one to four sessions, played in lock step at MySQL and through the proxy, on twin databases.

`integration/sessions/session_pairs.py` says what is compared, `integration/sessions/session_steps.py` has what sessions
do.

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

from integration.servers.mysql_server import Server
from integration.servers.private_mysql import NoMySQL, find_mysql
from integration.sessions.session_pairs import LOCKING, EndedBoth, Script, Step, World, Wrong
from integration.sessions.session_steps import (
    ASKING,
    BOUND,
    BOUND_STEPS,
    CACHES,
    COMMANDS,
    DDL,
    GLOBALS,
    GONE,
    IDS,
    KINDS_OF_TRANSACTION,
    LEVELS,
    OF_ROLES,
    READS,
    RIGHTS,
    STATE,
    TABLES,
    TRANSACTIONS,
    WRITES,
    XA,
)
from integration.support.proxy_thread import proxy_in_thread
from proxy.mysql.wire.packets import (
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
CLIENT_FOUND_ROWS = 2
AGAIN = 3  # plays of a script that has differed
CALM = ("BEGIN", "COMMIT", *WRITES[:6])
"""Of this the first session alone writes: the transactions of the others last."""


def drawn(seed: int) -> Script:
    """The script of a seed. Each third is one of `drawn_of_others`.

    In the others one session has any state; several have transactions, whose levels are known."""
    if seed % 3 == 0:
        return drawn_of_others(seed)
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
    return Script(seed, capabilities, levels, told_of(steps, capabilities, levels))


def told_of(steps: Sequence[Step], capabilities: int, levels: Sequence[str]) -> tuple[Step, ...]:
    """Those after which MySQL tells the state of the transaction: in REPEATABLE READ the judge must know where one
    begins. Not so behind rows that end with an error. And clients with EOF packets are told of what a function has
    written with the next OK packet only: of a view's functions the proxy knows nothing then."""
    eof = not capabilities & CLIENT_DEPRECATE_EOF

    def told(who: int, step: str) -> bool:
        repeatable = levels[who] == "REPEATABLE READ"
        return not (eof and ("FROM wv" in step or ("written()" in step and repeatable))) and not (
            repeatable and "unwritten()" in step
        )

    return tuple((who, step) for who, step in steps if told(who, step))


def drawn_of_others(seed: int) -> Script:
    """The script of a seed, of what `drawn` has none of: the protocol's commands, several of them sent ahead, tables
    that change, rights, what sessions begin with, XA transactions in two phases."""
    rng = random.Random(seed)
    capabilities = (
        rng.choice((*KINDS, 0)) | rng.choice((0, CLIENT_FOUND_ROWS)) | rng.choice((0, CLIENT_MULTI_STATEMENTS))
    )
    kind = rng.choice(("commands", "commands", "ahead", "ahead", "ddl", "ddl", "rights", "globals", "xa"))
    count = {"commands": rng.choice((1, 1, 2)), "rights": rng.choice((2, 3))}.get(kind, rng.choice((1, 2)))
    pool = {
        "commands": (*COMMANDS, *WRITES[:6], *TRANSACTIONS[:8]),
        "ahead": (*COMMANDS, *WRITES, *TRANSACTIONS, *STATE[:12]),
        "ddl": (*DDL, *WRITES[:8], *TRANSACTIONS[:8]),
        "rights": (*RIGHTS, *WRITES[:3]),
        "globals": (*GLOBALS, *("!reset", "!change root", "!change {db}u") * 5, *WRITES[:4], *TRANSACTIONS[:4]),
        "xa": XA * 3 + WRITES[:4],
    }[kind]
    pool = tuple(step for step in pool if not step.startswith(LOCKING))
    if kind != "commands":
        pool = tuple(step for step in pool if not step.startswith("HANDLER"))
    several = kind == "globals"  # and the level may be another one after each
    levels = tuple("" if count == 1 or several else rng.choice(LEVELS[:2]) for _ in range(count))
    if count > 1:
        pool = tuple(step for step in pool if not step.startswith("PREPARE pr FROM 'SET"))
    if count > 1 and several:
        count, levels = 1, ("",)
    focus = rng.sample(pool, min(len(pool), rng.choice((10, 20, 60))))
    hot = rng.sample(READS, 4)
    steps: list[Step] = [(who, f"!prepare {text}") for who in range(count) for text in (rng.choice(BOUND), hot[0])]
    if kind == "rights":
        steps = [(who, "!change {db}u") for who in range(1, count)] + steps
    steps += [(who, read) for who in range(count) for read in hot * 2]

    def one(who: int) -> str:
        if rng.random() < (0.5 if kind in ("commands", "ahead") else 0.2):
            word = rng.choice(BOUND_STEPS if kind != "ddl" else ("!execute", "!word"))
            return f"{word} {rng.randrange(3)} {rng.choice(IDS)}"
        if kind == "rights" and who:
            return rng.choice((*OF_ROLES, *hot * 2))
        return rng.choice(focus)

    for _ in range(rng.choice((15, 30, 45))):
        who = rng.randrange(count)
        if kind == "ahead" and rng.random() < 0.5:
            ahead = [rng.choice((one(who), *hot)) for _ in range(rng.randrange(2, 7))]
            ahead = [each for each in ahead if not each.startswith("!change")] or hot  # it goes on in turns
            steps.append((who, "!ahead " + " | ".join(ahead)))
        else:
            steps.append((who, one(who)))
        if rng.random() < 0.1:
            steps.append((who, f"!prepare {rng.choice((*hot, *BOUND))}"))
        steps += [(rng.choice((who, rng.randrange(count))), rng.choice(hot)) for _ in range(rng.randrange(4))]
    return Script(seed, capabilities, levels, told_of(steps, capabilities, levels))


def differs(world: World, script: Script) -> str:
    """What is wrong in it; "" if nothing is."""
    with suppress(EndedBoth):
        try:
            world.play(script)
        except Wrong as wrong:
            return str(wrong)
    return ""


def shows(world: World, script: Script, often: int) -> bool:
    """Whether it differs so often in `AGAIN` plays: by chance is not enough."""
    seen = 0
    for left in range(AGAIN, 0, -1):
        seen += differs(world, script) != ""
        if seen >= often or seen + left - 1 < often:
            break
    return seen >= often


def smaller(world: World, script: Script, often: int, seconds: float) -> Script:
    """Fewer steps that still show it, as often."""
    end, steps = monotonic() + seconds, script.steps
    for size in (30, 10, 3, 1):
        for at in range(len(steps) - size, -1, -size):
            fewer = steps[:at] + steps[at + size :]
            if monotonic() < end and shows(world, replace(script, steps=fewer), often):
                steps = fewer
    return replace(script, steps=steps)


def shown_small(world: World, script: Script) -> str:
    """A finding, as it is printed."""
    often = sum(differs(world, script) != "" for _ in range(AGAIN))
    if not often:
        return f"{script}\ndiffered once only"
    small = smaller(world, script, often, 60)
    last = next(filter(None, (differs(world, small) for _ in range(3 * AGAIN))), "differed no more")
    return f"{small}\n{last}\n{often} of {AGAIN} times"


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
                print(f"{shown_small(world, script)}\n", flush=True)
    for name, count in world.counts.most_common():
        print(f"{count:>9,}  {name}")
    print(f"{played} scripts, {found or 'nothing'} differed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
