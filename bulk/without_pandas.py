"""pyarrow without pandas, for processes that make Arrow's arrays of plain lists."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _Hidden(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def hide_pandas() -> None:
    """Keeps this process from importing pandas. Where pandas is installed, pyarrow loads it with the first array, only
    to see whether a list is one of its types. That takes half a second of processor time."""
    sys.meta_path.insert(0, _Hidden())
