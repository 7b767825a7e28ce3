"""Rules of the listener for MySQL's protocol switched off, one at a time: the hammer's sessions must find out, or they
do not look. And with all of them on they find nothing."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from gtid_tracker.gtid import GtidSet
from integration.hammer.disturb import show_commits_at_once, show_commits_late
from integration.hammer.judge import BACK, MIX, STALE, SWAPS, Finding, History
from integration.hammer.readers import Trouble
from integration.hammer.run import BRIEF, LATE, make_versioned_caches, prepare
from integration.hammer.session_judge import LOCKED, NOT_COUNTED, RIGHTS
from integration.hammer.session_writers import OwnWriter, RightsChanger
from integration.hammer.sessions import (
    AutocommitReader,
    CommittedReader,
    Common,
    TransactionReader,
    not_counted,
)
from integration.hammer.tables import DATABASE, GROUPS
from integration.hammer.writers import VersionWriter, Worker
from integration.servers.mysql_server import Server
from integration.servers.private_mysql import find_mysql
from integration.support.proxy_thread import Beside, proxy_in_thread
from proxy.mysql.reads import gate
from proxy.mysql.reads.grants import Grants
from proxy.mysql.reads.shown import Shown
from proxy.mysql.session import cached_reads, own_transactions
from proxy.mysql.session.cached_reads import CachedReads
from proxy.mysql.session.own_transactions import Bounds
from proxy.mysql.session.pass_through import PassThrough
from proxy.mysql.session.quick_path import QuickPath
from proxy.mysql.session.session_context import SessionContext
from proxy.mysql.session.upstream import Upstream
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.state.transaction_state import TransactionState
from proxy.port.accounts import Accounts
from proxy.read.open_cache import OpenCache
from upwell.client import Client

LONGEST = 400.0  # seconds within which a fault must have been found; alone on a machine it takes some
HELD = (0.01, 0.12)  # seconds that the stream is not looked at, at random: less than is waited for, and more
LET_GO = 0.02  # seconds that it is, in between
LOOK = 0.02
ENOUGH = 250  # answers of each kind, where nothing is to be found
WRITERS = 2
AT_ONCE: dict[object, int] = {AutocommitReader: 3, TransactionReader: 4}
pytestmark = pytest.mark.timeout(1.5 * LONGEST)
Patch = Callable[[pytest.MonkeyPatch], None]
Kind = type[AutocommitReader | CommittedReader | OwnWriter | RightsChanger | TransactionReader]


@dataclass
class Field:
    """A running MySQL with the hammer's tables, and what was written to them until now."""

    server: Server
    history: History
    findings: list[Finding] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)


@pytest.fixture(scope="module")
def ground() -> Iterator[tuple[Server, History]]:
    with find_mysql(extra_flags=LATE, report=lambda line: None) as server:
        prepare(server, BRIEF)
        yield server, History([*range(GROUPS), SWAPS])


# -- faults ------------------------------------------------------------------------------------------------------------


def own_writes_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gate, "lacks_own_writes", lambda state, around: False)


def rights_are_asked_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Accounts, "version", property(lambda self: 0, _nothing), raising=False)
    note = Grants.note

    def noted(grants: Grants, *told: Any, allowed: bool) -> None:
        if allowed:  # who was refused once would be refused ever after
            note(grants, *told, allowed=allowed)

    patch.setattr(Grants, "note", noted)


def roles_do_not_count(patch: pytest.MonkeyPatch) -> None:
    learn = SessionState.learn

    def learned(state: SessionState, *told: Any) -> None:
        learn(state, *told)
        state.identity = state.account

    patch.setattr(SessionState, "learn", learned)


def what_was_shown_may_change(patch: pytest.MonkeyPatch) -> None:
    def holds(shown: Shown, sequence: int, position: str) -> bool:
        shown.sequence, shown.position = sequence, position
        return True

    patch.setattr(Shown, "holds", holds)


