"""What the proxy makes of an error that an executor met."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from bulk.frames import Piece
from bulk.questions import Login
from dataflow.messages import UpqueryFailed
from proxy.fills.askers import SparkAsker
from sqltypes.errors import SourceDown, SourceError
from tests.external_upquery.test_collected import upquery


@pytest.mark.parametrize("errno", [0, 1040, 1053, 1927, 2003, 2006, 2013, 3168, 3169, 4031])
def test_that_mysql_takes_nobody_now_is_no_error_of_the_keys(errno: int) -> None:
    assert isinstance(came_of(errno), SourceDown)


@pytest.mark.parametrize("errno", [1045, 1130, 1142, 1054])
def test_what_would_be_the_same_again_is_mysqls_error(errno: int) -> None:
    error = came_of(errno)
    assert isinstance(error, SourceError) and (error.errno, error.message) == (errno, "so it is")


def came_of(errno: int) -> Exception:
    asker = SparkAsker(cast(Any, None), cast(Any, None), Login({}))
    result = asyncio.run(asker._result(upquery("SELECT 1"), [Piece(7, problem="so it is", errno=errno)]))
    assert isinstance(result, UpqueryFailed)
    return result.error
