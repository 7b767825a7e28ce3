"""A login whose connection is killed in the middle of an answer is one to try again."""

from __future__ import annotations

import pytest

from sqltypes.errors import SourceDown, SourceError
from tests.support.cut_off import CUT_OFF, server_that_ends
from vstream.binlog.connection import Account, log_in


@pytest.mark.parametrize("answer", CUT_OFF.values(), ids=CUT_OFF)
def test_an_answer_that_is_cut_off_is_a_source_that_is_away(answer: list[bytes]) -> None:
    with server_that_ends(b"server_uuid", answer) as port, pytest.raises((SourceDown, SourceError)):
        log_in(Account("127.0.0.1", port, "proxy"))
