"""Errors as HTTP tells them: gRPC's codes in HTTP's terms, the rest as JSON."""

from __future__ import annotations

from grpc import StatusCode
from starlette.responses import JSONResponse, Response

from proxy.grpc.errors import as_upwell_error, sentence, status_code
from sqltypes.errors import UnsupportedQuery, UpwellError

STATUS = {
    StatusCode.INVALID_ARGUMENT: 400,
    StatusCode.FAILED_PRECONDITION: 400,
    StatusCode.UNAUTHENTICATED: 401,
    StatusCode.PERMISSION_DENIED: 403,
    StatusCode.NOT_FOUND: 404,
    StatusCode.ALREADY_EXISTS: 409,
    StatusCode.ABORTED: 409,
    StatusCode.RESOURCE_EXHAUSTED: 429,
    StatusCode.UNAVAILABLE: 503,
    StatusCode.DEADLINE_EXCEEDED: 504,
}
"""Those that are not here are 500."""


def error_of(error: UpwellError) -> dict[str, object]:
    """What a caller is told."""
    told: dict[str, object] = {
        "code": status_code(error).name,
        "reason": error.reason,
        "message": sentence(error),
        "errno": error.errno,
        "sqlstate": error.sqlstate,
    }
    return told | ({"refusal": error.code} if isinstance(error, UnsupportedQuery) else {})


def failed(error: Exception) -> Response:
    """The answer to a request under `/v1` that has failed; what was not raised on purpose is logged."""
    shown = as_upwell_error(error)
    status = STATUS.get(status_code(shown), 500)
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": error_of(shown)}, status, headers)


def refused(status: int, message: str, **headers: str) -> Response:
    """Likewise, of what is no request of any path."""
    return JSONResponse({"error": {"message": message}}, status, headers)
