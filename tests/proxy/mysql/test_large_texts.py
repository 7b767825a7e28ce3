"""What is told of one text that is too large for a cache is told of others that are cut alike: never too harmless."""

from __future__ import annotations

import asyncio
import random

import pytest

from proxy.mysql.session.shared import MysqlOptions
from proxy.mysql.state.effects import effects_of
from proxy.mysql.text.statement_kind import classify
from tests.fuzz.system import bench_shared

NAMED = ", ".join(f"t.c{number} AS r{number}" for number in range(80))
OPENS = ("", "-- ", "#", "`", "/* ", "x", "@v := ")
QUOTES = ("'", '"')
WITHIN = ("1", "\n1 ", "\nf() ", "f()", "\\", "''", "*/ f() ", ";", "`")
BETWEEN = ("5", "/* x */", "'s'", "")  # a name and a bracket
CASES = 800


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_text_is_taken_for_more_harmless_than_it_is(seed: int) -> None:
    rng = random.Random(seed)
    loop = asyncio.new_event_loop()
    plain = 0
    try:
        shared = bench_shared(loop, MysqlOptions())
        shared.server_is("9.7.0")
        for _ in range(CASES):
            opens, quote, closes = rng.choice(OPENS), rng.choice(QUOTES), rng.choice(OPENS)
            within = "".join(rng.choices(WITHIN, k=rng.randrange(3)))
            text = f"SELECT {NAMED} FROM t WHERE a = {opens}{quote}{within}{closes}{quote}\n"
            if rng.random() < 0.3:
                text = f"SELECT {NAMED}, f {rng.choice(BETWEEN)} () AS h FROM t"
            route = shared.texts.route(text.encode(), "d")
            assert shared.texts.entries.find(text.encode(), "d")[0].large
            own = effects_of(classify(text, (9, 7, 0)))
            assert own.simple or not route.effects.simple, text
            plain += route.effects.simple
    finally:
        loop.close()
    assert plain > CASES // 20, "some are plain reads, and told so"
