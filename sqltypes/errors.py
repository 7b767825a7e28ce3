"""All errors of the project.

    UpwellError
    +-- ParseError            the SQL does not parse
    +-- UnknownName           a table, column or database that does not exist
    +-- UnsupportedQuery      a query that is not cached, with the reason and the place; whoever ran it gets its answer
    +-- NeedRelations         planning wants more of the schema first
    +-- BadParameters         wrong number or type of parameters
    |   +-- ComparedElsewhere MySQL would compare this value in another type than the column's: the read passes through
    +-- EvaluationError       an expression that cannot be computed for these values: what depends on it becomes a hole
    |   +-- UnprovenString    a string whose weights are not proven to be MySQL's
    |   +-- OtherTypes        MySQL answers with columns of other types than the cache's values have
    +-- UnknownCache          no cache of that name
    +-- CacheExists           the name is taken by another query
    +-- CannotForce           a read that may only be answered by a cache, and none can
    +-- NotARead              a statement that `Query` does not pass
    +-- SourceError           MySQL's own error: errno, sqlstate, message as they are
    +-- SourceDown            MySQL cannot be reached
    +-- DeadlinePassed        the caller's deadline passed before an answer
    +-- TooStale              no answer as fresh as the read asked for
    +-- Overloaded            a limit (concurrent upqueries, keys of one call) is reached
    |   +-- MessageTooLarge   a request or an answer over the message size limit
    +-- CannotFill            a large fill that cannot be made, or not whole, with the reason
    |   +-- SparkUnavailable  it was to be made by Spark, and there is none
    +-- MalformedRequest      bytes that are no message of the protocol
    +-- Unauthenticated       no token, or a wrong one
    +-- NotPermitted          the account may not do this
    +-- ClientLeft            the client closed its connection before its request was complete
    +-- ConfigError           a wrong option or file: one line on stderr, exit 2
    |   +-- TakenOver         this process may not do it any more: the one that takes over does
    |   +-- BadSetting        a setting that cannot be changed while Upwell serves, or not to this value
    +-- Fault                 a fault of ours: MySQL answers in its place
    +-- InvariantViolated     an internal breach: the state concerned is dropped, never served

Each class has a `reason` code (machine-readable, snake_case, stable) beside MySQL's `errno` and `sqlstate`. Messages
are lower case, without a stop; they say what was seen and what would be accepted.
"""

from __future__ import annotations

from typing import ClassVar


class UpwellError(Exception):
    """Any error that Upwell raises on purpose."""

    reason: ClassVar[str] = "internal"
    # Of one that says why a query cannot be planned: the relations (schema, name) that were looked at until then.
    relations: frozenset[tuple[str, str]] = frozenset()
    errno: int = 1105
    sqlstate: str = "HY000"

    @property
    def message(self) -> str:
        return str(self)

    @property
    def told(self) -> str:
        """The message, and behind it the reason code in brackets."""
        return f"{self.message} ({self.reason})"

    def __reduce__(self) -> tuple[object, ...]:
        """An error is the same in another process, whatever its constructor takes."""
        return _again, (type(self), self.args, dict(self.__dict__))


def _again(kind: type[UpwellError], args: tuple[object, ...], state: dict[str, object]) -> UpwellError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class ParseError(UpwellError):
    reason = "parse_error"
    errno = 1064
    sqlstate = "42000"


class UnknownName(UpwellError):
    reason = "unknown_name"
    errno = 1054
    sqlstate = "42S22"


class UnsupportedQuery(UpwellError):
    """`code` is one of `planner/tree/reasons.py`; `place` is the part of the query that causes it, as text."""

    reason = "unsupported_query"
    errno = 1235
    sqlstate = "42000"

    def __init__(self, code: str, message: str, place: str = "") -> None:
        super().__init__(f"{message}: {place}" if place else message)
        self.code = code
        self.place = place


