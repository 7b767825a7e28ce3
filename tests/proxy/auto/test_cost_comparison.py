"""Whether automatic caches cost a loop that is short of time more than passing everything."""

from __future__ import annotations

from proxy.auto.cost_comparison import FRESH, SETTLING, TwoWays


class Rig:
    def __init__(self) -> None:
        self.ways = TwoWays()
        self.now = 0.0

    def seconds(self, seconds: float, us: float, *, caching: bool) -> None:
        """So long the loop does nothing but statements that take so much of it."""
        for _ in range(int(seconds * 4)):
            self.now += 0.25
            self.ways.note(self.now, 0.25, 0.25, int(0.25e6 / us), caching=caching)

    @property
    def worse(self) -> str:
        return self.ways.worse(self.now)


def test_caching_is_worse_where_a_statement_takes_more_of_the_loop() -> None:
    rig = Rig()
    rig.seconds(2, 100, caching=False)
    rig.ways.changed(rig.now)
    rig.seconds(SETTLING + 4, 150, caching=True)
    assert rig.worse == "", "it has just begun"
    rig.seconds(3, 150, caching=True)
    assert rig.worse == (
        "a statement takes 150 us of Upwell's time, which is short, and 100 us where nothing is cached"
    )


def test_it_is_not_where_it_takes_less_or_a_little_more() -> None:
    for us in (60, 103):
        rig = Rig()
        rig.seconds(2, 100, caching=False)
        rig.seconds(20, us, caching=True)
        assert rig.worse == ""


def test_the_seconds_in_which_caches_are_made_do_not_count() -> None:
    rig = Rig()
    rig.seconds(2, 100, caching=False)
    rig.ways.changed(rig.now)
    rig.seconds(SETTLING - 0.5, 5000, caching=True)
    rig.seconds(8, 50, caching=True)
    assert rig.worse == ""


def test_what_passing_takes_is_known_for_a_while_only() -> None:
    rig = Rig()
    assert not rig.ways.is_known(rig.now)
    rig.seconds(1, 100, caching=False)
    assert not rig.ways.is_known(rig.now)
    rig.seconds(1, 100, caching=False)
    assert rig.ways.is_known(rig.now)
    rig.seconds(FRESH + 1, 150, caching=True)
    assert not rig.ways.is_known(rig.now) and rig.worse == ""
    rig.seconds(1, 10, caching=False)
    assert not rig.ways.is_known(rig.now), "what it took before is another load's"
