"""Builds the site of the documents into build/site: `python -m tests.support.site` (`make site`).

MkDocs makes the pages, their navigation and the search. What is within a page is made here, as who reads it in the
repository sees it: its lists, tables and blocks of code are CommonMark's, which Python's own Markdown reads otherwise.
`mkdocs.yml` names this file as its hook.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "site"
BESIDE = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE")  # that documents link to


def main() -> int:
    """Exit status 1: something is wrong in a document or in mkdocs.yml; MkDocs has said what."""
    return build(PAGES, SITE)


def build(pages: Path, site: Path) -> int:
    """Puts the documents into `pages`, as they lie in the repository, and builds `site`."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages / "docs")
    for name in BESIDE:
        shutil.copy(ROOT / name, pages)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PAGES": str(pages), "NO_MKDOCS_2_WARNING": "1"}, check=False
    ).returncode


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """The hook: the page's HTML. `html` is what Python's Markdown has made of it; MkDocs has checked its links, and the
    names of its headings stand."""
    return rendered(page.markdown, [item.id for item in headings(page.toc)])


def headings(items: Any) -> Iterator[Any]:
    """In the order of the page."""
    for item in items:
        yield item
        yield from headings(item.children)


def rendered(markdown: str, names: list[str]) -> str:
    """HTML. `names`: of the headings, for links to them."""
    reader = MarkdownIt("commonmark", {"highlight": coloured}).enable("table")
    tokens = reader.parse(markdown)
    ids = iter(names)
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            name = next(ids)
            token.attrSet("id", name)
            children = tokens[place + 1].children or []
            children.append(Token("html_inline", "", 0, content=f'<a class="headerlink" href="#{name}">¶</a>'))
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("href", built(str(child.attrGet("href"))))
    return str(reader.renderer.render(tokens, reader.options, {}))


def built(link: str) -> str:
    """A link between documents as one between pages."""
    parts = urlsplit(link)
    if parts.scheme or not parts.path.endswith(".md"):
        return link
    path = f"{parts.path.removesuffix('.md')}.html"
    if path.rpartition("/")[2] == "README.html":
        path = path.removesuffix("README.html") + "index.html"
    return f"{path}#{parts.fragment}" if parts.fragment else path


def coloured(code: str, language: str, attributes: str) -> str:
    """A block of code; "" leaves it as it is."""
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return ""
    inside = highlight(code, lexer, HtmlFormatter(nowrap=True))
    return f'<pre class="highlight"><code class="language-{language}">{inside}</code></pre>'


if __name__ == "__main__":
    sys.exit(main())