class NeedRelations(UpwellError):
    """Planning needs these (schema, name) reflected first. The planner raises it; its caller answers it."""

    reason = "need_relations"

    def __init__(self, names: frozenset[tuple[str, str]]) -> None:
        super().__init__(f"relations not reflected yet: {sorted(names)!r}")
        self.names = names


class BadParameters(UpwellError):
    reason = "bad_parameters"
    errno = 1210
    sqlstate = "HY000"


class ComparedElsewhere(BadParameters):
    """A sound parameter, but MySQL would not compare it as the column's own type. The read is MySQL's to answer."""

    reason = "compared_elsewhere"


class EvaluationError(UpwellError):
    """An expression has no value that is proven to be MySQL's (out of range, or MySQL's own error).

    State that depends on the value becomes a hole, and MySQL answers or reports the error itself.
    """

    reason = "cannot_compute"
    errno = 1690
    sqlstate = "22003"


class UnprovenString(EvaluationError):
    """A string with code points whose comparison under its collation is not reproduced."""

    reason = "unproven_string"
    errno = 1270
    sqlstate = "HY000"


class OtherTypes(EvaluationError):
    """MySQL answers this read with columns of other types than the cache's, because a parameter's value decides a
    column's type. MySQL must answer it."""

    reason = "other_types"


class UnknownCache(UpwellError):
    reason = "unknown_cache"
    errno = 1051
    sqlstate = "42S02"


class CacheExists(UpwellError):
    reason = "cache_exists"
    errno = 1050
    sqlstate = "42S01"


class CannotForce(UpwellError):
    """A query that asks for a cache's answer, and MySQL would have to give it."""

    reason = "cannot_force"
    errno = 1235
    sqlstate = "42000"


class NotARead(UpwellError):
    reason = "not_a_read"
    errno = 1792
    sqlstate = "25006"


class SourceError(UpwellError):
    """MySQL answered with an error, handed on as it is."""

    reason = "source_error"

    def __init__(self, errno: int, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.errno = errno
        self.sqlstate = sqlstate


class SourceDown(UpwellError):
    reason = "source_down"
    errno = 2013


class DeadlinePassed(UpwellError):
    reason = "deadline_passed"
    errno = 3024


class TooStale(UpwellError):
    """Neither the held answer nor MySQL's is as fresh as the read asked for, or the caller did not want MySQL's."""

    reason = "too_stale"


class Overloaded(UpwellError):
    reason = "overloaded"
    errno = 1203
    sqlstate = "42000"


class AnswerTooLarge(Overloaded):
    """The source's rows have more bytes than they may."""


class MessageTooLarge(Overloaded):
    reason = "message_too_large"
    errno = 1153
    sqlstate = "08S01"


class CannotFill(UpwellError):
    reason = "cannot_fill"


class DoesNotFit(CannotFill):
    """`keys` were to be filled; memory has room for about `fits` of them."""

    def __init__(self, message: str, keys: int = 0, fits: int = 0) -> None:
        super().__init__(message)
        self.keys, self.fits = keys, fits


class SparkUnavailable(CannotFill):
    reason = "spark_unavailable"


class MalformedRequest(UpwellError):
    reason = "malformed_request"
    errno = 1047
    sqlstate = "08S01"


class Unauthenticated(UpwellError):
    reason = "unauthenticated"
    errno = 1045
    sqlstate = "28000"


class NotPermitted(UpwellError):
    reason = "not_permitted"
    errno = 1227
    sqlstate = "42000"


class ClientLeft(UpwellError):
    reason = "client_left"
    errno = 1158
    sqlstate = "08S01"


class ConfigError(UpwellError):
    reason = "config"


class TakenOver(ConfigError):
    reason = "taken_over"
    errno = 1053  # a driver connects anew, which leads to the other process
    sqlstate = "08S01"


class BadSetting(ConfigError):
    reason = "bad_setting"
    errno = 1231
    sqlstate = "42000"


class Fault(UpwellError):
    """Work that Upwell failed to do and MySQL can do. MySQL answers the read; no client is told."""

    reason = "fault"


class InvariantViolated(UpwellError):
    reason = "invariant_violated"
