"""The night's campaigns: what they are told, and that none fails unseen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import nightly
from tests.support.nightly import CAMPAIGNS, Campaign, main

MAKEFILE = (nightly.ROOT / "Makefile").read_text()


def test_every_campaign_is_a_target_that_takes_what_it_is_told() -> None:
    for campaign in CAMPAIGNS:
        rule = re.search(rf"^{campaign.target}: .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
        assert rule, campaign
        for text in campaign.given:
            assert f"$({text.partition('=')[0]})" in rule[1], (campaign, text)


def test_shares_make_the_night() -> None:
    assert sum(campaign.share for campaign in CAMPAIGNS) == pytest.approx(1.0)
    sim = next(campaign for campaign in CAMPAIGNS if campaign.target == "sim")
    assert sim.command(3600, 7)[2:] == ["sim", f"STEPS={720 * nightly.STEPS_PER_SECOND}", "SEED=7"]


def test_each_has_a_line_and_one_that_fails_or_hangs_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = {
        "good": ["sh", "-c", "echo much; echo; echo all is well"],
        "bad": ["sh", "-c", "echo one is wrong; exit 3"],
        "endless": ["sh", "-c", "echo begun; exec cat /dev/zero > /dev/null"],
    }
    monkeypatch.setattr(Campaign, "command", lambda campaign, seconds, seed: commands[campaign.target])
    monkeypatch.setattr(nightly, "SLACK", 2.0)
    assert main(["--minutes=0.01", "--seed=5"], [Campaign(name) for name in commands], tmp_path / "logs") == 1
    printed = capsys.readouterr().out
    assert "seed 5" in printed and "2 of 3 campaigns failed" in printed
    assert re.search(r"^good +\d+ s  ok +all is well$", printed, re.MULTILINE)
    assert re.search(r"^bad +\d+ s  FAILED  one is wrong\n +all of it: .*bad\.log$", printed, re.MULTILINE)
    assert re.search(r"^endless +\d+ s  HANGS +begun", printed, re.MULTILINE)
    assert (tmp_path / "logs/good.log").read_text().startswith("much")
    assert main(["--minutes=0.01"], [Campaign("good")], tmp_path / "logs") == 0
