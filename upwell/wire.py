"""Parts that the synchronous and the asyncio client share: how calls begin and end, method names, messages, values, and
when to try again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import grpc

from upwell.errors import BadParameters, SubscriptionEnded, Unavailable, UpwellError, error_of, from_rpc_error
from upwell.freshness import Freshness, Token, union
from upwell.rows import Answer, Event, RowType, key_message, row_type, rows_from_wire, to_wire
from upwell.token_file import Credentials
from upwell.v1 import upwell_pb2 as pb

ATTEMPTS = 4
FIRST_BACKOFF = 0.05

METHODS: dict[str, tuple[type[Any], type[Any]]] = {
    "CreateCache": (pb.CreateCacheRequest, pb.CreateCacheResponse),
    "DropCache": (pb.DropCacheRequest, pb.DropCacheResponse),
    "FlushCache": (pb.FlushCacheRequest, pb.FlushCacheResponse),
    "ListCaches": (pb.ListCachesRequest, pb.ListCachesResponse),
    "ExplainCache": (pb.ExplainCacheRequest, pb.ExplainCacheResponse),
    "Query": (pb.QueryRequest, pb.Answer),
    "Execute": (pb.ExecuteRequest, pb.Answer),
    "ExecuteBatch": (pb.ExecuteBatchRequest, pb.BatchAnswer),
    "Status": (pb.StatusRequest, pb.StatusResponse),
    "ListSettings": (pb.ListSettingsRequest, pb.ListSettingsResponse),
    "SetSetting": (pb.SetSettingRequest, pb.SetSettingResponse),
}
PATH = "/upwell.v1.Upwell/"
# A channel that was refused fails calls, unsent, until it has tried to connect anew. By default it does so after 1 s,
# 1.6 s more and so on up to 2 minutes: all attempts of a read would fall into the first pause, and a client would come
# back long after its proxy. gRPC takes no less than 100 ms.
FIRST_RECONNECT, LAST_RECONNECT = 100, 500  # milliseconds, give or take a fifth
CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", FIRST_RECONNECT),
    ("grpc.max_reconnect_backoff_ms", LAST_RECONNECT),
]

Tls = bool | str | bytes | Path | None
"""None or False: plain text. True: the system's certificate authorities. A path or PEM bytes: that authority."""

_SERVED = {pb.HIT: "hit", pb.MISS: "miss", pb.PASSED: "passed", pb.SERVED_UNSPECIFIED: ""}


FILL_BY = {"size": pb.SIZE, "direct": pb.DIRECT, "spark": pb.SPARK}
_BY = {pb.SIZE: "", pb.DIRECT: "direct", pb.SPARK: "spark"}
FILL_KEYS = 1000  # of one message


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a large fill. `keys`: in all, 0 while unknown. `held`: how many of them are held. `left`: how
    many could not be held; they are filled when they are read. `rows`: how many MySQL has sent. `by`: direct or spark,
    "" while unknown. `why`: the last reason why keys were left, or why Spark is not used."""

    keys: int
    held: int
    left: int
    rows: int
    slices: int
    seconds: float
    stage: str
    by: str
    why: str
    done: bool


@dataclass(frozen=True, slots=True)
class Audited:
    """The progress of an audit in one cache. `keys`: how many were held when the audit came to it. `compared`: how many
    were compared, or are no longer held. `left`: how many could not be compared, because they are written all the time.
    `different`: with `done`, the keys whose held answer is not MySQL's, as JSON. `repaired`: how many of those became
    holes. `why`: why the cache was not compared, or not by Spark."""

    cache: str
    keys: int
    compared: int
    left: int
    rows: int
    seconds: float
    different: tuple[str, ...]
    repaired: int
    why: str
    done: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan as text and as a Graphviz graph."""

    text: str
    graphviz: str


def credentials(tls: Tls) -> grpc.ChannelCredentials | None:
    if tls is None or tls is False:
        return None
    if tls is True:
        return grpc.ssl_channel_credentials()
    return grpc.ssl_channel_credentials(tls if isinstance(tls, bytes) else Path(tls).read_bytes())


