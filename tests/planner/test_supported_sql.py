"""docs/supported_sql.md is what the planner does."""

from __future__ import annotations

from tests.support.supported_sql import TARGET, document


def test_the_document_is_up_to_date() -> None:
    assert TARGET.read_text() == document(), "run `make docs`"
