"""docs/operations.md names every setting, with its default."""

from __future__ import annotations

import re
from pathlib import Path

from proxy.settings.config import SETTINGS

PAGE = (Path(__file__).resolve().parents[2] / "docs/operations.md").read_text()


def documented() -> dict[str, str]:
    """Setting -> the text of its default."""
    rows = re.findall(r"^\| ((?:`[\w-]+`(?:, )?)+) \|([^|]*)\| [^|]* \|$", PAGE.split("## Settings")[1], re.M)
    return {name: default for names, default in rows for name in re.findall(r"`([\w-]+)`", names)}


def test_every_setting_is_explained_and_no_other() -> None:
    assert set(documented()) == {setting.name for setting in SETTINGS}


def test_defaults_are_the_ones_that_count() -> None:
    shown = documented()
    for setting in SETTINGS:
        if setting.default not in (None, "false"):
            assert setting.default in shown[setting.name], setting.name