class Connection:
    """A client's channel, of either kind, and how its calls begin."""

    def __init__(self, channel: Any, target: str, token: str | None, timeout: float | None) -> None:
        self._channel = channel
        self._credentials = Credentials(target, token)
        self._timeout = timeout
        self._jitter = random.Random()
        self._methods: dict[str, Any] = {
            name: channel.unary_unary(PATH + name, request.SerializeToString, answer.FromString)
            for name, (request, answer) in METHODS.items()
        }

    def _stream(self, requests: Iterator[pb.StreamRequest], timeout: float | None) -> Any:
        start = self._channel.stream_stream(
            PATH + "ExecuteStream", pb.StreamRequest.SerializeToString, pb.StreamResponse.FromString
        )
        return start(
            requests, timeout=self._timeout if timeout is None else timeout, metadata=self._credentials.metadata()
        )

    def _fill(self, requests: Iterator[pb.FillRequest], timeout: float | None) -> Any:
        start = self._channel.stream_stream(PATH + "Fill", pb.FillRequest.SerializeToString, pb.FillProgress.FromString)
        return start(requests, timeout=timeout, metadata=self._credentials.metadata())

    def _audit(self, request: pb.AuditRequest, timeout: float | None) -> Any:
        start = self._channel.unary_stream(
            PATH + "Audit", pb.AuditRequest.SerializeToString, pb.AuditProgress.FromString
        )
        return start(request, timeout=timeout, metadata=self._credentials.metadata())

    def _subscribe(self, request: pb.SubscribeRequest, timeout: float | None) -> Any:
        start = self._channel.unary_stream(
            PATH + "Subscribe", pb.SubscribeRequest.SerializeToString, pb.SubscribeEvent.FromString
        )
        return start(request, timeout=timeout, metadata=self._credentials.metadata())


@contextmanager
def reading(call: Any) -> Iterator[Any]:
    """The messages of a call, to go through. What fails is raised as `upwell.errors`; the call ends with the block."""
    try:
        yield call
    except grpc.RpcError as failed:
        raise from_rpc_error(failed) from None
    finally:
        call.cancel()


C = TypeVar("C")


class SessionParts(Generic[C]):
    """What sessions of both clients have. `token`: the demand of the next read; with it a session can go on elsewhere.
    `make`: a cache by its name, with the session's token."""

    def __init__(self, fresh: Freshness, make: Callable[[str, Token], C]) -> None:
        self.token = Token(fresh)
        self._make = make
        self._caches: dict[str, C] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing is held open: the token is the whole of a session."""

    def wrote(self, gtids: str) -> None:
        """The user's own transactions, as MySQL names them (`upwell.written` asks a driver). Raises BadParameters."""
        self.token.wrote(gtids)

    def cache(self, name: str) -> C:
        """A cache by its name, whose reads are the session's."""
        cache = self._caches.get(name)
        if cache is None:
            cache = self._caches[name] = self._make(name, self.token)
        return cache


def backoffs(jitter: random.Random) -> Iterator[float]:
    """Seconds to wait before each further attempt: doubling, each between half and whole, so that clients spread."""
    for attempt in range(ATTEMPTS - 1):
        yield FIRST_BACKOFF * 2**attempt * (0.5 + jitter.random() / 2)


def may_retry(error: UpwellError) -> bool:
    """Of reads: only what says that nothing is there now. A passed deadline or a full proxy gains nothing by more."""
    return isinstance(error, Unavailable)


class Shapes:
    """The row types of one cache's answers by columns' id, so that the server can leave the columns out.

    Invariants:
    1. `known` is the id of the columns seen last, or 0; every id that was ever `known` has its type here, since an
       answer to an earlier call may still come.
    """

    def __init__(self) -> None:
        self.known = 0
        self._types: dict[int, RowType] = {}

    def type_of(self, id: int, columns: Sequence[pb.Column]) -> RowType:
        """The type for an answer with this id, which carries its columns unless they were said to be known."""
        if columns:
            self._types[id] = row_type(columns)
            self.known = id
        return self._types[id]


def answer_from(message: pb.Answer, shapes: Shapes) -> Answer:
    type = shapes.type_of(message.columns_id, message.columns)
    return _answer(message, type, message)


def _answer(own: pb.Answer | pb.KeyAnswer, type: RowType, whole: pb.Answer | pb.BatchAnswer) -> Answer:
    answer = Answer(rows_from_wire(own.rows, type))
    answer.served = _SERVED.get(own.served, "")
    answer.why = own.why
    answer.cache = whole.cache
    answer.position = own.position or whole.position
    answer.horizon = own.horizon or answer.position
    answer.columns = type.columns
    return answer


def batch_from(message: pb.BatchAnswer, shapes: Shapes) -> list[Answer | UpwellError]:
    """An answer or an error for each key."""
    type = shapes.type_of(message.columns_id, message.columns)
    return [
        failure_from(item.failure) if item.HasField("failure") else _answer(item, type, message)
        for item in message.answers
    ]


def failure_from(failure: pb.Failure) -> UpwellError:
    return error_of(failure.reason, failure.message, failure.errno, failure.sqlstate)


def all_answers(outcomes: Iterable[Answer | UpwellError]) -> list[Answer]:
    """The answers; the first error among them is raised."""
    answers = []
    for outcome in outcomes:
        if isinstance(outcome, UpwellError):
            raise outcome
        answers.append(outcome)
    return answers


