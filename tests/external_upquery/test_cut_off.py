"""A connection for upqueries or for the schema that ends in the middle of an answer: the source is away."""

from __future__ import annotations

import pytest

from external_upquery.address import parse_upstream
from external_upquery.login import log_in
from external_upquery.mysql.schema_source import SchemaSource
from sqltypes.errors import SourceDown, SourceError
from tests.support.cut_off import CUT_OFF, server_that_ends


@pytest.mark.parametrize("answer", CUT_OFF.values(), ids=CUT_OFF)
def test_a_login_that_is_cut_off(answer: list[bytes]) -> None:
    with server_that_ends(b"div_precision_increment", answer) as port, pytest.raises(SourceDown):
        log_in(parse_upstream(f"mysql://proxy@127.0.0.1:{port}/?tls=disabled"))


@pytest.mark.parametrize("answer", CUT_OFF.values(), ids=CUT_OFF)
def test_a_schema_that_is_cut_off(answer: list[bytes]) -> None:
    with server_that_ends(b"SELECT", answer) as port:
        schema = SchemaSource(parse_upstream(f"mysql://proxy@127.0.0.1:{port}/?tls=disabled"))
        with pytest.raises((SourceDown, SourceError)):
            schema.snapshot_now([("d", "t")])
        schema.close()
