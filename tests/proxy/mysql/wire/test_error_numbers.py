"""No error packet of Upwell's own has a number of the client library's."""

from __future__ import annotations

import pytest

from proxy.mysql.wire.error_numbers import CLIENTS_OWN, login_error, statement_error
from proxy.mysql.wire.packets import ErrorAnswer, parse_error
from sqltypes import errors
from sqltypes.errors import SourceDown, SourceError, UnknownCache, UpwellError


def down(number: int) -> SourceDown:
    error = SourceDown("Can't connect")
    error.errno = number
    return error


@pytest.mark.parametrize(("number", "shown"), [(2002, 1053), (2003, 1053), (2013, 1053), (2026, 1043), (2027, 1043)])
def test_a_login_without_mysql_is_refused_as_one_while_it_shuts_down(number: int, shown: int) -> None:
    assert parse_error(login_error(down(number))) == ErrorAnswer(shown, "08S01", "Can't connect")


def test_a_statement_that_cannot_reach_mysql_leaves_the_session_its_connection() -> None:
    assert parse_error(statement_error(down(2013))) == ErrorAnswer(1429, "HY000", "Can't connect")


def test_other_errors_keep_their_numbers() -> None:
    for made in (login_error, statement_error):
        assert parse_error(made(SourceError(1040, "08004", "many"))) == ErrorAnswer(1040, "08004", "many")
        assert parse_error(made(UnknownCache("none"))) == ErrorAnswer(1051, "42S02", "none")


def test_no_error_of_upwell_is_told_with_a_number_of_the_client_library() -> None:
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, UpwellError)]
    assert SourceDown in classes
    for kind in classes:
        error = kind.__new__(kind)
        for made in (login_error, statement_error):
            assert parse_error(made(error)).errno not in CLIENTS_OWN, kind