def stream_outcome(message: pb.StreamResponse, shapes: Shapes) -> Answer | UpwellError:
    if message.WhichOneof("outcome") == "failure":
        return failure_from(message.failure)
    return answer_from(message.answer, shapes)


def event_from(message: pb.SubscribeEvent, type: RowType) -> tuple[Event, RowType]:
    """The event, and the row type for the next. Raises SubscriptionEnded."""
    kind = message.WhichOneof("kind")
    if kind == "end":
        raise SubscriptionEnded(message.end.message, reason=message.end.reason)
    if kind == "snapshot":
        type = row_type(message.snapshot.columns)
        return Event(True, [], rows_from_wire(message.snapshot.rows, type), message.position), type
    removed = rows_from_wire(message.change.removed.rows, type)
    return Event(False, removed, rows_from_wire(message.change.added.rows, type), message.position), type


def execute_request(
    cache: str, parameters: Iterable[object], shapes: Shapes, fresh: pb.Freshness | None = None
) -> pb.ExecuteRequest:
    return pb.ExecuteRequest(cache=cache, key=key_message(parameters), columns_id=shapes.known, freshness=fresh)


def batch_request(
    cache: str, keys: Iterable[object], shapes: Shapes, fresh: pb.Freshness | None = None
) -> pb.ExecuteBatchRequest:
    """A key is a list or tuple of parameters, or the only parameter itself."""
    known = shapes.known
    return pb.ExecuteBatchRequest(cache=cache, keys=[one_key(key) for key in keys], columns_id=known, freshness=fresh)


def stream_request(
    id: int, cache: str, key: object, shapes: Shapes, fresh: pb.Freshness | None = None
) -> pb.StreamRequest:
    return pb.StreamRequest(id=id, cache=cache, key=one_key(key), columns_id=shapes.known, freshness=fresh)


def stream_requests(
    cache: str,
    keys: Iterable[object],
    shapes: Shapes,
    token: Token,
    fresh: Freshness | None,
    asked: dict[int, int],
    unsent: list[tuple[int, UpwellError]],
) -> Iterator[pb.StreamRequest]:
    """One request for each key, made when it is sent. `asked` gets the token's demand for it, by the key's place.
    `unsent` gets keys that no request can hold: an exception here would end the whole stream."""
    for id, key in enumerate(keys):
        try:
            message, number = token.ask(fresh)
            request = stream_request(id, cache, key, shapes, message)
        except UpwellError as error:
            unsent.append((id, error))
            continue
        asked[id] = number
        yield request


def horizon_of(outcomes: Iterable[Answer | UpwellError]) -> str:
    """All that may be in these answers."""
    horizons = {answer.horizon for answer in outcomes if isinstance(answer, Answer)}
    return horizons.pop() if len(horizons) == 1 else union(horizons)


def fill_requests(name: str, keys: Iterable[object] | None, by: str, hot: int = 0) -> Iterator[pb.FillRequest]:
    """What `Fill` is sent: the cache, then its keys, some at a time. Raises BadParameters for a `by` or a key that is
    none, before anything is sent."""
    if by not in FILL_BY:
        raise BadParameters(f"by is {by!r}: {', '.join(FILL_BY)} are accepted")
    requests = [pb.FillRequest(cache=name, all=keys is None and not hot, by=FILL_BY[by], hot=hot)]
    for key in keys or ():
        if len(requests[-1].keys) == FILL_KEYS:
            requests.append(pb.FillRequest())
        requests[-1].keys.append(one_key(key))
    return iter(requests)


def progress_from(message: pb.FillProgress) -> Progress:
    return Progress(
        message.keys, message.held, message.left, message.rows, message.slices, message.seconds, message.stage,
        _BY[message.by], message.why, message.done,
    )  # fmt: skip


def audit_request(cache: str, by: str, *, repair: bool) -> pb.AuditRequest:
    """Raises BadParameters for a `by` that is none."""
    if by not in FILL_BY:
        raise BadParameters(f"by is {by!r}: {', '.join(FILL_BY)} are accepted")
    return pb.AuditRequest(cache=cache, by=FILL_BY[by], repair=repair)


def audited_from(message: pb.AuditProgress) -> Audited:
    return Audited(
        message.cache, message.keys, message.compared, message.left, message.rows, message.seconds,
        tuple(message.different), message.repaired, message.why, message.done,
    )  # fmt: skip


def one_key(key: object) -> pb.Key:
    return key_message(key if isinstance(key, (list, tuple)) else (key,))


def query_request(
    sql: str, parameters: Iterable[object], database: str, fresh: pb.Freshness | None = None
) -> pb.QueryRequest:
    values = [to_wire(value) for value in parameters]
    return pb.QueryRequest(sql=sql, database=database, parameters=values, freshness=fresh)
