"""The catalogue and the page stream, without a MySQL: a stand-in reader that answers with made-up rows."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from examples.lobsters.data import SETS
from examples.lobsters.direct import driver_form
from examples.lobsters.pages import PageStream, Read, Rows, Write, read_mix, run_page
from examples.lobsters.queries import CATALOGUE, Compare, Parameters, Sample, of_variant, parse

TINY = SETS["tiny"]


def some_rows(id: str, parameters: Parameters) -> Rows:
    """Three rows for a list, none for what is empty on the site, else one; wide enough for every position."""
    if id in ("S3", "S8", "W3", "W8", "W9", "S4", "F3"):
        return []
    if id == "W1-N":
        return [(1, 2)]
    wide: Sequence[Any] = (1, datetime(2026, 1, 1), 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
    return [wide] * (3 if any(isinstance(value, tuple) for value in parameters) else 1)


def test_each_variant_has_its_templates() -> None:
    assert len(CATALOGUE) == 57
    assert (len(of_variant("D")), len(of_variant("N"))) == (42, 42)
    assert len({template.sql for template in CATALOGUE.values()}) == 57
    assert len({template.cache_name for template in CATALOGUE.values()}) == 57


@pytest.mark.parametrize("id", list(CATALOGUE))
def test_parameters_fit_the_placeholders(id: str) -> None:
    template = CATALOGUE[id]
    parameters = Sample(TINY, 1).of(template)
    assert template.sql.count("?") == len(parameters) == len(template.draws)
    assert template.sql.count("IN (?)") == sum(isinstance(value, tuple) for value in parameters)
    assert (template.compare is Compare.ONE_OF) == bool(template.allowed)
    assert template.allowed.count("?") in (0, 2 * len(parameters))


def test_same_seed_draws_the_same_parameters() -> None:
    for template in CATALOGUE.values():
        assert Sample(TINY, 5).of(template) == Sample(TINY, 5).of(template)


def test_an_entry_that_is_there_twice_is_refused() -> None:
    entry = "-- S1 | S1 | - | bag | x\nSELECT 1;\n"
    with pytest.raises(ValueError, match="there twice"):
        parse(entry + entry)


def test_the_driver_gets_lists_without_the_parentheses() -> None:
    assert (
        driver_form("SELECT 1 % 2 FROM t WHERE a = ? AND b IN (?)") == "SELECT 1 %% 2 FROM t WHERE a = %s AND b IN %s"
    )


@pytest.mark.parametrize("variant", ["D", "N"])
def test_a_stream_sends_the_mix_of_the_site(variant: str) -> None:
    kinds = Counter(kind for (kind, _), _ in zip(PageStream(TINY, variant), range(20_000), strict=False))
    mix = read_mix()
    for kind, count in mix.items():
        expected = 20_000 * count / sum(mix.values())
        assert abs(kinds[kind] - expected) < 5 * expected**0.5 + 5


@pytest.mark.parametrize("variant", ["D", "N"])
def test_pages_read_only_templates_of_their_variant_and_cover_them(variant: str) -> None:
    sent: Counter[str] = Counter()

    def read(id: str, parameters: Parameters) -> Rows:
        sent[id] += 1
        assert all(value != () for value in parameters)
        # Tag filters are rare: one page in four has one, so that the query behind them is met.
        return [(0, 0, 0, 0, 5)] if id == "F3" and sent[id] % 4 == 0 else some_rows(id, parameters)

    writes: list[Write] = []
    totals = [
        run_page(page, read, writes.append)
        for (_, page), _ in zip(PageStream(TINY, variant), range(8000), strict=False)
    ]
    assert set(sent) == {template.id for template in of_variant(variant)}
    reads_per_page = sum(reads for reads, _ in totals) / len(totals)
    assert abs(reads_per_page - (12.81 if variant == "D" else 13.10)) < 0.3
    writes_per_page = len(writes) / len(totals)
    assert abs(writes_per_page - (0.623 if variant == "D" else 0.580)) < 0.03


def test_same_seed_gives_the_same_pages_whatever_was_read() -> None:
    def trace(shuffled: bool) -> list[tuple[str, object]]:
        steps: list[tuple[str, object]] = []
        for (kind, page), _ in zip(PageStream(TINY, "N", seed=3), range(300), strict=False):
            first = next(page, None)
            steps.append((kind, (first.id, first.parameters) if isinstance(first, Read) else first))
            if shuffled and kind == "story":
                page.send([(1, 2, 3, 4, 5)])
        return steps

    assert trace(False) == trace(True)


def test_a_stream_without_writes_has_none() -> None:
    written: list[Write] = []
    for (_, page), _ in zip(PageStream(TINY, "D", writes=False), range(500), strict=False):
        run_page(page, some_rows, written.append)
    assert not written


def test_a_variant_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="neither D nor N"):
        PageStream(TINY, "X")
