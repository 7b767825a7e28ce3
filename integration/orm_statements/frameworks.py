"""The frameworks whose statements are noted, and how each one's program is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from integration.clients import tools
from integration.clients.tools import Tool

PROGRAMS = Path(__file__).with_name("programs")


@dataclass(frozen=True, slots=True)
class Framework:
    """`program`: put behind the tool's command; it prints the versions of what it has run with. `tool`: raises
    NotObtainable."""

    name: str
    tool: Callable[[], Tool]
    program: tuple[str, ...]


def node() -> Tool:
    return tools.node_with("orms", PROGRAMS / "node")


FRAMEWORKS = (
    Framework("sqlalchemy", tools.python, ("sqlalchemy_program.py",)),
    Framework("sequelize", node, ("node/sequelize.js",)),
)
