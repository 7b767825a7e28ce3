"""Which settings can change in a running process: the documents tell the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

from proxy.apply import Running
from proxy.settings.config import BY_NAME

OPERATIONS = Path(__file__).resolve().parents[2] / "docs" / "operations.md"


def test_the_settings_that_can_change_are_those_that_are_documented() -> None:
    none = cast(Any, None)
    live = Running(none, none, none, none, none, none, none, "", none).apply().keys()
    assert live <= BY_NAME.keys()
    (told,) = re.findall(r"^These can change: (.*?)What is worth", OPERATIONS.read_text(), re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`([a-z-]+)`", told)) == live
