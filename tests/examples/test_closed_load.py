"""The closed load of `make run`: pages at even distances, ports in turns, figures from what counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count, groupby, islice
from typing import Any

import pymysql
import pytest

from examples.lobsters import closed_load
from examples.lobsters.closed_load import ClosedLoad, Pages, Round, Turn, costs, percentile
from examples.lobsters.data import SETS
from examples.lobsters.direct import Direct
from examples.lobsters.pages import Builder, EvenStream, Page, PageStream, Read, Write, read_mix

TINY = SETS["tiny"]


class Client:
    """In place of a connection: every read has no rows, and what is done is noted in its order."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self._log = name, log

    def read(self, id: str, key: Sequence[Any]) -> Sequence[Sequence[Any]]:
        self._log.append(f"{self.name} reads")
        return []

    def write(self, write: Write) -> None:
        self._log.append(f"{self.name} writes")


def page() -> Page:
    yield Read("S2", (1,))
    yield Read("S4", (1,))
    yield Write("UPDATE", ())


def load(monkeypatch: pytest.MonkeyPatch, log: list[str], hits: dict[str, int]) -> ClosedLoad:
    """One client, whose pages take no time."""
    monkeypatch.setattr(closed_load, "TURN", 0.005)
    monkeypatch.setattr(closed_load, "process_seconds", lambda pid: 0.0)
    monkeypatch.setattr(closed_load, "EvenStream", lambda *given, **named: (("page", page()) for _ in count()))
    alone, through = ([Client(name, log)] for name in ("mysql", "upwell"))
    return ClosedLoad(alone, through, TINY, None, 1, lambda: hits, writes=True)  # type: ignore[arg-type]


def turn(*page_ms: float, mysql_ms: float | None = None, hits: int = 0) -> Turn:
    return Turn(page_ms, mysql_ms, 4.0, 10, hits)


def test_each_kind_of_page_comes_as_often_as_it_should_in_any_few_pages() -> None:
    mix = read_mix()
    stream = EvenStream(TINY, "N", 1)
    came: Counter[str] = Counter()
    for number in range(1, 400):
        came[next(stream)[0]] += 1
        for kind, weight in mix.items():
            assert abs(came[kind] - number * weight / sum(mix.values())) < 2, (number, kind)


def test_another_seed_gives_the_same_kinds_of_pages_about_others() -> None:
    first, second = (list(islice(EvenStream(TINY, "N", seed), 40)) for seed in (1, 2))
    assert [kind for kind, _ in first] == [kind for kind, _ in second]
    asked = [[next(page, None) for _, page in pages] for pages in (first, second)]
    assert asked[0] != asked[1]


def test_without_writes_only_pages_that_read_come() -> None:
    kinds = {kind for kind, _ in islice(EvenStream(TINY, "N", 1, writes=False), 200)}
    assert kinds == Builder.READS
    assert {kind for kind, _ in islice(PageStream(TINY, "N", 1), 2_000)} > kinds


def test_a_turn_is_of_one_port_its_writes_too_and_which_is_first_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    seen: list[float] = []
    pages = load(monkeypatch, log, {"S2": 0, "S4": 0}).run(0.05, lambda now, part: seen.append(part))
    ports = [name for name, _ in groupby(line.split()[0] for line in log)]
    rounds = len(pages.rounds)
    assert ports == [("upwell", "mysql")[place % 2] for place in range(rounds + 1)]  # upwell, mysql twice, upwell twice
    assert log.count("mysql writes") * 2 == log.count("mysql reads") > 0
    assert log.count("upwell writes") * 2 == log.count("upwell reads") > 0
    assert seen == sorted(seen) and seen[-1] == 1.0


def test_what_warms_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    pages = load(monkeypatch, log, {"S2": 5, "S4": 5}).run(0.1, lambda now, part: None)
    warm = [round_.warm for round_ in pages.rounds]
    assert warm == sorted(warm) and set(warm) == {False, True}
    counted = sum(round_.alone.reads for round_ in pages.rounds if round_.warm)
    assert sum(len(asked.mysql_ms) for asked in pages.queries) == counted < log.count("mysql reads")
    assert {asked.hits for asked in pages.queries} == {0.0}, "hits before the pages that count are none of theirs"
    first, second = (sum(asked.mysql_ms) for asked in pages.queries)
    assert first >= second


def test_a_query_without_a_cache_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    pages = load(monkeypatch, log, {"S4": 0}).run(0.02, lambda now, part: None)
    assert [asked.id for asked in pages.queries] == ["S4"] and log.count("mysql writes") == log.count("mysql reads")


def test_costs_of_turns() -> None:
    found = costs([turn(10.0, 30.0, mysql_ms=50.0, hits=9), turn(20.0, mysql_ms=10.0, hits=6)], clients=4)
    assert (found.page_ms, found.p50_ms, found.p99_ms, found.pages) == (20.0, 20.0, 30.0, 3)
    assert found.a_second == 200.0, "four clients, a page in 20 ms each"
    assert found.mysql_cpu_ms == 20.0 and found.upwell_cpu_ms == pytest.approx(8 / 3) and found.hits == 0.75
    assert costs([turn(1.0)], 1).mysql_cpu_ms is None


@pytest.mark.parametrize(("part", "value"), [(0.0, 1), (0.01, 1), (0.5, 50), (0.99, 99), (0.991, 100), (1.0, 100)])
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(part: float, value: float) -> None:
    assert percentile(list(range(1, 101)), part) == value


def test_a_point_of_the_history_is_of_a_few_rounds() -> None:
    rounds = [Round(turn(float(place)), turn(1.0), warm=True) for place in range(1, 11)]
    means = [alone.page_ms for alone, _ in Pages(1, rounds, ()).history()]
    assert means[:3] == [1.0, 1.5, 2.0] and means[-1] == 8.0  # of 6, 7, 8, 9, 10


def test_a_write_that_mysql_rolled_back_for_a_deadlock_is_tried_again() -> None:
    class Contested:
        tries = 0

        def write(self, write: Write) -> None:
            self.tries += 1
            if self.tries < 3:
                raise pymysql.err.OperationalError(1213, "Deadlock found")
            if write.sql == "lost":
                raise pymysql.err.OperationalError(2013, "Lost connection")

    for sql in ("kept", "lost"):
        client = Contested()
        direct: Direct = client  # type: ignore[assignment]
        if sql == "lost":
            with pytest.raises(pymysql.err.OperationalError, match="Lost"):
                closed_load.write_to(direct, Write(sql, ()))
        else:
            closed_load.write_to(direct, Write(sql, ()))
        assert client.tries == 3
