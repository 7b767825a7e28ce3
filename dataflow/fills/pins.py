"""Keys that are not evicted until those who wait for them were told."""

from __future__ import annotations

from dataclasses import dataclass, field

from dataflow.entries import Held, Linking


@dataclass(slots=True, eq=False)
class Pins:
    held: list[Held] = field(default_factory=list)

    def pin(self, held: Held) -> None:
        """The key is not evicted before `release`."""
        if held.watch is None:
            held.watch = stays
            self.held.append(held)

    def release(self) -> None:
        for held in self.held:
            if isinstance(held.watch, Linking) and held.watch.watch is stays:
                held.watch.watch = None
            elif held.watch is stays:
                held.watch = None
        self.held.clear()


def stays() -> None:
    """The watch of a key that only stays."""
