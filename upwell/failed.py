"""How a command ends that cannot do what it was asked for."""

from __future__ import annotations

import click


class Failed(click.ClickException):
    """Ends the command with a line on stderr and this exit status."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance
