"""What sessions have at hand of caches and accounts: when it may hold no more."""

from __future__ import annotations


class Changes:
    """`count`: another number after each change of accounts and their rights, or of caches."""

    def __init__(self) -> None:
        self.count = 0

    def note(self) -> None:
        self.count += 1