def what_was_shown_is_not_shown_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shown, "again", lambda self, *asked: None)
    patch.setattr(CachedReads, "says_again", lambda self, *asked: False)


def what_has_changed_since_is_a_hit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OpenCache, "peek_since", lambda cache, parameters, sequence: cache.peek(parameters))


def what_mysql_has_answered_does_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SessionState, "passed", property(lambda self: False, _nothing))


def a_snapshot_at_mysql_does_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionState, "touched", property(lambda self: False, _nothing))


def locks_do_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionState, "wrote", property(lambda self: False, _nothing))


def quick_hits_go_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QuickPath, "invalidate", lambda self: self.hot.clear())
    patch.setattr(QuickPath, "close", lambda self: self.hot.clear())


class Kept(dict[bytes, Any]):
    def clear(self) -> None:
        pass


def hot_executions_go_on(patch: pytest.MonkeyPatch) -> None:
    make = QuickPath.__init__

    def made(quick: QuickPath, context: SessionContext, ends: Bounds) -> None:
        make(quick, context, ends)
        quick.hot = Kept()

    patch.setattr(QuickPath, "__init__", made)


def what_misses_have_shown_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CachedReads, "_note_shown", _nothing)


def what_misses_have_shown_is_forgotten_after_a_while(patch: pytest.MonkeyPatch) -> None:
    # In autocommit this does no harm: the read is MySQL's then, and what MySQL may have shown is asked of it anew.
    async def forget(upstream: Upstream) -> None:
        upstream.state.shown = GtidSet.empty()

    patch.setattr(cached_reads, "forget_lost", forget)


def mysql_is_not_made_to_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PassThrough, "_before", _nothing)


def mysql_is_not_told_of_ends(patch: pytest.MonkeyPatch) -> None:
    """So its snapshot outlives the transaction."""
    patch.setattr(own_transactions, "ends_here", lambda state: state.known and state.tells)


def mixtures_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Upstream, "compare_shown", _nothing)


def _nothing(*arguments: Any, **named: Any) -> None:
    pass


FAULTS: tuple[tuple[Patch, Kind, str], ...] = (  # who finds it, as what
    (own_writes_are_not_waited_for, OwnWriter, STALE),
    (rights_are_asked_once, RightsChanger, RIGHTS),
    (roles_do_not_count, RightsChanger, RIGHTS),
    (what_was_shown_may_change, TransactionReader, MIX),
    (what_was_shown_is_not_shown_again, TransactionReader, MIX),
    (what_has_changed_since_is_a_hit, TransactionReader, MIX),
    (what_mysql_has_answered_does_not_count, TransactionReader, BACK),
    (a_snapshot_at_mysql_does_not_count, TransactionReader, MIX),
    (locks_do_not_count, CommittedReader, LOCKED),
    (quick_hits_go_on, OwnWriter, STALE),
    (quick_hits_go_on, RightsChanger, RIGHTS),
    (hot_executions_go_on, OwnWriter, STALE),
    (what_misses_have_shown_is_forgotten, AutocommitReader, BACK),
    (what_misses_have_shown_is_forgotten_after_a_while, TransactionReader, BACK),
    (mysql_is_not_made_to_wait, AutocommitReader, BACK),
    (mysql_is_not_told_of_ends, TransactionReader, STALE),
    (mixtures_are_not_counted, TransactionReader, NOT_COUNTED),
)


# -- runs --------------------------------------------------------------------------------------------------------------


