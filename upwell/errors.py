"""Errors that the client's calls raise.

    UpwellError
    +-- BadParameters         wrong number or type of parameters
    +-- ParseError            the SQL does not parse
    +-- UnknownName           a table, column or database that does not exist
    +-- UnsupportedQuery      a query that is not cached; `code` names why
    +-- NotARead              `query` takes single reads
    +-- UnknownCache          no cache of that name
    +-- CacheExists           the name is taken by another query
    +-- SourceError           MySQL's own error: `errno`, `sqlstate`
    +-- Unavailable           the proxy cannot be reached
    |   +-- SourceDown        the proxy can, MySQL behind it cannot
    +-- DeadlinePassed        no answer within the timeout
    +-- TooStale              no answer as fresh as was asked for
    +-- CannotFill            a large fill that cannot be made, or not whole, with the reason
    |   +-- SparkUnavailable  it was to be made by Spark, and there is none
    +-- Overloaded            a limit of the proxy is reached
    |   +-- MessageTooLarge
    +-- Unauthenticated       no token, or a wrong one
    +-- NotPermitted          switched off at the proxy (`--grpc-query=off`)
    +-- SubscriptionEnded     the proxy ended a subscription, with its reason

`reason` is the proxy's machine-readable word for it, `errno` and `sqlstate` are MySQL's (0 and "" where there is none).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import grpc


class UpwellError(Exception):
    """Any error of the proxy, or of the way to it."""

    default_reason: ClassVar[str] = "internal"

    def __init__(self, message: str, *, reason: str = "", errno: int = 0, sqlstate: str = "", code: str = "") -> None:
        super().__init__(message)
        self.reason = reason or self.default_reason
        self.errno = errno
        self.sqlstate = sqlstate
        self.code = code


class BadParameters(UpwellError):
    default_reason = "bad_parameters"


class ParseError(UpwellError):
    default_reason = "parse_error"


class UnknownName(UpwellError):
    default_reason = "unknown_name"


class UnsupportedQuery(UpwellError):
    default_reason = "unsupported_query"


class NotARead(UpwellError):
    default_reason = "not_a_read"


class UnknownCache(UpwellError):
    default_reason = "unknown_cache"


class CacheExists(UpwellError):
    default_reason = "cache_exists"


class SourceError(UpwellError):
    default_reason = "source_error"


class Unavailable(UpwellError):
    default_reason = "unavailable"


class SourceDown(Unavailable):
    default_reason = "source_down"


class DeadlinePassed(UpwellError):
    default_reason = "deadline_passed"


class TooStale(UpwellError):
    default_reason = "too_stale"


class Overloaded(UpwellError):
    default_reason = "overloaded"


class CannotFill(UpwellError):
    default_reason = "cannot_fill"


class SparkUnavailable(CannotFill):
    default_reason = "spark_unavailable"


class MessageTooLarge(Overloaded):
    default_reason = "message_too_large"


class Unauthenticated(UpwellError):
    default_reason = "unauthenticated"


class NotPermitted(UpwellError):
    default_reason = "not_permitted"


class BadSetting(UpwellError):
    default_reason = "bad_setting"


class SubscriptionEnded(UpwellError):
    default_reason = "subscription_ended"


_BY_REASON: dict[str, type[UpwellError]] = {
    error.default_reason: error
    for error in (
        BadParameters, ParseError, UnknownName, UnsupportedQuery, NotARead, UnknownCache, CacheExists, SourceError,
        Unavailable, SourceDown, DeadlinePassed, TooStale, Overloaded, MessageTooLarge, Unauthenticated,
        NotPermitted, SubscriptionEnded, CannotFill, SparkUnavailable, BadSetting,
    )
}  # fmt: skip
_NOT_CONNECTED = re.compile(
    r"last error: \w+: (?:ipv4:|ipv6:)?(?P<where>\S+): (?:Failed to connect to remote host: )?(?P<why>.*)"
)
# What gRPC itself says, without the proxy: the call never came there, or its end was lost.
_BY_STATUS: dict[str, type[UpwellError]] = {  # by the status's name
    "UNAVAILABLE": Unavailable,
    "DEADLINE_EXCEEDED": DeadlinePassed,
    "RESOURCE_EXHAUSTED": MessageTooLarge,
    "UNAUTHENTICATED": Unauthenticated,
}


def error_of(reason: str, message: str, errno: int = 0, sqlstate: str = "", code: str = "") -> UpwellError:
    """The error of a reason; a reason that this client does not know yet is a plain UpwellError with it."""
    return _BY_REASON.get(reason, UpwellError)(message, reason=reason, errno=errno, sqlstate=sqlstate, code=code)


def _plain(message: str) -> str:
    """gRPC's own words about a connection, as a sentence."""
    found = _NOT_CONNECTED.search(message)
    if found is None:
        return message
    where, why = found["where"], found["why"]
    if "HTTP/2" in why or "SSL" in why:
        return f"what answers at {where} is no gRPC of `upwell serve`, or its TLS is another than was asked for ({why})"
    if "refused" in why or "No such" in why or "resolution" in why:
        return f"no proxy answers at {where} ({why.strip()}): is `upwell serve` running, and is this its gRPC port?"
    return (
        f"no proxy answers at {where} ({why.strip()}): is `upwell serve` running, and is this its gRPC port?"
        " One with --grpc-tls-cert is asked with TLS (--tls or --tls-ca)."
    )


def from_rpc_error(error: grpc.RpcError) -> UpwellError:
    """The error of a failed call, synchronous or asyncio."""
    call: Any = error  # both kinds are calls too, with code, details and metadata
    status: grpc.StatusCode = call.code()
    message = call.details() or status.name.lower()
    trailing = {key: value for key, value in call.trailing_metadata() or () if isinstance(value, str)}
    reason = trailing.get("upwell-reason", "")
    if not reason:
        kind = _BY_STATUS.get(status.name, UpwellError)
        message = _plain(message)
        return kind(message, reason="" if kind is not UpwellError else status.name.lower())
    errno = int(trailing.get("upwell-errno", "0"))
    return error_of(reason, message, errno, trailing.get("upwell-sqlstate", ""), trailing.get("upwell-code", ""))
