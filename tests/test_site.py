"""The site of the documents: every link leads somewhere, nothing comes from elsewhere, no server is needed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.support import site

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert site.build(folder / "pages", folder / "site") == 0
    return folder / "site"


class Links(HTMLParser):
    """Of one page: what it leads to, what it loads, and the names within it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.leads: list[str] = []
        self.loads: list[str] = []
        self.names: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, text in attrs:
            if name == "id" and text:
                self.names.append(text)
            elif name in ("href", "src") and text is not None:
                (self.leads if tag == "a" else self.loads).append(text)


def pages(built: Path) -> Iterator[tuple[Path, Links]]:
    for path in sorted(built.rglob("*.html")):
        yield path, Links(path)


def test_every_document_is_a_page_and_the_readme_is_the_first(built: Path) -> None:
    wanted = {path.relative_to(site.ROOT).with_suffix(".html") for path in site.ROOT.glob("docs/**/*.md")}
    wanted |= {Path(name).with_suffix(".html") for name in site.BESIDE if name.endswith(".md")} - {Path("README.html")}
    found = {path.relative_to(built) for path in built.rglob("*.html")}
    assert found == wanted | {Path("index.html"), Path("404.html")}
    assert (
        "<h1" in (built / "index.html").read_text()
        and "caching proxy beside MySQL" in (built / "index.html").read_text()
    )


def test_every_link_leads_somewhere(built: Path) -> None:
    known = {path: set(links.names) for path, links in pages(built)}
    lost = []
    for path, links in pages(built):
        for link in links.leads + links.loads:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            base = built / parts.path.lstrip("/") if parts.path.startswith("/") else path.parent / parts.path
            target = (Path(unquote(str(base))) if parts.path else path).resolve()
            target = target / "index.html" if target.is_dir() else target
            fragment = unquote(parts.fragment)
            of_javascript = fragment.startswith("__")  # of the theme's own parts
            if not target.is_file() or (fragment and not of_javascript and fragment not in known[target]):
                lost.append(f"{path.relative_to(built)}: {link}")
    assert lost == []


def test_links_to_elsewhere_are_addresses_and_nothing_is_loaded_from_there(built: Path) -> None:
    for path, links in pages(built):
        assert [link for link in links.loads if urlsplit(link).netloc] == [], path
        for link in links.leads:
            if urlsplit(link).scheme:
                assert re.fullmatch(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/\S*)?", link), (path, link)
    for sheet in built.rglob("*.css"):
        assert not re.findall(r"@import|url\(\s*[\"']?(?:https?:)?//", sheet.read_text()), sheet


def test_names_within_a_page_are_there_once(built: Path) -> None:
    for path, links in pages(built):
        twice = {name for name in links.names if links.names.count(name) > 1}
        assert {name for name in twice if not name.startswith("__")} == set(), path


def test_a_page_reads_as_in_the_repository() -> None:
    """Lists behind a line of text, tables and blocks within lists, and a bar in code within a table."""
    block = "  ```sql\n  SELECT 1\n  ```\n"
    table = "  | x |\n  | - |\n  | `a\\|b` |\n"
    text = f"# A\nwords\n* one\n  * two\n\n{table}\n{block}\n[b](b/c.md#d) [r](../README.md)\n"
    html = site.rendered(text, ["a"])
    assert html.count("<ul>") == 2 and "<td><code>a|b</code></td>" in html
    assert (
        '<h1 id="a">A<a class="headerlink" href="#a">' in html
        and 'class="language-sql"><span class="k">SELECT</span>' in html
    )
    assert 'href="b/c.html#d"' in html and 'href="../index.html"' in html


@pytest.mark.parametrize("link", ["https://example.com/a.md", "#x", "../LICENSE", "pictures/a.png"])
def test_other_links_stay(link: str) -> None:
    assert site.built(link) == link


def test_what_is_searched_has_the_text_of_every_page(built: Path) -> None:
    index = json.loads((built / "search" / "search_index.json").read_text())
    texts = " ".join(entry["text"] for entry in index["docs"])
    for words in ("EXPLAIN LAST STATEMENT", "REPLICATION SLAVE", "A hit is a state that existed"):
        assert words in re.sub(r"<[^>]+>", "", texts)
    assert {entry["location"].partition("#")[0] for entry in index["docs"]} >= {"index.html", "docs/consistency.html"}


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_a_browser_searches_it_from_its_folder_and_asks_nobody_else(built: Path) -> None:
    from playwright.sync_api import sync_playwright

    asked: list[str] = []
    faults: list[str] = []
    with (
        sync_playwright() as started,
        started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]) as browser,
    ):
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{(built / 'docs' / 'consistency.html').as_uri()}?q=clock+tolerance")
        page.locator(".md-search-result__item a").first.wait_for(timeout=30_000)
        links = [link.get_attribute("href") for link in page.locator(".md-search-result__item a").all()]
    assert any("mysql_protocol.html" in str(link) for link in links)
    assert [url for url in asked if not url.startswith("file:")] == [] and faults == []
