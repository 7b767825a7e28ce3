"""How often tables were changed lately: counts by age, of those that were changed."""

from __future__ import annotations

import asyncio

import pytest

from proxy.auto.write_rates import AT_ONCE, WriteRates


def test_changes_count_from_the_first_look_on_and_fade() -> None:
    total = {"d.old": 1000}
    rates = WriteRates(total)
    total |= {"d.t": 8, "d.u": 1}
    asyncio.run(rates.look(0.5))
    assert rates.of(frozenset({"d.t", "d.u", "d.old"})) == 9
    total["d.t"] += 2
    asyncio.run(rates.look(0.5))
    assert rates.of(frozenset({"d.t"})) == pytest.approx(8 * 0.5 + 2)
    assert rates.of(frozenset()) == 0
    for _ in range(40):
        asyncio.run(rates.look(0.5))
    assert not rates.recent, "what was not changed for long is forgotten"


def test_many_tables_are_looked_at_in_steps() -> None:
    total = {f"d.t{n}": 1 for n in range(3 * AT_ONCE)}
    rates = WriteRates(total)
    total |= dict.fromkeys(total, 2)
    turns = 0

    async def scenario() -> None:
        nonlocal turns
        look = asyncio.get_running_loop().create_task(rates.look(1.0))
        while not look.done():
            turns += 1
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert turns > 3 and rates.of(frozenset(total)) == len(total)


def test_what_was_forgotten_and_is_counted_anew_counts_as_new() -> None:
    total = {"d.t": 5, **{f"d.x{n}": 1 for n in range(9)}}
    rates = WriteRates(total)
    total.clear()
    total["d.t"] = 2
    asyncio.run(rates.look(1.0))
    assert rates.of(frozenset({"d.t"})) == 2 and set(rates._marked) == {"d.t"}
