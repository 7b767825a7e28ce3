"""The pictures of `make run`: a page that needs nothing else, and a PNG."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from examples.lobsters import picture, report
from examples.lobsters.closed_load import Round
from examples.lobsters.picture import INKS
from tests.examples.test_screen import SHOWN


def page(**changes: object) -> str:
    return report.html(replace(SHOWN, **changes), "MySQL", "On <two> cores.")  # type: ignore[arg-type]


class Checked(HTMLParser):
    """That each element is closed, and what is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        if tag in ("script", "link", "img", "iframe") or {"src", "href"} & {name for name, _ in attrs}:
            self.loaded.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_is_whole_and_loads_nothing() -> None:
    checked = Checked()
    checked.feed(page())
    assert checked.open == [] and checked.loaded == []
    assert "url(" not in page() and "://" not in page() and "@import" not in page()
    text = " ".join(checked.texts)
    for told in (
        "MySQL's CPU a page: 14x less",
        "On <two> cores.",
        "7,000 held ones audited: equal",
        "upvotes 3 becomes 4",
    ):
        assert told in text


def test_each_ink_is_there_by_day_and_by_night() -> None:
    sheet = page().partition("<style>")[2].partition("</style>")[0]
    day, _, night = sheet.partition("@media (prefers-color-scheme: dark)")
    for name, (light, dark) in INKS.items():
        assert f"--{name}: {light};" in day and f"--{name}: {dark};" in night
    used = set(re.findall(r'<(?:rect|polyline|text) class="(\w+)"', page()))
    assert used <= INKS.keys() and {"alone", "through", "text", "faint", "grid", "shade"} <= used


def test_each_drawing_is_told_to_who_does_not_see_it() -> None:
    told = re.findall(r'<svg [^>]*role="img" aria-label="([^"]+)"', page())
    assert len(told) == page().count("<svg ") == 8
    assert any(one.startswith("MySQL&#x27;s CPU a page: MySQL alone 61.0 ms, with Upwell 4.2 ms") for one in told)


def test_words_can_be_read_on_their_paper() -> None:
    """4.5 to 1 at least, as WCAG wants."""

    def light(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for side in (0, 1):
        paper = light(INKS["paper"][side])
        for name in ("text", "faint"):
            ink = light(INKS[name][side])
            assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5, (name, side)


def test_what_was_not_measured_is_not_there() -> None:
    unread = [replace(each, alone=replace(each.alone, mysql_ms=None)) for each in SHOWN.pages.rounds]
    text = page(written=None, pages=replace(SHOWN.pages, rounds=unread))
    assert "CPU a page" not in text.partition("How it was")[0] and "COMMIT" not in text
    assert "<h1>a page&#x27;s time, mean: 4.0x less</h1>" in text


def test_pages_that_take_longer_are_told_of() -> None:
    (round_,) = SHOWN.pages.rounds
    slower = replace(SHOWN.pages, rounds=[Round(round_.through, round_.alone, warm=True)])
    assert "Half of the pages are quick at MySQL, too (10.0 ms)." in page(pages=slower)
    assert "Half of the pages" not in page()


def test_both_are_written_and_named(tmp_path: Path) -> None:
    (named,) = report.write(SHOWN, "MySQL", "Here.", tmp_path / "new")
    paths = re.findall(r"\S+\.(?:html|png)", named)
    assert [Path(path).read_bytes()[:4] for path in paths] == [b"<!do", b"\x89PNG"]
    with Image.open(io.BytesIO(Path(paths[1]).read_bytes())) as image:
        assert image.width == 2 * (report.WIDTH + 48) and image.getpixel((2, 2)) is not None


def test_without_pillow_there_is_the_page_and_a_line_that_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "can_png", lambda: False)
    (named,) = report.write(SHOWN, "MySQL", "Here.", tmp_path)
    assert "first-minute.html" in named and "Pillow" in named and "make run" in named
    assert [path.name for path in tmp_path.iterdir()] == ["first-minute.html"]


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (named,) = report.write(SHOWN, "MySQL", "Here.", tmp_path / "file" / "below")
    assert named.startswith("No pictures: Not a directory")


def test_the_picture_has_every_bar_and_line() -> None:
    whole = report.whole(SHOWN, "MySQL", "Here.")
    words = [shape.text for shape in whole.shapes if isinstance(shape, picture.Words)]
    assert words[0] == "MySQL's CPU a page: 14x less" and "90 %" not in words
    assert {"61.0 ms", "4.2 ms", "14x less", "hits, %", "pages a second"} <= set(words)
    for shape in whole.shapes:
        if isinstance(shape, picture.Box):
            assert shape.x >= 0 and shape.x + shape.width <= report.WIDTH + 1 and shape.y + shape.height <= whole.height