@contextmanager
def stuttering(beside: Beside) -> Iterator[None]:
    """The proxy looks at its stream for some moments only, so that what is not fresh shows."""
    ended, rng = threading.Event(), random.Random(1)
    stream = beside.proxy.binlog

    def look(on: bool) -> None:
        reader = stream._reader
        if reader is not None:
            socket = reader._socket.fileno()
            beside.loop.add_reader(socket, reader._on_readable) if on else beside.loop.remove_reader(socket)

    def stutter() -> None:
        while not ended.is_set():
            beside.call(lambda: look(False))
            ended.wait(rng.choice(HELD))
            beside.call(lambda: look(True))
            ended.wait(LET_GO)

    thread = threading.Thread(target=stutter)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Latecomer(Worker):
    """Now and then MySQL shows a commit later than the stream has brought it."""

    def __init__(self, ground: Field) -> None:
        super().__init__("late", ground.findings, ground.tally)
        self._server = ground.server

    def step(self) -> None:
        show_commits_late(self._server)
        self.stop.wait(LOOK)

    def close(self) -> None:
        show_commits_at_once(self._server)


def work(ground: Field, beside: Beside, kinds: list[Kind], over: Callable[[], bool]) -> None:
    """Has writers write and these sessions read, until it is over or something is found."""
    common = Common(ground.server, beside.port, ground.history, Trouble(), ground.findings, ground.tally)
    workers: list[Worker] = [
        VersionWriter(ground.server, ground.history, number, "mutants", ground.findings, ground.tally)
        for number in range(WRITERS)
    ]
    for number, kind in enumerate(kinds):
        seed = (0, "mutants") if kind is OwnWriter else (f"mutants {number}",)
        workers.append(kind(common, *seed, eof=number % 2 == 0))
    workers.append(Latecomer(ground))
    for worker in workers:
        worker.start()
    pause, deadline = threading.Event(), monotonic() + LONGEST
    while not (ground.findings or over() or monotonic() > deadline):
        pause.wait(LOOK)
    for worker in workers:
        worker.stop.set()
    for worker in workers:
        worker.join(LONGEST)


ALSO_SHOWN_BY = {MIX: BACK}
"""What mixes two states shows the older one behind the newer, if a read of the newer one came first."""


@contextmanager
def hammered(
    server: Server, history: History, state: Path, *, late: bool = True
) -> Iterator[tuple[Field, Beside, Client]]:
    """A proxy with little memory, and the caches of the hammer. `late`: its stream is, now and then."""
    with (
        proxy_in_thread(server, DATABASE, state, memory_limit="1MiB") as beside,
        Client(f"127.0.0.1:{beside.proxy.app.grpc_port}", token=beside.proxy.app.grpc_token) as client,
        stuttering(beside) if late else nullcontext(),
    ):
        make_versioned_caches(client)
        yield Field(server, history), beside, client


@pytest.mark.parametrize(("fault", "kind", "wanted"), FAULTS, ids=lambda item: getattr(item, "__name__", item))
def test_a_fault_is_found(
    ground: tuple[Server, History],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Patch,
    kind: Kind,
    wanted: str,
) -> None:
    fault(monkeypatch)
    # Only a stream that is in time is ahead of what MySQL shows.
    with hammered(*ground, tmp_path, late=fault is not mysql_is_not_made_to_wait) as (field, beside, client):

        def uncounted() -> bool:
            found = not_counted(field.tally, client.status().counters["mixed_snapshots"])
            field.findings += found
            return bool(found)

        work(field, beside, [kind] * AT_ONCE.get(kind, 1), uncounted if wanted == NOT_COUNTED else lambda: False)
    print(field.tally, *field.findings, sep="\n")
    assert {wanted, ALSO_SHOWN_BY.get(wanted, wanted)} & {finding.kind for finding in field.findings}


def test_without_a_fault_nothing_is_found(ground: tuple[Server, History], tmp_path: Path) -> None:
    kinds = list(dict.fromkeys(kind for _, kind, _ in FAULTS))
    with hammered(*ground, tmp_path) as (field, beside, client):
        work(field, beside, kinds, lambda: min(field.tally[f"{kind.kind} answers"] for kind in kinds) > ENOUGH)
        counted = client.status().counters["mixed_snapshots"]
    print(field.tally, *field.findings, sep="\n")
    assert not field.findings + not_counted(field.tally, counted)
    assert all(field.tally[f"{kind.kind} hit"] for kind in kinds)
