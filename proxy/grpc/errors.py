"""Errors as gRPC statuses: a code, a sentence, and trailing metadata.

The metadata is `upwell-reason`, `upwell-errno`, `upwell-sqlstate`, and `upwell-code` for a refused query.

A refused query is INVALID_ARGUMENT wherever it is met, in CreateCache too: no state of the system would make the same
text acceptable, which is what FAILED_PRECONDITION would promise.
"""

from __future__ import annotations

import grpc
import structlog
from google.protobuf.message import DecodeError

from sqltypes.errors import MalformedRequest, SourceError, UnsupportedQuery, UpwellError
from upwell.v1 import upwell_pb2 as pb

log = structlog.get_logger(__name__)

_LONGEST_SENTENCE = 2000  # of a status message, which travels in headers of at most 8 KiB

_BY_REASON = {
    "parse_error": grpc.StatusCode.INVALID_ARGUMENT,
    "unknown_name": grpc.StatusCode.INVALID_ARGUMENT,
    "unsupported_query": grpc.StatusCode.INVALID_ARGUMENT,
    "bad_parameters": grpc.StatusCode.INVALID_ARGUMENT,
    "compared_elsewhere": grpc.StatusCode.INVALID_ARGUMENT,
    "malformed_request": grpc.StatusCode.INVALID_ARGUMENT,
    "not_a_read": grpc.StatusCode.INVALID_ARGUMENT,
    "bad_setting": grpc.StatusCode.INVALID_ARGUMENT,
    "unknown_cache": grpc.StatusCode.NOT_FOUND,
    "cache_exists": grpc.StatusCode.ALREADY_EXISTS,
    "not_permitted": grpc.StatusCode.PERMISSION_DENIED,
    "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
    "taken_over": grpc.StatusCode.UNAVAILABLE,
    "source_down": grpc.StatusCode.UNAVAILABLE,
    "deadline_passed": grpc.StatusCode.DEADLINE_EXCEEDED,
    "too_stale": grpc.StatusCode.FAILED_PRECONDITION,
    "cannot_fill": grpc.StatusCode.FAILED_PRECONDITION,
    "spark_unavailable": grpc.StatusCode.FAILED_PRECONDITION,
    "overloaded": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "message_too_large": grpc.StatusCode.RESOURCE_EXHAUSTED,
}

# MySQL's own errors: by number where the number says more than the class of its SQLSTATE.
_BY_ERRNO = {
    1040: grpc.StatusCode.RESOURCE_EXHAUSTED,  # too many connections
    1203: grpc.StatusCode.RESOURCE_EXHAUSTED,
    1226: grpc.StatusCode.RESOURCE_EXHAUSTED,  # a user's resource limit
    1044: grpc.StatusCode.PERMISSION_DENIED,
    1045: grpc.StatusCode.PERMISSION_DENIED,
    1142: grpc.StatusCode.PERMISSION_DENIED,
    1143: grpc.StatusCode.PERMISSION_DENIED,
    1370: grpc.StatusCode.PERMISSION_DENIED,
    1049: grpc.StatusCode.NOT_FOUND,  # unknown database
    1146: grpc.StatusCode.NOT_FOUND,  # no such table
    1205: grpc.StatusCode.ABORTED,  # lock wait timeout
    1317: grpc.StatusCode.ABORTED,  # killed
    3024: grpc.StatusCode.DEADLINE_EXCEEDED,  # max_execution_time
}
_BY_CLASS = {
    "08": grpc.StatusCode.UNAVAILABLE,
    "21": grpc.StatusCode.INVALID_ARGUMENT,
    "22": grpc.StatusCode.INVALID_ARGUMENT,
    "25": grpc.StatusCode.INVALID_ARGUMENT,
    "28": grpc.StatusCode.PERMISSION_DENIED,
    "3D": grpc.StatusCode.INVALID_ARGUMENT,  # no database selected
    "40": grpc.StatusCode.ABORTED,
    "42": grpc.StatusCode.INVALID_ARGUMENT,
}


def status_code(error: UpwellError) -> grpc.StatusCode:
    if isinstance(error, SourceError):
        by_class = _BY_CLASS.get(error.sqlstate[:2], grpc.StatusCode.UNKNOWN)
        return _BY_ERRNO.get(error.errno, by_class)
    return _BY_REASON.get(error.reason, grpc.StatusCode.INTERNAL)


def as_upwell_error(error: Exception) -> UpwellError:
    """The error as the caller may see it. What was not raised on purpose is logged and becomes a bare `internal`."""
    if isinstance(error, DecodeError):
        return MalformedRequest(f"the request is no message of its method: {error}")
    if isinstance(error, UpwellError) and status_code(error) is not grpc.StatusCode.INTERNAL:
        return error
    log.error("a request failed inside the proxy", exc_info=error)
    if isinstance(error, UpwellError):
        return error
    return UpwellError("an internal error; the proxy's log has it")


def sentence(error: UpwellError) -> str:
    text = error.message or error.reason.replace("_", " ")
    return text if len(text) <= _LONGEST_SENTENCE else text[: _LONGEST_SENTENCE - 4] + " ..."


def trailing_metadata(error: UpwellError) -> tuple[tuple[str, str], ...]:
    pairs = [
        ("upwell-reason", error.reason),
        ("upwell-errno", str(error.errno)),
        ("upwell-sqlstate", error.sqlstate),
    ]
    if isinstance(error, UnsupportedQuery):
        pairs.append(("upwell-code", error.code))
    return tuple(pairs)


def failure(error: UpwellError) -> pb.Failure:
    """The error of one key of a batch, or of one request of a stream."""
    return pb.Failure(reason=error.reason, message=sentence(error), errno=error.errno, sqlstate=error.sqlstate)
