"""What the listener knows of the text of a prepared statement with very many placeholders."""

from __future__ import annotations

import asyncio

import pytest

from proxy.mysql.session.shared import MysqlOptions, Shared
from proxy.mysql.text.statement_kind import Kind
from tests.fuzz.system import bench_shared


def shared(loop: asyncio.AbstractEventLoop) -> Shared:
    made = bench_shared(loop, MysqlOptions())
    made.server_is("9.7.0")
    return made


def questions(count: int) -> str:
    return ", ".join("?" * count)


@pytest.mark.parametrize("count", [1, 10, 200, 1000, 20_000])
def test_a_list_of_placeholders_makes_no_text_too_large_to_be_looked_at(count: int) -> None:
    """Else the session would count as one whose temporary tables may hide cached ones, for as long as it lasts."""
    loop = asyncio.new_event_loop()
    try:
        route = shared(loop).texts.route(f"SELECT a FROM t WHERE id IN ({questions(count)}) AND b = ?".encode(), "d")
    finally:
        loop.close()
    assert route.statement.kind is Kind.READ and not route.effects.hides_tables and route.effects.simple


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT a FROM t WHERE id IN ({questions(1000)}) FOR UPDATE",
        f"SELECT f(a) FROM t WHERE id IN ({questions(1000)})",
        f"SELECT a FROM t WHERE id IN ({questions(1000)}){' OR a = ?' * 200}",
        f"SELECT {questions(5000)}",
    ],
)
def test_what_is_no_plain_read_is_none_with_a_list_of_placeholders(text: str) -> None:
    loop = asyncio.new_event_loop()
    try:
        route = shared(loop).texts.route(text.encode(), "d")
    finally:
        loop.close()
    assert route.effects.locks or route.effects.hides_tables
