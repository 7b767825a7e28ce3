"""What a login fails by: whose fault it is where a connection is lost or makes no sense, and in which words."""

from __future__ import annotations

from collections.abc import Callable

from proxy.mysql.wire.packet_stream import Lost, OutOfOrder, TooLarge
from proxy.mysql.wire.packets import Malformed, parse_error
from sqltypes.errors import ClientLeft, MalformedRequest, SourceDown, SourceError, Unauthenticated, UpwellError


class Speaks:
    """Says whose fault it is where something is lost or malformed within. It has no state, and so there is one of each:
    a login enters a dozen."""

    def __init__(self, fault: Callable[[Lost | Malformed], UpwellError]) -> None:
        self._fault = fault

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Lost | Malformed):
            raise self._fault(error) from error


def of_client(error: Lost | Malformed) -> UpwellError:
    if isinstance(error, Lost):
        return ClientLeft(f"the client left before its login was over: {error}")
    bad = MalformedRequest(f"bad handshake: {error}")
    numbers = {OutOfOrder: 1156, TooLarge: 1153}
    bad.errno = numbers.get(type(error), 1043)
    return bad


def of_mysql(error: Lost | Malformed) -> UpwellError:
    if isinstance(error, Lost):
        return source_down(2013, f"Lost connection to MySQL server during the login: {error}")
    return source_down(2027, f"MySQL sent what is no part of a login: {error}")


CLIENT_SPEAKS, MYSQL_SPEAKS = Speaks(of_client), Speaks(of_mysql)


def source_error(payload: bytes) -> SourceError:
    answer = parse_error(payload)
    return SourceError(answer.errno, answer.sqlstate, answer.message)


def unauthenticated(number: int, sqlstate: str, message: str) -> Unauthenticated:
    denied = Unauthenticated(message)
    denied.errno, denied.sqlstate = number, sqlstate
    return denied


def source_down(number: int, message: str) -> SourceDown:
    down = SourceDown(message)
    down.errno = number
    return down
