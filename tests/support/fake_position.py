"""A position that a test moves by hand."""

from __future__ import annotations

from proxy.port.position import Moment, Position


class FakePosition(Position):
    """`number`: of the stream's last event; the text is that behind `name`."""

    def __init__(self, name: str = "position ", number: int = 1) -> None:
        self.name, self.number = name, number

    @property
    def moment(self) -> Moment:  # type: ignore[override]
        return Moment(0, self.number)

    def text(self) -> str:
        return f"{self.name}{self.number}"

    def text_at(self, moment: Moment) -> str:
        return f"{self.name}{moment.pushed}"

    def sequence(self) -> int:
        return self.number

    def seconds_since_change(self) -> float:
        return 0.5
