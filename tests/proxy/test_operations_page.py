"""docs/operations.md names every setting, with its default; docs/alerts.md names log lines that are written."""

from __future__ import annotations

import re
from pathlib import Path

from proxy.settings.config import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/operations.md").read_text()


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


def test_log_lines_of_the_alerts_are_written_somewhere() -> None:
    alerts = (ROOT / "docs/alerts.md").read_text()
    named = re.findall(r"[Ll]og lines? `([^`]+)`", alerts)
    code = "".join(path.read_text() for name in ("proxy", "vstream") for path in (ROOT / name).rglob("*.py"))
    assert named and [name for name in named if f'"{name}"' not in code] == []
