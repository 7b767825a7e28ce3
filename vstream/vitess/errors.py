"""What vtgate's refusals mean: at the start, where they are told to who starts Upwell, and later. Pure.

 vtgate's status                        | at the start                   | later
----------------------------------------+--------------------------------+---------------------------------------------
 the text says that history is lost     | as its status                  | `Verdict.LOST`: the stream begins anew
 UNAVAILABLE, CANCELLED, ABORTED        | SourceDown                     | `RETRY`, for as long as it takes
 DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, |                                |
 or a tablet does not reach its MySQL   |                                |
 PERMISSION_DENIED, UNAUTHENTICATED     | SourceError 1045               | `REFUSED`: retried, and told
 UNIMPLEMENTED                          | ConfigError: this is no vtgate | `REFUSED`
 INVALID_ARGUMENT, NOT_FOUND            | ConfigError                    | `WRONG`: told; after some times as `LOST`
 all others                             | ConfigError                    | `DOUBTFUL`: retried; after some as `LOST`
"""

from __future__ import annotations

from enum import Enum, auto

from grpc import StatusCode

from sqltypes.errors import ConfigError, SourceDown, SourceError, UpwellError

PURGED = ("purged required binary logs", "purged binary logs", "errno 1236", "errno 1789")
LOST = (*PURGED, "GTIDSet Mismatch", "provided in VGTID", "larger than max")
"""What vtgate's message has where it cannot go on from our position: binlogs that are gone, transactions that are not
in this history, a shard that is no more, a response that is too large for one of both. (Bare numbers are in every
position, which errors quote.)"""
AWAY = ("errno 2002", "errno 2003", "errno 2006", "errno 2013")
"""What it has where a tablet does not reach its MySQL: one that is being started anew has lost nothing."""
PASSING = frozenset({StatusCode.UNAVAILABLE, StatusCode.CANCELLED, StatusCode.ABORTED})
PASSING |= {StatusCode.DEADLINE_EXCEEDED, StatusCode.RESOURCE_EXHAUSTED}
NO_RIGHT = frozenset({StatusCode.PERMISSION_DENIED, StatusCode.UNAUTHENTICATED})
WRONG = frozenset({StatusCode.INVALID_ARGUMENT, StatusCode.NOT_FOUND})
NOT_CONNECTED = ("failed to connect", "http1.x server", "Socket closed", "Connection reset", "Broken pipe", "DNS")
"""What gRPC itself says where it reaches nobody, or nobody who speaks gRPC."""
MOST_REFUSALS = 3  # in a row, without anything else, after which our position counts as lost
SHOWN = 300  # letters of a message
WHICH_PORT = "the port of vtgate's --grpc-port is wanted"


class Verdict(Enum):
    RETRY = auto()
    REFUSED = auto()  # told; what is refused for good may be allowed again
    WRONG = auto()  # told; the request is what vtgate does not take
    DOUBTFUL = auto()
    LOST = auto()


class Refusals:
    """What vtgate has refused of late. `why`: why it does not let its changes be read; "" while it does. `count`: how
    often in a row it has not taken the request, without anything else."""

    def __init__(self) -> None:
        self.why = ""
        self.count = 0

    def position_is_lost(self, code: StatusCode, said: str) -> bool:
        """One more. Whether our position counts as lost."""
        verdict = later(code, said)
        if verdict in (Verdict.REFUSED, Verdict.WRONG):
            self.why = said or code.name
        if verdict in (Verdict.WRONG, Verdict.DOUBTFUL):
            self.count += 1
        lost = verdict is Verdict.LOST or self.count >= MOST_REFUSALS
        if lost:
            self.count = 0
        return lost


def is_passing(code: StatusCode, said: str) -> bool:
    return code in PASSING or any(word in said for word in AWAY)


def later(code: StatusCode, said: str) -> Verdict:
    if any(word in said for word in LOST):
        return Verdict.LOST
    if is_passing(code, said):
        return Verdict.RETRY
    if code in NO_RIGHT or code is StatusCode.UNIMPLEMENTED:
        return Verdict.REFUSED
    return Verdict.WRONG if code in WRONG else Verdict.DOUBTFUL


def at_the_start(code: StatusCode, said: str, address: str, keyspace: str) -> UpwellError:
    """One sentence: what was seen, and what is needed."""
    shown = said[:SHOWN]
    if code is StatusCode.UNAVAILABLE and any(word in said for word in NOT_CONNECTED):
        return SourceDown(f"vtgate's gRPC is not at {address} ({WHICH_PORT}): {shown}")
    if is_passing(code, said):
        wanted = "each of its shards needs a primary tablet that serves"
        return SourceDown(
            f"vtgate at {address} cannot stream keyspace {keyspace!r} now ({wanted}): {code.name}: {shown}"
        )
    if code is StatusCode.UNIMPLEMENTED:
        return ConfigError(f"at {address} is no vtgate that has VStream ({WHICH_PORT}): {shown}")
    if code in NO_RIGHT:
        return SourceError(1045, "28000", f"vtgate does not let its changes be read: {shown}")
    wanted = "a keyspace is wanted that vtgate serves"
    return ConfigError(f"vtgate gives no stream of keyspace {keyspace!r} ({wanted}): {code.name}: {shown}")


def not_told(address: str, keyspace: str, last: str) -> SourceDown:
    """It answers, and some shard does not say where it is. `last`: how the last attempt ended, "" if it did not."""
    seen = f"vtgate at {address} does not tell where keyspace {keyspace!r} is"
    wanted = "each of its shards needs a primary tablet that serves"
    return SourceDown(f"{seen} ({wanted}): {last[:SHOWN]}" if last else f"{seen} ({wanted})")


def not_followed(address: str, keyspace: str, why: str) -> ConfigError:
    """What comes is not understood."""
    return ConfigError(f"the stream of keyspace {keyspace!r} from {address} cannot be followed: {why[:SHOWN]}")
