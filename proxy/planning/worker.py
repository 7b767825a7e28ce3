"""The helper process that plans: jobs come in over a socket, plans go out. And what a job is.

Planning a text of 2,000 words takes a tenth of a second and more, and the loop must not stand still for it. The helper
has little memory and a little time on the processor for each job; where a job takes more, the helper ends, and
`proxy/planning/process.py` starts another.
"""

from __future__ import annotations

import decimal
import gc
import os
import pickle
import resource
import signal
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from io import BufferedRWPair

import structlog

import planner.api
from bulk.priority import stand_back
from dataflow.graph.graph import Graph
from dataflow.held.arrangement import Memory
from planner.api import Planned, TakesLong, planned_evict
from planner.session.session_needs import needs_of
from planner.text.fingerprint import Fingerprint, fingerprint, fingerprint_of, outline
from planner.tree.plan import Caution, QueryPlan
from sqltypes.errors import UnsupportedQuery, UpwellError
from sqltypes.generated import packed_codes, recording
from sqltypes.schema import Relation, SchemaSnapshot

LENGTH = struct.Struct("<I")  # before each message
READY = b"\1"
SHALLOW = 900  # calls: what the helper can build, the loop, which is some calls deep already, can build, too
NO_MEMORY = 3  # exit status

log = structlog.get_logger("upwell.planning")

Name = tuple[str, str]  # (schema, name)


@dataclass(frozen=True, slots=True)
class Evict:
    """A plan in evict mode is wanted, for this reason and with this caution."""

    why: str
    caution: Caution


@dataclass(frozen=True, slots=True)
class Job:
    """What to plan; `evict` is None where the planner is to choose the mode."""

    sql: str
    database: str
    snapshot: SchemaSnapshot
    evict: Evict | None = None


@dataclass(frozen=True, slots=True)
class Thought:
    """A plan, the session variables on which its answers depend, the fingerprint of its text and its outline. `codes`:
    what was generated for its reader, as `sqltypes.generated.learn` takes it; empty where no reader was built."""

    plan: QueryPlan
    needs: frozenset[str]
    fingerprint: Fingerprint
    outline: str
    codes: bytes = b""


@dataclass(frozen=True, slots=True)
class Request:
    """A job as it is sent. A relation is sent once: `new` has the pickled ones that the helper has not got yet, by
    their digests. With `forget`, the helper forgets all others first."""

    sql: str
    database: str
    evict: Evict | None
    relations: tuple[tuple[Name, bytes], ...]
    server_version: tuple[int, int, int]
    lower_case_table_names: int
    new: dict[bytes, bytes]
    forget: bool


@contextmanager
def refusing() -> Iterator[None]:
    """Where the planner itself fails, the query is no cache: MySQL answers it."""
    try:
        yield
    except (UpwellError, MemoryError, TakesLong):
        raise
    except (RecursionError, SyntaxError):  # the latter: of code that is nested deeper than Python compiles
        raise UnsupportedQuery("too_deep", "the query is nested too deeply") from None
    except Exception as error:
        log.exception("the planner has failed")
        raise UnsupportedQuery("fault", f"the planner has failed: {type(error).__name__}") from error


def planned(job: Job, *, brief: bool = False) -> Planned:
    """Raises ParseError, UnknownName, UnsupportedQuery, NeedRelations; if it is to be `brief`, TakesLong."""
    with refusing():
        if job.evict is None:
            return planner.api.planned(job.sql, job.database, job.snapshot, brief=brief)
        return planned_evict(job.sql, job.database, job.snapshot, job.evict.why, job.evict.caution, brief=brief)


def told(found: Planned) -> Thought:
    """The plan with what else is to be known of it. Raises UnsupportedQuery."""
    with refusing():
        plan = found.plan
        parsed = found.query.parsed
        if parsed.text == plan.sql:  # it is scanned already
            known = fingerprint_of(plan.sql, parsed.pieces, plan.database)
        else:
            known = fingerprint(plan.sql, plan.database)
        return Thought(plan, needs_of(plan, found.query), known, outline(known.shape))


def build(plan: QueryPlan) -> None:
    """Builds a reader, so that the next one of this plan finds its functions compiled. In a thread, too."""
    with refusing():
        Graph(Memory()).install(plan)


def thought(job: Job) -> Thought:
    """The whole of a job. A reader is built of the plan, too, so that it is known that it can be, and so that the loop
    finds its functions compiled."""
    found = planned(job)
    with refusing(), recording() as codes:
        Graph(Memory()).install(found.plan)
    return replace(told(found), codes=packed_codes(codes))


class Worker:
    """In the helper: the relations that were sent, by their digests."""

    def __init__(self) -> None:
        self._relations: dict[bytes, Relation] = {}

    def answer(self, request: Request) -> Thought | UpwellError:
        if request.forget:
            self._relations.clear()
        self._relations.update((digest, pickle.loads(data)) for digest, data in request.new.items())
        relations = {name: self._relations[digest] for name, digest in request.relations}
        snapshot = SchemaSnapshot(relations, request.server_version, request.lower_case_table_names)
        try:
            return thought(Job(request.sql, request.database, snapshot, request.evict))
        except UpwellError as error:
            return error.with_traceback(None)


def serve(stream: BufferedRWPair, cpu: float) -> None:
    """Answers requests until there are no more. A job that takes more of the processor's time ends the process."""
    worker = Worker()
    while len(head := stream.read(LENGTH.size)) == LENGTH.size:
        request = pickle.loads(stream.read(*LENGTH.unpack(head)))
        signal.setitimer(signal.ITIMER_PROF, cpu)
        answer = packed(worker.answer(request))
        signal.setitimer(signal.ITIMER_PROF, 0)
        stream.write(answer)
        stream.flush()


def packed(message: object) -> bytes:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(data)) + data


def main() -> None:
    """The helper. Its standard input is the socket; it ends with it. Arguments: the limits."""
    cpu, memory = float(sys.argv[2]), int(sys.argv[3])
    decimal.getcontext().prec = 100  # as in the proxy
    sys.setrecursionlimit(SHALLOW)
    stand_back()
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.freeze()
    with suppress(ConnectionError), socket.socket(fileno=os.dup(0)) as connection:
        connection.sendall(READY)
        with connection.makefile("rwb") as stream:
            try:
                serve(stream, cpu)
            except MemoryError:
                os._exit(NO_MEMORY)
