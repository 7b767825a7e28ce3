"""Texts with functions of the clock are rewritten as the scanner reads them, whatever literals stand between."""

from __future__ import annotations

from datetime import datetime

import pytest

from proxy.mysql.text.clock_texts import ClockTexts

LOCAL, UTC = datetime(2024, 3, 31, 10, 0, 5), datetime(2024, 3, 31, 8, 0, 5)


@pytest.fixture
def texts() -> ClockTexts:
    return ClockTexts()


@pytest.mark.parametrize(
    ("text", "now"),
    [
        ("SELECT a FROM t WHERE b < NOW() AND c = 'now()'",
         "SELECT a FROM t WHERE b < TIMESTAMP '2024-03-31 10:00:05' AND c = 'now()'"),
        ("SELECT a FROM t WHERE b = 'é\\'' AND c > NOW() - INTERVAL 7 DAY AND e > CURDATE() -- é",
         None),
        ("SELECT a FROM t WHERE b = 'é\\'' AND c > NOW() - INTERVAL 7 DAY AND e > CURDATE()",
         "SELECT a FROM t WHERE b = 'é\\'' AND c > TIMESTAMP '2024-03-24 10:00:05' AND e > DATE '2024-03-31'"),
        ("SELECT a FROM t WHERE b IN (1, 2, 3) AND c > DATE_SUB(NOW(), INTERVAL 2 HOUR) /* now() */",
         "SELECT a FROM t WHERE b IN (1, 2, 3) AND c > TIMESTAMP '2024-03-31 08:00:05' /* now() */"),
        ("SELECT a FROM t WHERE c > UNIX_TIMESTAMP()-60", "SELECT a FROM t WHERE c > 1711871945"),
        ("SELECT a FROM t WHERE c > NOW() - INTERVAL 7 /* days */ DAY", None),
        ("SELECT a FROM t WHERE c > NOW() - INTERVAL '7' DAY",
         "SELECT a FROM t WHERE c > TIMESTAMP '2024-03-24 10:00:05'"),
        ("SELECT a FROM t WHERE c > NOW() - INTERVAL '1:1' DAY_HOUR",
         "SELECT a FROM t WHERE c > TIMESTAMP '2024-03-31 10:00:05' - INTERVAL '1:1' DAY_HOUR"),
        ("SELECT a FROM t WHERE b = 'é' AND c > DATE_FORMAT(NOW(), '%Y-%m-01')",
         "SELECT a FROM t WHERE b = 'é' AND c > '2024-03-01'"),
        ("SELECT a FROM t WHERE c > DATE_FORMAT(NOW(), '%Y-é')", None),
        ("SELECT a FROM t WHERE c > NOW(0) - INTERVAL -7 DAY",
         "SELECT a FROM t WHERE c > TIMESTAMP '2024-04-07 10:00:05'"),
        ("SELECT a FROM t WHERE c > NOW(6)", None),
        ("SELECT NOW()", None),
        ("SELECT a FROM t WHERE b < 'NOW()", None),
    ],
)  # fmt: skip
def test_literals_stand_in_the_place_of_functions(texts: ClockTexts, text: str, now: str | None) -> None:
    for _ in range(2):
        assert texts.rewritten(text.encode(), LOCAL, UTC) == (None if now is None else now.encode())


def test_what_is_known_of_one_text_holds_for_others_with_its_segments(texts: ClockTexts) -> None:
    sql = "SELECT a FROM t WHERE b = {} AND c > NOW() - INTERVAL {} DAY"
    for given, moved, literal in (("1", "7", "24 10"), ("'x'", "8", "23 10"), ("0x00", "'30'", "01 10")):
        found = texts.rewritten(sql.format(given, moved).encode(), LOCAL, UTC)
        assert found == f"SELECT a FROM t WHERE b = {given} AND c > TIMESTAMP '2024-03-{literal}:00:05'".encode()
    for moved in ("1.5", "'7.'", "7e0", "99999999999"):
        assert texts.rewritten(sql.format("1", moved).encode(), LOCAL, UTC) is None
